//! Rust's part in `speed.py`: `rust-speed ALGORITHM AVG FILE` cuts the file in memory once for each line of
//! its standard input, and prints seconds, those of them on a CPU, and the number of chunks.

use std::error::Error;
use std::fs::File;
use std::io::BufRead;
use std::time::Instant;
use std::{ptr, slice};

use onefold_cdc::{Chunker, Scheme};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [algorithm, avg, file] = &arguments[..] else {
        return Err("expected ALGORITHM AVG FILE".into());
    };
    let params = algorithm.parse::<Scheme>()?.params_for_mean(avg.parse()?)?;
    let chunker = Chunker::new(&params)?;
    // The same pages that Python maps: where pages lie makes a tenth of the speed.
    let file = File::open(file)?;
    let len = usize::try_from(file.metadata()?.len())?;
    // SAFETY: the mapping is new, of the length of the file, which nothing changes, and never unmapped.
    let data = unsafe {
        let start = mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0)?;
        slice::from_raw_parts(start.cast::<u8>(), len)
    };
    for line in std::io::stdin().lock().lines() {
        line?;
        let (begun, wall) = (on_cpu(), Instant::now());
        let ends: Vec<u64> = chunker.cut_points(data).map(|end| end as u64).collect();
        let (wall, seconds) = (wall.elapsed().as_secs_f64(), on_cpu() - begun);
        println!("{wall} {seconds} {}", ends.len());
    }
    Ok(())
}

/// Seconds that this thread was on a CPU.
fn on_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

//! Rust's part in `speed.py`: `rust-speed ALGORITHM AVG FILE` cuts the file in memory once for each line of
//! its standard input, and prints seconds and the number of chunks.

use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

use onefold_cdc::{Chunker, Scheme};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [algorithm, avg, file] = &arguments[..] else {
        return Err("expected ALGORITHM AVG FILE".into());
    };
    let params = algorithm.parse::<Scheme>()?.params_for_mean(avg.parse()?)?;
    let chunker = Chunker::new(&params)?;
    let data = std::fs::read(file)?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let begun = Instant::now();
        let ends: Vec<u64> = chunker.cut_points(&data).map(|end| end as u64).collect();
        println!("{} {}", begun.elapsed().as_secs_f64(), ends.len());
    }
    Ok(())
}

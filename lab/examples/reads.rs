//! Measures ways to read a large file that is not in memory, and keeps a record.
//!
//!     cargo run --release -p onefold-lab --example reads -- FILE [--bytes MAX] [--rounds N]
//!         [--out docs/records/NAME.json]
//!
//! Rounds are interleaved and each begins with another way. Before each way the kernel is told to
//! drop the file from memory, so FILE must be on a disk. All bytes are summed as they come, and
//! all ways must come to the same sum.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use io_uring::{IoUring, opcode, types};
use onefold_bench::{DatasetRecord, Header, Record, command_line, read_all};
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// What direct reads must begin at and be a multiple of, on any disk of today.
const ALIGNMENT: usize = 4096;

/// A way to read.
#[derive(Clone, Copy, Debug)]
struct Way {
    how: How,
    /// Bytes read at a time.
    size: usize,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// `pread` into the caller's memory through the kernel's, by so many threads.
    Buffered { threads: u64, advice: Option<Advice> },
    /// The same, and each read asks the kernel to fetch what will be read so many reads later.
    Ahead { threads: u64, reads: u64 },
    /// `pread` past the kernel's memory.
    Direct { threads: u64 },
    /// One thread with so many reads under way at a time.
    Ring { depth: usize, is_direct: bool },
}

/// All samples of one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Measured {
    way: String,
    bytes_at_a_time: usize,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    round: u32,
    seconds: f64,
    /// Of all threads of this process, in the kernel too.
    cpu_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    dataset: DatasetRecord,
    ways: Vec<Measured>,
}

struct Options {
    file: PathBuf,
    bytes: u64,
    rounds: u32,
    out: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = options()?;
    let place = || options.file.display().to_string();
    let len = options.file.metadata().with_context(place)?.len().min(options.bytes);
    // What is not on the disk yet cannot be dropped from memory.
    File::open(&options.file).with_context(place)?.sync_all().with_context(place)?;
    let ways = ways();
    let mut measured: Vec<Measured> = ways
        .iter()
        .map(|way| Measured { way: way.how.name(), bytes_at_a_time: way.size, samples: Vec::new() })
        .collect();
    let mut sum = None;
    for round in 1..=options.rounds {
        for turn in 0..ways.len() {
            let number = (turn + round as usize - 1) % ways.len();
            let way = ways[number];
            let name = measured[number].way.clone();
            let (sample, found) = measure(way, &options.file, len, round).context(name.clone())?;
            ensure!(*sum.get_or_insert(found) == found, "{name}: read other bytes");
            println!(
                "round {round}, {name}, {} KiB: {:.2} GB/s, {:.2} s of CPU time a GB",
                way.size / KIB,
                len as f64 / sample.seconds / 1e9,
                sample.cpu_seconds * 1e9 / len as f64,
            );
            measured[number].samples.push(sample);
        }
    }
    print_table(&measured, len);
    if let Some(out) = &options.out {
        let command = "cargo run --release -p onefold-lab --example reads --";
        let command = command_line(command, std::env::args().skip(1));
        let state = "cold: the file is dropped from memory before it is read";
        let header = Header::here(out, command, state)?;
        let dataset = describe(&options.file, len)?;
        Record { header, results: Results { dataset, ways: measured } }.write(out)?;
    }
    Ok(())
}

fn options() -> Result<Options> {
    let mut options = Options { file: PathBuf::new(), bytes: u64::MAX, rounds: 5, out: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if !argument.starts_with('-') {
            options.file = argument.into();
            continue;
        }
        let value = arguments.next().with_context(|| format!("{argument}: expected a value"))?;
        match argument.as_str() {
            "--bytes" => options.bytes = value.parse().context("--bytes")?,
            "--rounds" => options.rounds = value.parse().context("--rounds")?,
            "--out" => options.out = Some(value.into()),
            _ => bail!("{argument}: no such option; see the head of examples/reads.rs"),
        }
    }
    ensure!(options.file.is_file(), "expected the path of a file to read");
    Ok(options)
}

fn ways() -> Vec<Way> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let mut ways = Vec::new();
    for size in [128 * KIB, MIB, 8 * MIB] {
        for threads in [1, cores] {
            ways.push(Way { how: How::Buffered { threads, advice: None }, size });
            ways.push(Way { how: How::Direct { threads }, size });
        }
    }
    let threads = cores;
    for advice in [Advice::Sequential, Advice::Random] {
        ways.push(Way { how: How::Buffered { threads, advice: Some(advice) }, size: MIB });
    }
    for reads in [4, 16] {
        ways.push(Way { how: How::Ahead { threads, reads }, size: MIB });
    }
    for (size, depth) in [(128 * KIB, 32), (MIB, 8), (8 * MIB, 4)] {
        for is_direct in [false, true] {
            ways.push(Way { how: How::Ring { depth, is_direct }, size });
        }
    }
    ways
}

impl How {
    fn name(self) -> String {
        let threads =
            |count| if count == 1 { "1 thread".into() } else { format!("{count} threads") };
        match self {
            Self::Buffered { threads: count, advice: None } => {
                format!("pread, {}", threads(count))
            }
            Self::Buffered { threads: count, advice: Some(advice) } => {
                format!("pread, {}, fadvise {advice:?}", threads(count))
            }
            Self::Ahead { threads: count, reads } => {
                format!("pread, {}, WillNeed {reads} reads ahead", threads(count))
            }
            Self::Direct { threads: count } => format!("O_DIRECT, {}", threads(count)),
            Self::Ring { depth, is_direct: false } => format!("io_uring, {depth} at a time"),
            Self::Ring { depth, is_direct: true } => {
                format!("io_uring, O_DIRECT, {depth} at a time")
            }
        }
    }

    fn is_direct(self) -> bool {
        matches!(self, Self::Direct { .. } | Self::Ring { is_direct: true, .. })
    }
}

/// Reads the first `len` bytes of the file at `path` one way; the time that took, and their sum.
fn measure(way: Way, path: &Path, len: u64, round: u32) -> Result<(Sample, u64)> {
    let file = open(path, way.how.is_direct())?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let sum = match way.how {
        How::Buffered { threads, advice } => {
            if let Some(advice) = advice {
                fadvise(&file, 0, None, advice)?;
            }
            by_threads(threads, len, way.size, |buffer, at| fill(&file, buffer, at))?
        }
        How::Ahead { threads, reads } => by_threads(threads, len, way.size, |buffer, at| {
            let place = at + reads * way.size as u64;
            if at == 0 {
                fadvise(&file, 0, NonZero::new(place), Advice::WillNeed)?;
            }
            fadvise(&file, place, NonZero::new(way.size as u64), Advice::WillNeed)?;
            fill(&file, buffer, at)
        })?,
        How::Direct { threads } => {
            by_threads(threads, len, way.size, |buffer, at| fill(&file, buffer, at))?
        }
        How::Ring { depth, .. } => by_ring(&file, len, way.size, depth)?,
    };
    let (seconds, cpu_seconds) = (begun.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    Ok((Sample { round, seconds, cpu_seconds }, sum))
}

#[expect(clippy::disallowed_methods, reason = "opens for reading only")]
fn open(path: &Path, is_direct: bool) -> io::Result<File> {
    let direct = if is_direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | direct;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Fills `buffer` from `at` on, as far as the file goes.
fn fill(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64)? {
            0 => break,
            // The end of a file that is no multiple of a block: there is nothing to ask for behind.
            read if !(filled + read).is_multiple_of(ALIGNMENT) => return Ok(filled + read),
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Threads take one read after another, as readers do that share a file.
fn by_threads(
    threads: u64,
    len: u64,
    size: usize,
    read: impl Fn(&mut [u8], u64) -> io::Result<usize> + Sync,
) -> Result<u64> {
    let next = AtomicU64::new(0);
    let work = || -> Result<u64> {
        let mut buffer = Aligned::new(size);
        let mut sum = 0_u64;
        loop {
            let at = next.fetch_add(size as u64, Ordering::Relaxed);
            if at >= len {
                return Ok(sum);
            }
            let wanted = usize::try_from(len - at).unwrap_or(size).min(size);
            let found = read(buffer.bytes(), at)?;
            ensure!(found >= wanted, "at {at}: {found} bytes, expected {wanted}");
            sum = sum.wrapping_add(read_all(&buffer.bytes()[..wanted]));
        }
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_fold(0_u64, |sum, thread| {
            let found = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(sum.wrapping_add(found))
        })
    })
}

/// One thread keeps `depth` reads under way.
fn by_ring(file: &File, len: u64, size: usize, depth: usize) -> Result<u64> {
    let mut ring = IoUring::new(depth as u32)?;
    // On an error never freed, since reads may still be under way.
    let mut buffers = ManuallyDrop::new(Vec::new());
    buffers.resize_with(depth, || Aligned::new(size));
    let mut offsets = vec![0; depth];
    let (mut next, mut under_way, mut sum) = (0, 0, 0_u64);
    let mut free: Vec<usize> = (0..depth).collect();
    loop {
        while let (Some(slot), true) = (free.last().copied(), next < len) {
            free.pop();
            offsets[slot] = next;
            let bytes = buffers[slot].bytes();
            let read =
                opcode::Read::new(types::Fd(file.as_raw_fd()), bytes.as_mut_ptr(), size as u32);
            let entry = read.offset(next).build().user_data(slot as u64);
            // SAFETY: the buffer is `size` bytes long, no other read goes there until this one is
            // done, and it is freed only once no read is under way.
            unsafe { ring.submission().push(&entry)? };
            next += size as u64;
            under_way += 1;
        }
        if under_way == 0 {
            drop(ManuallyDrop::into_inner(buffers));
            return Ok(sum);
        }
        ring.submit_and_wait(1)?;
        let done: Vec<_> = ring.completion().collect();
        for entry in done {
            let slot = entry.user_data() as usize;
            let found = usize::try_from(entry.result())
                .map_err(|_| io::Error::from_raw_os_error(-entry.result()))?;
            let wanted = usize::try_from(len - offsets[slot]).unwrap_or(size).min(size);
            ensure!(found >= wanted, "at {}: {found} bytes, not {wanted}", offsets[slot]);
            sum = sum.wrapping_add(read_all(&buffers[slot].bytes()[..wanted]));
            free.push(slot);
            under_way -= 1;
        }
    }
}

/// Memory that direct reads can go to.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut sorted: Vec<f64> = samples.iter().map(of).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn print_table(measured: &[Measured], len: u64) {
    println!("\n| way | KiB at a time | GB/s, median | CPU seconds a GB |");
    println!("| --- | ---: | ---: | ---: |");
    for Measured { way, bytes_at_a_time, samples } in measured {
        let speed = len as f64 / median(samples, |sample| sample.seconds) / 1e9;
        let cpu = median(samples, |sample| sample.cpu_seconds) * 1e9 / len as f64;
        println!("| {way} | {} | {speed:.2} | {cpu:.2} |", bytes_at_a_time / KIB);
    }
}

/// What was read.
fn describe(path: &Path, len: u64) -> Result<DatasetRecord> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(io::Read::take(File::open(path)?, len))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let digest = format!("blake3:{}", hasher.finalize().to_hex());
    Ok(DatasetRecord { name, digest, files: 1, bytes: len })
}

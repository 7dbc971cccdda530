//! Measures reads of one volume beside writers of another that wait for a slow disk, and keeps a record.
//!
//!     cargo run --release -p onefold-lab --example slow_syncs -- [--sync-ms 1000]
//!         [--writers 64] [--seconds 10] [--rounds 5] [--out docs/records/NAME.json]
//!
//! This process serves a pool in memory on a Unix socket, with the threads of `onefold serve`. Whatever
//! a real folder syncs takes --sync-ms. One connection reads random blocks of one volume, without
//! writers and with them: each writer has a connection of its own and writes blocks of the other
//! volume with FUA, one after another. Rounds are interleaved and each begins with the other case.
//! Clients and server share the processor. Each block that was read is compared with what was written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use onefold_backend::{
    BackendError, Folder, Log, LogReader, MemoryFolder, MountId, Pages, Reserved, Syncer,
};
use onefold_bench::{Header, Record, command_line};
use onefold_block::{BlockSize, MeasuredDevice};
use onefold_lab::Argument;
use onefold_lab::nbd::{Client, Place, Uri};
use onefold_lab::trace::{Latencies, Latency};
use onefold_nbd::{Config, Export, Listen, Server};
use onefold_testkit::{SplitMix64, random};
use onefold_volume::{Hash, Noting, Options as PoolOptions, Pool};
use serde::{Deserialize, Serialize};

const BLOCK: usize = 4096;
/// Blocks of each volume.
const BLOCKS: u64 = 16_384;
/// The volume that is read.
const READ: &str = "read";
/// The volume that is written.
const WRITTEN: &str = "written";
/// How long the server may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Options {
    /// What a sync takes.
    sync_ms: u64,
    writers: u64,
    /// Of reads, for each case of a round.
    seconds: u64,
    rounds: u64,
}

/// One case of one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    round: u64,
    /// 0, or all of them.
    writers: u64,
    /// From the first read to the end of the last.
    seconds: f64,
    reads: Latency,
    /// Writes that were acknowledged in this time.
    acknowledged: u64,
    /// All writes, also those before and after.
    writes: Latency,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    options: Options,
    samples: Vec<Sample>,
}

fn main() -> Result<()> {
    let (options, out) = options()?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let (server, _noting) = serve(&socket, Duration::from_millis(options.sync_ms))?;
    let content: Vec<u8> = (0..BLOCKS).flat_map(page).collect();
    let mut client = connect(&socket, READ)?;
    client.write(0, &content)?;
    client.flush()?;
    drop(client);
    // No page that is written is one that is read.
    let scene = Scene { socket, content, next: AtomicU64::new(BLOCKS) };
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let mut cases = [0, options.writers];
        cases.rotate_left((round as usize - 1) % 2);
        for writers in cases {
            let sample = scene.measure(round, writers, Duration::from_secs(options.seconds))?;
            println!(
                "round {round}, {writers} writers: {}, {:.1} writes a second",
                shown(&sample.reads),
                sample.writes_a_second()
            );
            samples.push(sample);
        }
    }
    server.shutdown(PATIENCE)?;
    print_table(&samples);
    if let Some(out) = out {
        let command = "cargo run --release -p onefold-lab --example slow_syncs --";
        let command = command_line(command, std::env::args().skip(1));
        let mut header = Header::here(&out, command, "in memory; each sync only waits")?;
        header.notes.push("half of each page is random, half is zeros; no page is known".into());
        Record { header, results: Results { options, samples } }.write(&out)?;
    }
    Ok(())
}

fn options() -> Result<(Options, Option<PathBuf>)> {
    let mut options = Options { sync_ms: 1000, writers: 64, seconds: 10, rounds: 5 };
    let mut out = None;
    for argument in Argument::all()? {
        match argument.name.as_str() {
            "--sync-ms" => options.sync_ms = argument.number()?,
            "--writers" => options.writers = argument.number()?,
            "--seconds" => options.seconds = argument.number()?,
            "--rounds" => options.rounds = argument.number()?,
            "--out" => out = Some(argument.value.into()),
            _ => return Err(argument.unknown()),
        }
    }
    let Options { writers, seconds, rounds, .. } = options;
    ensure!(writers.min(seconds).min(rounds) > 0, "expected writers, seconds and rounds");
    Ok((options, out))
}

/// Serves a new pool with both volumes as `onefold serve` does, in memory.
fn serve(socket: &Path, sync: Duration) -> Result<(Server, Noting)> {
    let folder: Arc<dyn Folder> = Arc::new(Slow { inner: MemoryFolder::new(), sync });
    Pool::create(&folder, Hash::Sha3)?;
    let (pool, _) = Pool::open(folder, PoolOptions::default())?;
    pool.populate_table();
    let mut exports = Vec::new();
    for name in [READ, WRITTEN] {
        pool.create_volume(name, BLOCKS * BLOCK as u64, BlockSize::B4096)?;
        let device = MeasuredDevice::new(pool.volume(name)?, Arc::default(), |_, _, _| {});
        exports.push(Export::new(name, Arc::new(device)));
    }
    let noting = pool.start_noting(|error| eprintln!("warning: {error}"));
    let server = Server::start(Config::new(vec![Listen::Unix(socket.to_owned())], exports))?;
    Ok((server, noting))
}

fn connect(socket: &Path, export: &str) -> Result<Client> {
    Client::connect(&Uri { place: Place::Unix(socket.to_owned()), export: export.into() })
}

/// No two pages are the same.
fn page(number: u64) -> Vec<u8> {
    let mut page = random(number, BLOCK / 2);
    page.resize(BLOCK, 0);
    page
}

/// What clients share.
struct Scene {
    socket: PathBuf,
    /// Of the volume that is read.
    content: Vec<u8>,
    /// The number of the next page that is written.
    next: AtomicU64,
}

impl Scene {
    /// Reads for so long, beside so many writers.
    fn measure(&self, round: u64, writers: u64, time: Duration) -> Result<Sample> {
        let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let write = || self.write(&is_over, &acknowledged);
            let running: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
            // By then all of them wait for the disk. What failed is returned below.
            while acknowledged.load(Ordering::Relaxed) < writers
                && !running.iter().any(|writer| writer.is_finished())
            {
                thread::sleep(Duration::from_millis(1));
            }
            let (before, begun) = (acknowledged.load(Ordering::Relaxed), Instant::now());
            let reads = self.read(round, time);
            let (after, seconds) = (acknowledged.load(Ordering::Relaxed), begun.elapsed());
            is_over.store(true, Ordering::Relaxed);
            let mut writes = Latencies::default();
            for writer in running {
                writes.join(&writer.join().map_err(|_| anyhow!("a writer panicked"))??);
            }
            Ok(Sample {
                round,
                writers,
                seconds: seconds.as_secs_f64(),
                reads: reads?.latency(),
                acknowledged: after - before,
                writes: writes.latency(),
            })
        })
    }

    fn read(&self, round: u64, time: Duration) -> Result<Latencies> {
        let mut client = connect(&self.socket, READ)?;
        let (mut numbers, mut found) = (SplitMix64::new(round), [0; BLOCK]);
        let (mut latencies, begun) = (Latencies::default(), Instant::now());
        while begun.elapsed() < time {
            let at = numbers.below(BLOCKS as usize) * BLOCK;
            let sent = Instant::now();
            client.read(at as u64, &mut found)?;
            latencies.add(sent.elapsed());
            ensure!(found == self.content[at..at + BLOCK], "the block at {at} reads otherwise");
        }
        Ok(latencies)
    }

    /// Writes one new page after another until it is over. All writers go through the volume
    /// together, so that what they overwrote leaves whole containers behind, which are removed.
    fn write(&self, is_over: &AtomicBool, acknowledged: &AtomicU64) -> Result<Latencies> {
        let mut client = connect(&self.socket, WRITTEN)?;
        let mut latencies = Latencies::default();
        while !is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let page = page(number);
            let sent = Instant::now();
            client.write_durably(number % BLOCKS * BLOCK as u64, &page)?;
            latencies.add(sent.elapsed());
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(latencies)
    }
}

impl Sample {
    fn writes_a_second(&self) -> f64 {
        self.acknowledged as f64 / self.seconds
    }
}

fn shown(reads: &Latency) -> String {
    let Latency { count, p50_us, p99_us, max_us, .. } = reads;
    format!("{count} reads, p50 {p50_us:.0} µs, p99 {p99_us:.0} µs, max {max_us:.0} µs")
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Medians of rounds, of the longest reads the longest.
fn print_table(samples: &[Sample]) {
    let (with, without): (Vec<_>, Vec<_>) = samples.iter().partition(|one| one.writers > 0);
    println!("\n| writers | reads a second | p50 µs | p99 µs | max µs | writes a second |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
    for case in [&without, &with] {
        let of = |value: fn(&Sample) -> f64| median(case.iter().copied().map(value));
        println!(
            "| {} | {:.0} | {:.1} | {:.1} | {:.0} | {:.1} |",
            case[0].writers,
            of(|one| one.reads.count as f64 / one.seconds),
            of(|one| one.reads.p50_us),
            of(|one| one.reads.p99_us),
            case.iter().map(|one| one.reads.max_us).fold(0.0, f64::max),
            of(Sample::writes_a_second),
        );
    }
    let same_round = |one: &Sample| without.iter().find(|other| other.round == one.round);
    let ratios: Vec<f64> = with
        .iter()
        .filter_map(|one| Some(one.reads.p99_us / same_round(one)?.reads.p99_us))
        .collect();
    println!(
        "\np99 with writers by p99 without, of the same round: {:.2} (median), {:.2} (worst)",
        median(ratios.iter().copied()),
        ratios.iter().copied().fold(0.0, f64::max)
    );
}

/// Storage each of whose syncs takes a while.
struct Slow<T> {
    inner: T,
    sync: Duration,
}

impl<T> Slow<T> {
    fn wait(&self) {
        thread::sleep(self.sync);
    }

    fn around<U>(&self, inner: U) -> Slow<U> {
        Slow { inner, sync: self.sync }
    }
}

impl Folder for Slow<MemoryFolder> {
    // What is opened is durable, so a file system syncs here too.
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        self.wait();
        Ok(Box::new(self.around(self.inner.log(name)?)))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        self.inner.reader(name)
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        self.wait();
        Ok(Box::new(self.around(self.inner.pages(name, page_size)?)))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        self.inner.names()
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        self.inner.rename(from, to)
    }

    fn mount(&self) -> Option<MountId> {
        self.inner.mount()
    }
}

impl Log for Slow<Box<dyn Log + Sync>> {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.wait();
        self.inner.sync()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.wait();
        self.inner.truncate(len)
    }

    fn reserve(&mut self, bytes: u64) -> Reserved {
        self.inner.reserve(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.inner.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(self.around(self.inner.syncer()))
    }
}

impl Syncer for Slow<Arc<dyn Syncer>> {
    fn sync(&self) -> Result<(), BackendError> {
        self.wait();
        self.inner.sync()
    }
}

impl Pages for Slow<Box<dyn Pages + Sync>> {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn count(&self) -> u64 {
        self.inner.count()
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.inner.read(page, into)
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.inner.write(page, bytes)
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        self.inner.set_count(count)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.wait();
        self.inner.sync()
    }
}

//! Times each stage of a backup alone, on one thread, over the files below a directory; then
//! fingerprinting on all cores, and a whole backup that meets no chunk that is new. The last is also
//! done with chunks of one size, which are cut for nothing: the difference is the most that jumping
//! over chunks could ever save.
//!
//! `cargo run --release -p onefold-store --example stages -- DIRECTORY` prints a JSON line a stage:
//! its name, the bytes it took in and the seconds it needed. `cargo lab bench stages` makes a
//! record of them.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onefold_backend::MemoryObjects;
use onefold_cdc::{Algorithm, Chunker, Params};
use onefold_container::{Compressor, GroupBuilder};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_seal::Suite;
use onefold_store::backup::{Options, backup};
use onefold_store::{Cancel, Config, Progress, Repository, StoreError};
use rustix::time::{ClockId, clock_gettime};

/// Files are taken in portions of about this many bytes, so that memory stays bounded.
const PORTION: usize = 64 << 20;
/// As in a backup.
const GROUP_LEN: usize = 512 << 10;

#[derive(Default)]
struct Stage {
    bytes: u64,
    time: Duration,
}

impl Stage {
    fn measure<T>(&mut self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = work();
        self.time += begun.elapsed();
        self.bytes += bytes as u64;
        result
    }

    fn print(&self, name: &str) {
        let seconds = self.time.as_secs_f64();
        println!(r#"{{"stage":"{name}","bytes":{},"seconds":{seconds}}}"#, self.bytes);
    }
}

fn main() -> io::Result<()> {
    let root = env::args_os().nth(1).map(PathBuf::from);
    let root = root.ok_or_else(|| io::Error::other("name the directory to read"))?;
    let config = Config::standard();
    let chunker = Chunker::new(&config.params).map_err(io::Error::other)?;
    let fingerprinter = Fingerprinter::blake3();
    let mut compressor =
        Compressor::new(config.compression_level, Suite::Plain).map_err(io::Error::other)?;
    let [mut walk, mut read, mut chunk, mut fingerprint, mut look_up, mut compress]: [Stage; 6] =
        Default::default();
    let mut all_cores = Stage::default();
    let files = walk.measure(0, || list(&root))?;
    let mut known = HashSet::<Fingerprint>::new();
    let mut group = GroupBuilder::default();
    let mut files = files.into_iter();
    loop {
        let mut portion = Vec::new();
        let mut lengths = Vec::new();
        while portion.len() < PORTION {
            let Some(file) = files.next() else { break };
            let before = portion.len();
            let bytes = read.measure(0, || fs::read(file))?;
            read.bytes += bytes.len() as u64;
            portion.extend_from_slice(&bytes);
            lengths.push(portion.len() - before);
        }
        if lengths.is_empty() {
            break;
        }
        let chunks = chunk.measure(portion.len(), || cut(&chunker, &portion, &lengths));
        let mut names = Vec::new();
        fingerprint.measure(portion.len(), || fingerprinter.fingerprint_many(&chunks, &mut names));
        all_cores.measure(portion.len(), || on_all_cores(&fingerprinter, &chunks));
        let is_new: Vec<bool> = look_up
            .measure(portion.len(), || names.iter().map(|name| known.insert(*name)).collect());
        let new =
            names.iter().zip(&chunks).zip(is_new).filter_map(|(pair, new)| new.then_some(pair));
        for (name, bytes) in new {
            compress.measure(bytes.len(), || -> io::Result<()> {
                group.push(*name, bytes);
                if group.len() >= GROUP_LEN {
                    compressor.compress(&mut group).map_err(io::Error::other)?;
                }
                Ok(())
            })?;
        }
    }
    walk.print("walk");
    read.print("read");
    chunk.print("chunk");
    fingerprint.print("fingerprint");
    look_up.print("look up");
    compress.print("compress");
    all_cores.print("fingerprint, all cores");
    compare_duplicates(root).map_err(io::Error::other)
}

/// Fingerprints `chunks` as a backup does, by as many threads as there are cores.
fn on_all_cores(fingerprinter: &Fingerprinter, chunks: &[&[u8]]) {
    /// About as many as a backup hands to a thread at once.
    const BATCH: usize = 128;
    let next = AtomicUsize::new(0);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut names = Vec::new();
                while let Some(batch) =
                    chunks.chunks(BATCH).nth(next.fetch_add(1, Ordering::Relaxed))
                {
                    names.clear();
                    fingerprinter.fingerprint_many(batch, &mut names);
                }
            });
        }
    });
}

/// Times backups of what the repository holds already, reading every file: as a new repository
/// cuts, and with all chunks as long as its mean. They take turns; printed is the fastest of each,
/// and what it took of all cores.
fn compare_duplicates(root: PathBuf) -> Result<(), StoreError> {
    const TURNS: usize = 3;
    let standard = Config::standard();
    let fixed = Params::for_mean(Algorithm::Fixed, standard.params.sizes.avg())?;
    let configs = [standard, Config { params: fixed, ..Config::standard() }];
    let repositories = configs.map(|config| {
        let repository = Repository::init(Arc::new(MemoryObjects::default()), config)?;
        back_up(&repository, &root)?;
        Ok::<_, StoreError>(repository)
    });
    let [standard, fixed] = repositories;
    let ways =
        [("backup of duplicates", standard?), ("backup of duplicates, cut for nothing", fixed?)];
    let mut fastest = [const { None::<(Stage, Stage)> }; 2];
    for _ in 0..TURNS {
        for ((_, repository), fastest) in ways.iter().zip(&mut fastest) {
            let (mut wall, mut cpu) = (Stage::default(), Stage::default());
            let before = cpu_time();
            wall.bytes = wall.measure(0, || back_up(repository, &root))?;
            (cpu.bytes, cpu.time) = (wall.bytes, cpu_time() - before);
            if fastest.as_ref().is_none_or(|(before, _)| wall.time < before.time) {
                *fastest = Some((wall, cpu));
            }
        }
    }
    for ((name, _), fastest) in ways.iter().zip(fastest) {
        let (wall, cpu) = fastest.expect("there was a turn");
        wall.print(name);
        cpu.print(&format!("{name}, time of all cores"));
    }
    Ok(())
}

/// Backs up every file below `root`, read anew; how many bytes they have.
fn back_up(repository: &Repository, root: &Path) -> Result<u64, StoreError> {
    let options = Options { force: true, ..Options::default() };
    let (paths, cancel) = ([root.to_owned()], Cancel::default());
    let (_, snapshot) = backup(repository, &paths, &options, &Progress::default(), &cancel)?;
    Ok(snapshot.summary.bytes)
}

/// What all threads of this process have taken, in the kernel too.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The regular files below `directory`.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.path().symlink_metadata()?;
            if metadata.is_dir() {
                open.push(entry.path());
            } else if metadata.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The chunks of files of `lengths` bytes, which follow one another in `bytes`.
fn cut<'a>(chunker: &Chunker, mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for len in lengths {
        let (file, rest) = bytes.split_at(*len);
        let mut start = 0;
        for end in chunker.cut_points(file) {
            chunks.push(&file[start..end]);
            start = end;
        }
        bytes = rest;
    }
    chunks
}

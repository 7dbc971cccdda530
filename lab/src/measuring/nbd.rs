//! Measures a served volume by fio, beside nbdkit and qemu-nbd: nbdkit's file plugin and qemu-nbd with
//! a raw file do the same work without deduplication on the same file system, nbdkit's memory plugin
//! does none, which shows what the protocol and fio allow.
//!
//! Rounds are interleaved and each starts with another server. Each server begins a round with
//! nothing, is filled, read, written again at random, so that all of them overwrite, and then read
//! at random.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use xtask::record;

use super::backups;
use super::fio::{self, Reported};
use super::process::cpu_time;
use super::record::Dataset;
use super::table::{lower_bound, median};

/// What `cargo lab campaign nbd` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program to measure: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// An earlier program to measure beside it, as it was released
    #[arg(long)]
    before: Option<PathBuf>,
    /// How often each server runs each phase
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The size of the device in MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..))]
    size: u64,
    /// How many jobs fio runs concurrently, each with a connection of its own: sequential ones divide
    /// the device, random ones have all of it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=8))]
    jobs: u64,
    /// Random writes of 4 KiB with one flush, and random reads, of all jobs together; an eighth as
    /// many writes with a flush for every 32
    #[arg(long, default_value_t = 262_144, value_parser = clap::value_parser!(u64).range(512..))]
    writes: u64,
    /// How many percent of what fio writes are duplicates
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=100))]
    dedupe: u64,
    /// What names the pages of the pool: as `onefold volume create` has it
    #[arg(long, default_value = "sha3-256")]
    fingerprint: String,
    /// How the pool's pages are compressed
    #[arg(long, default_value = "zstd")]
    compression: String,
    /// Where the pool and the file go; emptied first [default: target/bench/work]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Onefold,
    /// The earlier program.
    Before,
    File,
    Qemu,
    Memory,
}

const SERVERS: [Server; 5] =
    [Server::Onefold, Server::Before, Server::File, Server::Qemu, Server::Memory];

/// How qemu-nbd serves its file: to as many connections as there may be jobs. Cache and AIO are its
/// defaults: the system's cache, as nbdkit's file plugin uses it, and a pool of threads.
const QEMU: [&str; 5] =
    ["--format=raw", "--persistent", "--shared=8", "--cache=writeback", "--aio=threads"];

/// What fio does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fill,
    Read,
    OneFlush,
    ManyFlushes,
    RandomRead,
}

const PHASES: [Phase; 5] =
    [Phase::Fill, Phase::Read, Phase::OneFlush, Phase::ManyFlushes, Phase::RandomRead];

/// One phase of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    server: String,
    phase: String,
    /// Of fio, each with a connection of its own. Records from before there was a choice had one.
    #[serde(default = "one_job")]
    jobs: u64,
    /// From 1.
    round: u32,
    /// As fio has it: from the first request to the last reply, of the job that took longest.
    seconds: f64,
    /// Of all jobs together, as what follows. Without flushes.
    operations: u64,
    bytes: u64,
    flushes: u64,
    p50_us: f64,
    p99_us: f64,
    server_user_seconds: f64,
    server_system_seconds: f64,
}

fn one_job() -> u64 {
    1
}

const CACHE_STATE: &str = "warm: all was written just before, and synced between phases";

const NOTES: [&str; 4] = [
    "sequential jobs divide the device, random ones have all of it; seconds are those of the job that \
     took longest",
    "each job sends one flush before its last write of the fill and of the random writes, so that \
     it is inside the time; nothing waits for writes under way when a flush is sent, and fio may \
     repeat a flush as often as its queue is deep: `flushes` counts them",
    "each round begins with an empty pool and an empty file; the random writes overwrite what the \
     fill wrote, and the random reads read what both left",
    "CPU time is that of the server's process, in ticks of 10 ms",
];

/// What a reader must know of this run alone.
fn notes(options: &Options) -> Vec<String> {
    let jobs = match options.jobs {
        1 => "one job".to_owned(),
        jobs => format!("{jobs} jobs with a connection each"),
    };
    vec![
        format!(
            "fio reads and writes 4 KiB at random and 1 MiB in sequence, {jobs} at queue depth \
             16, over a Unix socket; fio, server and disk share the machine"
        ),
        format!(
            "qemu-nbd has a raw file and {}, its own defaults but for the first three",
            QEMU.join(" ")
        ),
    ]
}

/// Measures, prints and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    options.check()?;
    let (onefold, work) = backups::program_and_work(&options.onefold, options.dir.as_deref())?;
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let first = (round as usize - 1) % SERVERS.len();
        let servers = SERVERS[first..].iter().chain(&SERVERS[..first]);
        let is_here = |server: &&Server| **server != Server::Before || options.before.is_some();
        for server in servers.filter(is_here) {
            let folder = work.fresh(server.name())?;
            let mut served = Served::start(*server, &onefold, &folder, options)?;
            for phase in PHASES {
                rustix::fs::sync();
                let sample = served.measure(phase, round, &folder, options);
                let sample = sample.with_context(|| format!("{} {phase:?}", server.name()))?;
                println!(
                    "bench: round {round}, {} {}: {:.0} a second, p99 {:.0} µs",
                    sample.server,
                    sample.phase,
                    sample.rate(),
                    sample.p99_us
                );
                samples.push(sample);
            }
            drop(served);
            backups::remove(&folder)?;
        }
    }
    print!("{}", table(&samples));
    let place = format!("pool and file lie on {}", work.file_system()?);
    work.end()?;
    let programs = [
        ("onefold", &*onefold),
        ("nbdkit", Path::new("nbdkit")),
        ("qemu-nbd", Path::new("qemu-nbd")),
        ("fio", Path::new("fio")),
    ];
    let before = options.before.as_ref().map(|before| ("onefold-before", before.as_path()));
    let tools = programs.into_iter().chain(before);
    let tools = tools.map(|(name, program)| (name.to_owned(), version(program)));
    let dataset = Dataset {
        name: format!("made by fio: {} % duplicates, 50 % compressible", options.dedupe),
        digest: "none: see the seed of each round, which is its number".into(),
        files: 0,
        bytes: options.size << 20,
    };
    let of_run = notes(options);
    let notes = of_run.iter().map(String::as_str).chain(NOTES).chain([place.as_str()]);
    let notes: Vec<_> = notes.collect();
    backups::write_record(&options.out, dataset, CACHE_STATE, tools.collect(), samples, &notes)
}

/// The first line of what `program` says of its version.
fn version(program: &Path) -> String {
    let words = record::first_words(Command::new(program).arg("--version"));
    words.as_deref().and_then(|words| words.lines().next()).unwrap_or("unknown").to_owned()
}

impl Options {
    /// Fails unless the jobs can divide the device, and each has enough to write for some flushes.
    fn check(&self) -> Result<()> {
        ensure!(
            self.size.is_multiple_of(self.jobs) && self.writes >= 512 * self.jobs,
            "--jobs {}: expected a --size of so many equal parts, not {}, and at least {} --writes, \
             not {}",
            self.jobs,
            self.size,
            512 * self.jobs,
            self.writes
        );
        Ok(())
    }
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Onefold => "onefold",
            Self::Before => "onefold-before",
            Self::File => "nbdkit-file",
            Self::Qemu => "qemu-nbd",
            Self::Memory => "nbdkit-memory",
        }
    }
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Fill => "sequential write",
            Self::Read => "sequential read",
            Self::OneFlush => "random write, one flush",
            Self::ManyFlushes => "random write, fsync=32",
            Self::RandomRead => "random read",
        }
    }

    fn is_random(self) -> bool {
        !matches!(self, Self::Fill | Self::Read)
    }

    fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::RandomRead)
    }

    /// Reads or writes of each job.
    fn operations(self, options: &Options) -> u64 {
        let of_all = match self {
            Self::Fill | Self::Read => options.size,
            Self::OneFlush | Self::RandomRead => options.writes,
            Self::ManyFlushes => options.writes / 8,
        };
        of_all / options.jobs
    }

    /// What all jobs read or write together.
    fn bytes(self, options: &Options) -> u64 {
        let block = if self.is_random() { 4 << 10 } else { 1 << 20 };
        self.operations(options) * options.jobs * block
    }

    /// What fio is told.
    fn job(self, options: &Options) -> Vec<String> {
        let kind = if self.is_read() { "read" } else { "write" };
        let operations = self.operations(options);
        let mut job = match self.is_random() {
            true => vec![
                format!("--rw=rand{kind}"),
                "--bs=4k".into(),
                format!("--size={}m", options.size),
                format!("--io_size={}", operations * 4096),
            ],
            false => vec![
                format!("--rw={kind}"),
                "--bs=1m".into(),
                format!("--size={operations}m"),
                format!("--offset_increment={operations}m"),
            ],
        };
        match self {
            Self::Fill | Self::OneFlush => job.push(format!("--fsync={}", operations - 1)),
            Self::ManyFlushes => job.push("--fsync=32".into()),
            Self::Read | Self::RandomRead => {}
        }
        job
    }
}

impl Sample {
    /// What fio reported of `phase`. The server and its time are not in it.
    fn of(reported: Reported, phase: Phase, options: &Options) -> Self {
        Self {
            server: String::new(),
            phase: phase.name().into(),
            jobs: options.jobs,
            round: 0,
            seconds: reported.seconds,
            operations: reported.operations,
            bytes: reported.bytes,
            flushes: reported.flushes,
            p50_us: reported.p50_us,
            p99_us: reported.p99_us,
            server_user_seconds: 0.0,
            server_system_seconds: 0.0,
        }
    }

    /// Operations a second.
    fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    fn cpu_seconds(&self) -> f64 {
        self.server_user_seconds + self.server_system_seconds
    }
}

/// A server, until it is dropped.
struct Served {
    server: Server,
    child: Child,
    uri: String,
}

impl Served {
    fn start(server: Server, onefold: &Path, folder: &Path, options: &Options) -> Result<Self> {
        let (socket, pool, file) =
            (folder.join("socket"), folder.join("pool"), folder.join("file"));
        let size = options.size << 20;
        let program = options.before.as_deref().filter(|_| server == Server::Before);
        let onefold = program.unwrap_or(onefold);
        let mut command = match server {
            Server::Onefold | Server::Before => {
                let made = Command::new(onefold)
                    .args(["--quiet", "volume", "create", "disk"])
                    .arg("--pool")
                    .arg(&pool)
                    .arg(format!("--size={size}"))
                    .arg(format!("--fingerprint={}", options.fingerprint))
                    .arg(format!("--compression={}", options.compression))
                    .status()?;
                ensure!(made.success(), "no volume was made: {made}");
                let mut command = Command::new(onefold);
                command.args(["--quiet", "serve", "--pool"]).arg(&pool).arg("--unix").arg(&socket);
                command
            }
            Server::File => {
                File::create(&file)?.set_len(size)?;
                let mut command = Command::new("nbdkit");
                command.args(["--foreground", "--unix"]).arg(&socket).arg("file").arg(&file);
                command
            }
            Server::Qemu => {
                File::create(&file)?.set_len(size)?;
                let mut command = Command::new("qemu-nbd");
                command.args(QEMU).arg("--socket").arg(&socket).arg(&file);
                command
            }
            Server::Memory => {
                let mut command = Command::new("nbdkit");
                command.args(["--foreground", "--unix"]).arg(&socket);
                command.arg("memory").arg(size.to_string());
                command
            }
        };
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{command:?}"))?;
        let is_pool = matches!(server, Server::Onefold | Server::Before);
        let export = if is_pool { "disk" } else { "" };
        let uri = format!("nbd+unix:///{export}?socket={}", socket.display());
        let mut served = Self { server, child, uri };
        let begun = Instant::now();
        while !socket.exists() {
            served.expect_running()?;
            ensure!(begun.elapsed() < Duration::from_secs(30), "{} does not serve", server.name());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }

    /// Fails if the server has ended.
    fn expect_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself: {status}", self.server.name()),
        }
    }

    fn measure(
        &mut self,
        phase: Phase,
        round: u32,
        folder: &Path,
        options: &Options,
    ) -> Result<Sample> {
        let report = folder.join("fio.json");
        // Of its own for each phase: else fio would write what it wrote before, which is known.
        let seed = u64::from(round) * 16 + phase as u64;
        let mut fio = fio::over_nbd(&self.uri, options.jobs, options.dedupe, seed, &report);
        fio.args(phase.job(options));
        let before = cpu_time(self.child.id())?;
        fio::run(&mut fio, || self.expect_running())?;
        let after = cpu_time(self.child.id())?;
        let reported = Reported::read(&report, phase.is_read(), phase.bytes(options))?;
        Ok(Sample {
            server: self.server.name().into(),
            round,
            server_user_seconds: after.0 - before.0,
            server_system_seconds: after.1 - before.1,
            ..Sample::of(reported, phase, options)
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // what it served is removed
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Medians, and how fast onefold is beside each: the ratio of rates in the same round, and what it is
/// at least with a confidence of 90 %.
fn table(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\nphase                    server         jobs    op/s     MB/s   p50 µs   p99 µs  CPU s/GB  \
         onefold/server  at least\n",
    );
    for phase in PHASES {
        let all = |server: Server| -> Vec<&Sample> {
            let is_it = |one: &&Sample| one.phase == phase.name() && one.server == server.name();
            samples.iter().filter(is_it).collect()
        };
        let ours = all(Server::Onefold);
        for server in SERVERS.into_iter().filter(|server| !all(*server).is_empty()) {
            let of_server = all(server);
            let of = |value: fn(&Sample) -> f64| {
                median(of_server.iter().map(|one| value(one)).collect()).unwrap_or(f64::NAN)
            };
            let ratios: Vec<f64> = of_server
                .iter()
                .filter_map(|one| {
                    let our = ours.iter().find(|our| our.round == one.round)?;
                    Some(our.rate() / one.rate())
                })
                .collect();
            let bound = lower_bound(&ratios).unwrap_or(f64::NAN);
            let ratio = median(ratios).unwrap_or(f64::NAN);
            table.push_str(&format!(
                "{:<24} {:<14} {:>4} {:>7.0} {:>8.1} {:>8.1} {:>8.1} {:>9.2} {ratio:>15.2} {bound:>9.2}\n",
                phase.name(),
                server.name(),
                of_server.first().map_or(0, |one| one.jobs),
                of(Sample::rate),
                of(|one| one.bytes as f64 / 1e6 / one.seconds),
                of(|one| one.p50_us),
                of(|one| one.p99_us),
                of(|one| one.cpu_seconds() / (one.bytes as f64 / 1e9)),
            ));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use crate::measuring::record::Record;
    use xtask::workspace;

    use super::*;

    #[test]
    fn a_table_has_ratios_of_the_same_round() {
        let sample = |server: Server, round, seconds| Sample {
            server: server.name().into(),
            phase: Phase::OneFlush.name().into(),
            jobs: 1,
            round,
            seconds,
            operations: 1000,
            bytes: 4_096_000,
            flushes: 1,
            p50_us: 10.0,
            p99_us: 20.0,
            server_user_seconds: 0.5,
            server_system_seconds: 0.25,
        };
        let samples = [
            sample(Server::Onefold, 1, 1.0),
            sample(Server::Onefold, 2, 10.0),
            sample(Server::File, 1, 2.0),
            sample(Server::File, 2, 20.0),
        ];
        let table = table(&samples);
        let line =
            table.lines().find(|line| line.starts_with("random write, one flush  nbdkit-file"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(&words[words.len() - 2..], ["2.00", "2.00"], "{table}");
    }

    fn options(jobs: u64) -> Options {
        Options {
            onefold: "onefold".into(),
            before: None,
            rounds: 1,
            size: 16,
            jobs,
            writes: 4096,
            dedupe: 50,
            fingerprint: "sha3-256".into(),
            compression: "zstd".into(),
            dir: None,
            out: "record.json".into(),
        }
    }

    #[test]
    fn sequential_jobs_divide_the_device_and_random_ones_have_all_of_it() {
        let told = |phase: Phase, jobs| phase.job(&options(jobs)).join(" ");
        let fill = "--rw=write --bs=1m --size=2m --offset_increment=2m --fsync=1";
        assert_eq!(told(Phase::Fill, 8), fill);
        let read = "--rw=read --bs=1m --size=16m --offset_increment=16m";
        assert_eq!(told(Phase::Read, 1), read);
        let one_flush = "--rw=randwrite --bs=4k --size=16m --io_size=2097152 --fsync=511";
        assert_eq!(told(Phase::OneFlush, 8), one_flush);
        let many_flushes = "--rw=randwrite --bs=4k --size=16m --io_size=262144 --fsync=32";
        assert_eq!(told(Phase::ManyFlushes, 8), many_flushes);
        let random_read = "--rw=randread --bs=4k --size=16m --io_size=16777216";
        assert_eq!(told(Phase::RandomRead, 1), random_read);
        for phase in PHASES {
            assert_eq!(phase.bytes(&options(8)), phase.bytes(&options(1)), "{phase:?}");
        }
    }

    #[test]
    fn jobs_that_cannot_share_the_work_are_refused() {
        options(8).check().unwrap();
        assert!(Options { jobs: 3, ..options(1) }.check().is_err(), "16 MiB are no 3 parts");
        assert!(Options { writes: 4095, ..options(8) }.check().is_err());
    }

    #[test]
    fn a_sample_is_what_fio_reported() {
        let reported = Reported {
            seconds: 0.25,
            operations: 4096,
            bytes: 16 << 20,
            flushes: 8,
            p50_us: 7.0,
            p99_us: 9.5,
        };
        let sample = Sample::of(reported, Phase::OneFlush, &options(8));
        assert_eq!((sample.jobs, sample.operations, sample.bytes), (8, 4096, 16 << 20));
        assert_eq!((sample.rate(), sample.flushes), (16_384.0, 8));
        assert_eq!((sample.p50_us, sample.p99_us), (7.0, 9.5));
    }

    #[test]
    fn older_records_had_one_job() {
        let place = workspace::root().join("docs/records/2026-11-23-nbd.json");
        let record = Record::<Sample>::read(&place).unwrap();
        assert_eq!(record.samples.len(), 60);
        assert!(record.samples.iter().all(|sample| sample.jobs == 1));
    }
}

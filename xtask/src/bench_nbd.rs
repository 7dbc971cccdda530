//! Measures a served volume by fio, beside nbdkit: its file plugin does the same work without
//! deduplication on the same file system, its memory plugin none, which shows what the protocol and
//! fio allow.
//!
//! Rounds are interleaved and each starts with another server. Each server begins a round with
//! nothing, is filled, read, and then written again at random, so that all of them overwrite.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bench;
use crate::bench_table::{lower_bound, median};
use crate::record::{self, Dataset};

/// What `cargo xtask campaign nbd` was asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The program to measure: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// How often each server runs each phase
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The size of the device in MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..))]
    size: u64,
    /// Random writes of 4 KiB with one flush; an eighth as many with a flush for every 32
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

/// How often it is looked whether fio and the server have ended: the time is that of fio's own clock.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Onefold,
    File,
    Memory,
}

const SERVERS: [Server; 3] = [Server::Onefold, Server::File, Server::Memory];

/// What fio does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fill,
    Read,
    OneFlush,
    ManyFlushes,
}

const PHASES: [Phase; 4] = [Phase::Fill, Phase::Read, Phase::OneFlush, Phase::ManyFlushes];

/// One phase of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    server: String,
    phase: String,
    /// From 1.
    round: u32,
    /// As fio has it: from the first request to the last reply.
    seconds: f64,
    /// Without flushes.
    operations: u64,
    bytes: u64,
    flushes: u64,
    p50_us: f64,
    p99_us: f64,
    server_user_seconds: f64,
    server_system_seconds: f64,
}

const CACHE_STATE: &str = "warm: all was written just before, and synced between phases";

const NOTES: [&str; 4] = [
    "fio 4 KiB random writes and 1 MiB sequential ones, one job, queue depth 16, over a Unix socket; \
     fio, server and disk share the machine",
    "one flush is sent before the last write of the fill and of the random writes, so that it is \
     inside the time; nothing waits for writes under way when a flush is sent, as fio does it",
    "each round begins with an empty pool and an empty file; the random writes overwrite what the \
     fill wrote",
    "CPU time is that of the server's process, in ticks of 10 ms",
];

/// Measures, prints and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let (onefold, work) = bench::program_and_work(&options.onefold, options.dir.as_deref())?;
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let first = (round as usize - 1) % SERVERS.len();
        for server in SERVERS[first..].iter().chain(&SERVERS[..first]) {
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
            bench::remove(&folder)?;
        }
    }
    print!("{}", table(&samples));
    let place = format!("pool and file lie on {}", work.file_system()?);
    work.end()?;
    let versions = [
        ("onefold", record::first_words(Command::new(&onefold).arg("--version"))),
        ("nbdkit", record::first_words(Command::new("nbdkit").arg("--version"))),
        ("fio", record::first_words(Command::new("fio").arg("--version"))),
    ];
    let known = versions.map(|(name, version)| (name.into(), version.unwrap_or("unknown".into())));
    let dataset = Dataset {
        name: format!("made by fio: {} % duplicates, 50 % compressible", options.dedupe),
        digest: "none: see the seed of each round, which is its number".into(),
        files: 0,
        bytes: options.size << 20,
    };
    let notes: Vec<_> = NOTES.into_iter().chain([place.as_str()]).collect();
    let tools = known.into_iter().collect();
    bench::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Onefold => "onefold",
            Self::File => "nbdkit-file",
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
        }
    }

    /// What fio is told.
    fn job(self, options: &Options) -> Vec<String> {
        let random = |writes: u64, flush: u64| {
            let bytes = writes * 4096;
            vec![
                "--rw=randwrite".into(),
                "--bs=4k".into(),
                format!("--io_size={bytes}"),
                format!("--fsync={flush}"),
            ]
        };
        match self {
            Self::Fill => {
                vec!["--rw=write".into(), "--bs=1m".into(), format!("--fsync={}", options.size - 1)]
            }
            Self::Read => vec!["--rw=read".into(), "--bs=1m".into()],
            Self::OneFlush => random(options.writes, options.writes - 1),
            Self::ManyFlushes => random(options.writes / 8, 32),
        }
    }
}

impl Sample {
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
        let mut command = match server {
            Server::Onefold => {
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
            Server::Memory => {
                let mut command = Command::new("nbdkit");
                command.args(["--foreground", "--unix"]).arg(&socket);
                command.arg("memory").arg(size.to_string());
                command
            }
        };
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{command:?}"))?;
        let export = if server == Server::Onefold { "disk" } else { "" };
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
        let mut fio = Command::new("fio");
        fio.args(["--name=nbd", "--ioengine=nbd", "--iodepth=16", "--output-format=json"]);
        fio.args(["--refill_buffers=1", "--buffer_compress_percentage=50"]);
        fio.arg(format!("--output={}", report.display()));
        fio.arg(format!("--uri={}", self.uri)).arg(format!("--size={}m", options.size));
        fio.arg(format!("--dedupe_percentage={}", options.dedupe));
        // Of its own for each phase: else fio would write what it wrote before, which is known.
        fio.arg(format!("--randseed={}", round * 16 + phase as u32)).args(phase.job(options));
        let before = cpu_time(self.child.id())?;
        let mut fio = fio.stdin(Stdio::null()).spawn().context("fio")?;
        let status = loop {
            if let Some(status) = fio.try_wait()? {
                break status;
            }
            // fio may wait for a server that is gone
            if let Err(ended) = self.expect_running() {
                let _ = fio.kill();
                let _ = fio.wait();
                return Err(ended);
            }
            thread::sleep(LOOK_EVERY);
        };
        self.expect_running()?;
        ensure!(status.success(), "fio ended with {status}");
        let after = cpu_time(self.child.id())?;
        let text = fs::read_to_string(&report).with_context(|| report.display().to_string())?;
        let report: Value = serde_json::from_str(&text).context("fio's report")?;
        let job = &report["jobs"][0];
        let kind = if phase == Phase::Read { "read" } else { "write" };
        let number = |place: &str| {
            let found = job.pointer(place).and_then(Value::as_f64);
            found.with_context(|| format!("fio's report has no {place}"))
        };
        let latency =
            |percent: &str| number(&format!("/{kind}/clat_ns/percentile/{percent}.000000"));
        let flushes = number("/sync/total_ios")?;
        ensure!(flushes > 0.0 || phase == Phase::Read, "fio sent no flush");
        ensure!(number("/error")? == 0.0, "fio had an error");
        Ok(Sample {
            server: self.server.name().into(),
            phase: phase.name().into(),
            round,
            seconds: number(&format!("/{kind}/runtime"))? / 1e3,
            operations: number(&format!("/{kind}/total_ios"))? as u64,
            bytes: number(&format!("/{kind}/io_bytes"))? as u64,
            flushes: flushes as u64,
            p50_us: latency("50")? / 1e3,
            p99_us: latency("99")? / 1e3,
            server_user_seconds: after.0 - before.0,
            server_system_seconds: after.1 - before.1,
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

/// What a process has taken of the processor, in seconds, in user mode and in the kernel.
fn cpu_time(process: u32) -> Result<(f64, f64)> {
    let place = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&place).with_context(|| place.clone())?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    match cpu_ticks(&text) {
        Some((user, system)) => Ok((user as f64 / ticks, system as f64 / ticks)),
        None => bail!("{place}: no times in {text}"),
    }
}

/// Fields 14 and 15; the second, a name in brackets, may have spaces.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Medians, and how fast onefold is beside each: the ratio of rates in the same round, and what it is
/// at least with a confidence of 90 %.
fn table(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\nphase                    server           op/s     MB/s   p50 µs   p99 µs  CPU s/GB  \
         onefold/server  at least\n",
    );
    for phase in PHASES {
        let all = |server: Server| -> Vec<&Sample> {
            let is_it = |one: &&Sample| one.phase == phase.name() && one.server == server.name();
            samples.iter().filter(is_it).collect()
        };
        let ours = all(Server::Onefold);
        for server in SERVERS {
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
                "{:<24} {:<13} {:>7.0} {:>8.1} {:>8.1} {:>8.1} {:>9.2} {ratio:>15.2} {bound:>9.2}\n",
                phase.name(),
                server.name(),
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
    use super::*;

    #[test]
    fn times_stand_behind_a_name_of_any_kind() {
        let stat = "77 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 123 45 0 0 20 0 1";
        assert_eq!(cpu_ticks(stat), Some((123, 45)));
        assert_eq!(cpu_ticks("77 (a) S 1"), None);
        let (user, system) = cpu_time(std::process::id()).unwrap();
        assert!(user + system < 10_000.0);
    }

    #[test]
    fn a_table_has_ratios_of_the_same_round() {
        let sample = |server: Server, round, seconds| Sample {
            server: server.name().into(),
            phase: Phase::OneFlush.name().into(),
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
}

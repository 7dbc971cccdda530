//! Replays traces in the shape of mail, web and homes: figure 15 of StreamDedup (ACM TRETS, 2026).
//!
//! The traces themselves cannot be had here; `cargo lab trace generate` makes some that read, write
//! and repeat as much. Rounds are interleaved; each replay begins with an empty pool.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use xtask::{digest, record};

use super::backups::{self, Work};
use super::record::Dataset;
use super::table::median;
use super::{measure, traces_plot};

/// What `cargo lab campaign traces` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program to measure: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// How often each is replayed
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Operations of a trace
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// Requests under way at once
    #[arg(long, default_value_t = 16)]
    depth: u32,
    /// Where traces and pools go; emptied first [default: target/bench/work]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The plot to write, as SVG
    #[arg(long)]
    plot: Option<PathBuf>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// The traces, as `cargo lab trace generate` calls them.
pub(crate) const TRACES: [&str; 3] = ["mail", "web", "homes"];

/// What names the pages: the paper's hash first.
pub(crate) const HASHES: [&str; 2] = ["sha3-256", "blake3"];

/// One replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) trace: String,
    pub(crate) fingerprint: String,
    /// From 1.
    pub(crate) round: u32,
    /// What the command tells, by its own names.
    pub(crate) replayed: Replayed,
    /// Of the whole command, which also reads the trace beforehand, initialises and makes content.
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
}

/// What `cargo lab trace replay --json` tells, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Replayed {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) kiops: f64,
    pub(crate) depth: u32,
    pub(crate) page_bytes: u64,
    pub(crate) initialised_pages: u64,
    pub(crate) read_pages: u64,
    pub(crate) written_pages: u64,
    pub(crate) new_pages: u64,
    pub(crate) known_pages: u64,
    pub(crate) dedup_ratio: f64,
    pub(crate) compression_ratio: f64,
    pub(crate) reads: Latency,
    pub(crate) writes: Latency,
}

/// Of requests, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

const CACHE_STATE: &str = "warm: the trace was read just before; the pool is empty when it begins";

const NOTES: [&str; 4] = [
    "the traces are made up in the shape of FIU's: shares, footprint and duplicates by a table of \
     Koller and Rangaswami (2010) that was taken down from memory, skew and request size assumed",
    "as the paper does it: pages that are read before they are written are initialised first, which \
     is not timed; operations as fast as they go, without the server; a flush ends it",
    "durable as volumes are: pages go to containers, changes to the journal, which the paper's \
     figure does not have",
    "half of each page is zeros; the content is made between requests by the threads that make them",
];

/// Measures, prints and writes the record and the plot.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let (onefold, work) = backups::program_and_work(&options.onefold, options.dir.as_deref())?;
    let lab = env::current_exe().context("where this program is")?;
    let traces = work.fresh("traces")?;
    for trace in TRACES {
        let text = File::create(traces.join(trace))?;
        let mut generate = Command::new(&lab);
        generate.args(["trace", "generate", "--like", trace]);
        generate.arg(format!("--operations={}", options.operations));
        let status = generate.stdout(text).status().context("cargo lab trace generate")?;
        ensure!(status.success(), "no trace was made: {status}");
    }
    let dataset = digest::of_tree(&traces)?;
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let first = round as usize - 1;
        let turns = TRACES.iter().flat_map(|trace| HASHES.map(|hash| (*trace, hash)));
        let turns: Vec<_> = turns.collect();
        for turn in 0..turns.len() {
            let (trace, hash) = turns[(turn + first) % turns.len()];
            let sample = replay(&onefold, &work, &traces.join(trace), hash, round, options.depth)
                .with_context(|| format!("{trace}, {hash}"))?;
            println!(
                "bench: round {round}, {trace}, {hash}: {:.1} kIOPS, dedup ratio {:.2}",
                sample.replayed.kiops, sample.replayed.dedup_ratio
            );
            samples.push(sample);
        }
    }
    print!("{}", table(&samples));
    if let Some(plot) = &options.plot {
        let svg = traces_plot::of(&samples);
        fs::write(plot, svg).with_context(|| plot.display().to_string())?;
    }
    let place = format!("pools lie on {}", work.file_system()?);
    work.end()?;
    let version = record::first_words(Command::new(&onefold).arg("--version"));
    let version = version.context("onefold --version")?;
    let dataset = Dataset {
        name: "cargo lab trace generate --like mail, web, homes".into(),
        digest: dataset.digest,
        files: dataset.files,
        bytes: dataset.bytes,
    };
    let notes: Vec<_> = NOTES.into_iter().chain([place.as_str()]).collect();
    let tools = [("onefold".into(), version)].into();
    backups::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)
}

fn replay(
    onefold: &Path,
    work: &Work,
    trace: &Path,
    hash: &str,
    round: u32,
    depth: u32,
) -> Result<Sample> {
    let folder = work.fresh("replay")?;
    let (pool, out) = (folder.join("pool"), folder.join("out.json"));
    // a pool gets its hash with its first volume
    let status = Command::new(onefold)
        .args(["--quiet", "volume", "create", "--size=4KiB", "--fingerprint", hash, "first"])
        .arg("--pool")
        .arg(&pool)
        .status()?;
    ensure!(status.success(), "no pool was made: {status}");
    rustix::fs::sync();
    let mut command = Command::new(env::current_exe()?);
    command.args(["trace", "replay", "--json"]).arg(format!("--depth={depth}"));
    command.arg("--pool").arg(&pool).arg(trace);
    command.stdin(Stdio::null()).stdout(File::create(&out)?);
    let (status, usage) = measure::run(&mut command)?;
    ensure!(status.success(), "cargo lab trace replay ended with {status}");
    let text = fs::read_to_string(&out)?;
    let sample = Sample {
        trace: trace.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        fingerprint: hash.into(),
        round,
        replayed: serde_json::from_str(&text).context("what cargo lab trace replay tells")?,
        user_seconds: usage.user.as_secs_f64(),
        system_seconds: usage.system.as_secs_f64(),
        peak_rss_bytes: usage.peak_rss,
    };
    backups::remove(&folder)?;
    Ok(sample)
}

/// Samples of one trace and fingerprint.
pub(crate) fn of<'a>(samples: &'a [Sample], trace: &str, hash: &str) -> Vec<&'a Sample> {
    samples.iter().filter(|one| one.trace == trace && one.fingerprint == hash).collect()
}

/// Medians over the rounds.
fn table(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\ntrace  fingerprint    kIOPS   dedup  compression  write p50 µs  p99 µs  read p50 µs  p99 \
         µs\n",
    );
    for trace in TRACES {
        for hash in HASHES {
            let these = of(samples, trace, hash);
            let median = |value: fn(&Replayed) -> f64| {
                let values = these.iter().map(|one| value(&one.replayed)).collect();
                median(values).unwrap_or(f64::NAN)
            };
            table.push_str(&format!(
                "{trace:<6} {hash:<11} {:>8.1} {:>7.2} {:>12.2} {:>13.1} {:>7.1} {:>12.1} {:>7.1}\n",
                median(|one| one.kiops),
                median(|one| one.dedup_ratio),
                median(|one| one.compression_ratio),
                median(|one| one.writes.p50_us),
                median(|one| one.writes.p99_us),
                median(|one| one.reads.p50_us),
                median(|one| one.reads.p99_us),
            ));
        }
    }
    table
}

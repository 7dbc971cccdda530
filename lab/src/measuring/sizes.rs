//! Measures what a repository takes, by algorithm and mean chunk size: all of it, with recipes,
//! footers and index. What decides the defaults of `onefold init`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use xtask::{digest, workspace};

use super::backups::{self, READ_ONCE, Work};
use super::measure::Usage;
use super::tool::Tool;

/// What `cargo lab bench sizes` was asked for.
pub(crate) struct Options {
    pub(crate) dataset: PathBuf,
    pub(crate) algorithms: Vec<String>,
    /// In KiB.
    pub(crate) means: Vec<u64>,
    pub(crate) rounds: u32,
    pub(crate) work: Option<PathBuf>,
    pub(crate) out: PathBuf,
}

/// One backup into a new repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    algorithm: String,
    /// The mean that was asked for, in bytes.
    avg: u64,
    /// From 1.
    round: u32,
    /// Wall time.
    seconds: f64,
    user_seconds: f64,
    system_seconds: f64,
    peak_rss_bytes: u64,
    /// Bytes of all files of the repository: containers with their footers, index, snapshot.
    repository_bytes: u64,
    #[serde(flatten)]
    stats: Stats,
}

/// What `onefold stats --json` says of the repository, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stats {
    logical_bytes: u64,
    unique_bytes: u64,
    stored_bytes: u64,
    data_chunks: u64,
    metadata_chunks: u64,
    metadata_bytes: u64,
    index_bytes: u64,
}

impl Stats {
    /// The mean length of the distinct chunks of files, in bytes.
    fn mean(&self) -> u64 {
        (self.unique_bytes - self.metadata_bytes).checked_div(self.data_chunks).unwrap_or(0)
    }
}

const NOTES: [&str; 2] = [
    "unique_bytes and metadata_bytes are before compression, repository_bytes after",
    "each backup begins with an empty repository, without encryption",
];

/// Measures, prints a table and writes the record.
pub(crate) fn sizes(options: Options) -> Result<()> {
    let versions = backups::versions(&[Tool::Onefold])?;
    let (source, dataset) = backups::read_dataset(&options.dataset)?;
    let work = options.work.unwrap_or_else(|| workspace::target_dir().join("bench/work"));
    let work = Work::begin(&work)?;
    println!(
        "{:<12} {:>8} {:>9} {:>9} {:>12} {:>9}",
        "algorithm", "KiB", "mean", "unique MB", "stored MB", "seconds"
    );
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        for algorithm in &options.algorithms {
            for &kib in &options.means {
                let sample = measure(algorithm, kib << 10, round, &work, &source)?;
                println!(
                    "{algorithm:<12} {kib:>8} {:>9} {:>9.1} {:>12.2} {:>9.2}",
                    sample.stats.mean(),
                    sample.stats.unique_bytes as f64 / 1e6,
                    sample.repository_bytes as f64 / 1e6,
                    sample.seconds
                );
                samples.push(sample);
            }
        }
    }
    work.end()?;
    backups::write_record(&options.out, dataset, READ_ONCE, versions, samples, &NOTES)
}

fn measure(algorithm: &str, avg: u64, round: u32, work: &Work, source: &Path) -> Result<Sample> {
    let folder = work.fresh("sizes")?;
    let repository = folder.join("repository");
    let log = folder.join("output.log");
    let run = |command: &mut Command| -> Result<Usage> {
        command.env("XDG_CACHE_HOME", folder.join("home"));
        command.env("XDG_STATE_HOME", folder.join("state"));
        backups::run_logged(command, &log).with_context(|| format!("{algorithm} at {avg}"))
    };

    let mut init = onefold("init");
    init.arg(&repository).args(["--no-encryption", "--algorithm", algorithm]);
    run(init.args(["--avg", &avg.to_string()]))?;
    rustix::fs::sync();
    let usage = run(onefold("backup").arg("--repo").arg(&repository).arg(source))?;
    run(onefold("stats").arg("--json").arg("--repo").arg(&repository))?;
    let text = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    let stats: Stats = serde_json::from_str(&text).with_context(|| format!("stats: {text}"))?;
    ensure!(stats.logical_bytes > 0, "{algorithm} at {avg}: the backup is empty");
    Ok(Sample {
        algorithm: algorithm.to_owned(),
        avg,
        round,
        seconds: usage.wall.as_secs_f64(),
        user_seconds: usage.user.as_secs_f64(),
        system_seconds: usage.system.as_secs_f64(),
        peak_rss_bytes: usage.peak_rss,
        repository_bytes: digest::stored_bytes(&repository)?,
        stats,
    })
}

fn onefold(command: &str) -> Command {
    let mut onefold = Command::new(workspace::target_dir().join("release/onefold"));
    onefold.arg(command);
    onefold
}

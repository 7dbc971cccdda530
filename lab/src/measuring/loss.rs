//! Measures what a bounded index costs and keeps to: what it misses of what could be found twice,
//! and the most memory that whole backups take.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use xtask::workspace::{self, Cargo};

use super::backups::{self, READ_ONCE, Work};
use super::tool::Tool;

/// What `cargo lab bench dedup-loss` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The tree to cut and to back up
    #[arg(long)]
    dataset: PathBuf,
    /// Mean chunk sizes to cut by, in KiB: 16 is that of a new repository, and small chunks stand
    /// for more data
    #[arg(long, value_delimiter = ',', value_name = "KIB", default_values_t = [16, 2, 1])]
    means: Vec<usize>,
    /// Memory of the index, in KiB
    #[arg(long, value_delimiter = ',', value_name = "KIB",
          default_values_t = [64, 256, 24 << 10])]
    memories: Vec<usize>,
    /// Where repositories go; emptied first [default: target/bench/work]
    #[arg(long)]
    work: Option<PathBuf>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// What the whole process is to stay within by default, in bytes.
const PROMISED: u64 = 96 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Sample {
    /// An index of some memory beside the exact set of fingerprints.
    Loss(Loss),
    /// A backup into a new repository with the default memory, or with this one.
    Backup {
        index_memory_bytes: Option<usize>,
        is_encrypted: bool,
        seconds: f64,
        peak_rss_bytes: u64,
        promised_bytes: u64,
        new_bytes: u64,
    },
}

/// A line of what the measurement prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Loss {
    memory_bytes: usize,
    /// One chunk of 2 to this power is a hook.
    sparsity: u32,
    chunks: u64,
    bytes: u64,
    distinct_chunks: u64,
    distinct_bytes: u64,
    stored_bytes: u64,
    /// Of the bytes that need not be stored.
    loss_percent: f64,
}

const NOTES: [&str; 3] = [
    "kind loss: files in the order of their paths, cut by the default chunker (bytes / chunks tells \
     the mean), claimed a mebibyte at a time and published 16 MiB at a time; stored_bytes are those of \
     chunks that were taken for new",
    "kind backup: one backup of the whole dataset into a new repository; peak_rss_bytes is that of \
     the process, as wait4 reports it; promised_bytes hold for the default memory",
    "seconds are of one run, while others used the machine: they say little",
];

/// Measures, prints and writes the record.
pub(crate) fn measure(options: Options) -> Result<()> {
    let versions = backups::versions(&[Tool::Onefold])?;
    let (source, dataset) = backups::read_dataset(&options.dataset)?;
    let work = options.work.unwrap_or_else(|| workspace::target_dir().join("bench/work"));
    let work = Work::begin(&work)?;
    let mut samples = Vec::new();
    let memories: Vec<usize> = options.memories.iter().map(|kib| kib << 10).collect();
    let smallest = memories.iter().min().copied();
    for (memory, is_encrypted) in [(None, true), (None, false), (smallest, false)] {
        samples.push(back_up(&work, &source, memory, is_encrypted)?);
    }
    for mean in options.means {
        samples.extend(losses(&source, mean << 10, &memories)?);
    }
    work.end()?;
    for sample in &samples {
        println!("bench: {sample:?}");
    }
    backups::write_record(&options.out, dataset, READ_ONCE, versions, samples, &NOTES)
}

fn back_up(
    work: &Work,
    source: &Path,
    memory: Option<usize>,
    is_encrypted: bool,
) -> Result<Sample> {
    #[derive(Deserialize)]
    struct Summary {
        new_bytes: u64,
    }
    let folder = work.fresh("loss")?;
    let log = folder.join("output.log");
    let mut onefold = Command::new(workspace::target_dir().join("release/onefold"));
    onefold.args(["backup", "--json", "--init", "--repo"]).arg(folder.join("repository"));
    onefold.env("ONEFOLD_CACHE_DIR", folder.join("cache"));
    match is_encrypted {
        true => drop(onefold.env("ONEFOLD_PASSWORD", "of a benchmark")),
        false => drop(onefold.arg("--no-encryption")),
    }
    if let Some(memory) = memory {
        onefold.args(["--index-memory", &memory.to_string()]);
    }
    let usage = backups::run_logged(onefold.arg(source), &log)?;
    let text = std::fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    let is_summary = |line: &&str| line.contains("\"type\":\"summary\"");
    let summary = text.lines().rfind(is_summary).context("the backup tells no summary")?;
    let Summary { new_bytes } = serde_json::from_str(summary)?;
    Ok(Sample::Backup {
        index_memory_bytes: memory,
        is_encrypted,
        seconds: usage.wall.as_secs_f64(),
        peak_rss_bytes: usage.peak_rss,
        promised_bytes: PROMISED,
        new_bytes,
    })
}

/// No speed is measured, so it need not be built for speed.
fn losses(source: &Path, mean: usize, memories: &[usize]) -> Result<Vec<Sample>> {
    let mut measure = Cargo::default().command();
    measure.args(["run", "--quiet", "--package", "onefold-lab", "--bin", "index-loss", "--"]);
    measure.arg(source).arg(mean.to_string()).args(memories.iter().map(usize::to_string));
    let output = measure.stderr(Stdio::inherit()).output().context("cargo run")?;
    ensure!(output.status.success(), "index-loss ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| Ok(Sample::Loss(serde_json::from_str(line)?))).collect()
}

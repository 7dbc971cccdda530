//! Spark jobs with a memo after changes of their input: figure 15 of Shredder (FAST 2012).

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use xtask::outcome::Outcome;
use xtask::workspace;

/// What `cargo lab campaign incremental` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A Python with pyspark and numpy, and with onefold-spark or the variable ONEFOLD_SPARK_JAR
    #[arg(long)]
    python: PathBuf,
    /// MiB of text for word count
    #[arg(long, default_value_t = 4096)]
    size: u32,
    /// MiB of text for the co-occurrence matrix, and of points for k-means
    #[arg(long, default_value_t = 1024)]
    size_of_others: u32,
    /// Mean length of a split
    #[arg(long, default_value = "4MiB")]
    mean: String,
    /// Percentages of the input that change
    #[arg(long, value_delimiter = ',', default_values = ["0", "1", "5", "10", "25"])]
    changes: Vec<String>,
    /// Where inputs and memos go; the inputs of an earlier run are used again
    #[arg(long)]
    dir: PathBuf,
    /// Make the inputs and measure nothing
    #[arg(long)]
    only_inputs: bool,
    /// Seconds after which no further measurement begins; 0 for no limit
    #[arg(long, default_value_t = 0)]
    limit: u32,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the jobs with and without a memo, and compares their results.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let mut outcome = Outcome::begin("cargo lab")?;
    outcome.note(
        "one round each; the plain job reads the same file by textFile and reduceByKey; results are compared by count and sum",
    );
    outcome.note(
        "clustered: one stretch is replaced by other lines; scattered: runs of 64 KiB, half of them replaced, a quarter deleted, and a quarter with new lines in front",
    );
    outcome.note(
        "fixed-size: the bytes in blocks of the mean length that the unchanged file lacks; computed, not run",
    );
    let root = workspace::root();
    let package = root.join("jvm/python");
    let mut command = Command::new(&options.python);
    command
        .arg(root.join("lab/src/measuring/incremental.py"))
        .arg("--dir")
        .arg(std::path::absolute(&options.dir)?)
        .args(["--size", &options.size.to_string()])
        .args(["--size-of-others", &options.size_of_others.to_string()])
        .args(["--mean", &options.mean, "--changes", &options.changes.join(",")])
        .args(["--limit", &options.limit.to_string()])
        .env("PYTHONPATH", package)
        .env("PYSPARK_PYTHON", std::path::absolute(&options.python)?);
    if options.only_inputs {
        command.arg("--only-inputs");
    }
    outcome
        .run(&mut command, |line| line.strip_prefix("incremental: ").map(str::to_owned))
        .context("measuring jobs on Spark")?;
    if options.only_inputs { Ok(()) } else { outcome.write(options.out.as_deref()) }
}

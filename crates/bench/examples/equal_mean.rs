//! Which chunker finds the most duplicates at equal mean chunk size, and how fast.
//!
//!     cargo run --release -p onefold-bench --example equal_mean -- DATA --out RECORD

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use onefold_bench::equal_mean::{self, Borders, Trial};
use onefold_bench::{Dataset, DatasetRecord, FEWEST_ROUNDS, Header, Record, command_line};
use onefold_cdc::Algorithm;
use serde::{Deserialize, Serialize};

/// Compare chunkers at the mean chunk size that they reach
#[derive(Parser)]
struct Arguments {
    /// A file, or a folder whose files are cut
    data: PathBuf,
    /// Of the data, the first so many MiB
    #[arg(long, value_name = "MIB")]
    most: Option<u64>,
    /// Cut each file by itself, and not all as one stream
    #[arg(long)]
    files: bool,
    /// Algorithms to compare [default: all but fixed]
    #[arg(long, value_delimiter = ',')]
    algorithms: Vec<Algorithm>,
    /// Means to compare at, in KiB
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8, 16, 64, 256])]
    means: Vec<usize>,
    /// How often each is timed
    #[arg(long, default_value_t = FEWEST_ROUNDS)]
    rounds: u32,
    /// The record to write
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Results {
    dataset: DatasetRecord,
    borders: Borders,
    trials: Vec<Trial>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let dataset = Dataset::read(&arguments.data, arguments.most.map(|mib| mib << 20))?;
    let borders = if arguments.files { Borders::Files } else { Borders::Stream };
    let mut algorithms = arguments.algorithms;
    if algorithms.is_empty() {
        algorithms = Algorithm::ALL.to_vec();
        algorithms.retain(|algorithm| algorithm.is_content_defined());
    }

    let mut trials = Vec::new();
    for kib in arguments.means {
        let rows =
            equal_mean::compare(&dataset, borders, &algorithms, kib << 10, arguments.rounds)?;
        print(&rows);
        trials.extend(rows);
    }
    if let Some(out) = arguments.out {
        let command = command_line(
            "cargo run --release -p onefold-bench --example equal_mean --",
            std::env::args().skip(1),
        );
        let header = Header::here(&out, command, "in memory")?;
        let dataset = DatasetRecord::from(&dataset);
        Record { header, results: Results { dataset, borders, trials } }.write(&out)?;
    }
    Ok(())
}

/// A table, most duplicates first.
fn print(trials: &[Trial]) {
    let mut trials: Vec<&Trial> = trials.iter().collect();
    trials.sort_by_key(|trial| trial.metrics.unique_bytes);
    println!(
        "{:<12} {:<12} {:>8} {:>9} {:>8} {:>9} {:>7} {:>7}",
        "algorithm", "kernel", "wanted", "reached", "asked", "deviation", "dedup", "GB/s"
    );
    for trial in trials {
        println!(
            "{:<12} {:<12} {:>8} {:>9.0} {:>8} {:>9.0} {:>7.4} {:>7.2}",
            trial.algorithm,
            trial.kernel,
            trial.wanted_mean,
            trial.metrics.mean,
            trial.avg,
            trial.metrics.deviation,
            trial.metrics.dedup_ratio(),
            trial.bytes_per_second() / 1e9
        );
    }
}

//! `onefold bench run`

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgAction, Args};
use onefold_bench::equal_mean::{self, Borders, Trial};
use onefold_bench::{Dataset, DatasetRecord, FEWEST_ROUNDS, Header, Record, command_line};
use onefold_cdc::Algorithm;
use serde::{Deserialize, Serialize};

use super::choices::{Choice, algorithms, chosen};
use crate::args::STANDARD_OUTPUT;
use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::{size, table};

const AFTER_HELP: &str = "\
A folder is the regular files below it, in the order of their paths. Each PATH is measured by
itself. Chunkers are compared at the mean chunk size that they reach on the data.

Examples:
  onefold bench run --data disk.img --mean 8KiB,16KiB
  onefold bench run --data ~/src --per-file --algorithms mincdc,fastcdc --json src.json

With --json: one record with commit, machine, datasets and their digests, and every sample.";

/// Cut data by several chunkers and compare duplicates found, chunk sizes and speed
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Run {
    /// Files or folders to cut
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// The chunkers, or `all`
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all")]
    #[arg(action = ArgAction::Append, value_parser = algorithms())]
    algorithms: Vec<Choice<Algorithm>>,
    /// The mean chunk sizes to reach
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size::parse)]
    #[arg(default_values = ["4KiB", "8KiB", "16KiB", "64KiB"])]
    mean: Vec<usize>,
    /// How often each is timed
    #[arg(long, value_name = "N", default_value_t = FEWEST_ROUNDS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Cut each file by itself, and not all as one stream
    #[arg(long)]
    per_file: bool,
    /// Write everything as JSON to OUT, or to standard output instead of the table
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Results {
    dataset: DatasetRecord,
    borders: Borders,
    trials: Vec<Trial>,
}

impl Run {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        let borders = if self.per_file { Borders::Files } else { Borders::Stream };
        let algorithms = chosen(&self.algorithms, &content_defined());
        let mut output = Output::new();
        let mut results = Vec::new();
        for path in &self.data {
            let dataset = Dataset::read(path, None)?;
            let mut trials = Vec::new();
            for &mean in &self.mean {
                trials.extend(equal_mean::compare(
                    &dataset,
                    borders,
                    &algorithms,
                    mean,
                    self.rounds,
                )?);
            }
            if !console.is_json() {
                for line in lines(&dataset, &trials) {
                    output.line(line)?;
                }
            }
            results.push(Results { dataset: DatasetRecord::from(&dataset), borders, trials });
        }
        if let Some(out) = &self.json {
            let command = command_line("onefold", std::env::args().skip(1));
            let record = Record { header: Header::here(out, command, "in memory")?, results };
            match console.is_json() {
                true => output.json_document(&record)?,
                false => record.write(out)?,
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

/// Fixed chunks have the mean that they are asked for, and are no chunker to compare.
fn content_defined() -> Vec<Algorithm> {
    let all = Algorithm::ALL.iter().copied();
    all.filter(|algorithm| algorithm.is_content_defined()).collect()
}

fn lines(dataset: &Dataset, trials: &[Trial]) -> Vec<String> {
    let header = ["Algorithm", "Kernel", "Wanted", "Mean", "Deviation", "Dedup ratio", "GB/s"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(trials.iter().map(|trial| {
        vec![
            trial.algorithm.clone(),
            trial.kernel.clone(),
            trial.wanted_mean.to_string(),
            format!("{:.0}", trial.metrics.mean),
            format!("{:.0}", trial.metrics.deviation),
            format!("{:.4}", trial.metrics.dedup_ratio()),
            format!("{:.2}", trial.bytes_per_second() / 1e9),
        ]
    }));
    let mut lines = vec![format!("{}: {} bytes", dataset.name(), dataset.bytes().len())];
    lines.extend(table::lines(&rows, &[2, 3, 4, 5, 6]));
    lines
}

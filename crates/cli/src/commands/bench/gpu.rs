//! `onefold bench gpu`

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use onefold_bench::gpu::{Part, Plan, Results, measure};
use onefold_bench::report::Table;
use onefold_bench::{FEWEST_ROUNDS, Header, Record, command_line, report};
use onefold_gpu::{Choice, Device, open};
use onefold_terminal::outputs::{STANDARD_OUTPUT, make_places, typed, write_text};

use crate::console::Console;
use crate::device::first_gpu;
use crate::exit::Exit;
use crate::interrupt::bar_until;
use crate::output::Output;
use crate::{size, table};

const AFTER_HELP: &str = "\
First the chunks and fingerprints of mixed data are compared with those of the CPU. Then come the steps of
Shredder (FAST 2012) with its ratios: the length of copies, double buffering, pinned memory, segments at
work, shared memory, and the CPU's threads against three versions of the device's program. Last come the
rates of each algorithm, for data of the host and data in the device's memory, SHA3-256 of pages beside
what its instructions allow, and the energy that the device uses, if it tells.

Examples:
  onefold bench gpu
  onefold bench gpu --device cuda:1 --html gpu.html
  onefold bench gpu --bytes 1GiB --equality 64GiB --json gpu.json
  onefold bench gpu --parts copies,pages --limit 60";

/// How long each measurement of energy runs.
const ENERGY: Duration = Duration::from_secs(3);

/// Measure what a GPU gains on this machine
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Gpu {
    /// The device: cuda:N or opencl:N, or auto for the first that is no CPU
    #[arg(long, value_name = "DEVICE", default_value_t = Choice::Auto)]
    device: Choice,
    /// The amount of random data in memory
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = size::parse)]
    bytes: usize,
    /// The amount of mixed data on which chunks are compared first
    #[arg(long, value_name = "BYTES", default_value = "768MiB", value_parser = size::parse)]
    equality: usize,
    /// The number of timed rounds, of which the best counts
    #[arg(long, value_name = "N", default_value_t = FEWEST_ROUNDS)]
    rounds: u32,
    /// The number of threads of the CPU to compare with [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// The parts to measure, separated by commas: equality, copies, overlap, tiles, versions, algorithms, pages or
    /// energy [default: all]
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Stop after SECONDS. What was measured until then is written, and the exit code is 130
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// Write all results as JSON to OUT, or to standard output instead of the tables
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
    /// Write an HTML page with tables to OUT; it needs no network
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

impl Gpu {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        make_places(self.json.as_deref(), self.html.as_deref())?;
        let device = self.device()?;
        let threads = self.threads.or_else(|| thread::available_parallelism().ok());
        let plan = Plan {
            bytes: self.bytes,
            rounds: self.rounds,
            equality: self.equality as u64,
            threads: threads.unwrap_or(NonZero::<usize>::MIN),
            parts: if self.parts.is_empty() { Part::ALL.to_vec() } else { self.parts.clone() },
            energy: ENERGY,
        };
        let results = {
            let end = self.limit.map(|limit| Instant::now() + Duration::from_secs(limit));
            let watch = bar_until(console, "the results so far will be shown", end)?;
            let keep = |results: &Results| match &self.json {
                Some(out) if !console.is_json() => record(out, results)?.write(out),
                _ => Ok(()),
            };
            measure(&*device, &plan, &watch, keep)?
        };
        let exit = if results.is_complete { Exit::Fine } else { Exit::Interrupted };
        if !console.is_json() {
            let mut output = Output::new();
            for line in lines(&results) {
                output.line(line)?;
            }
            output.finish()?;
        }
        self.write(&results, console)?;
        Ok(exit)
    }

    fn device(&self) -> Result<Box<dyn Device>> {
        match self.device {
            Choice::Cpu => bail!("--device cpu, expected a device to compare with the CPU"),
            Choice::Device(name) => Ok(open(name)?),
            Choice::Auto => Ok(open(first_gpu()?)?),
        }
    }

    fn write(&self, results: &Results, console: &Console) -> Result<()> {
        let Some(out) = self.json.as_ref().or(self.html.as_ref()) else { return Ok(()) };
        let record = record(out, results)?;
        match &self.json {
            None => {}
            Some(_) if console.is_json() => {
                let mut output = Output::new();
                output.json_document(&record)?;
                output.finish()?;
            }
            Some(out) => record.write(out)?,
        }
        match &self.html {
            None => Ok(()),
            Some(html) => write_text(Path::new(html), &report::of_gpu(&record).html()?),
        }
    }
}

fn record(out: &Path, results: &Results) -> Result<Record<Results>> {
    let mut header = Header::here(out, command_line("onefold", typed()), "in memory")?;
    if results.is_cpu {
        header.notes.push("the device is the CPU in another form: no figure is of a GPU".into());
    }
    Ok(Record { header, results: results.clone() })
}

/// What a terminal shows: the tables of the page.
fn lines(results: &Results) -> Vec<String> {
    let mut lines = vec![format!("{}, {}", results.device, results.driver)];
    lines.extend(report::gpu_notes(results));
    for (heading, Table { columns, rows }) in report::gpu_tables(results) {
        lines.extend([String::new(), heading.to_owned()]);
        let numbers: Vec<usize> = (0..columns.len()).filter(|&at| columns[at].is_number).collect();
        let names = columns.into_iter().map(|column| column.name).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(|cell| cell.text).collect());
        let rows: Vec<Vec<String>> = [names].into_iter().chain(rows).collect();
        lines.extend(table::lines(&rows, &numbers));
    }
    lines
}

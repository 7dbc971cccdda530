//! How much faster several threads cut one buffer than one does, and two stages than one search.
//!
//!     cargo run --release -p onefold-bench --example threads -- [FILE]… [--only NAME]…
//!         [--threads N] [--rounds N] [--mib N] [--out RECORD]
//!
//! Every algorithm at a mean of 8 KiB, next to what memory can deliver to as many threads. The clock
//! is that on the wall, which counts on a quiet machine only. On a busy one the last column guides:
//! from the time of all threads on the CPU, how much faster they could be at best. Before the clock
//! starts, all cut-points are found equal. Without a file the data are random bytes, then text-like
//! ones, 256 MiB of each.

use std::cell::RefCell;
use std::env;
use std::hint::black_box;
use std::num::NonZero;
use std::path::PathBuf;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use onefold_bench::{
    Contender, Dataset, DatasetRecord, FEWEST_ROUNDS, Header, Outcome, Record, Sample, Summary,
    command_line, measure, noise, read_all,
};
use onefold_cdc::{Algorithm, Chunker, Params, TwoStage, cut_points_parallel};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const MEAN: usize = 8 << 10;
const LIMIT: &str = "read limit";

struct Options {
    files: Vec<PathBuf>,
    only: Vec<Algorithm>,
    threads: NonZero<usize>,
    rounds: u32,
    mib: usize,
    out: Option<PathBuf>,
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    dataset: DatasetRecord,
    contender: String,
    /// `scalar` and so on; none for the read limit.
    kernel: Option<String>,
    threads: usize,
    samples: Vec<Sample>,
    /// Time of all threads on the CPU, one a sample.
    process_seconds: Vec<f64>,
}

fn main() -> Result<()> {
    let options = Options::of(env::args().skip(1))?;
    let mut datasets = Vec::new();
    for file in &options.files {
        datasets.push(Dataset::read(file, None)?);
    }
    if datasets.is_empty() {
        datasets.push(Dataset::random(1, options.mib << 20));
        let text = onefold_testkit::text(1, options.mib << 20);
        datasets.push(Dataset::of("text-1", [text]));
    }
    let mut lines = Vec::new();
    for dataset in &datasets {
        lines.extend(measure_on(dataset, &options)?);
    }
    if let Some(out) = &options.out {
        let command = "cargo run --release -p onefold-bench --example threads --";
        let command = command_line(command, env::args().skip(1));
        let header = Header::here(out, command, "the data are in memory")?;
        Record { header, results: lines }.write(out)?;
    }
    Ok(())
}

impl Options {
    fn of(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            files: Vec::new(),
            only: Vec::new(),
            threads: NonZero::new(2).context("2 is not 0")?,
            rounds: FEWEST_ROUNDS,
            mib: 256,
            out: None,
        };
        while let Some(arg) = args.next() {
            if !arg.starts_with("--") {
                options.files.push(arg.into());
                continue;
            }
            let value = args.next().with_context(|| format!("{arg} takes a value"))?;
            match &arg[..] {
                "--only" => options.only.push(value.parse()?),
                "--threads" => options.threads = value.parse()?,
                "--rounds" => options.rounds = value.parse()?,
                "--mib" => options.mib = value.parse()?,
                "--out" => options.out = Some(value.into()),
                _ => bail!("unknown option {arg}"),
            }
        }
        Ok(options)
    }

    fn algorithms(&self) -> impl Iterator<Item = Algorithm> + '_ {
        let wanted = |algorithm: &Algorithm| self.only.is_empty() || self.only.contains(algorithm);
        Algorithm::ALL.iter().copied().filter(wanted)
    }
}

/// Contenders, each with what is to be known of its runs.
#[derive(Default)]
struct Field<'a> {
    contenders: Vec<Contender<'a>>,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    kernel: Option<String>,
    threads: usize,
    /// The process's time on the CPU, one of each run; the first of them is not timed otherwise.
    process: Rc<RefCell<Vec<Duration>>>,
}

impl<'a> Field<'a> {
    /// `work` finds the cut-points of `chunker`, if that is given.
    fn enter(
        &mut self,
        name: &str,
        chunker: Option<&Chunker>,
        threads: usize,
        mut work: impl FnMut(&mut Vec<usize>) + 'a,
    ) {
        let process = Rc::new(RefCell::new(Vec::new()));
        let times = Rc::clone(&process);
        let contender = Contender::new(format!("{name}, {threads}"), move |cut_points| {
            let start = process_time();
            work(cut_points);
            times.borrow_mut().push(process_time().saturating_sub(start));
        });
        self.contenders.push(match chunker {
            Some(chunker) => contender.equal_to(format!("{}, 1", chunker.params().algorithm)),
            None => contender,
        });
        let kernel = chunker.map(|chunker| chunker.kernel().to_string());
        self.entries.push(Entry { name: name.to_owned(), kernel, threads, process });
    }
}

impl Entry {
    fn process_seconds(&self) -> Vec<f64> {
        self.process.borrow().iter().skip(1).map(Duration::as_secs_f64).collect()
    }
}

fn measure_on(dataset: &Dataset, options: &Options) -> Result<Vec<Line>> {
    let (data, threads) = (dataset.bytes(), options.threads);
    let mut field = Field::default();
    for n in [1, threads.get()] {
        field.enter(LIMIT, None, n, move |_| read_by(data, n));
    }
    for algorithm in options.algorithms() {
        let chunker = Chunker::new(&Params::for_mean(algorithm, MEAN)?)?;
        let name = algorithm.name();
        let one = chunker.clone();
        field.enter(name, Some(&chunker), 1, move |found| found.extend(one.cut_points(data)));
        let many = chunker.clone();
        field.enter(name, Some(&chunker), threads.get(), move |found| {
            *found = cut_points_parallel(&many, data, threads);
        });
        if let Ok(two_stage) = TwoStage::new(chunker.params()) {
            let name = format!("{name} in two stages");
            field.enter(&name, Some(&chunker), 1, move |found| *found = two_stage.cut_points(data));
        }
    }
    let Field { contenders, entries } = field;
    let outcomes = measure(contenders, options.rounds, |_| Ok(()))?;
    report(dataset, &entries, &outcomes);
    let line = |(entry, outcome): (Entry, Outcome)| Line {
        dataset: dataset.into(),
        process_seconds: entry.process_seconds(),
        contender: entry.name,
        kernel: entry.kernel,
        threads: entry.threads,
        samples: outcome.samples,
    };
    Ok(entries.into_iter().zip(outcomes).map(line).collect())
}

/// Reads everything, a part in each thread.
fn read_by(data: &[u8], threads: usize) {
    thread::scope(|scope| {
        let mut parts = data.chunks(data.len().div_ceil(threads).max(1));
        let first = parts.next();
        for part in parts {
            scope.spawn(|| black_box(read_all(part)));
        }
        black_box(first.map(read_all));
    });
}

/// Time that all threads have been on the CPU.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("a process has been on the CPU for no negative time")
}

/// Ratios are to the first contender of the same algorithm, in the middle of all rounds.
fn report(dataset: &Dataset, entries: &[Entry], outcomes: &[Outcome]) {
    println!("{}, {} bytes", dataset.name(), dataset.bytes().len());
    println!(
        "{:<26} {:>8} {:>7} {:>7} {:>7} {:>8}",
        "", "kernel", "threads", "GB/s", "ratio", "at best"
    );
    let mut one = 0;
    for (i, (entry, outcome)) in entries.iter().zip(outcomes).enumerate() {
        // an algorithm's contenders are all held equal to the first of them
        if outcome.equal_to != outcomes[one].equal_to {
            one = i;
        }
        let wall = outcomes[one].samples.iter().zip(&outcome.samples);
        let ratio = Summary::of(wall.map(|(one, this)| one.seconds / this.seconds));
        let (process, this) = (entries[one].process_seconds(), entry.process_seconds());
        let process = process.iter().zip(&this);
        let at_best = Summary::of(process.map(|(one, this)| entry.threads as f64 * one / this));
        println!(
            "{:<26} {:>8} {:>7} {:>7.2} {:>7.2} {:>8.2}",
            entry.name,
            entry.kernel.as_deref().unwrap_or("-"),
            entry.threads,
            dataset.bytes().len() as f64 / outcome.seconds().median / 1e9,
            ratio.median,
            at_best.median,
        );
    }
    // the thread that measures waits for the others, which is no noise
    let single: Vec<Outcome> = entries
        .iter()
        .zip(outcomes)
        .filter(|(entry, _)| entry.threads == 1)
        .map(|(_, outcome)| outcome.clone())
        .collect();
    let reasons = noise(&single);
    if !reasons.is_empty() {
        println!("noise for {} reasons, such as {}", reasons.len(), reasons[0]);
    }
}

//! `onefold bench run`

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Result;
use clap::Args;
use indicatif::HumanBytes;
use onefold_bench::equal_mean::Borders;
#[cfg(feature = "gpu")]
use onefold_bench::gpu::OnDevice;
use onefold_bench::run::{self, Entry, Plan, Results, Timing, Work};
use onefold_bench::{
    FEWEST_ROUNDS, Header, Offload, Record, Source, Unreadable, Watch, command_line, report,
};
use onefold_cdc::Kernel;
#[cfg(feature = "gpu")]
use onefold_gpu::open;
use onefold_terminal::outputs::{STANDARD_OUTPUT, make_places, typed, write_text};

use super::choices::{Choice, SchemeChoice, chosen, chosen_schemes, kernels, mean, schemes};
use crate::console::Console;
use crate::count;
#[cfg(feature = "gpu")]
use crate::device::first_gpu;
use crate::exit::Exit;
use crate::interrupt::bar_until_signal;
use crate::output::Output;
use crate::{size, table};

const AFTER_HELP: &str = "\
Each PATH is measured separately; a folder means the regular files below it, in the order of their
paths. All data are cut, in bounded memory, to count duplicates and sizes. Speed is measured on a sample
in memory, by one thread, after a check that all kernels find the same cut-points. Chunkers with the
same target mean reach different means; use --equalise-mean to compare the duplicates they find.

Ctrl-C ends the measurement and shows and writes the results so far.

Examples:
  onefold bench run --data disk.img --mean 8KiB,16KiB --html report.html
  onefold bench run --data ~/src --per-file --algorithms mincdc,fastcdc \\
      --json src.json
  onefold bench run --data a.tar b.tar --equalise-mean --kernels auto
  onefold bench run --data disk.img --algorithms mincdc,restic,borg --mean 1MiB
  onefold bench run --data disk.img --algorithms mincdc,gear --device cuda:0

Exit codes: 3 if something could not be read and is missing from the result; 130 after Ctrl-C.

With --json: one record with commit, machine, data and their digests, and every sample.";

/// Compare chunkers on your data: duplicates found, chunk sizes, speed
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Run {
    /// Files or folders to cut
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// The chunkers: names, `all` that repositories accept, or `presets` for those that cut as other
    /// programs do
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all")]
    #[arg(value_parser = schemes())]
    algorithms: Vec<SchemeChoice>,
    /// The target mean chunk sizes, 256 bytes or more
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = mean)]
    #[arg(default_values = ["4KiB", "8KiB", "16KiB", "32KiB", "64KiB"])]
    mean: Vec<usize>,
    /// Search for parameters with which all chunkers reach these means on the data
    #[arg(long)]
    equalise_mean: bool,
    /// Cut each file separately
    #[arg(long)]
    per_file: bool,
    /// Cut all files as one stream, like an archive; this is the default. With --per-file, measure
    /// both
    #[arg(long)]
    one_stream: bool,
    /// The kernels whose speed is measured: names, `all` that this CPU runs, or `auto` for the fastest
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "all")]
    #[arg(value_parser = kernels())]
    kernels: Vec<Choice<Kernel>>,
    /// The number of timed rounds; 0 measures no speed
    #[arg(long, value_name = "N", default_value_t = FEWEST_ROUNDS)]
    rounds: u32,
    /// Also time cutting by this many threads, and cutting in two stages
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZero<usize>,
    /// The amount of data held in memory to measure speed
    #[arg(long, value_name = "BYTES", default_value = "128MiB", value_parser = size::parse)]
    sample: usize,
    /// Do not measure fingerprinting
    #[arg(long)]
    no_fingerprints: bool,
    /// Also time this device: cuda:N or opencl:N, or auto for the first that is no CPU if there is one
    #[cfg(feature = "gpu")]
    #[arg(long, value_name = "DEVICE", default_value_t = onefold_gpu::Choice::Cpu)]
    device: onefold_gpu::Choice,
    /// Write all results as JSON to OUT, or to standard output instead of the tables
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
    /// Write an HTML page with tables and plots to OUT; it needs no network
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

impl Run {
    pub(super) fn run(self, console: &Console) -> Result<Exit> {
        // what cannot be found or written is known before hours of measuring
        let list = |path| Source::list(std::slice::from_ref(path));
        let mut sources = self.data.iter().map(list).collect::<Result<Vec<_>>>()?;
        make_places(self.json.as_deref(), self.html.as_deref())?;
        let mut results = Vec::new();
        let measured = self.measure(&mut sources, &mut results, console);
        let kept = match results.is_empty() {
            true => Ok(Exit::Fine),
            false => self.keep(results, measured.is_ok(), console),
        };
        if let (Err(_), Err(error)) = (&measured, &kept) {
            console.line(format_args!("error: {error:#}"));
        }
        measured.and(kept)
    }

    /// Each source in turn; what was measured before an error is in `results`.
    fn measure(
        &self,
        sources: &mut [Source],
        results: &mut Vec<Results>,
        console: &Console,
    ) -> Result<()> {
        let device = self.device(console)?;
        let watch = bar_until_signal(console, "the results so far will be shown")?;
        for source in sources {
            tell_unreadable(source.unreadable(), console);
            for borders in self.borders() {
                let known = source.unreadable().len();
                let plan = self.plan(borders, device.clone());
                let measured = run::run(source, &plan, &watch)?;
                tell_unreadable(&measured.unreadable[known..], console);
                results.push(measured);
                if watch.is_cancelled() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Shows the results and writes them; `is_all` if no error came before the last.
    fn keep(&self, results: Vec<Results>, is_all: bool, console: &Console) -> Result<Exit> {
        self.show(&results, console)?;
        let exit = exit(&results, console);
        self.write(results, is_all, console)?;
        Ok(exit)
    }

    fn borders(&self) -> Vec<Borders> {
        match (self.one_stream, self.per_file) {
            (true, true) => vec![Borders::Stream, Borders::Files],
            (_, true) => vec![Borders::Files],
            _ => vec![Borders::Stream],
        }
    }

    /// The device to time.
    #[cfg(feature = "gpu")]
    fn device(&self, console: &Console) -> Result<Option<Rc<dyn Offload>>> {
        let name = match self.device {
            onefold_gpu::Choice::Cpu => return Ok(None),
            onefold_gpu::Choice::Device(name) => name,
            onefold_gpu::Choice::Auto => match first_gpu() {
                Ok(name) => name,
                Err(error) => {
                    console.notice(format_args!("not measured: {error}"));
                    return Ok(None);
                }
            },
        };
        Ok(Some(Rc::new(OnDevice::new(open(name)?))))
    }

    #[cfg(not(feature = "gpu"))]
    fn device(&self, _: &Console) -> Result<Option<Rc<dyn Offload>>> {
        Ok(None)
    }

    fn plan(&self, borders: Borders, device: Option<Rc<dyn Offload>>) -> Plan {
        Plan {
            schemes: chosen_schemes(&self.algorithms),
            means: self.mean.clone(),
            equalise_mean: self.equalise_mean,
            borders,
            kernels: chosen(&self.kernels, Kernel::ALL),
            rounds: self.rounds,
            sample: self.sample,
            fingerprints: !self.no_fingerprints,
            threads: self.threads,
            device,
        }
    }

    fn show(&self, results: &[Results], console: &Console) -> Result<()> {
        if console.is_json() {
            return Ok(());
        }
        let mut output = Output::new();
        for results in results {
            for line in describe(results) {
                output.line(line)?;
            }
            warn_of_noise(results, console);
        }
        output.finish()
    }

    /// Writes all results to the requested outputs.
    fn write(&self, results: Vec<Results>, is_all: bool, console: &Console) -> Result<()> {
        let Some(out) = self.json.as_ref().or(self.html.as_ref()) else { return Ok(()) };
        let mut header = Header::here(out, command_line("onefold", typed()), "in memory")?;
        if !is_all {
            header.notes.push("an error ended the measurement before all data were cut".into());
        }
        let record = Record { header, results };
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
            Some(html) => write_text(html, &report::of_run(&record)?.html()?),
        }
    }
}

pub(super) fn tell_unreadable(unreadable: &[Unreadable], console: &Console) {
    for Unreadable { path, reason } in unreadable {
        console.line(format_args!("error: cannot read '{path}': {reason}"));
    }
}

pub(super) fn exit(results: &[Results], console: &Console) -> Exit {
    let paths = results.iter().flat_map(|results| &results.unreadable).map(|one| &one.path);
    let unreadable = paths.collect::<BTreeSet<_>>().len();
    if unreadable > 0 {
        let are = if unreadable == 1 { "is" } else { "are" };
        console.warn(format_args!("{unreadable} could not be read and {are} missing"));
    }
    match results.iter().any(|results| !results.is_complete) {
        true => Exit::Interrupted,
        false if unreadable > 0 => Exit::Incomplete,
        false => Exit::Fine,
    }
}

fn warn_of_noise(results: &Results, console: &Console) {
    if let Some(first) = results.noise.first() {
        let more = match results.noise.len() as u64 - 1 {
            0 => String::new(),
            more => {
                format!(", and {}", count::count(more, "more such reason", "more such reasons"))
            }
        };
        console.warn(format_args!("the machine is noisy; {first}{more}"));
    }
    for missing in &results.missing {
        console.notice(format_args!("not measured: {missing}"));
    }
}

/// What was measured on one dataset.
fn describe(results: &Results) -> Vec<String> {
    let Results { dataset, sample, .. } = results;
    let mut lines = vec![format!(
        "{}: {} in {}, {}{}",
        dataset.name,
        HumanBytes(dataset.bytes),
        count::files(dataset.files),
        match results.borders {
            Borders::Stream => "cut as one stream",
            Borders::Files => "each cut by itself",
        },
        if results.is_complete { "" } else { "; STOPPED before the end" },
    )];
    lines.push(match sample.stretches {
        1 => "speed: of one thread, on all of it, in memory".into(),
        stretches => format!(
            "speed: of one thread, on a sample of {} from {stretches} places, in memory",
            HumanBytes(sample.bytes)
        ),
    });
    lines.push(String::new());
    lines.extend(entries(results));
    lines.extend(speed_ups(results));
    lines.push(String::new());
    lines
}

/// A line for each algorithm and mean, most duplicates first.
fn entries(results: &Results) -> Vec<String> {
    let header = [
        "Algorithm",
        "Asked",
        "Mean",
        "Deviation",
        "Dedup ratio",
        "Savings",
        "Zeros apart",
        "Cut GB/s",
        "±",
        "Kernel",
        "Fingerprint",
        "Both",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let mut entries: Vec<&Entry> = results.entries.iter().collect();
    let is_odd = |entry: &Entry| results.equalised && entry.misses_mean();
    entries.sort_by_key(|entry| {
        (entry.wanted_mean, is_odd(entry), entry.findings.metrics.unique_bytes)
    });
    for entry in entries {
        let metrics = &entry.findings.metrics;
        let cut = entry.fastest(Work::Cut);
        let spread = cut.and_then(Timing::spread).map(|spread| 100.0 * spread);
        rows.push(vec![
            entry.algorithm.clone(),
            entry.wanted_mean.to_string(),
            format!("{:.0}{}", metrics.mean, if is_odd(entry) { "!" } else { "" }),
            format!("{:.0}", metrics.deviation),
            format!("{:.4}", metrics.dedup_ratio()),
            format!("{:.2} %", 100.0 * metrics.space_savings()),
            format!("{:.4}", entry.findings.dedup_ratio_without_zeros()),
            gigabytes(cut),
            spread.map_or(String::new(), |spread| format!("{spread:.0} %")),
            cut.map_or(String::new(), |timing| timing.kernel.clone()),
            gigabytes(entry.fastest(Work::Fingerprint)),
            gigabytes(entry.fastest(Work::CutAndFingerprint)),
        ]);
    }
    let mut lines = table::lines(&rows, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
    if let Some(limit) = results.read_limit.bytes_per_second() {
        let kernel = &results.read_limit.kernel;
        lines.push(format!("reading alone, {kernel}: {:.2} GB/s", limit / 1e9));
    }
    let mut cuts = results.entries.iter().filter_map(|entry| entry.fastest(Work::Cut)).peekable();
    if cuts.peek().is_some() && cuts.all(|timing| timing.spread().is_none()) {
        lines.push("each was timed once: one round has no spread".into());
    }
    if results.entries.iter().any(is_odd) {
        lines.push("!: misses the target mean by more than 5 %, and is not comparable".into());
    }
    if results.entries.iter().any(|entry| entry.findings.one_in > 1) {
        lines.push("unique chunks were too many to remember: ratios are estimates".into());
    }
    lines
}

fn gigabytes(timing: Option<&Timing>) -> String {
    let speed = timing.and_then(Timing::bytes_per_second);
    speed.map_or("-".into(), |speed| format!("{:.2}", speed / 1e9))
}

/// How much faster kernels, threads and stages are, at the first mean.
fn speed_ups(results: &Results) -> Vec<String> {
    let first = results.entries.iter().map(|entry| entry.wanted_mean).next();
    let mut rows = vec![];
    for entry in results.entries.iter().filter(|entry| Some(entry.wanted_mean) == first) {
        let speed_ups = entry.speed_ups();
        let kernels = speed_ups.iter().filter(|(kernel, _)| *kernel != Kernel::Scalar.name());
        let mut cells: Vec<String> =
            kernels.map(|(kernel, factor)| format!("{kernel} {factor:.1}")).collect();
        let one = entry.fastest(Work::Cut).and_then(Timing::bytes_per_second);
        for timing in &entry.timings {
            let (Some(one), Some(speed)) = (one, timing.bytes_per_second()) else { continue };
            match (timing.work, timing.threads) {
                (Work::CutInTwoStages, _) => cells.push(format!("two stages {:.1}", speed / one)),
                (Work::Cut, 0) => cells.push(format!("{} {:.1}", timing.kernel, speed / one)),
                (Work::Cut, threads) if threads > 1 => {
                    cells.push(format!("{threads} threads {:.1}", speed / one));
                }
                _ => {}
            }
        }
        if !cells.is_empty() {
            rows.push(vec![entry.algorithm.clone(), cells.join(", ")]);
        }
    }
    if rows.is_empty() {
        return rows.concat();
    }
    let mut lines = vec![
        String::new(),
        "times as fast: kernels as scalar, threads and devices as one thread".into(),
    ];
    lines.extend(table::lines(&rows, &[]));
    lines
}

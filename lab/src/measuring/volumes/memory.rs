//! Measures the memory of `onefold serve` and the time until it answers, against the pages of a pool.
//!
//! Pools are filled through the program that is measured, because only that knows their format. Each turn
//! drops the pool from the kernel's cache, opens it in a fresh control group, reads and overwrites blocks at
//! random, ends the server, and opens the pool again in the same group. Every read is verified.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use onefold_lab::index::mixed;
use onefold_lab::nbd::Client;
use onefold_terminal::size;
use serde::{Deserialize, Serialize};

use xtask::record;

use super::content::{Content, Page, Shape};
use super::served::{Ended, Served, forget};
use super::{fill, memory_plot};
use crate::measuring::backups::{self, Work};
use crate::measuring::limited::Limited;
use crate::measuring::process;
use crate::measuring::record::{Dataset, Record};
use crate::measuring::table::median;

/// What `cargo lab campaign volume-memory` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program to measure: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// What samples and plot call the program
    #[arg(long, default_value = "onefold")]
    label: String,
    /// Distinct pages of each pool, ascending
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000", num_args = 1..)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pages: Vec<u64>,
    /// Mapped blocks for each distinct page; those beyond the first are repeats of a few thousand pages
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    blocks_per_page: u64,
    /// Bytes of a block and page: small ones make large pools in little time
    #[arg(long, default_value = "512", value_parser = ["512", "4096"])]
    block_size: String,
    /// How often each server is measured on each pool
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Random reads of a block in each turn, one after the other, and as many random overwrites
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// How many percent of the overwrites are with pages that the pool has
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=100))]
    dedupe: u64,
    #[command(flatten)]
    program: ProgramArgs,
    /// An option of `onefold serve` and values of it, each of which is measured: OPTION=VALUE,VALUE
    #[arg(long, value_name = "SWEEP", allow_hyphen_values = true, value_parser = sweep)]
    sweep: Option<Sweep>,
    /// The memory of the control group that the server runs in, the kernel's cache included [default: no
    /// limit]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    limit: Option<usize>,
    /// The same for a sweep of sizes: how much more the group may have than the server is told to take
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "limit")]
    #[arg(requires = "sweep")]
    limit_beyond: Option<usize>,
    /// Seed of what is read and overwritten
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// A record of before whose samples the plot shows as well; may be repeated
    #[arg(long, value_name = "RECORD")]
    with: Vec<PathBuf>,
    /// Where pools go; emptied first [default: target/bench/work]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The plot to write, as SVG
    #[arg(long)]
    plot: Option<PathBuf>,
    /// The record to write, e.g. docs/records/NAME.json; it is written after each pool
    #[arg(long)]
    out: PathBuf,
}

/// Further arguments of the program that is measured.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ProgramArgs {
    /// A further argument of `onefold serve`; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(super) serve_arg: Vec<String>,
    /// A further argument of the `onefold serve` through which a pool is filled, instead of --serve-arg;
    /// may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(super) fill_arg: Vec<String>,
    /// A further argument of `onefold volume create`; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(super) create_arg: Vec<String>,
}

/// An option and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sweep {
    option: String,
    values: Vec<String>,
}

fn sweep(text: &str) -> Result<Sweep, String> {
    let (option, values) = text.split_once('=').unwrap_or((text, ""));
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    if !option.starts_with('-') || values.iter().any(String::is_empty) {
        return Err("expected an option and values, such as --index-memory=64MiB,1GiB".into());
    }
    Ok(Sweep { option: option.to_owned(), values })
}

/// One way to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    name: String,
    arguments: Vec<String>,
    /// Bytes of its control group.
    limit: Option<u64>,
}

impl Options {
    fn variants(&self) -> Result<Vec<Variant>> {
        let limit = self.limit.map(|bytes| bytes as u64);
        let (label, arguments) = (self.label.clone(), self.program.serve_arg.clone());
        let Some(sweep) = &self.sweep else {
            return Ok(vec![Variant { name: label, arguments, limit }]);
        };
        let variant = |value: &String| {
            let swept = [sweep.option.clone(), value.clone()];
            let beyond = |beyond| {
                let bytes = size::parse(value).map_err(anyhow::Error::msg);
                bytes
                    .with_context(|| format!("--limit-beyond needs sizes, not {value}"))
                    .map(|bytes| (bytes + beyond) as u64)
            };
            Ok(Variant {
                name: format!("{label} {}", swept.join(" ")),
                arguments: arguments.iter().cloned().chain(swept).collect(),
                limit: self.limit_beyond.map(beyond).transpose()?.or(limit),
            })
        };
        sweep.values.iter().map(variant).collect()
    }

    fn shape(&self, pages: u64) -> Result<Shape> {
        let block_bytes = self.block_size.parse().context("--block-size")?;
        let blocks = pages * self.blocks_per_page;
        Ok(Shape { pages, blocks, block_bytes, random_bytes: 0 })
    }
}

/// One turn of one server on one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The label, and what of a sweep the server was told.
    pub(crate) server: String,
    /// Of `onefold serve`, beside the pool and the socket.
    pub(crate) serve_args: Vec<String>,
    /// Bytes of the control group, if it had a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) pages: u64,
    pub(crate) mapped_blocks: u64,
    pub(crate) block_bytes: u64,
    /// From 1.
    pub(crate) round: u32,
    /// Distinct pages that the pool says it keeps after the fill: more than `pages` where its table of
    /// fingerprints had no room for pages that came again.
    pub(crate) kept_pages: u64,
    pub(crate) container_bytes: u64,
    pub(crate) fill_seconds: f64,
    /// As far as the server came.
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Why the turn ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// What was measured in a turn, in the order in which it happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// From the start of the process to the reply to the first read; nothing of the pool is cached before.
    pub(crate) open_cold_seconds: Option<f64>,
    /// What was read from the disk until then.
    pub(crate) open_cold_disk_bytes: Option<u64>,
    /// The most memory that was resident at once until then.
    pub(crate) opened_peak_bytes: Option<u64>,
    pub(crate) reads: Option<Requests>,
    /// Until the reads were done.
    pub(crate) read_peak_bytes: Option<u64>,
    /// With one flush after the last.
    pub(crate) overwrites: Option<Requests>,
    /// From the signal to the end of the process, which makes a checkpoint.
    pub(crate) end_seconds: Option<f64>,
    /// Until the process ended.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// Of the group, the kernel's cache included, where the kernel tells.
    pub(crate) group_peak_bytes: Option<u64>,
    /// As `open_cold_seconds`, with what the server left in the cache.
    pub(crate) open_warm_seconds: Option<f64>,
    pub(crate) open_warm_disk_bytes: Option<u64>,
}

/// Requests of one block each, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Requests {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// What the server read from the disk meanwhile.
    pub(crate) disk_bytes: u64,
}

const CACHE_STATE: &str = "cold: before each turn the files of the pool are synced and dropped from the kernel's cache \
     (POSIX_FADV_DONTNEED), and the server has a fresh control group; warm: opened again in the same \
     group right after the server ended";

const NOTES: [&str; 5] = [
    "each block holds a page of two numbers and zeros, which compresses to a few bytes; blocks were \
     filled in sequence by writes of a mebibyte on four connections, so that neighbours lie together, \
     and are read and overwritten at random",
    "requests are of one block, one after the other on one connection; client, server and disk share the \
     machine; every read is verified",
    "the time to open is from the start of the process to the reply to the first read, with the memory \
     that the table of fingerprints gets before",
    "peaks of the process are VmHWM, and for its whole life what wait4 reports; the peak of the group has \
     the kernel's cache as well",
    "overwrites stay: later turns find the pool as earlier ones left it",
];

/// Measures, prints and writes the record and the plot.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let (onefold, work) = backups::program_and_work(&options.onefold, options.dir.as_deref())?;
    let variants = options.variants()?;
    for limit in variants.iter().filter_map(|one| one.limit) {
        // before the hours of a fill
        Limited::new(limit)?;
    }
    let mut plotted = Vec::new();
    for record in &options.with {
        plotted.extend(Record::<Sample>::read(record)?.samples);
    }
    let mut samples = Vec::new();
    for pages in &options.pages {
        let measured = measure_pool(options, &onefold, &work, &variants, *pages)?;
        samples.extend(measured);
        print!("{}", table(&samples));
        write(options, &onefold, &work, samples.clone())?;
        if let Some(plot) = &options.plot {
            let all: Vec<Sample> = plotted.iter().chain(&samples).cloned().collect();
            fs::write(plot, memory_plot::of(&all)).with_context(|| plot.display().to_string())?;
        }
    }
    work.end()
}

fn write(options: &Options, onefold: &Path, work: &Work, samples: Vec<Sample>) -> Result<()> {
    let version = record::first_words(Command::new(onefold).arg("--version"));
    let version = version.context("onefold --version")?;
    let most = samples.iter().map(|one| one.mapped_blocks * one.block_bytes).max();
    let dataset = Dataset {
        name: "pages of two numbers and zeros, made by this program".into(),
        digest: format!("none: the seed of reads and overwrites is {}", options.seed),
        files: 0,
        bytes: most.unwrap_or(0),
    };
    let place = format!("pools lie on {}", work.file_system()?);
    let notes: Vec<_> = NOTES.into_iter().chain([place.as_str()]).collect();
    let tools = [("onefold".into(), version)].into();
    backups::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)
}

/// A pool that was filled.
struct Pool<'a> {
    onefold: &'a Path,
    folder: PathBuf,
    content: Content,
    fill_seconds: f64,
    kept: Kept,
}

/// What `onefold volume stats --json` tells, as far as it is kept.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Kept {
    pub(super) pages: u64,
    pub(super) container_bytes: u64,
}

fn measure_pool(
    options: &Options,
    onefold: &Path,
    work: &Work,
    variants: &[Variant],
    pages: u64,
) -> Result<Vec<Sample>> {
    let shape = options.shape(pages)?;
    let folder = work.fresh("pool-of-pages")?;
    let (kept, took) = made(onefold, &folder, shape, &options.program)?;
    println!(
        "bench: {pages} pages filled in {:.1} s, {} kept, {} bytes of containers",
        took.as_secs_f64(),
        kept.pages,
        kept.container_bytes
    );
    let content = Content::filled(shape);
    let mut pool = Pool { onefold, folder, content, fill_seconds: took.as_secs_f64(), kept };
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let first = (round as usize - 1) % variants.len();
        for variant in variants[first..].iter().chain(&variants[..first]) {
            let sample = pool.measure(options, variant, round, samples.len() as u64 + 1);
            let sample = sample.with_context(|| format!("{}, {pages} pages", variant.name))?;
            println!("bench: round {round}, {}", line(&[&sample]));
            samples.push(sample);
        }
    }
    backups::remove(&pool.folder)?;
    Ok(samples)
}

/// Makes a pool below `folder` with a volume `disk` of this shape, and fills it.
pub(super) fn made(
    onefold: &Path,
    folder: &Path,
    shape: Shape,
    program: &ProgramArgs,
) -> Result<(Kept, Duration)> {
    let pool = folder.join("pool");
    let created = Command::new(onefold)
        .args(["--quiet", "volume", "create", "disk", "--pool"])
        .arg(&pool)
        .arg(format!("--size={}", shape.bytes()))
        .arg(format!("--block-size={}", shape.block_bytes))
        .args(&program.create_arg)
        .status()?;
    ensure!(created.success(), "no volume was made: {created}");
    let arguments =
        if program.fill_arg.is_empty() { &program.serve_arg } else { &program.fill_arg };
    let mut served = serve(onefold, folder, arguments, None)?;
    drop(served.connect()?);
    let filled = fill::fill(&served.address(), shape);
    let took = served.explained(filled).context("the fill")?;
    let stats =
        Command::new(onefold).args(["--json", "volume", "stats", "--pool"]).arg(&pool).output()?;
    ensure!(stats.status.success(), "onefold volume stats ended with {}", stats.status);
    let kept: Kept = serde_json::from_slice(&stats.stdout).context("onefold volume stats")?;
    ensure!(
        kept.pages >= shape.pages,
        "the pool has {} pages, expected at least {}",
        kept.pages,
        shape.pages
    );
    served.end()?;
    Ok((kept, took))
}

/// Serves the pool below `folder`.
pub(super) fn serve(
    onefold: &Path,
    folder: &Path,
    arguments: &[String],
    group: Option<&Limited>,
) -> Result<Served> {
    let (pool, socket) = (folder.join("pool"), folder.join("socket"));
    let words = ["--quiet", "serve", "--log-level", "error"].map(str::to_owned);
    let places = [("--pool", &pool), ("--unix", &socket)];
    let places = places
        .into_iter()
        .flat_map(|(name, place)| [name.to_owned(), place.to_string_lossy().into_owned()]);
    let all: Vec<String> = words.into_iter().chain(places).chain(arguments.to_vec()).collect();
    Served::start(onefold, &all, (socket, "disk"), group)
}

/// A fresh group: with the limit, or one that only counts, where such can be had.
pub(super) fn group(limit: Option<u64>) -> Result<Option<Limited>> {
    match limit {
        Some(bytes) => Limited::new(bytes).map(Some),
        None => Ok(Limited::counting().ok()),
    }
}

impl Pool<'_> {
    /// One turn; no two of a pool have the same `number`.
    fn measure(
        &mut self,
        options: &Options,
        variant: &Variant,
        round: u32,
        number: u64,
    ) -> Result<Sample> {
        forget(&self.folder)?;
        let group = group(variant.limit)?;
        let mut measured = Measured::default();
        let turn = Turn { options, number };
        let ran = self.run(turn, variant, group.as_ref(), &mut measured);
        measured.group_peak_bytes = group.as_ref().and_then(Limited::peak);
        let failure = match ran {
            Ok(()) => None,
            // that so much memory is not enough is a result
            Err(error) => match error.downcast_ref::<Ended>() {
                Some(ended) if variant.limit.is_some() => {
                    let shape = self.content.shape;
                    self.content.forget_turn(turn.overwrites(shape).map(|(block, _)| block));
                    Some(ended.to_string())
                }
                _ => return Err(error),
            },
        };
        let shape = self.content.shape;
        Ok(Sample {
            server: variant.name.clone(),
            serve_args: variant.arguments.clone(),
            limit_bytes: variant.limit,
            pages: shape.pages,
            mapped_blocks: shape.blocks,
            block_bytes: shape.block_bytes,
            round,
            kept_pages: self.kept.pages,
            container_bytes: self.kept.container_bytes,
            fill_seconds: self.fill_seconds,
            measured,
            failure,
        })
    }

    fn run(
        &mut self,
        turn: Turn<'_>,
        variant: &Variant,
        group: Option<&Limited>,
        measured: &mut Measured,
    ) -> Result<()> {
        let (onefold, folder) = (self.onefold, self.folder.clone());
        let serve = || serve(onefold, &folder, &variant.arguments, group);
        let shape = self.content.shape;
        let first = turn.reads(shape).next().expect("there is a block");
        let mut data = vec![0; shape.block_bytes as usize];

        let mut served = serve()?;
        let (mut client, took) = served.open(first * shape.block_bytes, &mut data)?;
        self.content.check(first, &data)?;
        measured.open_cold_seconds = Some(took.as_secs_f64());
        measured.open_cold_disk_bytes = Some(process::disk_read(served.process())?);
        measured.opened_peak_bytes = Some(served.peak()?);

        let reads = self.read(turn, &mut served, &mut client)?;
        measured.reads = Some(reads);
        measured.read_peak_bytes = Some(served.peak()?);
        measured.overwrites = Some(self.overwrite(turn, &mut served, &mut client)?);
        measured.peak_rss_bytes = Some(served.peak()?);
        drop(client);
        let (took, usage) = served.end()?;
        measured.end_seconds = Some(took.as_secs_f64());
        measured.peak_rss_bytes = measured.peak_rss_bytes.max(Some(usage.peak_rss));

        let mut served = serve()?;
        let (client, took) = served.open(first * shape.block_bytes, &mut data)?;
        self.content.check(first, &data)?;
        measured.open_warm_seconds = Some(took.as_secs_f64());
        measured.open_warm_disk_bytes = Some(process::disk_read(served.process())?);
        drop(client);
        served.end().map(drop)
    }

    fn read(&self, turn: Turn<'_>, served: &mut Served, client: &mut Client) -> Result<Requests> {
        let shape = self.content.shape;
        let mut data = vec![0; shape.block_bytes as usize];
        let mut timed = Timed::start(served)?;
        for block in turn.reads(shape) {
            let begun = Instant::now();
            let read = client.read(block * shape.block_bytes, &mut data);
            timed.note(begun);
            served.explained(read)?;
            self.content.check(block, &data)?;
        }
        timed.end(served)
    }

    fn overwrite(
        &mut self,
        turn: Turn<'_>,
        served: &mut Served,
        client: &mut Client,
    ) -> Result<Requests> {
        let shape = self.content.shape;
        let mut data = vec![0; shape.block_bytes as usize];
        let mut timed = Timed::start(served)?;
        for (block, page) in turn.overwrites(shape) {
            shape.write(page, &mut data);
            let begun = Instant::now();
            let written = client.write(block * shape.block_bytes, &data);
            timed.note(begun);
            served.explained(written)?;
            self.content.overwrite(block, page);
        }
        let flushed = client.flush();
        served.explained(flushed)?;
        timed.end(served)
    }
}

/// What a turn reads and overwrites.
#[derive(Clone, Copy)]
struct Turn<'a> {
    options: &'a Options,
    number: u64,
}

impl<'a> Turn<'a> {
    /// Random numbers, other ones for each turn and `kind`.
    fn drawn(self, kind: u64) -> impl Iterator<Item = u64> + use<> {
        let stream = mixed(mixed(self.options.seed ^ kind) ^ self.number);
        (0..self.options.operations).map(move |at| mixed(stream.wrapping_add(at)))
    }

    fn reads(self, shape: Shape) -> impl Iterator<Item = u64> + use<> {
        self.drawn(1).map(move |drawn| drawn % shape.blocks)
    }

    fn overwrites(self, shape: Shape) -> impl Iterator<Item = (u64, Page)> + use<> {
        let Self { options, number } = self;
        let (dedupe, pages) = (options.dedupe, self.drawn(3));
        self.drawn(2).zip(pages).zip(0..).map(move |((block, drawn), at)| {
            let page = match drawn % 100 < dedupe {
                true => shape.repeated(mixed(drawn)),
                false => Page::new(at, number),
            };
            (block % shape.blocks, page)
        })
    }
}

/// Times requests.
struct Timed {
    begun: Instant,
    disk_read: u64,
    each_us: Vec<f64>,
}

impl Timed {
    fn start(served: &Served) -> Result<Self> {
        let disk_read = process::disk_read(served.process())?;
        Ok(Self { begun: Instant::now(), disk_read, each_us: Vec::new() })
    }

    fn note(&mut self, begun: Instant) {
        self.each_us.push(begun.elapsed().as_secs_f64() * 1e6);
    }

    fn end(mut self, served: &Served) -> Result<Requests> {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.each_us.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let last = self.each_us.len() - 1;
            self.each_us[(last as f64 * share).round() as usize]
        };
        Ok(Requests {
            count: self.each_us.len() as u64,
            seconds,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            max_us: quantile(1.0),
            disk_bytes: process::disk_read(served.process())? - self.disk_read,
        })
    }
}

const MIB: f64 = (1 << 20) as f64;

/// Samples of one server and one number of pages.
pub(super) fn of<'a>(samples: &'a [Sample], server: &str, pages: u64) -> Vec<&'a Sample> {
    samples.iter().filter(|one| one.server == server && one.pages == pages).collect()
}

/// Each server and each number of pages that samples have, in their order.
pub(super) fn turns(samples: &[Sample]) -> Vec<(&str, u64)> {
    let mut turns = Vec::new();
    for one in samples {
        let turn = (one.server.as_str(), one.pages);
        if !turns.contains(&turn) {
            turns.push(turn);
        }
    }
    turns
}

/// The median of what the samples have; `None` if none has it.
pub(super) fn middle(samples: &[&Sample], value: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
    median(samples.iter().filter_map(|one| value(&one.measured)).collect())
}

/// Medians of samples of one server and one number of pages.
fn line(samples: &[&Sample]) -> String {
    let Some(one) = samples.first() else { return String::new() };
    let show = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => "-".into(),
    };
    let mib = |value: fn(&Measured) -> Option<u64>| {
        show(middle(samples, |one| Some(value(one)? as f64 / MIB)), 0)
    };
    let seconds = |value: fn(&Measured) -> Option<f64>| show(middle(samples, value), 2);
    let micros = |value: fn(&Measured) -> Option<f64>| show(middle(samples, value), 0);
    let failed = samples.iter().filter(|one| one.failure.is_some()).count();
    let failed = if failed == 0 { String::new() } else { format!("  {failed} failed") };
    format!(
        "{:<30} {:>11} {:>10} {:>10} {:>10} {:>8} {:>8} {:>9} {:>9} {:>8}{failed}",
        one.server,
        one.pages,
        mib(|one| one.opened_peak_bytes),
        mib(|one| one.peak_rss_bytes),
        mib(|one| one.group_peak_bytes),
        seconds(|one| one.open_cold_seconds),
        seconds(|one| one.open_warm_seconds),
        micros(|one| Some(one.reads?.p50_us)),
        micros(|one| Some(one.overwrites?.p50_us)),
        seconds(|one| one.end_seconds),
    )
}

/// Medians over the rounds.
fn table(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\nserver                               pages opened MiB   peak MiB  group MiB   cold s   \
         warm s   read µs  write µs    end s\n",
    );
    for (server, pages) in turns(samples) {
        table.push_str(&line(&of(samples, server, pages)));
        table.push('\n');
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        let all = format!("lab --onefold onefold --out record.json {words}");
        Line::try_parse_from(all.split_whitespace()).unwrap().options
    }

    /// A turn that succeeded.
    pub(in super::super) fn sample(server: &str, pages: u64, round: u32, seconds: f64) -> Sample {
        Sample {
            server: server.into(),
            serve_args: Vec::new(),
            limit_bytes: None,
            pages,
            mapped_blocks: pages,
            block_bytes: 512,
            round,
            kept_pages: pages,
            container_bytes: 80 * pages,
            fill_seconds: 1.0,
            measured: Measured {
                open_cold_seconds: Some(seconds),
                open_warm_seconds: Some(seconds / 2.0),
                peak_rss_bytes: Some(20 * pages),
                ..Measured::default()
            },
            failure: None,
        }
    }

    #[test]
    fn each_value_of_a_sweep_is_a_server_with_a_limit_of_its_own() {
        let swept =
            options("--serve-arg --verify --sweep --memory=256MiB,1GiB --limit-beyond 128MiB");
        let variants = swept.variants().unwrap();
        assert_eq!(variants[1].name, "onefold --memory 1GiB");
        assert_eq!(variants[1].arguments, ["--verify", "--memory", "1GiB"]);
        assert_eq!(variants[0].limit, Some(384 << 20));
        let plain = options("--label before --limit 1GiB").variants().unwrap();
        let expected = Variant { name: "before".into(), arguments: vec![], limit: Some(1 << 30) };
        assert_eq!(plain, [expected]);
        let no_size = options("--sweep --index=paper,compact --limit-beyond 1MiB");
        assert!(no_size.variants().is_err());
        assert!(sweep("--memory=").is_err() && sweep("memory=1").is_err());
    }

    #[test]
    fn a_turn_repeats_by_its_seed_and_no_two_write_the_same_new_page() {
        let options = options("--operations 1000 --dedupe 25");
        let shape = Shape { pages: 5000, blocks: 10_000, block_bytes: 512, random_bytes: 0 };
        let of = |number| -> Vec<(u64, Page)> {
            Turn { options: &options, number }.overwrites(shape).collect()
        };
        assert_eq!(of(1), of(1));
        assert!(of(1).iter().all(|(block, _)| *block < 10_000));
        let is_new = |(_, page): &&(u64, Page)| {
            *page != Page::new(0, 0) && of(2).iter().all(|(_, other)| other != page)
        };
        let new = of(1).iter().filter(is_new).count();
        // 250 expected to be repeats, most of them of pages that the other turn has not drawn
        assert!((700..=1000).contains(&new), "{new}");
    }

    #[test]
    fn a_server_that_was_killed_has_what_it_came_to() {
        let mut killed = sample("onefold", 1000, 2, 1.0);
        killed.measured = Measured { open_cold_seconds: Some(3.0), ..Measured::default() };
        killed.failure = Some("killed".into());
        let samples = [sample("onefold", 1000, 1, 1.0), killed];
        let table = table(&samples);
        let line = table.lines().last().unwrap();
        assert!(line.contains(" 2.00 ") && line.ends_with("1 failed"), "{table}");
        let text = serde_json::to_string(&samples).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Sample>>(&text).unwrap(), samples);
    }
}

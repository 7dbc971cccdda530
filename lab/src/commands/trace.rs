//! `cargo lab trace`

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::HumanCount;
use onefold_block::{BlockDevice, BlockSize};
use onefold_lab::nbd::{Client, Uri};
use onefold_lab::trace::{
    Device, Latency, Pace, PageSize, Plan, Replayed, Shape, Survey, Target, Wishes, initialise,
    replay,
};
use onefold_terminal::count::count;
use onefold_terminal::{Bar, Console, Output, ratio, size, table};
use onefold_volume::{Pool, Statistics};
use serde::Serialize;

use crate::exit::Exit;
use crate::interrupt::bar_until_signal;
use crate::pool::WorkingArgs;

const AFTER_HELP: &str = "\
A trace has a line for each operation of a block device:
  TIME PID PROCESS LBA SIZE R|W MAJOR MINOR MD5...
TIME is in nanoseconds, LBA and SIZE in sectors of 512 bytes; there is one digest for each page, which
has 4 KiB or, with as many digests as sectors, 512 bytes. That is the format of the FIU traces mail,
web and homes (SNIA IOTTA).

Examples:
  cargo lab trace generate --like mail --operations 1000000 | gzip > mail.gz
  cargo lab trace replay --pool /srv/pool mail.gz";

const REPLAY_HELP: &str = "\
A trace has digests and no content: the same digest gives the same page, another one another page. What
the trace reads before it writes it is written first, which is not timed. Then operations go to the
device as fast as it takes them, or, with --paced, at the times of the trace. Neighbouring 64 KiB are
done in the order of the trace; others overtake each other. A flush at the end is timed.

A volume that is not there is made as long as the trace needs, and so is a pool. One that has data is
written over with --overwrite only, and so is any export of a server. The deduplication
ratio is that of pages which the trace wrote: all to those that were new to the pool, zeros left out.
The compression ratio is that of all pages of the pool at the end.

Memory: 24 bytes for a page that is read before it is written, 600 bytes at most for 4,096 neighbouring
pages, and with --verify-reads 50 for each page.

Examples:
  cargo lab trace replay --pool /srv/pool mail.1.gz mail.2.gz
  cargo lab trace replay --pool /srv/pool --verify-reads --depth 64 homes.gz
  cargo lab trace replay --nbd 'nbd+unix:///disk?socket=/run/onefold.sock' \\
      --paced --overwrite web.gz --json

With --json: one document with operations, is_complete, seconds, kiops, depth, page_bytes, pages by
what was done, and reads and writes with count, mean_us, p50_us, p99_us and max_us; for a pool also
new_pages, known_pages, zero_pages, dedup_ratio and compression_ratio, which are null for an NBD
server, as are ratios of nothing.";

const GENERATE_HELP: &str = "\
Shares and footprint are by default as in one week of the traces, by table 1 of Koller and
Rangaswami, \"I/O Deduplication\" (2010), the footprint in proportion to all that is read and written.
Assumptions are the skew, the rate, operations of 4 KiB, and reads that are spread evenly.

Examples:
  cargo lab trace generate --like mail --operations 1000000 > mail
  cargo lab trace generate --like homes --duplicate-share 0.5 --footprint 1GiB \\
      --seed 7 | gzip > homes.gz";

/// Replay traces of block devices, and make some up
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Trace {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Replay(Box<Replay>),
    Generate(Generate),
}

/// Do what a trace says, and measure it
#[derive(Debug, Args)]
#[command(after_help = REPLAY_HELP)]
struct Replay {
    /// The folder of a pool to replay to; it is not looked at with --nbd
    #[arg(long, value_name = "DIR", env = "ONEFOLD_POOL", required_unless_present = "nbd")]
    pool: Option<PathBuf>,
    /// The volume of the pool
    #[arg(long, value_name = "NAME", default_value = "trace", conflicts_with = "nbd")]
    volume: String,
    #[command(flatten)]
    working: WorkingArgs,
    /// An export of an NBD server to replay to
    #[arg(long, value_name = "URI", value_parser = uri)]
    nbd: Option<Uri>,
    /// Write over what the volume or the export has
    #[arg(long)]
    overwrite: bool,
    /// How many requests are under way at once, each by a thread, and to a server by a connection
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,
    /// Begin operations at the times of the trace
    #[arg(long)]
    paced: bool,
    /// Compare each page that is read with what it must be
    #[arg(long)]
    verify_reads: bool,
    /// How many percent of a page are zeros, which compression takes away
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
    compressible: u8,
    /// The files of the trace, in order; gzip is understood
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Print a made-up trace in the shape of a real one
#[derive(Debug, Args)]
#[command(after_help = GENERATE_HELP)]
struct Generate {
    /// The trace to resemble
    #[arg(long, value_name = "TRACE")]
    like: Like,
    /// How many operations it has, each of 4 KiB
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// The part of operations that write, 0 to 1
    #[arg(long, value_name = "SHARE")]
    write_share: Option<f64>,
    /// The part of written pages that were written before, somewhere, 0 to 1
    #[arg(long, value_name = "SHARE")]
    duplicate_share: Option<f64>,
    /// Exponent of Zipf's law for blocks that are written and contents that are repeated; 0 for none
    #[arg(long, value_name = "EXPONENT")]
    skew: Option<f64>,
    /// The distinct bytes that are read and written
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    footprint: Option<usize>,
    /// The part of these that is written, 0 to 1
    #[arg(long, value_name = "SHARE")]
    written_part: Option<f64>,
    /// Operations a second, by the times in the trace
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Another number gives another trace of the same kind
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// A trace whose shape is known.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Like {
    Mail,
    Web,
    Homes,
}

impl From<Like> for Shape {
    fn from(like: Like) -> Self {
        match like {
            Like::Mail => Self::Mail,
            Like::Web => Self::Web,
            Like::Homes => Self::Homes,
        }
    }
}

fn uri(text: &str) -> Result<Uri, String> {
    text.parse().map_err(|error: anyhow::Error| format!("{error:#}"))
}

impl Trace {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.action {
            Action::Replay(replay) => replay.run(console),
            Action::Generate(generate) => generate.run(),
        }
    }
}

/// What is measured, and what of it a pool knows.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    replayed: Replayed,
    #[serde(flatten)]
    kept: Kept,
}

/// What became of the pages that were written.
#[derive(Default, Serialize)]
struct Kept {
    new_pages: Option<u64>,
    known_pages: Option<u64>,
    zero_pages: Option<u64>,
    dedup_ratio: Option<f64>,
    compression_ratio: Option<f64>,
}

impl Kept {
    /// By what a pool counted before and after.
    fn between(before: &Statistics, after: &Statistics, page_bytes: u64) -> Self {
        let (new, known) =
            (after.new_pages - before.new_pages, after.known_pages - before.known_pages);
        let ratio = |of: u64, by: u64| (by > 0).then(|| of as f64 / by as f64);
        Self {
            new_pages: Some(new),
            known_pages: Some(known),
            zero_pages: Some(after.zero_pages - before.zero_pages),
            dedup_ratio: ratio(new + known, new),
            compression_ratio: ratio(after.pages * page_bytes, after.page_bytes),
        }
    }
}

impl Replay {
    fn run(self, console: &Console) -> Result<Exit> {
        let watch = bar_until_signal(console, "what was measured will be shown")?;
        let survey = Survey::of(&self.files, &watch)?;
        let (replayed, kept) = match (&self.nbd, &self.pool) {
            (Some(uri), _) => (self.to_server(uri, &survey, &watch)?, Kept::default()),
            (None, Some(pool)) => self.to_pool(pool, &survey, &watch, console)?,
            (None, None) => unreachable!("one of them is required"),
        };
        drop(watch);
        let exit = if replayed.is_complete { Exit::Fine } else { Exit::Interrupted };
        Shown { replayed, kept }.show(console)?;
        Ok(exit)
    }

    fn to_pool(
        &self,
        folder: &Path,
        survey: &Survey,
        watch: &Bar,
        console: &Console,
    ) -> Result<(Replayed, Kept)> {
        let page_bytes = survey.page_size.bytes();
        let block_size = match survey.page_size {
            PageSize::B512 => BlockSize::B512,
            PageSize::B4096 => BlockSize::B4096,
        };
        let name = &self.volume;
        Pool::check_new(name, survey.end, block_size)?;
        let pool =
            self.working.open_or_make(folder, console).map_err(|error| match Exit::of(&error) {
                Exit::Locked => error.context(NotAlone),
                _ => error,
            })?;
        match pool.volumes().into_iter().find(|one| one.name == *name) {
            None => pool.create_volume(name, survey.end, block_size)?,
            Some(there) if there.mapped_blocks > 0 && !self.overwrite => bail!(
                "volume '{name}' has data, which a replay writes over; name another one by \
                 --volume, which is made then, or say --overwrite"
            ),
            Some(there) => ensure!(
                u64::from(there.block_size) == page_bytes,
                "volume '{name}' has blocks of {} bytes, expected {page_bytes} as the trace has; \
                 name another one by --volume, which is made then",
                there.block_size
            ),
        }
        let volume: Arc<dyn BlockDevice> = Arc::new(pool.volume(name)?);
        let target = || Box::new(Device(Arc::clone(&volume))) as Box<dyn Target>;
        let named = || format!("volume '{name}'");
        initialise(survey, &mut *target(), self.compressible, watch).with_context(named)?;
        let before = pool.statistics();
        let targets = (0..self.depth).map(|_| target()).collect();
        let replayed = replay(survey, targets, self.wishes(), watch).with_context(named)?;
        Ok((replayed, Kept::between(&before, &pool.statistics(), page_bytes)))
    }

    fn to_server(&self, uri: &Uri, survey: &Survey, watch: &Bar) -> Result<Replayed> {
        ensure!(
            self.overwrite,
            "a replay writes over what the export has; say --overwrite if nobody needs that"
        );
        let mut first = Client::connect(uri)?;
        ensure!(
            !first.is_read_only(),
            "export '{}' is read-only, as a snapshot is, and a replay writes; make a clone of it by \
             `onefold volume clone`",
            uri.export
        );
        ensure!(
            self.depth == 1 || first.is_shared(),
            "the server does not share writes between connections; --depth 1 needs only one"
        );
        initialise(survey, &mut first, self.compressible, watch)?;
        let mut targets: Vec<Box<dyn Target>> = vec![Box::new(first)];
        while targets.len() < self.depth.into() {
            targets.push(Box::new(Client::connect(uri)?));
        }
        replay(survey, targets, self.wishes(), watch)
    }

    fn wishes(&self) -> Wishes {
        Wishes {
            verify: self.verify_reads,
            compressible: self.compressible,
            pace: if self.paced { Pace::AsRecorded } else { Pace::Unpaced },
        }
    }
}

/// Another process has the pool of a replay.
#[derive(Debug)]
pub(crate) struct NotAlone;

impl fmt::Display for NotAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a replay to a pool needs it for itself")
    }
}

impl Shown {
    fn show(&self, console: &Console) -> Result<()> {
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(self)?;
        } else {
            for line in table::lines(&self.rows(), &[]) {
                output.line(line)?;
            }
        }
        output.finish()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let Replayed { operations, seconds, kiops, depth, .. } = &self.replayed;
        let whole = if self.replayed.is_complete { "" } else { ", STOPPED before the end" };
        let mut rows = vec![
            ("operations", format!("{} in {seconds:.2} s{whole}", HumanCount(*operations))),
            ("speed", format!("{kiops:.2} kIOPS, {depth} at once")),
            ("reads", latency(&self.replayed.reads)),
            ("writes", latency(&self.replayed.writes)),
            ("initialised before", pages(self.replayed.initialised_pages)),
        ];
        if self.replayed.verified_pages > 0 {
            rows.push(("read as written", pages(self.replayed.verified_pages)));
        }
        if self.replayed.latest_start_seconds > 0.0 {
            let late = self.replayed.latest_start_seconds * 1e3;
            rows.push(("latest start", format!("{late:.1} ms after its time")));
        }
        for (name, ratio) in [
            ("deduplication ratio", self.kept.dedup_ratio),
            ("compression ratio", self.kept.compression_ratio),
        ] {
            if let Some(ratio) = ratio {
                rows.push((name, ratio::times(ratio)));
            }
        }
        rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
    }
}

fn latency(latency: &Latency) -> String {
    let Latency { count, p50_us, p99_us, max_us, .. } = latency;
    if *count == 0 {
        return "none".into();
    }
    let count = HumanCount(*count);
    format!("{count}, p50 {p50_us:.1} µs, p99 {p99_us:.1} µs, longest {max_us:.0} µs")
}

fn pages(number: u64) -> String {
    count(number, "page", "pages")
}

impl Generate {
    fn run(self) -> Result<Exit> {
        let usual = Shape::from(self.like).plan(self.operations);
        let plan = Plan {
            write_share: self.write_share.unwrap_or(usual.write_share),
            duplicate_share: self.duplicate_share.unwrap_or(usual.duplicate_share),
            skew: self.skew.unwrap_or(usual.skew),
            footprint: self.footprint.map_or(usual.footprint, |bytes| bytes as u64),
            written_part: self.written_part.unwrap_or(usual.written_part),
            rate: self.rate.unwrap_or(usual.rate),
            seed: self.seed,
            ..usual
        };
        let mut output = Output::new();
        for operation in plan.generate()? {
            output.line(operation.to_string())?;
            if output.is_closed() {
                break;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

//! `onefold volume`

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::HumanBytes;
use onefold_block::{BlockDevice, BlockSize};
use onefold_volume::{Codec, Hash, Pool, Scrubbed, Statistics, VolumeError, VolumeInfo};
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::output::Output;
use crate::pool::PoolArgs;
use crate::size;
use crate::table;

const AFTER_HELP: &str = "\
A volume is a block device that keeps each distinct page once, together with all volumes of its pool.
A pool is a folder. One process has it at a time: while `onefold serve` has it, nothing here can.

Examples:
  onefold volume create --pool /srv/pool --size 100GiB disk
  onefold volume list --pool /srv/pool
  onefold volume snapshot --pool /srv/pool disk disk-monday
  onefold serve --pool /srv/pool";

const CREATE_HELP: &str = "\
Examples:
  onefold volume create --pool /srv/pool --size 100GiB disk
  onefold volume create --pool /srv/pool --size 1TiB --block-size 512 --fingerprint sha3-256 disk";

const LIST_HELP: &str = "\
Examples:
  onefold volume list --pool /srv/pool
  onefold volume list --pool /srv/pool --json

With --json: one document, a list; each volume has name, size, block_size, is_read_only and
mapped_blocks.";

const SNAPSHOT_HELP: &str = "\
Examples:
  onefold volume snapshot --pool /srv/pool disk disk-monday";

const CLONE_HELP: &str = "\
Examples:
  onefold volume clone --pool /srv/pool disk-monday disk-to-try-things";

const RESIZE_HELP: &str = "\
Examples:
  onefold volume resize --pool /srv/pool --size 200GiB disk
  onefold volume resize --pool /srv/pool --size 10GiB --shrink disk";

const DELETE_HELP: &str = "\
Examples:
  onefold volume delete --pool /srv/pool disk-monday";

const CHECK_HELP: &str = "\
Examples:
  onefold volume check --pool /srv/pool

With --json: one document with problems, a list of texts.";

const SCRUB_HELP: &str = "\
Examples:
  onefold volume scrub --pool /srv/pool

With --json: one document with pages and bad; each bad page has container, slot, problem and blocks.";

const STATS_HELP: &str = "\
Examples:
  onefold volume stats --pool /srv/pool

With --json: one document with mapped_bytes, pages, page_bytes, container_bytes, dedup_ratio and
total_reduction.";

const COMPACT_HELP: &str = "\
Examples:
  onefold volume compact --pool /srv/pool";

/// Make and manage deduplicated volumes
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Volume {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    List(List),
    Snapshot(Snapshot),
    Clone(CloneArgs),
    Resize(Resize),
    Delete(Delete),
    Check(Check),
    Scrub(Scrub),
    Stats(Stats),
    Compact(Compact),
}

/// Make an empty volume, and the pool if there is none
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
struct Create {
    #[command(flatten)]
    pool: PoolArgs,
    /// How long it is
    #[arg(long, value_parser = size::parse)]
    size: usize,
    /// The unit in which it is kept: 512 or 4KiB
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "4KiB")]
    block_size: BlockSize,
    /// What names the pages of a new pool
    #[arg(long, value_name = "HASH")]
    fingerprint: Option<Fingerprint>,
    /// What to call it
    name: String,
}

/// What names pages.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Fingerprint {
    #[value(name = "sha3-256")]
    Sha3,
    Blake3,
}

/// List the volumes
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Keep a volume as it is now, as one that cannot be written
#[derive(Debug, Args)]
#[command(after_help = SNAPSHOT_HELP)]
struct Snapshot {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume
    name: String,
    /// What to call the snapshot
    snapshot: String,
}

/// Make a volume as another one, or a snapshot, is now
#[derive(Debug, Args)]
#[command(after_help = CLONE_HELP)]
struct CloneArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume or snapshot
    name: String,
    /// What to call the clone
    clone: String,
}

/// Make a volume longer or shorter
#[derive(Debug, Args)]
#[command(after_help = RESIZE_HELP)]
struct Resize {
    #[command(flatten)]
    pool: PoolArgs,
    /// How long it is to be
    #[arg(long, value_parser = size::parse)]
    size: usize,
    /// Let it become shorter: what lies behind the new end is lost
    #[arg(long)]
    shrink: bool,
    /// The volume
    name: String,
}

/// Delete a volume or snapshot
#[derive(Debug, Args)]
#[command(after_help = DELETE_HELP)]
struct Delete {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume
    name: String,
}

/// Find out whether maps, references and containers fit together
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
struct Check {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Read every page and compute its fingerprint anew
#[derive(Debug, Args)]
#[command(after_help = SCRUB_HELP)]
struct Scrub {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Tell what deduplication and compression save
#[derive(Debug, Args)]
#[command(after_help = STATS_HELP)]
struct Stats {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Give back the space of containers of which less than half is used
#[derive(Debug, Args)]
#[command(after_help = COMPACT_HELP)]
struct Compact {
    #[command(flatten)]
    pool: PoolArgs,
}

fn block_size(text: &str) -> Result<BlockSize, String> {
    match size::parse(text)? {
        512 => Ok(BlockSize::B512),
        4096 => Ok(BlockSize::B4096),
        _ => Err("expected 512 or 4KiB".into()),
    }
}

impl Volume {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.action {
            Action::Create(create) => create.run(console),
            Action::List(list) => list.run(console),
            Action::Snapshot(one) => copy(&one.pool, &one.name, &one.snapshot, true, console),
            Action::Clone(one) => copy(&one.pool, &one.name, &one.clone, false, console),
            Action::Resize(resize) => resize.run(console),
            Action::Delete(delete) => {
                delete.pool.open(console)?.delete_volume(&delete.name)?;
                console.notice(format_args!("deleted volume '{}'", delete.name));
                Ok(Exit::Fine)
            }
            Action::Check(check) => check.run(console),
            Action::Scrub(scrub) => scrub.run(console),
            Action::Stats(stats) => stats.run(console),
            Action::Compact(compact) => compact.run(console),
        }
    }
}

impl Create {
    fn run(self, console: &Console) -> Result<Exit> {
        let folder = self.pool.folder(true)?;
        let hash = match self.fingerprint {
            Some(Fingerprint::Sha3) => Hash::Sha3,
            Some(Fingerprint::Blake3) | None => Hash::Blake3,
        };
        let codec = self.pool.codec().unwrap_or(Codec::Zstd);
        match Pool::create_with(&folder, hash, codec) {
            Ok(()) => console.notice(format_args!("made a pool in '{}'", self.pool.pool.display())),
            // it may be the pool that is meant
            Err(VolumeError::NotEmpty { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let pool = self.pool.open_in(folder, console)?;
        if self.fingerprint.is_some() && pool.hash() != hash {
            bail!("the pool names its pages otherwise; leave out --fingerprint");
        }
        if self.pool.codec().is_some_and(|codec| codec != pool.own_codec()) {
            bail!("the pool compresses its pages otherwise; give --compression to `onefold serve`");
        }
        pool.create_volume(&self.name, self.size as u64, self.block_size)?;
        let size = HumanBytes(self.size as u64);
        console.notice(format_args!("made volume '{}' of {size}", self.name));
        Ok(Exit::Fine)
    }
}

/// Makes `to` as `from` is.
fn copy(
    pool: &PoolArgs,
    from: &str,
    to: &str,
    is_read_only: bool,
    console: &Console,
) -> Result<Exit> {
    pool.open(console)?.clone_volume(from, to, is_read_only)?;
    let kind = if is_read_only { "snapshot" } else { "clone" };
    console.notice(format_args!("made {kind} '{to}' of '{from}'"));
    Ok(Exit::Fine)
}

/// A volume in JSON.
#[derive(Serialize)]
struct Shown {
    name: String,
    size: u64,
    block_size: u32,
    is_read_only: bool,
    mapped_blocks: u64,
}

impl List {
    fn run(self, console: &Console) -> Result<Exit> {
        let volumes = self.pool.open(console)?.volumes();
        let mut output = Output::new();
        if console.is_json() {
            let shown = |one: VolumeInfo| Shown {
                name: one.name,
                size: one.size,
                block_size: one.block_size,
                is_read_only: one.is_read_only,
                mapped_blocks: one.mapped_blocks,
            };
            output.json_document(&volumes.into_iter().map(shown).collect::<Vec<_>>())?;
        } else if volumes.is_empty() {
            output.line("the pool has no volumes")?;
        } else {
            let head = ["volume", "size", "used", "block size", ""].map(str::to_owned).to_vec();
            let row = |one: &VolumeInfo| {
                vec![
                    one.name.clone(),
                    HumanBytes(one.size).to_string(),
                    HumanBytes(one.mapped_blocks * u64::from(one.block_size)).to_string(),
                    one.block_size.to_string(),
                    if one.is_read_only { "snapshot" } else { "" }.to_owned(),
                ]
            };
            let rows: Vec<_> = std::iter::once(head).chain(volumes.iter().map(row)).collect();
            for line in table::lines(&rows, &[1, 2, 3]) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

impl Resize {
    fn run(self, console: &Console) -> Result<Exit> {
        let pool = self.pool.open(console)?;
        let volume = pool.volume(&self.name)?;
        let (before, size) = (volume.size(), self.size as u64);
        if size < before && !self.shrink {
            let (before, size) = (HumanBytes(before), HumanBytes(size));
            bail!(
                "volume '{}' has {before}: {size} would lose what lies behind them; say --shrink \
                 if that is meant",
                self.name
            );
        }
        volume.resize(size).with_context(|| format!("volume '{}'", self.name))?;
        console.notice(format_args!("volume '{}' has {}", self.name, HumanBytes(size)));
        Ok(Exit::Fine)
    }
}

/// What a check found, in JSON.
#[derive(Serialize)]
struct Problems {
    problems: Vec<String>,
}

impl Check {
    fn run(self, console: &Console) -> Result<Exit> {
        let problems = self.pool.open(console)?.check();
        let exit = if problems.is_empty() { Exit::Fine } else { Exit::Fatal };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&Problems { problems })?;
        } else if problems.is_empty() {
            output.line("no problems found; whether pages can be read is what scrub tells")?;
        } else {
            problems.iter().try_for_each(|problem| output.line(problem))?;
        }
        output.finish()?;
        Ok(exit)
    }
}

/// What a scrub found, in JSON.
#[derive(Serialize)]
struct ShownScrub {
    pages: u64,
    bad: Vec<ShownPage>,
}

#[derive(Serialize)]
struct ShownPage {
    container: String,
    slot: u32,
    problem: String,
    blocks: Vec<ShownBlock>,
}

#[derive(Serialize)]
struct ShownBlock {
    volume: String,
    block: u64,
}

impl Scrub {
    fn run(self, console: &Console) -> Result<Exit> {
        let Scrubbed { pages, bad } = self.pool.open(console)?.scrub()?;
        let exit = if bad.is_empty() { Exit::Fine } else { Exit::Fatal };
        let mut output = Output::new();
        if console.is_json() {
            let block = |(volume, block)| ShownBlock { volume, block };
            let page = |one: onefold_volume::BadPage| ShownPage {
                container: one.container,
                slot: one.slot,
                problem: one.problem,
                blocks: one.blocks.into_iter().map(block).collect(),
            };
            output
                .json_document(&ShownScrub { pages, bad: bad.into_iter().map(page).collect() })?;
        } else {
            for one in &bad {
                output.line(format!("{}, page {}: {}", one.container, one.slot, one.problem))?;
                for (volume, block) in &one.blocks {
                    output.line(format!("  block {block} of volume '{volume}'"))?;
                }
            }
            output
                .line(format!("{pages} pages are as they were written, {} are not", bad.len()))?;
        }
        output.finish()?;
        Ok(exit)
    }
}

/// Sums in JSON.
#[derive(Serialize)]
struct Sums {
    mapped_bytes: u64,
    pages: u64,
    page_bytes: u64,
    container_bytes: u64,
    dedup_ratio: f64,
    total_reduction: f64,
}

impl Stats {
    fn run(self, console: &Console) -> Result<Exit> {
        let Statistics { mapped_blocks, mapped_bytes, pages, page_bytes, container_bytes, .. } =
            self.pool.open(console)?.statistics();
        let ratio = |of: u64, by: u64| if by == 0 { 1.0 } else { of as f64 / by as f64 };
        let sums = Sums {
            mapped_bytes,
            pages,
            page_bytes,
            container_bytes,
            dedup_ratio: ratio(mapped_blocks, pages),
            total_reduction: ratio(mapped_bytes, container_bytes),
        };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&sums)?;
        } else {
            let rows = [
                ("written blocks", HumanBytes(sums.mapped_bytes).to_string()),
                ("distinct pages", sums.pages.to_string()),
                ("their stored bytes", HumanBytes(sums.page_bytes).to_string()),
                ("containers", HumanBytes(sums.container_bytes).to_string()),
                ("deduplication ratio", format!("{:.2}", sums.dedup_ratio)),
                ("total reduction", format!("{:.2}", sums.total_reduction)),
            ];
            let rows: Vec<_> = rows.map(|(name, value)| vec![name.to_owned(), value]).to_vec();
            for line in table::lines(&rows, &[1]) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

impl Compact {
    fn run(self, console: &Console) -> Result<Exit> {
        let pool = self.pool.open(console)?;
        let before = pool.statistics().container_bytes;
        while pool.compact()? {}
        let after = pool.statistics().container_bytes;
        let freed = HumanBytes(before.saturating_sub(after));
        console.notice(format_args!("gave back {freed}"));
        Ok(Exit::Fine)
    }
}

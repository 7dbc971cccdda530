//! `onefold volume`

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Command, Subcommand};
use indicatif::HumanBytes;
use onefold_block::BlockSize;
use onefold_store::tree::Time;
use onefold_volume::Pool;
use serde::Serialize;

use super::volume_clone::CloneArgs;
#[cfg(feature = "cluster")]
use super::volume_move::Move;
use super::volume_stream::{Export, Import};
#[cfg(not(feature = "cluster"))]
use crate::commands::absent::Absent as Move;
use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::output::Output;
use crate::pool::{Doer, PoolArgs, WorkingArgs};
use crate::ratio;
use crate::service::answer::{Answer, Shown, ShownBlock, ShownDetails, ShownPage};
use crate::service::request::{Fingerprint, Request};
use crate::service::space::ShownStored;
use crate::size;
use crate::table;
use crate::time;

const AFTER_HELP: &str = "\
A volume is a block device that shares its pages with all volumes of its pool: each distinct page is
stored once. A pool is a folder, which one process uses at a time. While `onefold serve` uses it, these
commands send their requests to that process, and its clients see the effects immediately. With --cluster
the volumes are in a cluster of Ceph; see docs/cluster.md.

Examples:
  onefold volume create --pool /srv/pool --size 100GiB disk
  onefold volume list --pool /srv/pool
  onefold volume snapshot --pool /srv/pool disk disk-monday
  onefold serve --pool /srv/pool";

const CREATE_HELP: &str = "\
Examples:
  onefold volume create --pool /srv/pool --size 100GiB disk
  onefold volume create --pool /srv/pool --size 1TiB --block-size 512 \\
      --fingerprint sha3-256 disk

With --json: one document, the volume as `onefold volume info` shows it.";

const LIST_HELP: &str = "\
Examples:
  onefold volume list --pool /srv/pool
  onefold volume list --pool /srv/pool --json

With --json: one document, a list; each volume has name, size, block_size, is_read_only and
mapped_blocks, and in a cluster gateway, shard and shard_unique_bytes. There mapped_blocks is null unless a
gateway that can be asked has the volume, and gateway is missing if none has it. shard_unique_bytes is what the
volume and its snapshots and clones use of containers that no other volume uses, once that was counted.";

const INFO_HELP: &str = "\
Own pages are pages that no other volume of the pool uses: deleting the volume frees them. Bytes of
pages are counted after compression.

Examples:
  onefold volume info --pool /srv/pool disk
  onefold volume info --pool /srv/pool --json disk

With --json: one document with name, size, block_size, is_read_only, mapped_blocks, mapped_bytes,
own_pages, own_bytes, shared_pages, shared_bytes, dedup_ratio, made (seconds since 1970), source (the
volume that it was made from, if it still exists) and copies (volumes that were made from this one); in a cluster
also shard and shard_unique_bytes, as `onefold volume list` has them.";

const SNAPSHOT_HELP: &str = "\
Examples:
  onefold volume snapshot --pool /srv/pool disk disk-monday

With --json: one document, the volume as `onefold volume info` shows it.";

const RESIZE_HELP: &str = "\
Clients that have the volume open see the new size when they reconnect.

Examples:
  onefold volume resize --pool /srv/pool --size 200GiB disk
  onefold volume resize --pool /srv/pool --size 10GiB --shrink disk

With --json: one document, the volume as `onefold volume info` shows it.";

const DELETE_HELP: &str = "\
Fails if clients of `onefold serve` have the volume open, unless --force is given.

Examples:
  onefold volume delete --pool /srv/pool disk-monday
  onefold volume delete --pool /srv/pool --force disk

With --json: one document with name.";

const RENAME_HELP: &str = "\
Fails if clients of `onefold serve` have the volume open, unless --force is given, which closes their
connections. Snapshots and clones of the volume are not affected. `onefold volume info` no longer shows
from which volume it was made.

Examples:
  onefold volume rename --pool /srv/pool disk root

With --json: one document, the volume as `onefold volume info` shows it.";

const ROLLBACK_HELP: &str = "\
Gives the volume the content and size of the snapshot, immediately and durably. All later changes to the
volume are lost: take a snapshot first if you may need them. Fails if clients of `onefold serve` have
the volume open, unless --force is given, which closes their connections.

Examples:
  onefold volume rollback --pool /srv/pool disk disk-monday

With --json: one document, the volume as `onefold volume info` shows it.";

const CHECK_HELP: &str = "\
Compares the reference count of each page with the maps of all volumes, without reading pages, and names
parts of maps and tables that cannot be read. If the pool is served, clients are not blocked: the check
skips and counts pages that are written, erased or moved while it counts them. Its counters, four bytes
per page, take at most a quarter of the memory for maps and tables, or 2 MiB if that is more: it counts
in as many passes as that needs.

--repair is for a damaged pool that is not served. Copy the pool's folder first. The repair restores the
checkpoint and all later changes up to the first one that is lost or damaged. It recreates footers of
containers, `writer` and `pool` where other files have the information. Blocks and pages of which only a
damaged part of a map or table knew are lost, and are named. It copies all that it gives up to files
named lost-... in the folder. Then it checks the pool.

With --cluster it repairs the shards that no gateway has, and names those that one has: stop that gateway first.
It restores the checkpoint of a shard and all later changes up to the first one that is lost or damaged. It copies
what it gives up to objects of the shard in the namespace, which are removed with the last volume of the shard. It
repairs no containers: `onefold volume scrub` finds what is lost in them. Containers that only the given-up changes
used are leaks from then on, which gateways and `onefold cluster fsck --repair` remove.

Examples:
  onefold volume check --pool /srv/pool
  onefold volume check --pool /srv/pool --repair

With --json: one document with pages (compared), changed (skipped), problems (a list of at most 1000
texts) and more (the number of further problems); with --repair also settled (the repaired problems, a
list of texts) and kept (a list of files).";

const SCRUB_HELP: &str = "\
If the pool is served, clients are not blocked and share the disk with the scrub. It reads the pages
that volumes used when it began and still use when it reaches them. In a cluster it notes damaged containers, as
gateways do when they scrub. Gateways then warn the users of every volume that is affected.

Examples:
  onefold volume scrub --pool /srv/pool

With --json: one document with pages, bad (at most 10,000 lost pages), more (the number of further
lost pages), unread (why maps could not be read to their end, so that pages were left out, or null) and
unanswered (how many pages could not be read just now, and the problem of the first; or null). Each bad
page has container, slot, problem, blocks (at most 100 that map to it) and more_blocks (the number of
further blocks). In a cluster cycle says how gateways scrub all containers: cycle (its number), begun,
ended (when the last complete one ended, or null; seconds since 1970), is_running, containers and
damaged.";

const STATS_HELP: &str = "\
Examples:
  onefold volume stats --pool /srv/pool

With --json: one document with format_version, mapped_bytes, pages, page_bytes, container_bytes,
reclaimable_bytes, dedup_ratio, total_reduction and memory: the bytes of the table of fingerprints and for how many
pages they are (table_bytes, table_capacity), those of maps and tables of pages, how many are in memory
and may be (node_bytes, resident_node_bytes, most_node_bytes), and since the pool was opened the steps
that read none of them, those that were read, and those that would not have been with twice the memory
(node_hits, node_misses, node_misses_for_want). In a cluster also cluster, as `onefold cluster quota` shows it, and
damaged_volumes, if scrubs found lost pages.";

const COMPACT_HELP: &str = "\
Examples:
  onefold volume compact --pool /srv/pool

With --json: one document with gave_back_bytes.";

const UPGRADE_HELP: &str = "\
Earlier programs cannot open the pool afterwards, and there is no way back. Copy the pool's folder first,
while no process uses it. Volumes, snapshots and clones stay as they are, and share the same pages.

Fails if the pool is served, and if it is damaged. Takes as long as opening the pool and writing a
checkpoint. If the command is stopped or the power fails, the pool has the one version or the other, and
the command can be repeated.

Examples:
  onefold volume upgrade --pool /srv/pool

With --json: one document with format_version and previous_format_version, which are equal if the pool
had the newest version already.";

/// `volume`, whose actions show only those options for pool operation in their help that affect them.
/// All of them are accepted, because they are the same wherever a pool is opened.
pub(crate) fn showing_what_matters(volume: Command) -> Command {
    volume.mut_subcommands(|action| {
        if cfg!(not(feature = "cluster")) && action.get_name() == "move" {
            return action;
        }
        let shown: &[&str] = match action.get_name() {
            "create" => &["compression"],
            "import" => &["memory", "index_memory", "index", "compression", "verify", "quota"],
            _ => &[],
        };
        WorkingArgs::showing(action, shown)
    })
}

/// Create and manage deduplicated volumes
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
    Info(Info),
    Snapshot(Snapshot),
    Clone(CloneArgs),
    Resize(Resize),
    Delete(Delete),
    Rename(Rename),
    Rollback(Rollback),
    Export(Export),
    Import(Import),
    Check(Check),
    Scrub(Scrub),
    Stats(Stats),
    Compact(Compact),
    #[cfg_attr(not(feature = "cluster"), command(hide = true))]
    Move(Move),
    Upgrade(Upgrade),
}

/// Create an empty volume, and the pool if none exists
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
struct Create {
    #[command(flatten)]
    pool: PoolArgs,
    /// The size of the volume
    #[arg(long, value_parser = size::parse)]
    size: usize,
    /// The block size, in which pages are stored: 512 or 4KiB
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "4KiB")]
    block_size: BlockSize,
    /// The fingerprint that identifies pages of a new pool
    #[arg(long, value_name = "HASH")]
    fingerprint: Option<Fingerprint>,
    /// The name of the volume
    name: String,
}

/// List the volumes
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Show one volume, and the space that only it uses
#[derive(Debug, Args)]
#[command(after_help = INFO_HELP)]
struct Info {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume
    name: String,
}

/// Make a read-only snapshot of a volume
#[derive(Debug, Args)]
#[command(after_help = SNAPSHOT_HELP)]
struct Snapshot {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume
    name: String,
    /// The name of the snapshot
    snapshot: String,
}

/// Change the size of a volume
#[derive(Debug, Args)]
#[command(after_help = RESIZE_HELP)]
struct Resize {
    #[command(flatten)]
    pool: PoolArgs,
    /// The new size
    #[arg(long, value_parser = size::parse)]
    size: usize,
    /// Allow a smaller size: bytes after the new end are lost
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
    /// Delete it even if clients have it open, and close their connections
    #[arg(long)]
    force: bool,
    /// The volume
    name: String,
}

/// Rename a volume or snapshot
#[derive(Debug, Args)]
#[command(after_help = RENAME_HELP)]
struct Rename {
    #[command(flatten)]
    pool: PoolArgs,
    /// Rename it even if clients have it open, and close their connections
    #[arg(long)]
    force: bool,
    /// The volume
    name: String,
    /// The new name
    to: String,
}

/// Reset a volume to one of its snapshots
#[derive(Debug, Args)]
#[command(after_help = ROLLBACK_HELP)]
struct Rollback {
    #[command(flatten)]
    pool: PoolArgs,
    /// Roll it back even if clients have it open, and close their connections
    #[arg(long)]
    force: bool,
    /// The volume
    name: String,
    /// The snapshot
    snapshot: String,
}

/// Check that maps, reference counts and containers are consistent
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
struct Check {
    #[command(flatten)]
    pool: PoolArgs,
    /// First repair a damaged pool: restore all that is intact, and give up the rest
    #[arg(long)]
    repair: bool,
}

/// The findings of a check, and of the repair before it, in JSON.
#[derive(Serialize)]
struct Repaired<T> {
    #[serde(flatten)]
    found: T,
    settled: Vec<String>,
    kept: Vec<String>,
}

/// Read every page and verify its fingerprint
#[derive(Debug, Args)]
#[command(after_help = SCRUB_HELP)]
struct Scrub {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Show what deduplication and compression save
#[derive(Debug, Args)]
#[command(after_help = STATS_HELP)]
struct Stats {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Free the unused space of containers that are less than half used
#[derive(Debug, Args)]
#[command(after_help = COMPACT_HELP)]
struct Compact {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Give the pool the newest version of its format
#[derive(Debug, Args)]
#[command(after_help = UPGRADE_HELP)]
struct Upgrade {
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
            Action::Info(info) => info.run(console),
            Action::Snapshot(snapshot) => snapshot.run(console),
            Action::Clone(clone) => clone.run(console),
            Action::Resize(resize) => resize.run(console),
            Action::Delete(delete) => delete.run(console),
            Action::Rename(rename) => rename.run(console),
            Action::Rollback(rollback) => rollback.run(console),
            Action::Export(export) => export.run(console),
            Action::Import(import) => import.run(console),
            Action::Check(check) => check.run(console),
            Action::Scrub(scrub) => scrub.run(console),
            Action::Stats(stats) => stats.run(console),
            Action::Compact(compact) => compact.run(console),
            #[cfg(feature = "cluster")]
            Action::Move(moved) => moved.run(console),
            #[cfg(not(feature = "cluster"))]
            Action::Move(absent) => absent.refuse(crate::cluster::Unavailable),
            Action::Upgrade(upgrade) => upgrade.run(console),
        }
    }
}

/// Creates or changes the volume `name` by `request`, then prints `done`, or with --json the volume.
pub(super) fn change(
    mut doer: Doer<'_>,
    request: Request,
    name: String,
    done: &str,
    console: &Console,
) -> Result<Exit> {
    expect_done(&doer.ask(request)?)?;
    console.notice(done);
    if console.is_json() {
        show(&mut doer, name, done)?;
    }
    Ok(Exit::Fine)
}

/// Writes the volume `name` as JSON, after the change `done`.
pub(super) fn show(doer: &mut Doer<'_>, name: String, done: &str) -> Result<()> {
    let shown = doer.ask(Request::Info { name });
    match shown.with_context(|| format!("{done}, but it cannot be shown"))? {
        Answer::Volume(found) => document(&found),
        other => Err(strange(&other)),
    }
}

fn expect_done(answer: &Answer) -> Result<()> {
    if *answer == Answer::Done { Ok(()) } else { Err(strange(answer)) }
}

/// Writes one JSON document to standard output.
fn document(value: &impl Serialize) -> Result<()> {
    let mut output = Output::new();
    output.json_document(value)?;
    output.finish()
}

/// The error for an answer of the wrong kind, such as a server of another version might give.
fn strange(answer: &Answer) -> anyhow::Error {
    anyhow!("the server of the pool gave an unexpected answer: {answer:?}")
}

impl Create {
    fn run(self, console: &Console) -> Result<Exit> {
        // before a pool is created needlessly
        Pool::check_new(&self.name, self.size as u64, self.block_size)?;
        let hash = self.fingerprint.unwrap_or(Fingerprint::Blake3).hash();
        self.pool.make(hash, console)?;
        let request = Request::Create {
            name: self.name.clone(),
            size: self.size as u64,
            block_size: self.block_size.bytes(),
            fingerprint: self.fingerprint,
            compression: self.pool.compression(),
        };
        let size = HumanBytes(self.size as u64);
        let done = format!("made volume '{}' of {size}", self.name);
        change(self.pool.doer(console)?, request, self.name, &done, console)
    }
}

impl Snapshot {
    fn run(self, console: &Console) -> Result<Exit> {
        let Self { pool, name: from, snapshot: to } = self;
        let done = format!("made snapshot '{to}' of '{from}'");
        let request = Request::Copy { from, to: to.clone(), is_snapshot: true };
        change(pool.doer(console)?, request, to, &done, console)
    }
}

impl List {
    fn run(self, console: &Console) -> Result<Exit> {
        let volumes = match self.pool.ask(Request::List, console)? {
            Answer::Volumes(volumes) => volumes,
            other => return Err(strange(&other)),
        };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&volumes)?;
        } else if volumes.is_empty() {
            output.line("the pool has no volumes")?;
        } else {
            let in_cluster = volumes.iter().any(|one| one.shard.is_some());
            let cells = |cells: [String; 5], unique: String| {
                let [name, size, used, block_size, kind] = cells;
                let unique = in_cluster.then_some(unique);
                [name, size, used].into_iter().chain(unique).chain([block_size, kind]).collect()
            };
            let head = ["volume", "size", "used", "block size", ""].map(str::to_owned);
            let head: Vec<String> = cells(head, "only its shard's".to_owned());
            let used = |bytes: u64| HumanBytes(bytes).to_string();
            let row = |one: &Shown| {
                let unique = one.shard_unique_bytes.map_or_else(|| "not counted".to_owned(), used);
                let row = [
                    one.name.clone(),
                    HumanBytes(one.size).to_string(),
                    one.mapped_bytes().map_or_else(|| "not known".to_owned(), used),
                    one.block_size.to_string(),
                    if one.is_read_only { "snapshot" } else { "" }.to_owned(),
                ];
                cells(row, unique)
            };
            let rows: Vec<_> = std::iter::once(head).chain(volumes.iter().map(row)).collect();
            let right: &[usize] = if in_cluster { &[1, 2, 3, 4] } else { &[1, 2, 3] };
            for line in table::lines(&rows, right) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

impl Info {
    fn run(self, console: &Console) -> Result<Exit> {
        let found = match self.pool.ask(Request::Info { name: self.name }, console)? {
            Answer::Volume(found) => found,
            other => return Err(strange(&other)),
        };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&found)?;
        } else {
            for line in table::lines(&described(&found), &[]) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

/// A volume as lines of a name and a value.
fn described(one: &ShownDetails) -> Vec<Vec<String>> {
    let pages = |pages: u64, bytes: u64| format!("{pages}, {}", HumanBytes(bytes));
    let kind = if one.volume.is_read_only { "snapshot" } else { "volume" };
    let mut rows = vec![
        (kind, one.volume.name.clone()),
        ("size", HumanBytes(one.volume.size).to_string()),
        ("block size", one.volume.block_size.to_string()),
        ("used", HumanBytes(one.mapped_bytes).to_string()),
        ("own pages", pages(one.own_pages, one.own_bytes)),
        ("shared pages", pages(one.shared_pages, one.shared_bytes)),
        ("deduplication ratio", ratio::times(one.dedup_ratio)),
    ];
    if let Some(made) = one.made {
        let secs = i64::try_from(made).unwrap_or(i64::MAX);
        rows.push(("made", time::local(Time { secs, nanos: 0 })));
    }
    if one.volume.shard.is_some() {
        let unique = one.volume.shard_unique_bytes;
        let unique =
            unique.map_or("not counted yet".to_owned(), |bytes| HumanBytes(bytes).to_string());
        rows.push(("only its shard's", unique));
    }
    rows.extend(one.source.clone().map(|source| ("made from", source)));
    rows.extend(one.copies.iter().map(|copy| ("copy", copy.clone())));
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}

impl Resize {
    fn run(self, console: &Console) -> Result<Exit> {
        let (size, may_shrink) = (self.size as u64, self.shrink);
        let done = format!("volume '{}' has {}", self.name, HumanBytes(size));
        let request = Request::Resize { name: self.name.clone(), size, may_shrink };
        let doer = self.pool.doer(console)?;
        change(doer, request, self.name, &done, console)
    }
}

/// A deleted volume in JSON.
#[derive(Serialize)]
struct Deleted {
    name: String,
}

impl Delete {
    fn run(self, console: &Console) -> Result<Exit> {
        let done = format!("deleted volume '{}'", self.name);
        let request = Request::Delete { name: self.name.clone(), is_forced: self.force };
        expect_done(&self.pool.ask(request, console)?)?;
        console.notice(done);
        if console.is_json() {
            document(&Deleted { name: self.name })?;
        }
        Ok(Exit::Fine)
    }
}

impl Rename {
    fn run(self, console: &Console) -> Result<Exit> {
        let Self { pool, force: is_forced, name, to } = self;
        let done = format!("renamed volume '{name}' to '{to}'");
        let request = Request::Rename { name, to: to.clone(), is_forced };
        change(pool.doer(console)?, request, to, &done, console)
    }
}

impl Rollback {
    fn run(self, console: &Console) -> Result<Exit> {
        let Self { pool, force: is_forced, name, snapshot } = self;
        let done = format!("rolled volume '{name}' back to '{snapshot}'");
        let request = Request::RollBack { name: name.clone(), snapshot, is_forced };
        change(pool.doer(console)?, request, name, &done, console)
    }
}

impl Check {
    fn run(self, console: &Console) -> Result<Exit> {
        let repaired = if self.repair { Some(self.pool.repair(console)?) } else { None };
        let of_repair = repaired.iter().flat_map(|done| {
            let kept = done.kept.iter().map(|name| format!("kept a copy: '{name}'"));
            done.settled.iter().cloned().chain(kept)
        });
        of_repair.for_each(|line| console.notice(line));
        let (answer, is_whole) = self.pool.ask_all(Request::Check, console)?;
        let mut found = match answer {
            Answer::Checked(found) => found,
            other => return Err(strange(&other)),
        };
        found.problems.extend(repaired.iter().flat_map(|done| done.left.iter().cloned()));
        let exit = if found.problems.is_empty() { Exit::Fine } else { Exit::Fatal };
        let mut output = Output::new();
        if console.is_json() {
            match repaired {
                Some(done) => {
                    let onefold_volume::Repaired { settled, kept, .. } = done;
                    output.json_document(&Repaired { found, settled, kept })?;
                }
                None => output.json_document(&found)?,
            }
        } else {
            found.problems.iter().try_for_each(|problem| output.line(problem))?;
            if found.more > 0 {
                output.line(format!("further problems: {}", found.more))?;
            }
            if found.changed > 0 {
                let changed = found.changed;
                output.line(format!(
                    "pages skipped because they changed during the check: {changed}"
                ))?;
            }
            if found.problems.is_empty() && is_whole.is_ok() {
                output.line("no problems found; run scrub to check whether pages can be read")?;
            }
        }
        output.finish()?;
        is_whole.map(|()| exit)
    }
}

impl Scrub {
    fn run(self, console: &Console) -> Result<Exit> {
        let (answer, is_whole) = self.pool.ask_all(Request::Scrub, console)?;
        let found = match answer {
            Answer::Scrubbed(found) => found,
            other => return Err(strange(&other)),
        };
        let exit = if found.is_good() { Exit::Fine } else { Exit::Fatal };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&found)?;
        } else {
            lost_lines(&found.bad).iter().try_for_each(|line| output.line(line))?;
            if let Some(why) = &found.unread {
                output.line(format!("pages of other blocks were not read: {why}"))?;
            }
            if let Some(unanswered) = &found.unanswered {
                output.line(format!("{}; repeat the scrub", unanswered.line()))?;
            }
            let (good, bad) = (found.pages, found.bad.len() as u64 + found.more);
            let good = count(good, "page is as it was written", "pages are as they were written");
            output.line(format!("{good}, {}", count(bad, "is not", "are not")))?;
            if let Some(cycle) = &found.cycle {
                output.line(format!("last scrub by gateways: {}", cycle.line()))?;
            }
        }
        output.finish()?;
        is_whole.map(|()| exit)
    }
}

/// Lost pages as text: a line for the pages of one container with the same problem, and a line for each
/// affected volume.
fn lost_lines(bad: &[ShownPage]) -> Vec<String> {
    let mut together: BTreeMap<(&str, &str), Vec<&ShownPage>> = BTreeMap::new();
    for page in bad {
        together.entry((&page.container, &page.problem)).or_default().push(page);
    }
    let mut lines = Vec::new();
    for ((container, problem), pages) in together {
        let slots = ranges(pages.iter().map(|page| page.slot.into()).collect());
        lines.push(format!("{container}, pages {slots}: {problem}"));
        let mut blocks: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for ShownBlock { volume, block } in pages.iter().flat_map(|page| &page.blocks) {
            blocks.entry(volume).or_default().push(*block);
        }
        for (volume, blocks) in blocks {
            lines.push(format!("  blocks {} of volume '{volume}'", ranges(blocks)));
        }
        let more: u64 = pages.iter().map(|page| page.more_blocks).sum();
        if more > 0 {
            lines.push(format!("  further blocks: {more}"));
        }
    }
    lines
}

/// Numbers in order, neighbours as a range: `1, 3-5`.
fn ranges(mut numbers: Vec<u64>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let shown = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => unreachable!("no run is empty"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

impl Stats {
    fn run(self, console: &Console) -> Result<Exit> {
        let (answer, is_whole) = self.pool.ask_all(Request::Stats, console)?;
        let sums = match answer {
            Answer::Sums(sums) => sums,
            other => return Err(strange(&other)),
        };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&sums)?;
        } else {
            let memory = &sums.memory;
            let bytes = HumanBytes(memory.table_bytes);
            let table = format!("{bytes}, for {} pages", memory.table_capacity);
            let most = memory
                .most_node_bytes
                .map_or("all".to_owned(), |most| HumanBytes(most).to_string());
            let rows = [
                ("format version", sums.format_version.to_string()),
                ("written blocks", HumanBytes(sums.mapped_bytes).to_string()),
                ("distinct pages", sums.pages.to_string()),
                ("their stored bytes", HumanBytes(sums.page_bytes).to_string()),
                ("containers", HumanBytes(sums.container_bytes).to_string()),
                ("compacting would free", HumanBytes(sums.reclaimable_bytes).to_string()),
                ("deduplication ratio", ratio::times(sums.dedup_ratio)),
                ("total reduction", ratio::times(sums.total_reduction)),
                ("table of fingerprints", table),
                ("maps and tables of pages", HumanBytes(memory.node_bytes).to_string()),
                ("of them in memory", HumanBytes(memory.resident_node_bytes).to_string()),
                ("of them may be", most),
                ("steps that read none", memory.node_hits.to_string()),
                ("nodes read", memory.node_misses.to_string()),
                ("not with twice the memory", memory.node_misses_for_want.to_string()),
            ];
            let mut rows: Vec<_> = rows.into_iter().collect();
            rows.extend(sums.cluster.iter().flat_map(ShownStored::rows));
            if !sums.damaged_volumes.is_empty() {
                rows.push(("volumes with lost pages", sums.damaged_volumes.join(", ")));
            }
            let rows: Vec<_> =
                rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
            for line in table::lines(&rows, &[1]) {
                output.line(line)?;
            }
        }
        output.finish()?;
        is_whole.map(|()| Exit::Fine)
    }
}

/// The result of a compaction in JSON.
#[derive(Serialize)]
struct Compacted {
    gave_back_bytes: u64,
}

impl Compact {
    fn run(self, console: &Console) -> Result<Exit> {
        let (answer, is_whole) = self.pool.ask_all(Request::Compact, console)?;
        let freed = match answer {
            Answer::GaveBack(freed) => freed,
            other => return Err(strange(&other)),
        };
        console.notice(format_args!("freed {}", HumanBytes(freed)));
        if console.is_json() {
            document(&Compacted { gave_back_bytes: freed })?;
        }
        is_whole.map(|()| Exit::Fine)
    }
}

/// The result of an upgrade in JSON.
#[derive(Serialize)]
struct UpgradedTo {
    format_version: u32,
    previous_format_version: u32,
}

impl Upgrade {
    fn run(self, console: &Console) -> Result<Exit> {
        let (before, now) = self.pool.upgrade(console)?;
        console.notice(if before == now {
            format!("the pool has format version {now} already, which is the newest")
        } else {
            format!("upgraded the pool from format version {before} to {now}")
        });
        if console.is_json() {
            document(&UpgradedTo { format_version: now, previous_format_version: before })?;
        }
        Ok(Exit::Fine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_pages_of_a_container_are_one_line_with_ranges() {
        let page = |container: &str, slot: u32, blocks: &[u64]| ShownPage {
            container: container.into(),
            slot,
            problem: "its container is gone".into(),
            blocks: blocks
                .iter()
                .map(|block| ShownBlock { volume: "disk".into(), block: *block })
                .collect(),
            more_blocks: u64::from(slot == 7),
        };
        let mut bad: Vec<ShownPage> = (0..5000).map(|n| page("one", n, &[n.into()])).collect();
        bad.extend([page("two", 7, &[9, 3]), page("two", 9, &[4])]);
        bad[3].blocks.push(ShownBlock { volume: "other".into(), block: 1 });
        assert_eq!(
            lost_lines(&bad),
            [
                "one, pages 0-4999: its container is gone",
                "  blocks 0-4999 of volume 'disk'",
                "  blocks 1 of volume 'other'",
                "  further blocks: 1",
                "two, pages 7, 9: its container is gone",
                "  blocks 3-4, 9 of volume 'disk'",
                "  further blocks: 1",
            ]
        );
    }
}

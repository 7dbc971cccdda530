//! `onefold volume`

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, IsTerminal};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Command, Subcommand};
use indicatif::HumanBytes;
use onefold_backend::BackendError;
use onefold_block::BlockSize;
use onefold_store::tree::Time;
use onefold_volume::{Pool, Transferred, VolumeError};
use serde::Serialize;

use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::output::Output;
use crate::pool::{Doer, PoolArgs, WorkingArgs};
use crate::ratio;
use crate::service::request::{
    Answer, Compression, Fingerprint, Request, Shown, ShownBlock, ShownDetails, ShownPage,
};
use crate::size;
use crate::table;
use crate::time;

/// Bytes of a stream that are read or written at a time.
const STREAMED: usize = 1 << 20;

const AFTER_HELP: &str = "\
A volume is a block device that keeps each distinct page once, together with all volumes of its pool.
A pool is a folder. One process has it at a time: while `onefold serve` has it, the commands here ask
that process to do what they are for, and its clients see what comes of it.

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
mapped_blocks.";

const INFO_HELP: &str = "\
Own pages are those that no other volume of the pool has: deleting the volume frees them. Bytes of
pages are those that they take after compression.

Examples:
  onefold volume info --pool /srv/pool disk
  onefold volume info --pool /srv/pool --json disk

With --json: one document with name, size, block_size, is_read_only, mapped_blocks, mapped_bytes,
own_pages, own_bytes, shared_pages, shared_bytes, dedup_ratio, made (seconds since 1970), source (the
volume as which it was made, if that is there) and copies (those that were made as it was).";

const SNAPSHOT_HELP: &str = "\
Examples:
  onefold volume snapshot --pool /srv/pool disk disk-monday

With --json: one document, the volume as `onefold volume info` shows it.";

const CLONE_HELP: &str = "\
Examples:
  onefold volume clone --pool /srv/pool disk-monday disk-to-try-things

With --json: one document, the volume as `onefold volume info` shows it.";

const RESIZE_HELP: &str = "\
Clients that have the volume open learn of another size when they connect anew.

Examples:
  onefold volume resize --pool /srv/pool --size 200GiB disk
  onefold volume resize --pool /srv/pool --size 10GiB --shrink disk

With --json: one document, the volume as `onefold volume info` shows it.";

const DELETE_HELP: &str = "\
A volume that clients of `onefold serve` have open stays, unless --force is given.

Examples:
  onefold volume delete --pool /srv/pool disk-monday
  onefold volume delete --pool /srv/pool --force disk

With --json: one document with name.";

const RENAME_HELP: &str = "\
A volume that clients of `onefold serve` have open keeps its name, unless --force is given: their
connections are closed then. Snapshots and clones of it stay what they are; of itself `onefold volume
info` no longer tells as which volume it was made.

Examples:
  onefold volume rename --pool /srv/pool disk root

With --json: one document, the volume as `onefold volume info` shows it.";

const ROLLBACK_HELP: &str = "\
Lets the volume be as the snapshot is, in content and size, at once and durably. What was written to it
since is lost: take a snapshot first if that may be wanted. A volume that clients of `onefold serve`
have open stays as it is, unless --force is given: their connections are closed then.

Examples:
  onefold volume rollback --pool /srv/pool disk disk-monday

With --json: one document, the volume as `onefold volume info` shows it.";

const EXPORT_HELP: &str = "\
Writes a volume or snapshot to standard output as a stream, from which `onefold volume import` makes it
in this or another pool: all but holes, uncompressed, each record with a check. With --from only what
is not as in another volume of the pool, a snapshot of an earlier day for one; both are read whole then
to tell which content the stream changes. Nothing is written to the pool, and nobody may serve it to
write meanwhile.

Examples:
  onefold volume export --pool /srv/pool disk-monday | zstd > monday.zst
  onefold volume export --pool /srv/pool --from monday tuesday > changes
  onefold volume export --pool /srv/pool disk-monday \\
      | ssh other onefold volume import --pool /srv/pool disk-monday";

const IMPORT_HELP: &str = "\
Makes a volume from the stream of `onefold volume export` at standard input. What was a snapshot is one
again. A stream of changes needs --onto, the volume that is as the one which `export` had by --from; it
is read whole to make sure, and stays as it is. The volume has its name once all of the stream came and
is durable; a stream that is cut off or damaged is refused, and nothing of it stays. If the command is
killed, a volume with '.importing' behind its name is left to be deleted.

Examples:
  zstd -dc monday.zst | onefold volume import --pool /srv/pool disk-monday
  onefold volume import --pool /srv/pool --onto monday tuesday < changes

With --json: one document, the volume as `onefold volume info` shows it.";

const CHECK_HELP: &str = "\
Compares the references of each page with the maps of all volumes, without reading pages. Where the
pool is served, clients go on: pages that they write, erase or have moved meanwhile are left out, and
counted. Takes four bytes of memory a page.

--repair is for a pool that is damaged and that nobody serves. First it restores the checkpoint and all
changes behind it, up to the first that is lost or damaged; makes footers of containers, `writer` and
`pool` anew, as far as other files tell; and copies what it gives up to files named lost-... in the
pool's folder. Copy the folder before. Then it checks.

Examples:
  onefold volume check --pool /srv/pool
  onefold volume check --pool /srv/pool --repair

With --json: one document with pages (compared), changed (left out), problems (a list of at most a
thousand texts) and more (how many problems there are beside these); with --repair also settled (what
was wrong, a list of texts) and kept (a list of files).";

const SCRUB_HELP: &str = "\
Where the pool is served, clients go on and share the disk: read is what volumes had when it began and
still have when its turn comes.

Examples:
  onefold volume scrub --pool /srv/pool

With --json: one document with pages, bad and more (how many lost pages there are beside the first ten
thousand); each bad page has container, slot, problem, blocks and more_blocks (how many blocks are it
beside the first hundred).";

const STATS_HELP: &str = "\
Examples:
  onefold volume stats --pool /srv/pool

With --json: one document with mapped_bytes, pages, page_bytes, container_bytes, reclaimable_bytes,
dedup_ratio and total_reduction.";

const COMPACT_HELP: &str = "\
Examples:
  onefold volume compact --pool /srv/pool

With --json: one document with gave_back_bytes.";

/// `volume`, whose actions show in their help only those options of how a pool works that matter to
/// them. All are taken: they are the same for a pool wherever it is opened.
pub(crate) fn showing_what_matters(volume: Command) -> Command {
    volume.mut_subcommands(|action| {
        let shown: &[&str] = match action.get_name() {
            "create" => &["compression"],
            "import" => &["index_memory", "index", "compression", "verify", "quota"],
            _ => &[],
        };
        WorkingArgs::showing(action, shown)
    })
}

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

/// List the volumes
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Show one volume, and what it has that no other has
#[derive(Debug, Args)]
#[command(after_help = INFO_HELP)]
struct Info {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume
    name: String,
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
    /// Delete it although clients have it open: their connections are closed
    #[arg(long)]
    force: bool,
    /// The volume
    name: String,
}

/// Give a volume or snapshot another name
#[derive(Debug, Args)]
#[command(after_help = RENAME_HELP)]
struct Rename {
    #[command(flatten)]
    pool: PoolArgs,
    /// Rename it although clients have it open: their connections are closed
    #[arg(long)]
    force: bool,
    /// The volume
    name: String,
    /// What to call it
    to: String,
}

/// Let a volume be as one of its snapshots is
#[derive(Debug, Args)]
#[command(after_help = ROLLBACK_HELP)]
struct Rollback {
    #[command(flatten)]
    pool: PoolArgs,
    /// Roll it back although clients have it open: their connections are closed
    #[arg(long)]
    force: bool,
    /// The volume
    name: String,
    /// The snapshot
    snapshot: String,
}

/// Write a volume, or what changed since another, to standard output
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
struct Export {
    #[command(flatten)]
    pool: PoolArgs,
    /// Write only what is not as in this volume
    #[arg(long, value_name = "SNAPSHOT")]
    from: Option<String>,
    /// The volume or snapshot
    name: String,
}

/// Make a volume from what `export` wrote
#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
struct Import {
    #[command(flatten)]
    pool: PoolArgs,
    /// The volume to which the stream has the changes
    #[arg(long, value_name = "SNAPSHOT")]
    onto: Option<String>,
    /// What to call the new volume
    name: String,
}

/// Find out whether maps, references and containers fit together
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
struct Check {
    #[command(flatten)]
    pool: PoolArgs,
    /// Before, restore what can be restored of a damaged pool, and give up the rest
    #[arg(long)]
    repair: bool,
}

/// What a check found, and what was repaired before, in JSON.
#[derive(Serialize)]
struct Repaired<T> {
    #[serde(flatten)]
    found: T,
    settled: Vec<String>,
    kept: Vec<String>,
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
            Action::Info(info) => info.run(console),
            Action::Snapshot(one) => copy(one.pool, one.name, one.snapshot, true, console),
            Action::Clone(one) => copy(one.pool, one.name, one.clone, false, console),
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
        }
    }
}

/// Has the volume `name` made or changed by `request`, says that it is `done`, and with --json shows
/// it as it is then.
fn change(
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

/// Writes the volume `name` as JSON, of which something was `done`.
fn show(doer: &mut Doer<'_>, name: String, done: &str) -> Result<()> {
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

/// An answer to another question, as a server of another version might give.
fn strange(answer: &Answer) -> anyhow::Error {
    anyhow!("whoever serves the pool gave another answer than was asked for: {answer:?}")
}

impl Create {
    fn run(self, console: &Console) -> Result<Exit> {
        // before a pool is made for nothing
        Pool::check_new(&self.name, self.size as u64, self.block_size)?;
        let folder = self.pool.folder(true)?;
        let hash = self.fingerprint.unwrap_or(Fingerprint::Blake3).hash();
        let codec = self.pool.compression().unwrap_or(Compression::Zstd).codec();
        match Pool::create_with(&folder, hash, codec) {
            Ok(()) => console.notice(format_args!("made a pool in '{}'", self.pool.pool.display())),
            // it may be the pool that is meant, and somebody may serve it
            Err(
                VolumeError::NotEmpty { .. } | VolumeError::Backend(BackendError::InUse { .. }),
            ) => {}
            Err(error) => return Err(error.into()),
        }
        let request = Request::Create {
            name: self.name.clone(),
            size: self.size as u64,
            block_size: self.block_size.bytes(),
            fingerprint: self.fingerprint,
            compression: self.pool.compression(),
        };
        let size = HumanBytes(self.size as u64);
        let done = format!("made volume '{}' of {size}", self.name);
        change(self.pool.doer(folder, console)?, request, self.name, &done, console)
    }
}

/// Makes `to` as `from` is.
fn copy(
    pool: PoolArgs,
    from: String,
    to: String,
    is_snapshot: bool,
    console: &Console,
) -> Result<Exit> {
    let kind = if is_snapshot { "snapshot" } else { "clone" };
    let done = format!("made {kind} '{to}' of '{from}'");
    let request = Request::Copy { from, to: to.clone(), is_snapshot };
    change(pool.doer(pool.folder(false)?, console)?, request, to, &done, console)
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
            let head = ["volume", "size", "used", "block size", ""].map(str::to_owned).to_vec();
            let row = |one: &Shown| {
                vec![
                    one.name.clone(),
                    HumanBytes(one.size).to_string(),
                    HumanBytes(one.mapped_bytes()).to_string(),
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
    rows.extend(one.source.clone().map(|source| ("made as", source)));
    rows.extend(one.copies.iter().map(|copy| ("copy", copy.clone())));
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}

impl Resize {
    fn run(self, console: &Console) -> Result<Exit> {
        let (size, may_shrink) = (self.size as u64, self.shrink);
        let done = format!("volume '{}' has {}", self.name, HumanBytes(size));
        let request = Request::Resize { name: self.name.clone(), size, may_shrink };
        let doer = self.pool.doer(self.pool.folder(false)?, console)?;
        change(doer, request, self.name, &done, console)
    }
}

/// A volume that is gone, in JSON.
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
        let done = format!("volume '{name}' is called '{to}' now");
        let request = Request::Rename { name, to: to.clone(), is_forced };
        change(pool.doer(pool.folder(false)?, console)?, request, to, &done, console)
    }
}

impl Rollback {
    fn run(self, console: &Console) -> Result<Exit> {
        let Self { pool, force: is_forced, name, snapshot } = self;
        let done = format!("volume '{name}' is as '{snapshot}' now");
        let request = Request::RollBack { name: name.clone(), snapshot, is_forced };
        change(pool.doer(pool.folder(false)?, console)?, request, name, &done, console)
    }
}

impl Export {
    fn run(self, console: &Console) -> Result<Exit> {
        let output = io::stdout();
        ensure!(
            !output.is_terminal(),
            "a stream is not for a terminal: write it to a file or a pipe"
        );
        let pool = self.pool.open_to_read(console)?;
        let into = BufWriter::with_capacity(STREAMED, output.lock());
        let Transferred { data_blocks, hole_blocks } =
            pool.export_volume(&self.name, self.from.as_deref(), into)?;
        let name = &self.name;
        console.notice(match &self.from {
            None => format!("exported volume '{name}', blocks: {data_blocks}"),
            Some(base) => format!(
                "exported what '{name}' has since '{base}', blocks: {data_blocks}, new holes: \
                 {hole_blocks}"
            ),
        });
        Ok(Exit::Fine)
    }
}

impl Import {
    fn run(self, console: &Console) -> Result<Exit> {
        let pool = self.pool.open_in(self.pool.folder(false)?, console)?;
        let from = BufReader::with_capacity(STREAMED, io::stdin().lock());
        let Transferred { data_blocks, .. } =
            pool.import_volume(&self.name, self.onto.as_deref(), from)?;
        let done = format!("imported volume '{}', blocks: {data_blocks}", self.name);
        console.notice(&done);
        if console.is_json() {
            show(&mut Doer::Here(pool), self.name, &done)?;
        }
        Ok(Exit::Fine)
    }
}

impl Check {
    fn run(self, console: &Console) -> Result<Exit> {
        let repaired = if self.repair { Some(self.pool.repair()?) } else { None };
        let of_repair = repaired.iter().flat_map(|done| {
            let kept = done.kept.iter().map(|name| format!("kept a copy: '{name}'"));
            done.settled.iter().cloned().chain(kept)
        });
        of_repair.for_each(|line| console.notice(line));
        let found = match self.pool.ask(Request::Check, console)? {
            Answer::Checked(found) => found,
            other => return Err(strange(&other)),
        };
        let exit = if found.problems.is_empty() { Exit::Fine } else { Exit::Fatal };
        let mut output = Output::new();
        if console.is_json() {
            match repaired {
                Some(done) => {
                    let onefold_volume::Repaired { settled, kept } = done;
                    output.json_document(&Repaired { found, settled, kept })?;
                }
                None => output.json_document(&found)?,
            }
        } else {
            found.problems.iter().try_for_each(|problem| output.line(problem))?;
            if found.more > 0 {
                output.line(format!("problems beside these: {}", found.more))?;
            }
            if found.changed > 0 {
                let changed = found.changed;
                output
                    .line(format!("pages that changed meanwhile and were left out: {changed}"))?;
            }
            if found.problems.is_empty() {
                output.line("no problems found; whether pages can be read is what scrub tells")?;
            }
        }
        output.finish()?;
        Ok(exit)
    }
}

impl Scrub {
    fn run(self, console: &Console) -> Result<Exit> {
        let found = match self.pool.ask(Request::Scrub, console)? {
            Answer::Scrubbed(found) => found,
            other => return Err(strange(&other)),
        };
        let is_good = found.bad.is_empty() && found.more == 0;
        let exit = if is_good { Exit::Fine } else { Exit::Fatal };
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&found)?;
        } else {
            lost_lines(&found.bad).iter().try_for_each(|line| output.line(line))?;
            let (good, bad) = (found.pages, found.bad.len() as u64 + found.more);
            let good = count(good, "page is as it was written", "pages are as they were written");
            output.line(format!("{good}, {}", count(bad, "is not", "are not")))?;
        }
        output.finish()?;
        Ok(exit)
    }
}

/// Lost pages as text: a line for those of one container that are lost alike, and one for each volume
/// that has some.
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
            lines.push(format!("  blocks beside these: {more}"));
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
        let sums = match self.pool.ask(Request::Stats, console)? {
            Answer::Sums(sums) => sums,
            other => return Err(strange(&other)),
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
                ("compacting gives back", HumanBytes(sums.reclaimable_bytes).to_string()),
                ("deduplication ratio", ratio::times(sums.dedup_ratio)),
                ("total reduction", ratio::times(sums.total_reduction)),
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

/// What a compaction came to, in JSON.
#[derive(Serialize)]
struct Compacted {
    gave_back_bytes: u64,
}

impl Compact {
    fn run(self, console: &Console) -> Result<Exit> {
        let freed = match self.pool.ask(Request::Compact, console)? {
            Answer::GaveBack(freed) => freed,
            other => return Err(strange(&other)),
        };
        console.notice(format_args!("gave back {}", HumanBytes(freed)));
        if console.is_json() {
            document(&Compacted { gave_back_bytes: freed })?;
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
                "  blocks beside these: 1",
                "two, pages 7, 9: its container is gone",
                "  blocks 3-4, 9 of volume 'disk'",
                "  blocks beside these: 1",
            ]
        );
    }
}

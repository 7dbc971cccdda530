//! Repairing: keeping what can be kept of a damaged repository, and saying what was lost.
//!
//! In this order, so that a crash leaves nothing worse than it was:
//!
//! 1. Check, with all data read.
//! 2. Condemn damaged containers by a mark, as a [prune](crate::prune) does. Nobody relies on them
//!    any more, so a backup that meets what was lost stores it again; and they stay readable until
//!    a prune has copied what is good in them and still needed.
//! 3. Put index runs over containers that no good run covers, then delete the bad ones.
//! 4. Save what is good in damaged containers, group by group, in new ones.
//! 5. Rewrite snapshots that are not whole: as they were, without what was lost, under new ids. The
//!    old ones stay until the user forgets them.
//! 6. Settle what is missing or wrong in logs, also against what this client remembers, and enter
//!    missing snapshots as forgotten. From then on no client misses them.
//!
//! What was lost is lost only as far as this repository goes: a backup of the same files stores it
//! again, and then the old snapshots are whole again too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use onefold_container::{ChunkEntry, ContainerError, Content, Directory, container_name};
use onefold_fingerprint::Fingerprint;
use onefold_index::{Index, run_name};
use onefold_seal::ObjectId;

use crate::chunks::loaded::Loaded;
use crate::chunks::place::Used;
use crate::chunks::reader::{ChunkReader, Chunks};
use crate::examine::{self, Examined, Reading};
use crate::history::log::{self};
use crate::objects::entry::{self, Writer};
use crate::objects::mark::{self, Marks};
use crate::objects::read::{or_end, until_error};
use crate::objects::receipt::{self, receipt_name};
use crate::objects::snapshot::snapshot_name;
use crate::reading::entries::Entries;
use crate::seeded::fault;
use crate::tree::{self, Detail, Entry, Node, Time, Tree};
use crate::writing::added::Added;
use crate::writing::alive::Alive;
use crate::writing::chunk_writer::{ChunkWriter, NewTree};
use crate::writing::commit::{Announced, Author, PROGRAM};
use crate::writing::forget::forget;
use crate::{Cancel, Progress, Recipe, Repository, Snapshot, StoreError, Summary};

/// The tag of snapshots that a repair has made. Their parent is the snapshot that they were made of.
pub const TAG: &str = "repaired";

/// Bytes of names of what was lost that a repair notes, and of paths that it then lists.
const MAX_LOST_LEN: usize = 16 << 20;

/// A tree of at most so many bytes is written anew while it is read for the first time, and dropped if
/// nothing changed. All directories that a path leads through have one at the same time.
const MAX_SHORT_TREE: u64 = 16 << 10;

/// Who repairs, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The host that the notice of the repair names.
    pub host: String,
    /// The user that it names.
    pub user: String,
    /// Length in bytes at which a new container is sealed.
    pub container_len: usize,
}

/// What a repair found and did.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What was wrong.
    pub check: examine::Report,
    /// Containers that were damaged and are condemned now.
    pub condemned: Vec<ObjectId>,
    /// Chunks saved out of them, or out of containers that a prune had condemned.
    pub saved_chunks: u64,
    /// Their bytes, before compression.
    pub saved_bytes: u64,
    /// Bytes of the containers that took them, and trees of rewritten snapshots.
    pub stored_bytes: u64,
    /// Chunks that these containers listed and that nobody could read.
    pub lost_chunks: u64,
    /// Index runs that were deleted.
    pub deleted_runs: Vec<ObjectId>,
    /// Containers that were in no good run and are in a new one.
    pub covered: u64,
    /// Receipts that were damaged and are written anew.
    pub receipts: Vec<ObjectId>,
    /// Receipts of snapshots that were forgotten while their backups ended, which are deleted.
    pub deleted_receipts: Vec<ObjectId>,
    /// Hosts in whose logs entries were missing or wrong, which is settled now.
    pub logs: Vec<String>,
    /// Snapshots that were missing and count as forgotten now.
    pub given_up: Vec<ObjectId>,
    /// Snapshots that were not whole, and what came of them.
    pub snapshots: Vec<Rewritten>,
}

/// A snapshot that was not whole.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// Which one.
    pub old: ObjectId,
    /// The one without what was lost; none if nothing could be kept.
    pub new: Option<ObjectId>,
    /// Whether an earlier repair had made it.
    pub is_from_before: bool,
    /// Paths of what was lost, relative to the snapshot's root: files, and directories with all that
    /// they held.
    pub lost: Vec<Vec<u8>>,
    /// How much more was lost, the paths of which would take more memory than the repair may.
    pub unlisted: u64,
}

impl Report {
    /// Whether some snapshot lost something.
    pub fn is_loss(&self) -> bool {
        !self.snapshots.is_empty()
    }
}

/// Repairs the repository.
///
/// Backups and prunes may run meanwhile. Fails, having changed nothing, if something could not be
/// reached: only what is there and is not what was written is damaged. Fails as well if a mark is
/// damaged, because then nobody knows which containers may be relied on; and if a key epoch could not
/// be opened, since all that it sealed would be taken for damaged, or the removal of a client's key that
/// was seen is gone.
pub fn repair(
    repository: &Repository,
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Report, StoreError> {
    repository.go_past_cache();
    // What counts again that did not is not to be rewritten as if it did.
    if let Some(finding) = repository.remembered()?.1.keys.first() {
        return Err(StoreError::Unusable(format!(
            "{finding}; nothing is repaired before it is back"
        )));
    }
    if repository.lacks_epochs.load(Ordering::Relaxed) {
        return Err(StoreError::Unusable(
            "something among the key epochs is missing or cannot be opened, and all that such an epoch sealed would \
             be taken for damaged: put it back from a copy, or remove it with `key remove \
             --unreadable` if it never was one"
                .into(),
        ));
    }
    let mut examined = examine::examine(repository, Reading::All, progress, cancel)?;
    if let Some(error) = examined.unread.take() {
        return Err(error);
    }
    Marks::read(&*repository.objects, &repository.envelope)?.expect_whole()?;
    let report = Report { check: std::mem::take(&mut examined.report), ..Report::default() };
    let mut repair = Repair { repository, options, cancel, report };
    repair.condemn(&examined)?;
    repair.runs(&examined)?;
    repair.save_and_rewrite(&examined)?;
    repair.receipts(&examined)?;
    repair.logs(&examined)?;
    Ok(repair.report)
}

struct Repair<'a> {
    repository: &'a Repository,
    options: &'a Options,
    cancel: &'a Cancel,
    report: Report,
}

impl Repair<'_> {
    fn condemn(&mut self, examined: &Examined) -> Result<(), StoreError> {
        let Repository { objects, envelope, .. } = self.repository;
        self.report.condemned = examined.damaged.iter().map(|(id, _)| *id).collect();
        if fault!(DamagedDeleted) {
            let names = self.report.condemned.iter().map(|id| container_name(*id));
            return names.into_iter().try_for_each(|name| Ok(objects.delete(&name)?));
        }
        for part in self.report.condemned.chunks(mark::MAX_CONDEMNED) {
            mark::write(part, &**objects, envelope)?;
        }
        objects.settle()?;
        Ok(())
    }

    /// Saves what is good in damaged containers, and rewrites the snapshots that are not whole.
    fn save_and_rewrite(&mut self, examined: &Examined) -> Result<(), StoreError> {
        let before = self.snapshots_of(examined)?;
        if examined.damaged.is_empty() && before.is_empty() {
            return Ok(());
        }
        let Options { host, user, .. } = self.options;
        let author = Author { host, user, program: PROGRAM };
        let alive = Alive::begin(self.repository);
        // Notice is given before the index is loaded: see `writing::commit`.
        let mut announced = Vec::new();
        let result = before
            .iter()
            .try_for_each(|_| {
                announced.push(Announced::new(self.repository, author, Time::now(), &alive)?);
                Ok(())
            })
            .and_then(|()| self.rewrite(examined, &before, &mut announced));
        announced.into_iter().for_each(Announced::withdraw);
        result
    }

    /// The snapshots that are not whole and that no earlier repair has rewritten.
    fn snapshots_of(
        &mut self,
        examined: &Examined,
    ) -> Result<Vec<(ObjectId, Snapshot)>, StoreError> {
        if examined.broken.is_empty() {
            return Ok(Vec::new());
        }
        let (there, _damaged) = self.repository.snapshots()?;
        let mut remaining = Vec::new();
        for (id, snapshot) in &there {
            if !examined.broken.contains(id) {
                continue;
            }
            let is_made_of_it = |other: &Snapshot| {
                let is_repaired = other.tags.iter().any(|tag| tag == TAG);
                let is_trusted = !other.is_from_client || snapshot.is_from_client;
                other.parent == Some(*id) && is_repaired && is_trusted
            };
            match there.iter().find(|(_, other)| is_made_of_it(other)) {
                Some((new, _)) => {
                    self.repository.acknowledge(*new)?;
                    self.report.snapshots.push(Rewritten {
                        old: *id,
                        new: Some(*new),
                        is_from_before: true,
                        lost: Vec::new(),
                        unlisted: 0,
                    });
                }
                None => remaining.push((*id, snapshot.clone())),
            }
        }
        Ok(remaining)
    }

    fn rewrite<'a>(
        &mut self,
        examined: &Examined,
        before: &[(ObjectId, Snapshot)],
        announced: &mut Vec<Announced<'a>>,
    ) -> Result<(), StoreError> {
        let loaded = self.repository.load_index_anew()?;
        loaded.marks.expect_whole()?;
        // What the index lacks would be taken for lost. All that is damaged is condemned by now.
        if let Some(warning) = loaded.warnings.first() {
            return Err(StoreError::Unusable(format!("the index cannot be loaded: {warning}")));
        }
        let used = Used::of(&loaded.containers);
        let len = self.options.container_len;
        let mut writer = ChunkWriter::new(self.repository, &loaded, &used, len)?;
        for (id, size) in &examined.damaged {
            self.cancel.check()?;
            self.save(*id, *size, &loaded, &mut writer)?;
        }
        // Then all that can be had is in the index, or only where it is condemned.
        writer.finish()?;
        let reader = self.repository.reader_of(&loaded);
        let condemned = Condemned::read(self.repository, &loaded, &writer)?;
        let (seen, nodes, cancel) = (HashMap::new(), HashMap::new(), self.cancel);
        let mut room = MAX_LOST_LEN;
        let mut without = Without { reader: &reader, condemned, writer, seen, nodes, room, cancel };
        let mut after = Vec::new();
        for (id, snapshot) in before {
            let kept = without.root(&snapshot.root)?;
            let mut lost = Vec::new();
            kept.lost.list(&mut Vec::new(), &mut room, &mut lost);
            self.report.snapshots.push(Rewritten {
                old: *id,
                new: None,
                is_from_before: false,
                unlisted: kept.lost.count.saturating_sub(lost.len() as u64),
                lost,
            });
            after.push(kept.tree.clone().map(|tree| rewritten(*id, snapshot, tree, &kept)));
        }
        let mut writer = without.writer;
        if !fault!(RewrittenBeforeChunks) {
            writer.finish()?;
        }
        self.report.stored_bytes = writer.stored_bytes();
        if fault!(BrokenForgotten) {
            let ids: Vec<_> = before.iter().map(|(id, _)| *id).collect();
            forget(self.repository, &ids)?;
        }
        let first = self.report.snapshots.len() - after.len();
        for (at, snapshot) in after.into_iter().enumerate() {
            let Some(snapshot) = snapshot else { continue };
            let notice = announced.pop().expect("there is one for each snapshot");
            let committed = notice.commit(&snapshot, &loaded, &used);
            let new = committed.map_err(StoreError::half_way)?;
            self.report.snapshots[first + at].new = Some(new);
        }
        fault!(RewrittenBeforeChunks => writer.finish()?);
        Ok(())
    }

    /// Saves the chunks of a damaged container that can still be read and are nowhere else.
    fn save(
        &mut self,
        id: ObjectId,
        size: u64,
        loaded: &Loaded,
        writer: &mut ChunkWriter<'_>,
    ) -> Result<(), StoreError> {
        let Repository { objects, envelope, fingerprinter, .. } = self.repository;
        let directory = match Directory::read(&**objects, envelope, id, size) {
            Ok(directory) => directory,
            Err(error) => return self.repository.expect_damage(error.into()),
        };
        let is_missing = |chunk: &&ChunkEntry| loaded.index.get(&chunk.fingerprint).is_none();
        let mut groups: Vec<u32> =
            directory.chunks.iter().filter(is_missing).map(|chunk| chunk.group).collect();
        groups.dedup();
        until_error(|failed| {
            directory.read_groups(&**objects, &groups, &mut |group, read| {
                let chunks = directory.chunks.iter().filter(|chunk| chunk.group == group);
                let missing: Vec<_> = chunks.filter(is_missing).collect();
                let read = read.and_then(|bytes| {
                    directory.verify_group(group, &bytes, fingerprinter).map(|()| bytes)
                });
                or_end(self.save_group(directory.content, &missing, read, writer), failed)
            })
        })
    }

    /// Saves the chunks `missing` of a group that was read, or notes that they are lost.
    fn save_group(
        &mut self,
        content: Content,
        missing: &[&ChunkEntry],
        read: Result<Bytes, ContainerError>,
        writer: &mut ChunkWriter<'_>,
    ) -> Result<(), StoreError> {
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                self.report.lost_chunks += missing.len() as u64;
                return self.repository.expect_damage(error.into());
            }
        };
        for chunk in missing {
            writer.chunk(content, chunk.fingerprint, &bytes[chunk.range()])?;
            self.report.saved_chunks += 1;
            self.report.saved_bytes += u64::from(chunk.len);
        }
        Ok(())
    }

    /// Puts runs over containers that no good run covers, and deletes the bad runs.
    fn runs(&mut self, examined: &Examined) -> Result<(), StoreError> {
        let Repository { objects, envelope, .. } = self.repository;
        if examined.bad_runs.is_empty() {
            return Ok(());
        }
        let (mut added, index) = (Added::default(), Index::in_memory());
        for (id, size) in &examined.uncovered {
            self.cancel.check()?;
            if self.report.condemned.contains(id) {
                continue;
            }
            let read = Directory::read(&**objects, envelope, *id, *size);
            match read.map_err(StoreError::from) {
                Ok(directory) => added.note(&directory, *size, None),
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            }
            self.report.covered += 1;
            if added.chunks() >= onefold_index::MAX_RUN_ENTRIES / 2 {
                std::mem::take(&mut added).write_runs(&**objects, envelope, &index)?;
            }
        }
        added.write_runs(&**objects, envelope, &index)?;
        for run in &examined.bad_runs {
            objects.delete(&run_name(*run))?;
            self.report.deleted_runs.push(*run);
        }
        Ok(())
    }

    /// Writes damaged receipts anew, and deletes those of forgotten snapshots. One that is gone for a moment, or for good, is worth a note, no
    /// more; and one that this key seals says that no client made the snapshot.
    fn receipts(&mut self, examined: &Examined) -> Result<(), StoreError> {
        let Repository { objects, envelope, .. } = self.repository;
        for id in &examined.bad_receipts {
            objects.delete(&receipt_name(*id))?;
            let is_clients = match self.repository.claimed_client(&snapshot_name(*id)) {
                Err(error) if error.is_not_found() => false,
                client => client?.is_some(),
            };
            if !is_clients {
                receipt::write(&**objects, envelope, *id)?;
            }
            self.report.receipts.push(*id);
        }
        for id in &examined.stale_receipts {
            objects.delete(&receipt_name(*id))?;
            self.report.deleted_receipts.push(*id);
        }
        Ok(())
    }

    /// Settles what is missing or wrong in logs, and gives up what they say is there and is not.
    fn logs(&mut self, examined: &Examined) -> Result<(), StoreError> {
        let (remembered, contradictions) = self.repository.remembered()?;
        let mut broken = BTreeMap::<Writer, Vec<(u64, u64)>>::new();
        for (writer, range) in &examined.broken_logs {
            broken.entry(*writer).or_default().push(*range);
        }
        for one in &contradictions.logs {
            broken.entry(one.writer).or_default().push((one.first, one.last));
        }
        let listed = entry::list(&*self.repository.objects)?;
        for (writer, mut settled) in broken {
            let shown = listed.iter().copied().filter(|at| at.writer == writer).max();
            // Behind all that anybody may have seen.
            let seen = [&examined.seen, &remembered].map(|seen| seen.last(writer));
            let last = shown.into_iter().chain(seen.into_iter().flatten()).max();
            let next = shown.map_or(0, |shown| shown.sequence.saturating_add(1));
            settled.extend(last.filter(|last| last.sequence >= next).map(|at| (next, at.sequence)));
            settled.sort_unstable();
            settled.dedup();
            let host = remembered.host(writer).or_else(|| examined.seen.host(writer));
            let host = host.unwrap_or_default();
            log::settle(self.repository, writer, last, host, settled)?;
            self.report.logs.push(host.to_owned());
        }
        let missing = contradictions.missing.iter().map(|(id, _)| *id);
        let missing: BTreeSet<_> = missing.chain(examined.missing.iter().copied()).collect();
        self.report.given_up = missing.into_iter().collect();
        let appended = log::append(self.repository, &[], &self.report.given_up)?;
        self.repository.remember(&appended);
        for id in &self.report.given_up {
            self.repository.objects.delete(&receipt_name(*id))?;
        }
        Ok(())
    }
}

impl Repository {
    /// Fails unless `error` says that something is damaged.
    fn expect_damage(&self, error: StoreError) -> Result<(), StoreError> {
        match self.is_damage(&error) {
            true => Ok(()),
            false => Err(error),
        }
    }
}

/// The snapshot that is left of `old`.
fn rewritten(id: ObjectId, old: &Snapshot, tree: Tree, kept: &KeptTree) -> Snapshot {
    let mut tags = old.tags_of_copy();
    if !tags.iter().any(|tag| tag == TAG) {
        tags.push(TAG.into());
    }
    let Counts { files, directories, others, bytes } = kept.counts;
    let unreadable = old.summary.unreadable.saturating_add(kept.lost.count);
    // The root is a directory that no other one counts.
    let directories = directories.saturating_add(1);
    let summary = Summary { files, directories, others, bytes, unreadable, ..old.summary };
    let root = Entry { node: Node::Directory { tree }, ..old.root.clone() };
    Snapshot { parent: Some(id), tags, summary, root, ..old.clone() }
}

/// What is kept of a directory.
#[derive(Debug, Clone, Default)]
struct KeptTree {
    /// Its tree, without what was lost; nothing if the tree itself was.
    tree: Option<Tree>,
    counts: Counts,
    lost: Lost,
}

/// What was lost of a directory, in order of names.
///
/// A directory that stands at several paths is noted once. Beyond a bound things are only counted.
#[derive(Debug, Clone, Default)]
struct Lost {
    /// Each by name: a directory that lost something, or what was lost itself.
    named: Rc<Vec<(Vec<u8>, Option<Lost>)>>,
    /// How many things.
    count: u64,
}

impl Lost {
    /// Notes that `name` was lost, or `below` of it, as long as there is `room`.
    fn push(&mut self, name: &[u8], below: Option<Lost>, room: &mut usize) {
        self.count = self.count.saturating_add(below.as_ref().map_or(1, |below| below.count));
        let is_told = below.as_ref().is_none_or(|below| !below.named.is_empty());
        let len = size_of::<(Vec<u8>, Option<Lost>)>() + name.len();
        if is_told && take(room, len) {
            Rc::make_mut(&mut self.named).push((name.to_vec(), below));
        }
    }

    /// Appends the paths of what was lost to `paths`, as long as there is `room`. `path` leads to the
    /// directory. Whether there was room for all.
    fn list(&self, path: &mut Vec<u8>, room: &mut usize, paths: &mut Vec<Vec<u8>>) -> bool {
        for (name, below) in &*self.named {
            let len = path.len();
            path.extend_from_slice(name);
            let is_listed = match below {
                Some(below) => {
                    path.push(b'/');
                    below.list(path, room, paths)
                }
                None => {
                    let has_room = take(room, size_of::<Vec<u8>>() + path.len());
                    if has_room {
                        paths.push(path.clone());
                    }
                    has_room
                }
            };
            path.truncate(len);
            if !is_listed {
                return false;
            }
        }
        true
    }
}

/// Takes `len` bytes off `room`; all of it, and false, if it has fewer.
fn take(room: &mut usize, len: usize) -> bool {
    let left = room.checked_sub(len);
    *room = left.unwrap_or_default();
    left.is_some()
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
}

impl Counts {
    /// Adds a directory that holds `below`. Directories that hold each other twice over make any
    /// number of paths.
    fn add_directory(&mut self, below: Self) {
        self.files = self.files.saturating_add(below.files);
        self.directories = self.directories.saturating_add(below.directories).saturating_add(1);
        self.others = self.others.saturating_add(below.others);
        self.bytes = self.bytes.saturating_add(below.bytes);
    }
}

/// Chunks that only condemned containers have.
struct Condemned<'a> {
    repository: &'a Repository,
    directories: Vec<Directory>,
    /// By fingerprint: whose chunk it is, and its slot.
    places: HashMap<Fingerprint, (usize, u32)>,
}

impl<'a> Condemned<'a> {
    /// Reads the footers of all condemned containers.
    fn read(
        repository: &'a Repository,
        loaded: &Loaded,
        writer: &ChunkWriter<'_>,
    ) -> Result<Self, StoreError> {
        let Repository { objects, envelope, .. } = repository;
        let mut all = Self { repository, directories: Vec::new(), places: HashMap::new() };
        for id in loaded.marks.condemned() {
            let size = match objects.size(&container_name(id)) {
                Ok(size) => size,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            match Directory::read(&**objects, envelope, id, size) {
                Ok(directory) => {
                    let slots = (0u32..).zip(&directory.chunks);
                    let only_here = slots.filter(|(_, chunk)| !writer.has(&chunk.fingerprint));
                    let number = all.directories.len();
                    let place =
                        |(slot, chunk): (u32, &ChunkEntry)| (chunk.fingerprint, (number, slot));
                    all.places.extend(only_here.map(place));
                    all.directories.push(directory);
                }
                Err(error) => repository.expect_damage(error.into())?,
            }
        }
        Ok(all)
    }

    /// The bytes of a chunk, if a condemned container has it as it was written.
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Option<Bytes>, StoreError> {
        let Some((number, slot)) = self.places.get(fingerprint) else { return Ok(None) };
        let directory = &self.directories[*number];
        let Repository { objects, fingerprinter, .. } = self.repository;
        let chunk = directory.chunk(*slot)?;
        let read =
            directory.read_group(&**objects, chunk.group).map(|group| group.slice(chunk.range()));
        match read {
            Ok(bytes) if fingerprinter.fingerprint(&bytes) == *fingerprint => Ok(Some(bytes)),
            Ok(_) => Ok(None),
            Err(error) => self.repository.expect_damage(error.into()).map(|()| None),
        }
    }
}

/// Rewrites trees without what was lost.
struct Without<'a> {
    reader: &'a ChunkReader<'a>,
    condemned: Condemned<'a>,
    writer: ChunkWriter<'a>,
    /// What is kept of trees that can be read.
    seen: HashMap<Recipe, KeptTree>,
    /// Whether all chunks of recipes can be had, of those whose first node can be read.
    nodes: HashMap<Recipe, bool>,
    /// Bytes of names of what was lost for which there is room.
    room: usize,
    cancel: &'a Cancel,
}

impl Without<'_> {
    fn root(&mut self, root: &Entry) -> Result<KeptTree, StoreError> {
        let Node::Directory { tree } = &root.node else { return Ok(KeptTree::default()) };
        let mut kept = self.directory(tree, 0)?;
        if kept.tree.is_none() {
            kept.lost.push(b"", None, &mut self.room);
        }
        Ok(kept)
    }

    fn directory(&mut self, tree: &Tree, depth: usize) -> Result<KeptTree, StoreError> {
        tree::check_depth(depth)?;
        self.cancel.check()?;
        let recipe = match tree {
            Tree::Inline(_) => return self.entries(tree, depth),
            Tree::Stored(recipe) => recipe,
        };
        if let Some(kept) = self.seen.get(recipe) {
            return Ok(kept.clone());
        }
        if !self.keep(recipe)? {
            return Ok(KeptTree::default());
        }
        let kept = self.entries(tree, depth)?;
        self.seen.insert(*recipe, kept.clone());
        Ok(kept)
    }

    /// What is kept of the directory of `tree`, all chunks of which can be had.
    fn entries(&mut self, tree: &Tree, depth: usize) -> Result<KeptTree, StoreError> {
        let is_long = matches!(tree, Tree::Stored(recipe) if recipe.len > MAX_SHORT_TREE);
        let mut new = NewTree::default();
        // A long tree is not written before it is known to have changed.
        let into = (!is_long).then_some(&mut new);
        let Some((mut kept, is_changed)) = self.pass(tree, depth, into)? else {
            return Ok(KeptTree::default());
        };
        if !is_changed {
            return Ok(KeptTree { tree: Some(tree.clone()), ..kept });
        }
        if is_long {
            // What was lost is noted already.
            let room = std::mem::take(&mut self.room);
            let passed = self.pass(tree, depth, Some(&mut new))?;
            self.room = room;
            if passed.is_none() {
                return Ok(KeptTree::default());
            }
        }
        kept.tree = Some(new.finish(depth == 0, &mut self.writer)?);
        Ok(kept)
    }

    /// Goes through the entries of `tree` and writes those that are kept to `into`. Gives what is
    /// kept, but for the tree, and whether that is not all as it was; nothing if the tree cannot be
    /// read to its end.
    fn pass(
        &mut self,
        tree: &Tree,
        depth: usize,
        mut into: Option<&mut NewTree>,
    ) -> Result<Option<(KeptTree, bool)>, StoreError> {
        let mut kept = KeptTree::default();
        let mut is_changed = false;
        let mut entries = match Entries::of(tree) {
            Ok(entries) => entries,
            Err(error) => return self.none_if_damage(error),
        };
        loop {
            let Entry { name, node, .. } = match entries.next(&*self, Detail::Outline) {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(Some((kept, is_changed))),
                Err(error) => return self.none_if_damage(error),
            };
            let mut changed = None;
            match node {
                Node::File { content, .. } => {
                    if !self.keep(&content)? && !fault!(LostFilesKept) {
                        kept.lost.push(&name, None, &mut self.room);
                        is_changed = true;
                        continue;
                    }
                    kept.counts.files = kept.counts.files.saturating_add(1);
                    kept.counts.bytes = kept.counts.bytes.saturating_add(content.len);
                }
                Node::Directory { tree } => {
                    // Its attributes may be long, and are read once more behind all that it holds.
                    entries.rewind();
                    let below = self.directory(&tree, depth + 1)?;
                    let entry = match entries.next(&*self, Detail::All) {
                        Ok(entry) => entry.expect("it was there before"),
                        Err(error) => return self.none_if_damage(error),
                    };
                    if below.lost.count > 0 {
                        kept.lost.push(&name, Some(below.lost), &mut self.room);
                    }
                    let Some(new) = below.tree else {
                        kept.lost.push(&name, None, &mut self.room);
                        is_changed = true;
                        continue;
                    };
                    kept.counts.add_directory(below.counts);
                    if new != tree {
                        is_changed = true;
                        let node = Node::Directory { tree: new };
                        changed = Some(Entry { node, ..entry });
                    }
                }
                _ => kept.counts.others = kept.counts.others.saturating_add(1),
            }
            match (into.as_deref_mut(), changed) {
                (Some(new), Some(entry)) => new.push(&entry, &mut self.writer)?,
                (Some(new), None) => new.push_encoded(entries.encoded(), &mut self.writer)?,
                (None, _) => {}
            }
        }
    }

    /// Nothing, if `error` says that something is damaged.
    fn none_if_damage<T>(&self, error: StoreError) -> Result<Option<T>, StoreError> {
        self.condemned.repository.expect_damage(error).map(|()| None)
    }

    /// Whether all chunks of a recipe can be had. Those that only condemned containers have are
    /// copied, because nobody may rely on them there.
    fn keep(&mut self, recipe: &Recipe) -> Result<bool, StoreError> {
        if recipe.len == 0 {
            return Ok(true);
        }
        if let Some(is_kept) = self.nodes.get(recipe) {
            return Ok(*is_kept);
        }
        if !self.writer.has(&recipe.root) {
            let Some(bytes) = self.condemned.chunk(&recipe.root)? else { return Ok(false) };
            let content = if recipe.depth == 0 { Content::Data } else { Content::Metadata };
            self.writer.chunk(content, recipe.root, &bytes)?;
        }
        if recipe.depth == 0 {
            return Ok(true);
        }
        let Some(children) = self.children(recipe)? else { return Ok(false) };
        let mut is_kept = true;
        for child in children {
            is_kept = is_kept && self.keep(&child)?;
        }
        self.nodes.insert(*recipe, is_kept);
        Ok(is_kept)
    }

    /// The bytes of a chunk; nothing if it is lost.
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Option<Bytes>, StoreError> {
        match self.writer.is_stored(fingerprint) {
            true => match self.reader.chunk(fingerprint) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) => self.condemned.repository.expect_damage(error).map(|()| None),
            },
            false => self.condemned.chunk(fingerprint),
        }
    }

    fn children(&self, recipe: &Recipe) -> Result<Option<Vec<Recipe>>, StoreError> {
        let Some(bytes) = self.chunk(&recipe.root)? else { return Ok(None) };
        Ok(recipe.decode_node(&bytes).ok())
    }
}

impl Chunks for Without<'_> {
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes, StoreError> {
        let missing = StoreError::MissingChunk { fingerprint: *fingerprint };
        self.chunk(fingerprint)?.ok_or(missing)
    }
}

//! Checking: is everything there that something refers to, and is it what was written?
//!
//! The check starts from the containers, which are the truth about chunks, and holds the index,
//! the snapshots and everything that snapshots reach against them. It changes nothing and stops at
//! nothing: whatever is wrong becomes a [`Finding`] that names its object. What can be done about it
//! is in [`repair`](crate::repair).

mod bundles;
mod checked;
mod containers;
mod keys;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;

use onefold_backend::ObjectInfo;
use onefold_container::{self as container, container_name};
use onefold_fingerprint::Fingerprint;
use onefold_index::{self as index, Index};
use onefold_seal::ObjectId;

use self::checked::{Checked, Walk};
use crate::chunks::place::Containers;
use crate::chunks::reader::{ChunkReader, Chunks};
use crate::finding::{Finding, describe};
use crate::history::compare as history;
use crate::history::look::Found;
use crate::objects::entry::Writer;
use crate::objects::mark::Marks;
use crate::objects::receipt::{self, receipt_id, receipt_name};
use crate::objects::seen::Seen;
use crate::objects::snapshot::{self, snapshot_id, snapshot_name};
use crate::objects::{bundle, intent};
use crate::reading::entries::Entries;
use crate::reading::trees_ahead;
use crate::threads::{both, joined};
use crate::tree::{self, Detail, Node, Tree};
use crate::{Cancel, Progress, Recipe, Repository, Snapshot, StoreError};

/// How much of the containers is read, beyond their footers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// Nothing: finds what is missing, not what is damaged inside a container.
    Nothing,
    /// Everything.
    All,
    /// This percentage of the containers, picked at random.
    Percent(f64),
}

/// What a check saw and found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What is wrong. Empty if every snapshot can be restored, as far as was read.
    pub findings: Vec<Finding>,
    /// How many findings are left out, because all would take more memory than the check may.
    pub unlisted: u64,
    /// What is worth knowing and harms nothing.
    pub notes: Vec<String>,
    /// Containers seen.
    pub containers: u64,
    /// Chunks listed in containers.
    pub chunks: u64,
    /// Index runs seen.
    pub runs: u64,
    /// Snapshots seen.
    pub snapshots: u64,
    /// Distinct trees read.
    pub trees: u64,
    /// Bytes of containers read whole.
    pub read_bytes: u64,
}

/// What a check found, in a form that a [repair](crate::repair) acts on.
#[derive(Default)]
pub(crate) struct Examined {
    pub(crate) report: Report,
    /// Containers of which something could not be read as it was written, with their sizes. Those
    /// that are condemned are left out.
    pub(crate) damaged: Vec<(ObjectId, u64)>,
    /// Runs that are damaged or say what is not so.
    pub(crate) bad_runs: Vec<ObjectId>,
    /// Containers that no good run covers, with their sizes.
    pub(crate) uncovered: Vec<(ObjectId, u64)>,
    /// Receipts that are damaged.
    pub(crate) bad_receipts: Vec<ObjectId>,
    /// Receipts of snapshots that were forgotten while their backups ended.
    pub(crate) stale_receipts: Vec<ObjectId>,
    /// Snapshots that are there and miss something of what they reach.
    pub(crate) broken: Vec<ObjectId>,
    /// What the logs say.
    pub(crate) seen: Seen,
    /// Entries of logs that are missing or wrong, first and last.
    pub(crate) broken_logs: Vec<(Writer, (u64, u64))>,
    /// Snapshots that are missing, as the logs say.
    pub(crate) missing: Vec<ObjectId>,
    /// Why something could not be read though it may be as it was written.
    pub(crate) unread: Option<StoreError>,
}

/// Checks the repository, and keeps what a repair has to know.
pub(crate) fn examine(
    repository: &Repository,
    reading: Reading,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Examined, StoreError> {
    repository.expect_reading()?;
    repository.go_past_cache();
    let index = repository.passing_index();
    if let Some(found) = examine_by(index, repository, reading, progress, cancel)? {
        return Ok(found);
    }
    progress.bytes.store(0, Ordering::Relaxed);
    progress.files.store(0, Ordering::Relaxed);
    let found = examine_by(Index::in_memory(), repository, reading, progress, cancel)?;
    Ok(found.expect("memory does not fail"))
}

/// Checks the repository with an index that knows nothing yet; nothing if that failed to answer, so
/// that chunks may have been taken for missing.
fn examine_by(
    index: Index,
    repository: &Repository,
    reading: Reading,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Option<Examined>, StoreError> {
    let mut check = Check {
        repository,
        reading,
        progress,
        cancel,
        found: Examined::default(),
        there: HashMap::new(),
        sound: HashSet::new(),
        condemned: HashSet::new(),
        index,
        containers: Containers::default(),
        gone: HashMap::new(),
        room: MAX_FINDINGS_LEN,
        with_trees: Vec::new(),
    };
    // What is listed first refers to what is listed after it, and was durable after that: so a backup
    // that runs beside the check cannot make it see a snapshot without its chunks. Whatever depends on
    // none of that is read meanwhile.
    let objects = &repository.objects;
    let receipts = objects.list(receipt::PREFIX)?;
    let index = thread::scope(|scope| {
        let keys = scope.spawn(|| repository.check_keys());
        let (runs, snapshots) =
            both(|| objects.list(index::PREFIX), || objects.list(snapshot::PREFIX));
        let (runs, snapshots) = (runs?, snapshots?);
        let logs = scope.spawn(|| {
            let mut seen = Seen::default();
            let found = seen.compare(repository, None)?;
            Ok::<_, StoreError>((seen, found))
        });
        let (containers, marks) = both(|| objects.list(container::PREFIX), || check.marks());
        marks?;
        check.list(&containers?);
        let intents = scope.spawn(|| objects.list_names(intent::PREFIX));
        let bundles = scope.spawn(|| bundle::list(&**objects));
        let unread =
            scope.spawn(|| receipt::unreadable(&**objects, &repository.envelope, &receipts));
        check.runs(&runs)?;
        check.receipts(&receipts, joined(unread)?, &snapshots)?;
        check.logs(joined(logs)?, &snapshots);
        check.keys(joined(keys)?)?;
        let index = check.snapshots(&snapshots)?;
        check.intents(joined(intents)?.len());
        let bundles: Vec<_> = joined(bundles)?;
        check.bundles(&bundles)?;
        Ok::<_, StoreError>(index)
    })?;
    let is_sure = index.trouble().is_none();
    // What it takes on disk is given back; if that fails, the next check does it.
    drop(index.clear());
    Ok(is_sure.then_some(check.found))
}

/// Bytes of findings that are listed; about 100,000 of them. A snapshot that was made for it can have
/// any number, at paths of megabytes.
const MAX_FINDINGS_LEN: usize = 16 << 20;

/// Snapshots that are read and held together, at most, and their bytes.
const MAX_SNAPSHOTS: usize = 256;
const MAX_SNAPSHOTS_LEN: u64 = 4 << 20;

/// A check on its way. What containers list is in the index alone, which is on disk if there is a
/// place for it.
struct Check<'a> {
    repository: &'a Repository,
    reading: Reading,
    progress: &'a Progress,
    cancel: &'a Cancel,
    found: Examined,
    /// The containers that are there, with their sizes.
    there: HashMap<ObjectId, u64>,
    /// Containers of which the footer could be read.
    sound: HashSet<ObjectId>,
    condemned: HashSet<ObjectId>,
    index: Index,
    containers: Containers,
    /// Containers that are not there, by the chunks that runs say they held.
    gone: HashMap<Fingerprint, ObjectId>,
    /// Bytes of findings for which there is room.
    room: usize,
    /// Numbers of the containers of trees.
    with_trees: Vec<u32>,
}

impl Check<'_> {
    fn find(&mut self, object: impl Into<String>, problem: impl Into<String>) {
        let finding = Finding { object: object.into(), problem: problem.into() };
        let len = size_of::<Finding>() + finding.object.len() + finding.problem.len();
        let report = &mut self.found.report;
        if len > self.room && !report.findings.is_empty() {
            self.room = 0;
            report.unlisted += 1;
            return;
        }
        self.room = self.room.saturating_sub(len);
        report.findings.push(finding);
    }

    fn note(&mut self, note: String) {
        self.found.report.notes.push(note);
    }

    /// What `error` says of the object that was asked for; the error itself if the check cannot go on
    /// after it. One that is no damage is kept for a repair, which must not take it for damage.
    fn problem(&mut self, error: StoreError) -> Result<String, StoreError> {
        if error.is_unreachable() {
            return Err(error);
        }
        let problem = describe(&error);
        if !self.repository.is_damage(&error) {
            self.found.unread.get_or_insert(error);
        }
        Ok(problem)
    }

    /// The ids of the objects that are called as `what` is; a note tells of each other.
    fn named(
        &mut self,
        infos: &[ObjectInfo],
        id_of: impl Fn(&str) -> Option<ObjectId>,
        what: &str,
    ) -> Vec<ObjectId> {
        let mut ids = Vec::with_capacity(infos.len());
        for info in infos {
            match id_of(&info.name) {
                Some(id) => ids.push(id),
                None => self.note(format!("{} is no {what} and was not read", info.name)),
            }
        }
        ids
    }

    /// Looks for what acknowledged backups left behind and is no longer there; those of `unread` are
    /// receipts that cannot be read.
    fn receipts(
        &mut self,
        receipts: &[ObjectInfo],
        unread: Vec<(ObjectId, StoreError)>,
        snapshots: &[ObjectInfo],
    ) -> Result<(), StoreError> {
        let names = |infos: &[ObjectInfo]| -> HashSet<String> {
            infos.iter().map(|info| info.name.clone()).collect()
        };
        let snapshot_names = names(snapshots);
        let mut alone: BTreeSet<_> =
            self.named(receipts, receipt_id, "receipt").into_iter().collect();
        alone.retain(|id| !snapshot_names.contains(&snapshot_name(*id)));
        for (id, error) in unread {
            // Forgotten since it was listed: the receipt goes before the snapshot.
            if error.is_not_found() {
                alone.remove(&id);
                continue;
            }
            let problem = self.problem(error)?;
            self.find(receipt_name(id), problem);
            self.found.bad_receipts.push(id);
        }
        self.receipts_alone(&alone)?;
        let receipt_names = names(receipts);
        for id in snapshots.iter().filter_map(|info| snapshot_id(&info.name)) {
            let receipt = receipt_name(id);
            if !receipt_names.contains(&receipt) && !self.is_fence(id) {
                self.note(format!(
                    "{receipt} is missing: the backup was cut off just before it was \
                     acknowledged, or the object was removed; the snapshot is whole without it"
                ));
            }
        }
        Ok(())
    }

    /// Judges receipts without a snapshot: it was lost, unless a log says that it was forgotten.
    fn receipts_alone(&mut self, alone: &BTreeSet<ObjectId>) -> Result<(), StoreError> {
        if alone.is_empty() {
            return Ok(());
        }
        let forgotten = Seen::forgotten_of(self.repository, alone)?;
        for id in alone {
            if !forgotten.contains(id) {
                self.find(snapshot_name(*id), "is missing, though its backup was acknowledged");
                continue;
            }
            let receipt = receipt_name(*id);
            self.note(format!(
                "{receipt} is left of a snapshot that was forgotten while its backup ended; it \
                 means nothing, and `check --repair` deletes it"
            ));
            self.found.stale_receipts.push(*id);
        }
        Ok(())
    }

    /// Holds the snapshots against what all the logs say.
    fn logs(&mut self, (seen, found): (Seen, history::Contradictions), snapshots: &[ObjectInfo]) {
        for finding in found.findings() {
            // A receipt may have told already.
            if !self.found.report.findings.iter().any(|other| other.object == finding.object) {
                self.found.report.findings.push(finding.clone());
            }
        }
        self.found.broken_logs =
            found.logs.iter().map(|one| (one.writer, (one.first, one.last))).collect();
        self.found.missing = found.missing.iter().map(|(id, _)| *id).collect();
        let ids = snapshots.iter().filter_map(|info| snapshot_id(&info.name));
        let unlogged: Vec<_> = ids.filter(|id| !seen.has(*id) && !self.is_fence(*id)).collect();
        if !unlogged.is_empty() {
            let names: Vec<_> = unlogged.iter().map(ObjectId::to_string).collect();
            self.note(format!(
                "snapshots in no log: {}; their backups were cut off just before they were \
                 acknowledged, or are about to be, or a forget was cut off; or the repository hides \
                 part of a log, or brought back what was forgotten",
                names.join(", ")
            ));
        }
        self.found.seen = seen;
    }

    /// Takes up what is wrong with keys and epochs.
    fn keys(
        &mut self,
        (findings, notes): (Vec<StoreError>, Vec<String>),
    ) -> Result<(), StoreError> {
        for error in findings {
            let (object, problem) = match error {
                StoreError::Envelope { object, source } => (object, source.to_string()),
                StoreError::Malformed { object, source } => (object, source.to_string()),
                _ => ("keys".into(), self.problem(error)?),
            };
            self.find(object, problem);
        }
        self.found.report.notes.extend(notes);
        Ok(())
    }

    fn is_fence(&self, id: ObjectId) -> bool {
        matches!(Snapshot::find(self.repository, id), Ok(None))
    }

    /// Which containers prunes have condemned.
    fn marks(&mut self) -> Result<(), StoreError> {
        let Repository { objects, envelope, .. } = self.repository;
        let marks = Marks::read(&**objects, envelope)?;
        marks.damaged.iter().for_each(|damage| self.find("marks", damage));
        self.condemned = marks.condemned();
        let condemned = self.condemned.len();
        if condemned > 0 {
            self.note(format!("{condemned} containers are condemned; a prune will delete them"));
        }
        Ok(())
    }

    /// What backups left to be finished, or are just at.
    fn intents(&mut self, intents: usize) {
        if intents > 0 {
            self.note(format!(
                "{intents} backups have begun and not ended, or died; a prune sees to what is left"
            ));
        }
    }

    /// Reads every tree of every snapshot and looks for every chunk; the index that it used.
    fn snapshots(&mut self, infos: &[ObjectInfo]) -> Result<Index, StoreError> {
        let Repository { objects, envelope, fingerprinter, .. } = self.repository;
        let index = std::mem::take(&mut self.index);
        let containers = std::mem::take(&mut self.containers);
        let fingerprinter = fingerprinter.clone();
        let reader =
            ChunkReader::new(&**objects, envelope, None, fingerprinter, &index, &containers)
                .keeping_short(std::mem::take(&mut self.with_trees));
        let mut walk = Walk { reader: &reader, index: &index, seen: Checked::default() };
        let mut refused = 0;
        self.progress.noun.get_or_init(|| "snapshots");
        self.progress.total_files.store(infos.len() as u64, Ordering::Relaxed);
        let mut rest = infos;
        while !rest.is_empty() {
            self.cancel.check()?;
            let (some, others) = rest.split_at(at_a_time(rest));
            rest = others;
            let ids = self.named(some, snapshot_id, "snapshot");
            Progress::add(&self.progress.files, (some.len() - ids.len()) as u64);
            let mut looked = Vec::with_capacity(ids.len());
            Snapshot::look_many(self.repository, &ids, &mut |id, found| looked.push((id, found)))?;
            let roots = looked.iter().filter_map(|(_, found)| root_of(found.as_ref().ok()?));
            let is_walked = |tree: &Recipe| walk.whole_tree(tree).is_some();
            trees_ahead::read(&reader, roots, &is_walked);
            for (id, found) in looked {
                self.cancel.check()?;
                Progress::add(&self.progress.files, 1);
                let found = match found {
                    Ok(Found::Snapshot(snapshot)) => Ok(snapshot),
                    Ok(Found::Fence) => continue,
                    Ok(Found::Refused) => {
                        refused += 1;
                        continue;
                    }
                    // Forgotten since it was listed.
                    Err(StoreError::Backend(error)) if error.is_not_found() => continue,
                    Err(error) => Err(error),
                };
                self.found.report.snapshots += 1;
                match found {
                    Ok(snapshot) => {
                        let mut path = format!("snapshot {id}: ");
                        if !self.node(&mut walk, &mut path, &snapshot.root.node)? {
                            self.found.broken.push(id);
                        }
                    }
                    Err(error) => {
                        let problem = self.problem(error)?;
                        self.find(snapshot_name(id), problem);
                    }
                }
            }
        }
        if refused > 0 {
            self.note(format!(
                "{refused} snapshots count for nothing: write-only clients put them whose keys had \
                 been taken back"
            ));
        }
        Ok(index)
    }

    /// Whether an entry and what is below it are whole; `path` leads to it, for the findings.
    fn node(
        &mut self,
        walk: &mut Walk<'_>,
        path: &mut String,
        node: &Node,
    ) -> Result<bool, StoreError> {
        self.cancel.check()?;
        self.progress.at(|| PathBuf::from(&**path));
        if let Err(error) = tree::check_depth(walk.seen.depth) {
            self.find(&**path, describe(&error));
            return Ok(false);
        }
        match node {
            Node::File { content, .. } => self.content(walk, path, content),
            Node::Directory { tree: tree @ Tree::Inline(_) } => self.tree(walk, path, tree),
            Node::Directory { tree: tree @ Tree::Stored(recipe) } => {
                if let Some(is_whole) = walk.whole_tree(recipe) {
                    return Ok(is_whole);
                }
                if !self.content(walk, path, recipe)? {
                    walk.seen.note_tree_in_part(recipe);
                    return Ok(false);
                }
                // A tree cannot hold itself, unless somebody found a collision.
                walk.note_tree(recipe, false);
                let is_whole = self.tree(walk, path, tree)?;
                walk.note_tree(recipe, is_whole);
                Ok(is_whole)
            }
            _ => Ok(true),
        }
    }

    /// Whether what the directory of `tree` holds is whole.
    fn tree(
        &mut self,
        walk: &mut Walk<'_>,
        path: &mut String,
        tree: &Tree,
    ) -> Result<bool, StoreError> {
        self.found.report.trees += 1;
        let mut entries = match Entries::of(tree) {
            Ok(entries) => entries,
            Err(error) => {
                self.find(&**path, describe(&error));
                return Ok(false);
            }
        };
        let mut is_whole = true;
        walk.seen.depth += 1;
        loop {
            let child = match entries.next(walk.reader, Detail::Outline) {
                Ok(Some(child)) => child,
                Ok(None) => break,
                Err(error) => {
                    let problem = self.problem(error)?;
                    self.find(&**path, problem);
                    is_whole = false;
                    break;
                }
            };
            entries.park_before(&child);
            let len = path.len();
            path.push('/');
            path.push_str(&String::from_utf8_lossy(&child.name));
            is_whole &= self.node(walk, path, &child.node)?;
            path.truncate(len);
        }
        walk.seen.depth -= 1;
        Ok(is_whole)
    }

    /// Whether all that `recipe` lists is there; what is not is found at `path`.
    fn content(
        &mut self,
        walk: &mut Walk<'_>,
        path: &str,
        recipe: &Recipe,
    ) -> Result<bool, StoreError> {
        Ok(self.recipe(walk, path, recipe)?.is_none())
    }

    /// Finds what is wrong with a recipe, nodes that cannot be read and chunks that are not there,
    /// and gives the first of it.
    fn recipe(
        &mut self,
        walk: &mut Walk<'_>,
        path: &str,
        recipe: &Recipe,
    ) -> Result<Option<String>, StoreError> {
        if recipe.len == 0 || walk.seen.is_whole(recipe) {
            return Ok(None);
        }
        // Nodes can list the same broken one thousands of times, at each level.
        if let Some(problem) = walk.seen.broken.get(recipe) {
            self.find(path, problem);
            return Ok(Some(problem.clone()));
        }
        if recipe.depth == 0 {
            // To look a chunk up once more costs less than to remember each.
            let problem = match walk.index.get(&recipe.root).map(|hint| u64::from(hint.0.len)) {
                Some(len) if len == recipe.len => return Ok(None),
                Some(len) => {
                    format!("chunk {} has {len} bytes, expected {}", recipe.root, recipe.len)
                }
                None => self.missing(&recipe.root),
            };
            self.find(path, &problem);
            return Ok(Some(problem));
        }
        let children = match walk.reader.children(recipe) {
            Ok(children) => children,
            Err(error) => {
                let problem = match error {
                    StoreError::MissingChunk { fingerprint } => self.missing(&fingerprint),
                    error => self.problem(error)?,
                };
                self.find(path, &problem);
                walk.seen.note_unreadable(recipe, &problem);
                return Ok(Some(problem));
            }
        };
        let mut first = None;
        for child in children {
            let problem = self.recipe(walk, path, &child)?;
            first = first.or(problem);
        }
        match &first {
            None => walk.seen.note_whole(recipe),
            Some(problem) => drop(walk.seen.broken.insert(*recipe, problem.clone())),
        }
        Ok(first)
    }

    /// That a chunk is missing, and where it was if a run tells.
    fn missing(&self, fingerprint: &Fingerprint) -> String {
        let what = StoreError::MissingChunk { fingerprint: *fingerprint };
        match self.gone.get(fingerprint) {
            Some(id) => format!("{what}; {} had it", container_name(*id)),
            None => what.to_string(),
        }
    }
}

fn root_of(found: &Found) -> Option<&Node> {
    match found {
        Found::Snapshot(snapshot) => Some(&snapshot.root.node),
        Found::Fence | Found::Refused => None,
    }
}

/// How many of `snapshots` are read and held together.
fn at_a_time(snapshots: &[ObjectInfo]) -> usize {
    let mut len = 0;
    let fits = |info: &&ObjectInfo| {
        len += info.size;
        len <= MAX_SNAPSHOTS_LEN
    };
    snapshots.iter().take(MAX_SNAPSHOTS).take_while(fits).count().max(1)
}

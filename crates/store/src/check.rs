//! Checking: is everything there that something refers to, and is it what was written?
//!
//! The check starts from the containers, which are the truth about chunks, and holds the index,
//! the snapshots and everything that snapshots reach against them. It repairs nothing and stops at
//! nothing: whatever is wrong becomes a [`Finding`] that names its object.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::Ordering;

use onefold_backend::ObjectInfo;
use onefold_container::{self as container, Directory, container_id, container_name};
use onefold_fingerprint::Fingerprint;
use onefold_index::{self as index, Index, Run, run_id};
use onefold_seal::ObjectId;

use crate::chunks::ChunkReader;
use crate::intent;
use crate::mark::Marks;
use crate::place::Containers;
use crate::receipt::{self, receipt_id, receipt_name};
use crate::repository::{describe, places, read_tree};
use crate::snapshot::{self, snapshot_id, snapshot_name};
use crate::tree::{self, Entry, Node, Tree};
use crate::{Cancel, Place, Progress, Recipe, Repository, Snapshot, StoreError};

/// No container that a writer makes is longer; memory is taken for as much at once.
const MAX_READ_WHOLE: u64 = 128 << 20;

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

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The object's name, or the path in a snapshot.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.problem)
    }
}

/// What a check saw and found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What is wrong. Empty if every snapshot can be restored, as far as was read.
    pub findings: Vec<Finding>,
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
    /// Trees read: distinct ones, and those inside the entries of such.
    pub trees: u64,
    /// Bytes of containers read whole.
    pub read_bytes: u64,
}

/// Checks the repository.
///
/// An error means that the check itself could not go on, or was interrupted.
pub fn check(
    repository: &Repository,
    reading: Reading,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Report, StoreError> {
    let mut check = Check {
        repository,
        progress,
        cancel,
        report: Report::default(),
        directories: HashMap::new(),
        index: Index::new(),
        containers: Containers::default(),
        gone: HashMap::new(),
    };
    // Snapshots first: whatever they refer to was durable before them, so that a backup that
    // runs beside the check cannot make it see a snapshot without its chunks.
    let objects = &repository.objects;
    let receipts = objects.list(receipt::PREFIX)?;
    let snapshots = objects.list(snapshot::PREFIX)?;
    let runs = objects.list(index::PREFIX)?;
    check.containers(&objects.list(container::PREFIX)?, reading)?;
    check.runs(&runs)?;
    check.receipts(&receipts, &snapshots)?;
    check.keys()?;
    check.snapshots(&snapshots)?;
    check.unfinished()?;
    Ok(check.report)
}

struct Check<'a> {
    repository: &'a Repository,
    progress: &'a Progress,
    cancel: &'a Cancel,
    report: Report,
    /// What the containers that could be read hold.
    directories: HashMap<ObjectId, Directory>,
    index: Index<Place>,
    containers: Containers,
    /// Containers that are not there, by the chunks that runs say they held.
    gone: HashMap<Fingerprint, ObjectId>,
}

impl Check<'_> {
    fn find(&mut self, object: impl Into<String>, problem: impl Into<String>) {
        self.report.findings.push(Finding { object: object.into(), problem: problem.into() });
    }

    fn go_on(&self) -> Result<(), StoreError> {
        match self.cancel.is_cancelled() {
            true => Err(StoreError::Interrupted),
            false => Ok(()),
        }
    }

    fn containers(&mut self, infos: &[ObjectInfo], reading: Reading) -> Result<(), StoreError> {
        let total: u64 = infos.iter().map(|info| info.size).sum();
        self.progress.total_bytes.store(total, Ordering::Relaxed);
        for info in infos {
            self.go_on()?;
            let Some(id) = container_id(&info.name) else {
                self.report.notes.push(format!("{} is no container and was not read", info.name));
                continue;
            };
            self.report.containers += 1;
            let directory = match is_picked(reading) {
                true if info.size <= MAX_READ_WHOLE => self.read_container(id, info),
                picked => {
                    let Repository { objects, envelope, .. } = self.repository;
                    let directory = Directory::read(&**objects, envelope, id, info.size)
                        .map_err(|error| self.find(&info.name, describe(&error)))
                        .ok();
                    if let Some(directory) = directory.as_ref().filter(|_| picked) {
                        self.read_groups(directory, info)?;
                    }
                    directory
                }
            };
            if let Some(directory) = directory {
                let number = self.containers.add(id, info.size);
                for (fingerprint, place) in places(&directory, number) {
                    self.index.publish(fingerprint, place);
                }
                self.report.chunks += directory.chunks.len() as u64;
                self.directories.insert(id, directory);
            }
            Progress::add(&self.progress.bytes, info.size);
        }
        Ok(())
    }

    /// Reads a whole container and verifies each of its chunks.
    fn read_container(&mut self, id: ObjectId, info: &ObjectInfo) -> Option<Directory> {
        let Repository { objects, envelope, fingerprinter, .. } = self.repository;
        let object = match objects.get(&info.name) {
            Ok(object) => object,
            Err(error) => {
                self.find(&info.name, describe(&error));
                return None;
            }
        };
        self.report.read_bytes += object.len() as u64;
        let directory = match Directory::of_object(envelope, id, &object) {
            Ok(directory) => directory,
            Err(error) => {
                self.find(&info.name, describe(&error));
                return None;
            }
        };
        for group in 0..directory.groups.len() as u32 {
            let verified = directory
                .group_of_object(&object, group)
                .and_then(|bytes| directory.verify_group(group, &bytes, fingerprinter));
            if let Err(error) = verified {
                self.find(&info.name, describe(&error));
            }
        }
        Some(directory)
    }

    /// Reads the groups of a container that is too long to be read whole.
    fn read_groups(&mut self, directory: &Directory, info: &ObjectInfo) -> Result<(), StoreError> {
        let Repository { objects, fingerprinter, .. } = self.repository;
        for group in 0..directory.groups.len() as u32 {
            self.go_on()?;
            let verified = directory
                .read_group(&**objects, group)
                .and_then(|bytes| directory.verify_group(group, &bytes, fingerprinter));
            if let Err(error) = verified {
                self.find(&info.name, describe(&error));
            }
        }
        self.report.read_bytes += info.size;
        Ok(())
    }

    /// Holds the index at rest against the containers.
    fn runs(&mut self, infos: &[ObjectInfo]) -> Result<(), StoreError> {
        let mut covered = HashSet::new();
        for info in infos {
            self.go_on()?;
            let Some(id) = run_id(&info.name) else {
                self.report.notes.push(format!("{} is no index run and was not read", info.name));
                continue;
            };
            self.report.runs += 1;
            let Repository { objects, envelope, .. } = self.repository;
            match Run::<Place>::read(&**objects, envelope, id) {
                Ok(run) => {
                    covered.extend(run.covers.iter().copied());
                    self.run(&info.name, &run);
                }
                Err(error) => self.find(&info.name, describe(&error)),
            }
        }
        let uncovered = self.directories.keys().filter(|id| !covered.contains(id)).count();
        if uncovered > 0 {
            self.report.notes.push(format!(
                "{uncovered} containers are in no index run, as a backup that is running or was \
                 cut off leaves them; their footers are read instead"
            ));
        }
        Ok(())
    }

    fn run(&mut self, name: &str, run: &Run<Place>) {
        let mut wrong = Vec::new();
        let mut listed = HashMap::<ObjectId, usize>::new();
        for (fingerprint, place) in &run.entries {
            let Some(id) = run.covers.get(place.container as usize) else {
                wrong.push(format!("chunk {fingerprint} is in container {}", place.container));
                continue;
            };
            *listed.entry(*id).or_default() += 1;
            // A prune deletes containers and leaves runs that cover others as well.
            let Some(directory) = self.directories.get(id) else {
                self.gone.insert(*fingerprint, *id);
                continue;
            };
            let is_there = directory
                .chunk(place.slot)
                .is_ok_and(|chunk| chunk.fingerprint == *fingerprint && chunk.len == place.len);
            if !is_there {
                wrong.push(format!(
                    "chunk {fingerprint} is not in slot {} of container {id}",
                    place.slot
                ));
            }
        }
        for id in &run.covers {
            let expected = self.directories.get(id).map(|directory| directory.chunks.len());
            let found = listed.get(id).copied().unwrap_or_default();
            if expected.is_some_and(|expected| expected != found) {
                wrong.push(format!("lists {found} chunks of container {id}, which has more"));
            }
        }
        wrong.into_iter().for_each(|problem| self.find(name, problem));
    }

    /// Looks for what acknowledged backups left behind and is no longer there.
    fn receipts(
        &mut self,
        receipts: &[ObjectInfo],
        snapshots: &[ObjectInfo],
    ) -> Result<(), StoreError> {
        let names = |infos: &[ObjectInfo]| -> HashSet<String> {
            infos.iter().map(|info| info.name.clone()).collect()
        };
        let snapshot_names = names(snapshots);
        for info in receipts {
            self.go_on()?;
            let Some(id) = receipt_id(&info.name) else {
                self.report.notes.push(format!("{} is no receipt and was not read", info.name));
                continue;
            };
            let Repository { objects, envelope, .. } = self.repository;
            match receipt::read(&**objects, envelope, id) {
                // Forgotten since it was listed: the receipt goes before the snapshot.
                Err(StoreError::Backend(error)) if error.is_not_found() => continue,
                Err(error) => self.find(&info.name, describe(&error)),
                Ok(()) => {}
            }
            if !snapshot_names.contains(&snapshot_name(id)) {
                self.find(snapshot_name(id), "is missing, though its backup was acknowledged");
            }
        }
        let receipt_names = names(receipts);
        for id in snapshots.iter().filter_map(|info| snapshot_id(&info.name)) {
            let receipt = receipt_name(id);
            if !receipt_names.contains(&receipt) && !self.is_fence(id) {
                self.report.notes.push(format!(
                    "{receipt} is missing: the backup was cut off just before it was \
                     acknowledged, or the object was removed; the snapshot is whole without it"
                ));
            }
        }
        Ok(())
    }

    /// Reads every key and every epoch.
    fn keys(&mut self) -> Result<(), StoreError> {
        let (findings, notes) = self.repository.check_keys()?;
        for error in findings {
            let (object, problem) = match &error {
                StoreError::Envelope { object, source } => (object.clone(), source.to_string()),
                StoreError::Malformed { object, source } => (object.clone(), source.to_string()),
                error => ("keys".into(), describe(error)),
            };
            self.find(object, problem);
        }
        self.report.notes.extend(notes);
        Ok(())
    }

    fn is_fence(&self, id: ObjectId) -> bool {
        let Repository { objects, envelope, .. } = self.repository;
        matches!(Snapshot::find(&**objects, envelope, id), Ok(None))
    }

    /// What prunes and backups left to be finished, or are just at.
    fn unfinished(&mut self) -> Result<(), StoreError> {
        let Repository { objects, envelope, .. } = self.repository;
        let marks = Marks::read(&**objects, envelope)?;
        marks.damaged.iter().for_each(|damage| self.find("marks", damage));
        let condemned = marks.condemned().len();
        if condemned > 0 {
            self.report
                .notes
                .push(format!("{condemned} containers are condemned; a prune will delete them"));
        }
        let intents = objects.list(intent::PREFIX)?.len();
        if intents > 0 {
            self.report.notes.push(format!(
                "{intents} backups have begun and not ended, or died; a prune sees to what is left"
            ));
        }
        Ok(())
    }

    /// Reads every tree of every snapshot and looks for every chunk.
    fn snapshots(&mut self, infos: &[ObjectInfo]) -> Result<(), StoreError> {
        let Repository { objects, envelope, fingerprinter, .. } = self.repository;
        let index = std::mem::take(&mut self.index);
        let containers = std::mem::take(&mut self.containers);
        let fingerprinter = fingerprinter.clone();
        let reader = ChunkReader::new(&**objects, envelope, fingerprinter, &index, &containers);
        let mut seen = Seen::default();
        for info in infos {
            let Some(id) = snapshot_id(&info.name) else {
                self.report.notes.push(format!("{} is no snapshot and was not read", info.name));
                continue;
            };
            let found = match Snapshot::find(&**objects, envelope, id) {
                Ok(Some(snapshot)) => Ok(snapshot),
                Ok(None) => continue,
                // Forgotten since it was listed.
                Err(StoreError::Backend(error)) if error.is_not_found() => continue,
                Err(error) => Err(error),
            };
            self.report.snapshots += 1;
            match found {
                Ok(snapshot) => {
                    let mut path = format!("snapshot {id}: ");
                    self.entry(&reader, &index, &mut path, &snapshot.root, &mut seen)?;
                }
                Err(error) => self.find(&info.name, describe(&error)),
            }
        }
        Ok(())
    }

    /// Checks an entry and what is below it; `path` leads to it, for the findings.
    fn entry(
        &mut self,
        reader: &ChunkReader<'_>,
        index: &Index<Place>,
        path: &mut String,
        entry: &Entry,
        seen: &mut Seen,
    ) -> Result<(), StoreError> {
        self.go_on()?;
        if let Err(error) = tree::check_depth(seen.depth) {
            self.find(&**path, describe(&error));
            return Ok(());
        }
        match &entry.node {
            Node::File { content, .. } => {
                for problem in self.recipe(reader, index, content, seen) {
                    self.find(&**path, problem);
                }
            }
            Node::Directory { tree } => {
                if let Tree::Stored(recipe) = tree {
                    if !seen.trees.insert(*recipe) {
                        return Ok(());
                    }
                    let problems = self.recipe(reader, index, recipe, seen);
                    if !problems.is_empty() {
                        problems.into_iter().for_each(|problem| self.find(&**path, problem));
                        return Ok(());
                    }
                }
                self.report.trees += 1;
                match read_tree(reader, entry).map(Option::unwrap_or_default) {
                    Ok(entries) => {
                        seen.depth += 1;
                        for child in entries {
                            let len = path.len();
                            path.push('/');
                            path.push_str(&String::from_utf8_lossy(&child.name));
                            self.entry(reader, index, path, &child, seen)?;
                            path.truncate(len);
                        }
                        seen.depth -= 1;
                    }
                    Err(error) => self.find(&**path, describe(&error)),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What is wrong with a recipe: nodes that cannot be read, chunks that are not there.
    fn recipe(
        &self,
        reader: &ChunkReader<'_>,
        index: &Index<Place>,
        recipe: &Recipe,
        seen: &mut Seen,
    ) -> Vec<String> {
        if recipe.len == 0 || seen.whole.contains(recipe) {
            return Vec::new();
        }
        // Nodes can list the same broken one thousands of times, at each level.
        if let Some(problem) = seen.broken.get(recipe) {
            return vec![problem.clone()];
        }
        let problems = if recipe.depth > 0 {
            match reader.children(recipe) {
                Ok(children) => children
                    .iter()
                    .flat_map(|child| self.recipe(reader, index, child, seen))
                    .collect(),
                Err(StoreError::MissingChunk { fingerprint }) => vec![self.missing(&fingerprint)],
                Err(error) => vec![describe(&error)],
            }
        } else {
            match index.get(&recipe.root).map(|hint| u64::from(hint.0.len)) {
                Some(len) if len == recipe.len => Vec::new(),
                Some(len) => {
                    vec![format!("chunk {} has {len} bytes, expected {}", recipe.root, recipe.len)]
                }
                None => vec![self.missing(&recipe.root)],
            }
        };
        match problems.first() {
            None => drop(seen.whole.insert(*recipe)),
            Some(problem) => drop(seen.broken.insert(*recipe, problem.clone())),
        }
        problems
    }
}

impl Check<'_> {
    /// That a chunk is missing, and where it was if a run tells.
    fn missing(&self, fingerprint: &Fingerprint) -> String {
        let what = StoreError::MissingChunk { fingerprint: *fingerprint };
        match self.gone.get(fingerprint) {
            Some(id) => format!("{what}; {} had it", container_name(*id)),
            None => what.to_string(),
        }
    }
}

/// What was checked already and need not be again.
#[derive(Default)]
struct Seen {
    trees: HashSet<Recipe>,
    whole: HashSet<Recipe>,
    /// Recipes that are not, each with what is wrong with it first.
    broken: HashMap<Recipe, String>,
    /// How deep the directory at hand is nested.
    depth: usize,
}

fn is_picked(reading: Reading) -> bool {
    match reading {
        Reading::Nothing => false,
        Reading::All => true,
        Reading::Percent(percent) => {
            let draw = ObjectId::random();
            let [a, b, c, d, ..] = *draw.as_bytes();
            f64::from(u32::from_be_bytes([a, b, c, d])) < percent / 100.0 * 2f64.powi(32)
        }
    }
}

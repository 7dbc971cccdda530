//! Copying snapshots from one repository to another, which may name and cut chunks otherwise.
//!
//! Only what the other repository lacks crosses. Where both name chunks alike that is known without
//! reading them; else each chunk is read once, because only its bytes tell its other name. Chunks
//! stay as they were cut, unless the user wants the data cut anew.
//!
//! To the other repository a copy is a backup: it gives notice of each snapshot to come before it
//! looks at what is there, and commits each by a conditional put.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use onefold_container::Content;
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;

use crate::backup;
use crate::backup::commit::Announced;
use crate::chunks::ChunkReader;
use crate::graft::Graft;
use crate::place::Used;
use crate::recipe::Joiner;
use crate::repository::read_tree;
use crate::seeded::{self, Bug};
use crate::tree::{self, Entry, Node, Time, Tree};
use crate::{Cancel, Progress, Recipe, Repository, Snapshot, StoreError};

/// Names of chunks that are remembered at most, some 40 MB.
const MAX_NAMES: usize = 1 << 18;
/// Files and trees that are remembered at most.
const MAX_RECIPES: usize = 1 << 17;

/// How a copy is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The host that the notices name.
    pub host: String,
    /// The user that they name.
    pub user: String,
    /// Whether files are cut anew, by the chunker of the repository that they are copied to.
    pub rechunk: bool,
    /// Length in bytes at which a container is sealed.
    pub container_len: usize,
}

/// What a copy did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Snapshots with those that were made of them.
    pub copied: Vec<(ObjectId, ObjectId)>,
    /// Snapshots that were there already, with what stands for them there.
    pub there: Vec<(ObjectId, ObjectId)>,
    /// Bytes of chunks that crossed, before compression.
    pub new_bytes: u64,
    /// Bytes of the containers that they take.
    pub stored_bytes: u64,
}

/// Copies `snapshots` of `from` to `to`, the oldest first.
///
/// A snapshot keeps its time, host, user, paths and tags, with one more if a write-only client made it,
/// and has the one that it was copied from
/// for its parent. One that is there with the same time, host, paths and tags is not copied again.
/// Stopped or failed it leaves whole snapshots only; another copy goes on.
pub fn copy(
    from: &Repository,
    to: &Repository,
    mut snapshots: Vec<(ObjectId, Snapshot)>,
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let (there, _damaged) = to.snapshots()?;
    snapshots.sort_by_key(|(id, snapshot)| (snapshot.time, *id));
    snapshots.retain(|(id, snapshot)| {
        match there.iter().find(|(_, other)| is_same(snapshot, other)) {
            Some((other, _)) => report.there.push((*id, *other)),
            None => return true,
        }
        false
    });
    // A copy before this one may have failed just before it was told.
    report.there.iter().try_for_each(|(_, copy)| to.acknowledge(*copy))?;
    if snapshots.is_empty() {
        return Ok(report);
    }
    let bytes = snapshots.iter().map(|(_, snapshot)| snapshot.summary.bytes);
    let total = bytes.fold(0, u64::saturating_add);
    progress.total_bytes.store(total, Ordering::Relaxed);
    let who = backup::Options {
        host: options.host.clone(),
        user: options.user.clone(),
        ..backup::Options::default()
    };
    // All notices first: then the index that is loaded now holds until the last commit.
    let mut announced = Vec::new();
    let result = snapshots
        .iter()
        .try_for_each(|_| {
            announced.push(Announced::new(to, &who, Time::now())?);
            Ok(())
        })
        .and_then(|()| {
            let copied = (progress, cancel);
            copy_all(from, to, &snapshots, options, copied, &mut announced, &mut report)
        });
    announced.into_iter().for_each(Announced::withdraw);
    result.map(|()| report)
}

/// Whether `copy` stands for `snapshot`. One that a write-only client made stands for none but such.
fn is_same(snapshot: &Snapshot, copy: &Snapshot) -> bool {
    let tags = snapshot.tags_of_copy();
    (snapshot.time, &snapshot.host, &snapshot.paths) == (copy.time, &copy.host, &copy.paths)
        && (tags == copy.tags || snapshot.tags == copy.tags)
        && snapshot.is_from_client == copy.is_from_client
}

fn copy_all<'a>(
    from: &Repository,
    to: &'a Repository,
    snapshots: &[(ObjectId, Snapshot)],
    options: &Options,
    (progress, cancel): (&Progress, &Cancel),
    announced: &mut Vec<Announced<'a>>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let loaded = to.load_index()?;
    loaded.marks.expect_whole()?;
    let used = Used::of(&loaded.containers);
    let graft = Graft::new(to, &loaded, &used, options.container_len)?;
    let reader = from.reader()?;
    let names_alike = !from.is_encrypted()
        && !to.is_encrypted()
        && from.config().fingerprint == to.config().fingerprint;
    let mut crossing = Crossing {
        reader: &reader,
        graft,
        names_alike,
        rechunk: options.rechunk,
        names: HashMap::new(),
        files: HashMap::new(),
        trees: HashMap::new(),
        progress,
        cancel,
    };
    for (id, snapshot) in snapshots {
        let before = crossing.graft.new_bytes;
        let root = match crossing.entry(&snapshot.root, 0) {
            Ok(root) => root,
            Err(error) => {
                // What crossed is kept for the next copy.
                crossing.graft.finish()?;
                return Err(match error {
                    StoreError::Interrupted => error,
                    source => StoreError::Broken { snapshot: *id, source: Box::new(source) },
                });
            }
        };
        if !seeded::active(Bug::CopyCommittedEarly) {
            crossing.graft.finish()?;
        }
        let new_bytes = crossing.graft.new_bytes - before;
        let summary = crate::Summary { new_bytes, ..snapshot.summary };
        let tags = snapshot.tags_of_copy();
        let copy = Snapshot { parent: Some(*id), tags, summary, root, ..snapshot.clone() };
        let notice = announced.pop().expect("there is one for each snapshot");
        let committed = notice.commit(&copy, &loaded, &used).map_err(StoreError::half_way)?;
        report.copied.push((*id, committed));
        if seeded::active(Bug::CopyCommittedEarly) {
            crossing.graft.finish()?;
        }
        report.new_bytes = crossing.graft.new_bytes;
        report.stored_bytes = crossing.graft.stored_bytes();
    }
    Ok(())
}

/// What brings chunks from one repository into another.
struct Crossing<'a> {
    reader: &'a ChunkReader<'a>,
    graft: Graft<'a>,
    /// Whether the same bytes have the same fingerprint in both.
    names_alike: bool,
    rechunk: bool,
    /// What chunks are called there.
    names: HashMap<Fingerprint, Fingerprint>,
    /// What became of files of more than one chunk.
    files: HashMap<Recipe, Recipe>,
    /// What became of trees.
    trees: HashMap<Recipe, Tree>,
    progress: &'a Progress,
    cancel: &'a Cancel,
}

impl Crossing<'_> {
    fn entry(&mut self, entry: &Entry, depth: usize) -> Result<Entry, StoreError> {
        tree::check_depth(depth)?;
        if self.cancel.is_cancelled() {
            return Err(StoreError::Interrupted);
        }
        let node = match &entry.node {
            Node::File { size, content, extents } => {
                let content = self.file(content)?;
                Progress::add(&self.progress.files, 1);
                Node::File { size: *size, content, extents: extents.clone() }
            }
            Node::Directory { tree } => {
                Node::Directory { tree: self.directory(entry, tree, depth)? }
            }
            other => other.clone(),
        };
        Ok(Entry { node, ..entry.clone() })
    }

    fn directory(&mut self, entry: &Entry, tree: &Tree, depth: usize) -> Result<Tree, StoreError> {
        let recipe = match tree {
            Tree::Stored(recipe) => Some(*recipe),
            Tree::Inline(_) => None,
        };
        if let Some(known) = recipe.and_then(|recipe| self.trees.get(&recipe)) {
            return Ok(known.clone());
        }
        let mut entries = read_tree(self.reader, entry)?.unwrap_or_default();
        for child in &mut entries {
            *child = self.entry(child, depth + 1)?;
        }
        let bytes = tree::encode(&entries);
        // A snapshot's root is always stored.
        let copy = match bytes.len() > Tree::INLINE_MAX || depth == 0 {
            true => Tree::Stored(self.graft.tree(&bytes)?),
            false => Tree::Inline(bytes),
        };
        if let Some(recipe) = recipe {
            remember(&mut self.trees, MAX_RECIPES, recipe, copy.clone());
        }
        Ok(copy)
    }

    fn file(&mut self, content: &Recipe) -> Result<Recipe, StoreError> {
        if let Some(known) = self.files.get(content) {
            Progress::add(&self.progress.bytes, content.len);
            return Ok(*known);
        }
        let copy = match self.rechunk {
            true => self.cut_anew(content)?,
            false => {
                let mut recipe = Joiner::default();
                let reader = self.reader;
                reader.visit(content, &mut |leaf| {
                    let copy = self.chunk(&leaf)?;
                    recipe.push(copy, &mut |node| self.graft.node(node))
                })?;
                recipe.finish(&mut |node| self.graft.node(node))?
            }
        };
        if content.depth > 0 || self.rechunk {
            remember(&mut self.files, MAX_RECIPES, *content, copy);
        }
        Ok(copy)
    }

    /// A chunk under the name that it has there; it crosses if it is not there.
    fn chunk(&mut self, leaf: &Recipe) -> Result<Recipe, StoreError> {
        if self.cancel.is_cancelled() {
            return Err(StoreError::Interrupted);
        }
        Progress::add(&self.progress.bytes, leaf.len);
        let name = match self.names_alike {
            true => Some(leaf.root),
            false => self.names.get(&leaf.root).copied(),
        };
        if let Some(name) = name.filter(|name| self.graft.has(name)) {
            return Ok(Recipe::chunk(name, leaf.len));
        }
        let before = self.graft.new_bytes;
        let copy = self.graft.bytes(Content::Data, &self.reader.leaf(leaf)?)?;
        Progress::add(&self.progress.new_bytes, self.graft.new_bytes - before);
        if !self.names_alike {
            remember(&mut self.names, MAX_NAMES, leaf.root, copy.root);
        }
        Ok(copy)
    }

    /// Cuts a file's bytes by the other repository's chunker.
    fn cut_anew(&mut self, content: &Recipe) -> Result<Recipe, StoreError> {
        let (mut bytes, mut recipe) = (Vec::new(), Joiner::default());
        let Self { reader, graft, progress, cancel, .. } = self;
        reader.visit(content, &mut |leaf| {
            if cancel.is_cancelled() {
                return Err(StoreError::Interrupted);
            }
            bytes.extend_from_slice(&reader.leaf(&leaf)?);
            Progress::add(&progress.bytes, leaf.len);
            graft.cut(&mut bytes, false, &mut recipe)
        })?;
        graft.cut(&mut bytes, true, &mut recipe)?;
        recipe.finish(&mut |node| graft.node(node))
    }
}

/// Notes what is known, and forgets all else first if that would be too much.
fn remember<K: Eq + std::hash::Hash, V>(known: &mut HashMap<K, V>, max: usize, key: K, value: V) {
    if known.len() >= max {
        known.clear();
    }
    known.insert(key, value);
}

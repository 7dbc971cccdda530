//! Which hosts, or tags, need how much of a repository.

use std::collections::{BTreeMap, HashSet};

use onefold_fingerprint::Fingerprint;
use onefold_index::Hint;
use onefold_seal::ObjectId;

use crate::chunks::loaded::Loaded;
use crate::chunks::reader::{ChunkReader, Chunks};
use crate::reading::entries::Entries;
use crate::tree::{self, Detail, Entry, Node, Tree};
use crate::{Cancel, Progress, Recipe, Repository, Snapshot, StoreError};

/// What the snapshots of a share have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The host.
    Host,
    /// A tag. A snapshot with several tags is in several shares.
    Tag,
}

/// How much some of the snapshots need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The host or tag; none for snapshots without a tag.
    pub name: Option<String>,
    /// How many snapshots.
    pub snapshots: u64,
    /// Bytes of all their files.
    pub logical_bytes: u64,
    /// Bytes of the distinct chunks that they reach, metadata included, before compression.
    pub unique_bytes: u64,
    /// Of these, bytes of chunks that no other share reaches: what forgetting all of them frees.
    pub own_bytes: u64,
}

/// Adds up what the snapshots reach, by what they have in common; in order of names.
pub fn shares(
    repository: &Repository,
    by: Sharing,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Vec<Share>, StoreError> {
    let (snapshots, damaged) = repository.snapshots()?;
    if let Some(error) = damaged.into_iter().next() {
        return Err(error);
    }
    let mut groups = BTreeMap::<Option<String>, Vec<(ObjectId, Snapshot)>>::new();
    for (id, snapshot) in snapshots {
        let names: Vec<Option<String>> = match by {
            Sharing::Host => vec![Some(snapshot.host.clone())],
            Sharing::Tag if snapshot.tags.is_empty() => vec![None],
            Sharing::Tag => {
                let distinct: HashSet<&String> = snapshot.tags.iter().collect();
                distinct.into_iter().map(|tag| Some(tag.clone())).collect()
            }
        };
        for name in names {
            groups.entry(name).or_default().push((id, snapshot.clone()));
        }
    }
    let loaded = repository.loaded()?;
    let reader = repository.reader()?;
    let mut walk = Walk {
        reader: &reader,
        loaded,
        cancel,
        slots: Vec::new(),
        walked: HashSet::new(),
        at: 0,
        unique: vec![0; groups.len()],
        own: vec![0; groups.len()],
    };
    progress.noun.get_or_init(|| "snapshots");
    let mut shares = Vec::new();
    for (at, (name, members)) in (0u32..).zip(groups) {
        walk.at = at;
        walk.walked.clear();
        let mut logical_bytes = 0u64;
        for (id, snapshot) in &members {
            logical_bytes = logical_bytes.saturating_add(snapshot.summary.bytes);
            walk.entry(&snapshot.root, 0).map_err(|error| match error {
                error if error.is_no_answer() => error,
                source => StoreError::Broken { snapshot: *id, source: Box::new(source) },
            })?;
            Progress::add(&progress.files, 1);
        }
        let snapshots = members.len() as u64;
        shares.push(Share { name, snapshots, logical_bytes, unique_bytes: 0, own_bytes: 0 });
    }
    for (share, (unique, own)) in shares.iter_mut().zip(walk.unique.iter().zip(&walk.own)) {
        (share.unique_bytes, share.own_bytes) = (*unique, *own);
    }
    Ok(shares)
}

/// What is known of a chunk.
#[derive(Clone, Copy)]
struct Slot {
    /// The share that met it last, counted from 1; 0 if none has.
    last: u32,
    /// The only share that reaches it, or [`SEVERAL`].
    owner: u32,
}

const SEVERAL: u32 = u32::MAX;

struct Walk<'a> {
    reader: &'a ChunkReader<'a>,
    loaded: &'a Loaded,
    cancel: &'a Cancel,
    /// By container and slot.
    slots: Vec<Vec<Slot>>,
    /// Trees, and recipes with nodes, that the share at hand has met.
    walked: HashSet<(Recipe, bool)>,
    /// The share at hand.
    at: u32,
    unique: Vec<u64>,
    own: Vec<u64>,
}

impl Walk<'_> {
    fn entry(&mut self, entry: &Entry, depth: usize) -> Result<(), StoreError> {
        tree::check_depth(depth)?;
        self.cancel.check()?;
        match &entry.node {
            Node::File { content, .. } => self.recipe(content),
            Node::Directory { tree } => {
                if let Tree::Stored(recipe) = tree {
                    if !self.walked.insert((*recipe, true)) {
                        return Ok(());
                    }
                    self.recipe(recipe)?;
                }
                let mut entries = Entries::of(tree)?;
                while let Some(child) = entries.next(self.reader, Detail::Outline)? {
                    entries.park_before(&child);
                    self.entry(&child, depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn recipe(&mut self, recipe: &Recipe) -> Result<(), StoreError> {
        if recipe.len == 0 || recipe.depth > 0 && !self.walked.insert((*recipe, false)) {
            return Ok(());
        }
        self.chunk(&recipe.root)?;
        if recipe.depth > 0 {
            for child in self.reader.children(recipe)? {
                self.recipe(&child)?;
            }
        }
        Ok(())
    }

    fn chunk(&mut self, fingerprint: &Fingerprint) -> Result<(), StoreError> {
        // What only a condemned container has is about to be elsewhere; it is not counted.
        let Some(Hint(place)) = self.loaded.index.get(fingerprint) else {
            return self.reader.chunk(fingerprint).map(drop);
        };
        let (container, slot) = (place.container as usize, place.slot as usize);
        if self.slots.len() <= container {
            self.slots.resize(container + 1, Vec::new());
        }
        let slots = &mut self.slots[container];
        if slots.len() <= slot {
            slots.resize(slot + 1, Slot { last: 0, owner: 0 });
        }
        let (at, len) = (self.at as usize, u64::from(place.len));
        let slot = &mut slots[slot];
        if slot.last == self.at + 1 {
            return Ok(());
        }
        slot.last = self.at + 1;
        self.unique[at] += len;
        match slot.owner {
            0 => {
                slot.owner = self.at + 1;
                self.own[at] += len;
            }
            SEVERAL => {}
            other => {
                self.own[other as usize - 1] -= len;
                slot.owner = SEVERAL;
            }
        }
        Ok(())
    }
}

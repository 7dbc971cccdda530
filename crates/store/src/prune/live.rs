//! Which chunks are live: reached by some snapshot.

use std::collections::{HashMap, HashSet};

use onefold_fingerprint::Fingerprint;
use onefold_index::Hint;

use crate::chunks::ChunkReader;
use crate::loaded::Loaded;
use crate::repository::read_tree;
use crate::tree::{self, Entry, Node, Tree};
use crate::{Cancel, Place, Recipe, StoreError};

/// What is known of a chunk.
///
/// The same bytes may be data, a node and a tree at once, and may be a tree by themselves or the
/// root of a long one's recipe. Each of these leads elsewhere, so each has a bit of its own: a file
/// that was made to look like a tree must not stop the walk at the tree.
#[derive(Clone, Copy)]
struct Bits(u8);

impl Bits {
    /// It is live.
    const LIVE: Self = Self(1);
    /// The chunks that it lists as a lowest node were walked.
    const NODE: Self = Self(2);
    /// What it holds as a tree of one chunk was walked.
    const TREE: Self = Self(4);
    /// What the tree holds that it is the root of, with one level of nodes, was walked.
    const LONG_TREE: Self = Self(8);
}

/// Four bits for each slot of a container.
#[derive(Default, Clone)]
struct Slots(Vec<u8>);

impl Slots {
    fn has(&self, slot: u32, bits: Bits) -> bool {
        let byte = self.0.get(slot as usize / 2).copied().unwrap_or_default();
        (byte >> (4 * (slot % 2))) & bits.0 != 0
    }

    /// Sets `bits`; whether they were not set before.
    fn set(&mut self, slot: u32, bits: Bits) -> bool {
        let at = slot as usize / 2;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let is_new = !self.has(slot, bits);
        self.0[at] |= bits.0 << (4 * (slot % 2));
        is_new
    }
}

/// The live chunks, by where the index says that they are.
#[derive(Default)]
pub(super) struct Live {
    containers: Vec<Slots>,
    /// Live chunks by container: how many, and their bytes.
    sums: Vec<(u64, u64)>,
    /// Live chunks that the index does not know: they are only where nobody may rely on them.
    strays: HashMap<Fingerprint, u8>,
    /// Recipes above the lowest nodes, and directories that have such: rare, and walked once.
    high: HashSet<(Recipe, bool)>,
}

impl Live {
    /// Whether the chunk in `slot` of `container` is live.
    pub(super) fn has(&self, container: u32, slot: u32) -> bool {
        self.containers.get(container as usize).is_some_and(|slots| slots.has(slot, Bits::LIVE))
    }

    /// Bytes of the live chunks of a container, before compression.
    pub(super) fn bytes(&self, container: u32) -> u64 {
        self.sums.get(container as usize).map_or(0, |(_, bytes)| *bytes)
    }

    /// How many live chunks a container has.
    pub(super) fn chunks(&self, container: u32) -> u64 {
        self.sums.get(container as usize).map_or(0, |(chunks, _)| *chunks)
    }

    /// The live chunks that the index does not know.
    pub(super) fn strays(&self) -> impl Iterator<Item = &Fingerprint> {
        self.strays.keys()
    }

    fn set(&mut self, fingerprint: &Fingerprint, place: Option<Place>, bits: Bits) -> bool {
        let Some(place) = place else {
            let known = self.strays.entry(*fingerprint).or_default();
            let is_new = *known & bits.0 == 0;
            *known |= bits.0;
            return is_new;
        };
        let container = place.container as usize;
        if self.containers.len() <= container {
            self.containers.resize(container + 1, Slots::default());
            self.sums.resize(container + 1, (0, 0));
        }
        let is_new = self.containers[container].set(place.slot, bits);
        if is_new && bits.0 == Bits::LIVE.0 {
            let (chunks, bytes) = &mut self.sums[container];
            *chunks += 1;
            *bytes += u64::from(place.len);
        }
        is_new
    }
}

/// Finds out what snapshots reach.
pub(super) struct Walk<'a> {
    pub(super) reader: &'a ChunkReader<'a>,
    pub(super) loaded: &'a Loaded,
    pub(super) live: &'a mut Live,
    pub(super) cancel: &'a Cancel,
}

impl Walk<'_> {
    /// Notes all that `root` reaches.
    pub(super) fn root(&mut self, root: &Entry) -> Result<(), StoreError> {
        self.entry(root, 0)
    }

    fn entry(&mut self, entry: &Entry, depth: usize) -> Result<(), StoreError> {
        match &entry.node {
            Node::File { content, .. } => self.recipe(content),
            Node::Directory { tree } => self.directory(entry, tree, depth),
            _ => Ok(()),
        }
    }

    fn directory(&mut self, entry: &Entry, tree: &Tree, depth: usize) -> Result<(), StoreError> {
        tree::check_depth(depth)?;
        if self.cancel.is_cancelled() {
            return Err(StoreError::Interrupted);
        }
        if let Tree::Stored(recipe) = tree {
            self.recipe(recipe)?;
            let place = self.place(&recipe.root);
            let is_new = match (recipe.len, recipe.depth) {
                (0, _) => return Ok(()),
                (_, 0) => self.live.set(&recipe.root, place, Bits::TREE),
                (_, 1) => self.live.set(&recipe.root, place, Bits::LONG_TREE),
                // So long a tree is rare, and there is no bit for it.
                _ => self.live.high.insert((*recipe, true)),
            };
            if !is_new {
                return Ok(());
            }
        }
        for child in read_tree(self.reader, entry)?.unwrap_or_default() {
            self.entry(&child, depth + 1)?;
        }
        Ok(())
    }

    /// Notes the chunks of a recipe, nodes included.
    fn recipe(&mut self, recipe: &Recipe) -> Result<(), StoreError> {
        if recipe.len == 0 {
            return Ok(());
        }
        let place = self.place(&recipe.root);
        if place.is_none() {
            self.loaded.expect_answers()?;
            // Is it anywhere at all?
            self.reader.chunk(&recipe.root)?;
        }
        self.live.set(&recipe.root, place, Bits::LIVE);
        let is_new = match recipe.depth {
            0 => return Ok(()),
            1 => self.live.set(&recipe.root, place, Bits::NODE),
            _ => self.live.high.insert((*recipe, false)),
        };
        if is_new {
            for child in self.reader.children(recipe)? {
                self.recipe(&child)?;
            }
        }
        Ok(())
    }

    /// Where the index says that the chunk is, unless the container has no room for such a slot:
    /// memory is taken for the slots up to it.
    fn place(&self, fingerprint: &Fingerprint) -> Option<Place> {
        let Hint(place) = self.loaded.index.get(fingerprint)?;
        let container = self.loaded.containers.get(place.container)?;
        (u64::from(place.slot) < container.size / Fingerprint::LEN as u64).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_of_each_slot_is_its_own() {
        let all = [Bits::LIVE, Bits::NODE, Bits::TREE, Bits::LONG_TREE];
        let mut slots = Slots::default();
        for slot in [0, 1, 2, 5] {
            for bits in all {
                assert!(!slots.has(slot, bits));
                assert!(slots.set(slot, bits) && !slots.set(slot, bits));
            }
        }
        for slot in 0..8 {
            let expected = [0, 1, 2, 5].contains(&slot);
            assert!(all.iter().all(|bits| slots.has(slot, *bits) == expected), "{slot}");
        }
    }
}

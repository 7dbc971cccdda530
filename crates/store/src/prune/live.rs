//! Which chunks are live: reached by some snapshot.

use std::collections::{HashMap, HashSet};

use onefold_fingerprint::Fingerprint;
use onefold_index::Hint;

use crate::chunks::bits::{Bits, ChunkBits};
use crate::chunks::loaded::Loaded;
use crate::chunks::reader::{ChunkReader, Chunks};
use crate::reading::entries::Entries;
use crate::tree::{self, Detail, Entry, Node, Tree};
use crate::{Cancel, Place, Recipe, StoreError};

// The same bytes may be data, a node and a tree at once, and may be a tree by themselves or the root
// of a long one's recipe. Each of these leads elsewhere, so each has a bit of its own: a file that was
// made to look like a tree must not stop the walk at the tree.

/// The chunk is live.
const LIVE: Bits = Bits::nth(0);
/// The chunks that it lists as a lowest node were walked.
const NODE: Bits = Bits::nth(1);
/// What it holds as a tree of one chunk was walked.
const TREE: Bits = Bits::nth(2);
/// What the tree holds that it is the root of, with one level of nodes, was walked.
const LONG_TREE: Bits = Bits::nth(3);

/// The live chunks, by where the index says that they are.
#[derive(Default)]
pub(super) struct Live {
    slots: ChunkBits,
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
        self.slots.has(container, slot, LIVE)
    }

    /// The slots of the live chunks of a container, in ascending order.
    pub(super) fn slots(&self, container: u32) -> impl Iterator<Item = u32> + '_ {
        self.slots.slots(container, LIVE)
    }

    /// Whether a walk has been through a tree.
    pub(super) fn has_tree(&self, tree: &Recipe, loaded: &Loaded) -> bool {
        let Some(Hint(place)) = loaded.index.get(&tree.root) else { return false };
        let bits = if tree.depth == 0 { TREE } else { LONG_TREE };
        self.slots.has(place.container, place.slot, bits)
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
        match place {
            Some(place) => self.slots.set(place, bits),
            None => bits.set(self.strays.entry(*fingerprint).or_default()),
        }
    }

    fn set_live(&mut self, fingerprint: &Fingerprint, place: Option<Place>) {
        if !self.set(fingerprint, place, LIVE) {
            return;
        }
        let Some(place) = place else { return };
        let container = place.container as usize;
        if self.sums.len() <= container {
            self.sums.resize(container + 1, (0, 0));
        }
        let (chunks, bytes) = &mut self.sums[container];
        *chunks += 1;
        *bytes += u64::from(place.len);
    }
}

/// Finds out what snapshots reach.
pub(super) struct Walk<'a> {
    pub(super) reader: &'a ChunkReader<'a>,
    pub(super) loaded: &'a Loaded,
    pub(super) live: &'a mut Live,
    pub(super) cancel: &'a Cancel,
    /// Of the directory at hand, for errors.
    pub(super) path: Vec<u8>,
}

impl Walk<'_> {
    /// Notes all that `root` reaches.
    pub(super) fn root(&mut self, root: &Entry) -> Result<(), StoreError> {
        self.node(&root.node, 0)
    }

    fn node(&mut self, node: &Node, depth: usize) -> Result<(), StoreError> {
        match node {
            Node::File { content, .. } => self.recipe(content),
            Node::Directory { tree } => self.directory(tree, depth),
            _ => Ok(()),
        }
    }

    fn directory(&mut self, tree: &Tree, depth: usize) -> Result<(), StoreError> {
        tree::check_depth(depth)?;
        self.cancel.check()?;
        if let Tree::Stored(recipe) = tree {
            self.recipe(recipe)?;
            let place = self.place(&recipe.root);
            let is_new = match (recipe.len, recipe.depth) {
                (0, _) => return Ok(()),
                (_, 0) => self.live.set(&recipe.root, place, TREE),
                (_, 1) => self.live.set(&recipe.root, place, LONG_TREE),
                // So long a tree is rare, and there is no bit for it.
                _ => self.live.high.insert((*recipe, true)),
            };
            if !is_new {
                return Ok(());
            }
        }
        let mut entries = Entries::of(tree).map_err(|error| error.at_path(&self.path))?;
        loop {
            let next = entries.next(self.reader, Detail::Outline);
            let Some(child) = next.map_err(|error| error.at_path(&self.path))? else { break };
            entries.park_before(&child);
            let len = self.path.len();
            self.path.push(b'/');
            self.path.extend_from_slice(&child.name);
            self.node(&child.node, depth + 1)?;
            self.path.truncate(len);
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
        self.live.set_live(&recipe.root, place);
        let is_new = match recipe.depth {
            0 => return Ok(()),
            1 => self.live.set(&recipe.root, place, NODE),
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

//! What a check has seen on its way through snapshots and need not look at again.

use std::collections::{HashMap, HashSet};

use onefold_index::Index;

use crate::chunks::bits::{Bits, ChunkBits};
use crate::chunks::reader::ChunkReader;
use crate::{Place, Recipe};

/// So many recipes are remembered at most whose root cannot be read, and so many trees of which some
/// bytes are missing.
const MAX_UNREADABLE: usize = 1 << 15;

/// So many files are remembered at most whose chunks, listed by one node, are all there.
const MAX_WHOLE: usize = 1 << 18;

/// What snapshots reach, on the way through them.
pub(super) struct Walk<'a> {
    pub(super) reader: &'a ChunkReader<'a>,
    pub(super) index: &'a Index,
    pub(super) seen: Checked,
}

/// A chunk that is a tree by itself was walked.
const TREE: Bits = Bits::nth(0);
/// It is whole, with all that is below it.
const WHOLE_TREE: Bits = Bits::nth(1);

/// What was checked already and need not be again.
///
/// It grows with the chunks that are stored, by half a byte each, and by some hundred bytes for each
/// node above the lowest and for what is broken. It does not grow with what refers to chunks.
#[derive(Default)]
pub(super) struct Checked {
    /// Of trees of one chunk.
    slots: ChunkBits,
    /// Whether other trees are whole, with all that is below them.
    long_trees: HashMap<Recipe, bool>,
    /// Trees of which some bytes are missing, at most [`MAX_UNREADABLE`].
    trees_in_part: HashSet<Recipe>,
    /// Recipes with one level of nodes, all chunks of which are there, at most [`MAX_WHOLE`].
    whole: HashSet<Recipe>,
    /// Recipes with more levels, all of which are there.
    whole_high: HashSet<Recipe>,
    /// Recipes that are not, each with what is wrong with it first.
    pub(super) broken: HashMap<Recipe, String>,
    /// How many of these have a root that cannot be read.
    unreadable: usize,
    /// How deep the directory at hand is nested.
    pub(super) depth: usize,
}

impl Walk<'_> {
    /// Whether a tree is whole, if that is known.
    pub(super) fn whole_tree(&self, recipe: &Recipe) -> Option<bool> {
        if self.seen.trees_in_part.contains(recipe) {
            return Some(false);
        }
        let Some(place) = self.place_of_tree(recipe) else {
            return self.seen.long_trees.get(recipe).copied();
        };
        let has = |bits| self.seen.slots.has(place.container, place.slot, bits);
        has(TREE).then(|| has(WHOLE_TREE))
    }

    /// Notes whether a tree is whole, all of whose own bytes are there.
    pub(super) fn note_tree(&mut self, recipe: &Recipe, is_whole: bool) {
        let Some(place) = self.place_of_tree(recipe) else {
            self.seen.long_trees.insert(*recipe, is_whole);
            return;
        };
        self.seen.slots.set(place, TREE);
        if is_whole {
            self.seen.slots.set(place, WHOLE_TREE);
        }
    }

    /// Where the tree lies, if it is one chunk.
    fn place_of_tree(&self, recipe: &Recipe) -> Option<Place> {
        let place = (recipe.depth == 0).then(|| self.index.get(&recipe.root)).flatten()?.0;
        (u64::from(place.len) == recipe.len).then_some(place)
    }
}

impl Checked {
    /// Notes that some of a tree's own bytes are missing.
    pub(super) fn note_tree_in_part(&mut self, recipe: &Recipe) {
        if self.trees_in_part.len() < MAX_UNREADABLE {
            self.trees_in_part.insert(*recipe);
        }
    }

    /// Notes that a recipe is broken because its root cannot be read. There can be more such recipes
    /// than chunks.
    pub(super) fn note_unreadable(&mut self, recipe: &Recipe, problem: &str) {
        if self.unreadable < MAX_UNREADABLE {
            self.unreadable += 1;
            self.broken.insert(*recipe, problem.to_owned());
        }
    }

    /// Whether a recipe with nodes is known to be whole.
    pub(super) fn is_whole(&self, recipe: &Recipe) -> bool {
        let known = if recipe.depth == 1 { &self.whole } else { &self.whole_high };
        known.contains(recipe)
    }

    /// Notes that a recipe with nodes is whole.
    pub(super) fn note_whole(&mut self, recipe: &Recipe) {
        if recipe.depth > 1 {
            self.whole_high.insert(*recipe);
            return;
        }
        // To read a node once more is cheap, unless another lists it thousands of times.
        if self.whole.len() >= MAX_WHOLE {
            self.whole.clear();
        }
        self.whole.insert(*recipe);
    }
}

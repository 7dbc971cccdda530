//! Recipes: how a string of bytes is put together from chunks.
//!
//! A recipe is the root of a tree. At depth 0 the root is the one chunk that holds all the bytes.
//! At depth *d* > 0 the root is a *node*: a chunk that lists recipes of depth *d* − 1, whose bytes
//! follow one another. Lists of chunks are split into nodes where the fingerprints say so, as
//! content-defined chunking splits bytes, so that a change in a large file changes the nodes near
//! it and leaves the others shared.

use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::{Put, Reader, WireError};

use crate::StoreError;

/// A node is closed after a child whose fingerprint is a multiple of this, about every 512th.
const NODE_MEAN: u64 = 512;
/// No node is closed with fewer children than this, the last one excepted.
const NODE_MIN: usize = 64;
/// A node never has more children than this.
const NODE_MAX: usize = 4096;
/// Deeper than any recipe can grow: 64 children a node at least cover 2^64 chunks in 11 levels.
const MAX_DEPTH: u8 = 11;

/// How a string of bytes is put together from chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// How many bytes.
    pub len: u64,
    /// How many levels of nodes stand above the chunks.
    pub depth: u8,
    /// The root; meaningless if there are no bytes.
    pub root: Fingerprint,
}

impl Recipe {
    /// The recipe of no bytes.
    pub const EMPTY: Self = Self { len: 0, depth: 0, root: Fingerprint::from_bytes([0; 32]) };

    /// The recipe of the bytes of one chunk.
    pub const fn chunk(fingerprint: Fingerprint, len: u64) -> Self {
        Self { len, depth: 0, root: fingerprint }
    }

    /// Appends the recipe's encoding.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_varint(self.len);
        if self.len > 0 {
            bytes.put_u8(self.depth);
            bytes.extend_from_slice(self.root.as_bytes());
        }
    }

    /// Takes a recipe's encoding.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let len = reader.varint("a recipe's length")?;
        if len == 0 {
            return Ok(Self::EMPTY);
        }
        let depth = reader.u8("a recipe's depth")?;
        if depth > MAX_DEPTH {
            return Err(reader.error("a recipe at most 11 levels deep"));
        }
        let root = Fingerprint::from_bytes(reader.array("a recipe's root")?);
        Ok(Self { len, depth, root })
    }

    /// The children that a node of this recipe lists in `bytes`; they add up to its length.
    pub(crate) fn decode_node(&self, bytes: &[u8]) -> Result<Vec<Recipe>, WireError> {
        let mut reader = Reader::new(bytes);
        let count = reader.count(33, "the count of a node's children")?;
        if count > NODE_MAX {
            return Err(reader.error("at most 4096 children"));
        }
        let mut children = Vec::with_capacity(count);
        let mut room = self.len;
        for _ in 0..count {
            let root = Fingerprint::from_bytes(reader.array("a child's fingerprint")?);
            let len = reader.varint_to(room, "a child inside its node")?;
            if len == 0 {
                return Err(reader.error("a child that is not empty"));
            }
            room -= len;
            children.push(Recipe { len, depth: self.depth - 1, root });
        }
        reader.finish()?;
        if room != 0 {
            return Err(reader.error("children that fill their node"));
        }
        Ok(children)
    }
}

/// Puts recipes of equal depth together as they come.
///
/// Holds the children of one open node a level, so at most 4,096 recipes for each of 11 levels,
/// however many come.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    /// The children of the open node, from the lowest level up.
    levels: Vec<Vec<Recipe>>,
}

impl Joiner {
    /// Adds what follows; `store_node` keeps the bytes of each node that is closed and names them.
    pub(crate) fn push(
        &mut self,
        part: Recipe,
        store_node: &mut dyn FnMut(&[u8]) -> Result<Fingerprint, StoreError>,
    ) -> Result<(), StoreError> {
        self.push_at(0, part, store_node)
    }

    /// The recipe of all that was added.
    pub(crate) fn finish(
        mut self,
        store_node: &mut dyn FnMut(&[u8]) -> Result<Fingerprint, StoreError>,
    ) -> Result<Recipe, StoreError> {
        let mut level = 0;
        while level < self.levels.len() {
            let is_top = level + 1 == self.levels.len();
            match &self.levels[level][..] {
                [root] if is_top => return Ok(*root),
                [] => {}
                _ => self.close(level, store_node)?,
            }
            level += 1;
        }
        Ok(Recipe::EMPTY)
    }

    fn push_at(
        &mut self,
        level: usize,
        part: Recipe,
        store_node: &mut dyn FnMut(&[u8]) -> Result<Fingerprint, StoreError>,
    ) -> Result<(), StoreError> {
        if level == self.levels.len() {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(part);
        let count = self.levels[level].len();
        let is_marked = part.root.prefix_u64().is_multiple_of(NODE_MEAN);
        match (count >= NODE_MIN && is_marked) || count == NODE_MAX {
            true => self.close(level, store_node),
            false => Ok(()),
        }
    }

    /// Makes a node of the children at `level`.
    fn close(
        &mut self,
        level: usize,
        store_node: &mut dyn FnMut(&[u8]) -> Result<Fingerprint, StoreError>,
    ) -> Result<(), StoreError> {
        let children = &mut self.levels[level];
        let len = children.iter().map(|child| child.len).sum();
        let depth = children[0].depth + 1;
        let root = store_node(&encode_node(children))?;
        children.clear();
        self.push_at(level + 1, Recipe { len, depth, root }, store_node)
    }
}

fn encode_node(children: &[Recipe]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + children.len() * 37);
    bytes.put_varint(children.len() as u64);
    for child in children {
        bytes.extend_from_slice(child.root.as_bytes());
        bytes.put_varint(child.len);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn leaf(n: u64) -> Recipe {
        // Multiplication spreads the numbers so that some of them close nodes.
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        bytes[8..16].copy_from_slice(&n.to_le_bytes());
        Recipe::chunk(Fingerprint::from_bytes(bytes), n + 1)
    }

    fn store(nodes: &mut HashMap<Fingerprint, Vec<u8>>, bytes: &[u8]) -> Fingerprint {
        let name = Fingerprint::from_bytes(
            *onefold_fingerprint::Fingerprinter::blake3().fingerprint(bytes).as_bytes(),
        );
        nodes.insert(name, bytes.to_vec());
        name
    }

    /// The recipe of `parts`, whose nodes go into `nodes`; and how many recipes were held at most.
    fn join(nodes: &mut HashMap<Fingerprint, Vec<u8>>, parts: &[Recipe]) -> (Recipe, usize) {
        let mut joiner = Joiner::default();
        let mut most = 0;
        for part in parts {
            joiner.push(*part, &mut |bytes| Ok(store(nodes, bytes))).unwrap();
            most = most.max(joiner.levels.iter().map(Vec::len).sum());
        }
        (joiner.finish(&mut |bytes| Ok(store(nodes, bytes))).unwrap(), most)
    }

    /// What format.md says of recipes, a level after the other.
    fn join_by_level(nodes: &mut HashMap<Fingerprint, Vec<u8>>, mut parts: Vec<Recipe>) -> Recipe {
        while parts.len() > 1 {
            let mut above = Vec::new();
            let mut rest = &parts[..];
            while !rest.is_empty() {
                let limit = rest.len().min(4096);
                let is_last = |at: &usize| rest[*at].root.prefix_u64().is_multiple_of(512);
                let count = (63..limit).find(is_last).map_or(limit, |at| at + 1);
                let (children, after) = rest.split_at(count);
                let root = store(nodes, &encode_node(children));
                let len = children.iter().map(|child| child.len).sum();
                above.push(Recipe { len, depth: children[0].depth + 1, root });
                rest = after;
            }
            parts = above;
        }
        parts.pop().unwrap_or(Recipe::EMPTY)
    }

    fn leaves(nodes: &HashMap<Fingerprint, Vec<u8>>, recipe: Recipe) -> Vec<Recipe> {
        if recipe.depth == 0 {
            return vec![recipe];
        }
        let children = recipe.decode_node(&nodes[&recipe.root]).unwrap();
        children.into_iter().flat_map(|child| leaves(nodes, child)).collect()
    }

    #[test]
    fn what_was_joined_comes_apart_in_order() {
        for count in [1, 2, 63, 64, 65, 4096, 4097, 100_000] {
            let parts: Vec<_> = (0..count).map(leaf).collect();
            let mut nodes = HashMap::new();
            let (recipe, _) = join(&mut nodes, &parts);
            assert_eq!(leaves(&nodes, recipe), parts, "{count} chunks");
            assert!(nodes.values().all(|node| node.len() <= 4 + NODE_MAX * 41));
        }
    }

    #[test]
    fn parts_that_come_one_by_one_make_the_nodes_that_all_at_once_make() {
        let spread: Vec<_> = (0..300_000).map(leaf).collect();
        // Its fingerprint ends no node, and then every one.
        let never = vec![leaf(1); 3 * 4096 * 64 + 1];
        let always = vec![leaf(0); 64 * 64 * 64 + 64];
        assert_eq!(always[0].root.prefix_u64() % 512, 0);
        assert_ne!(never[0].root.prefix_u64() % 512, 0);
        for parts in [&spread, &never, &always] {
            for count in [0, 1, 2, 63, 64, 65, 128, 4095, 4096, 4097, 8192, parts.len()] {
                let (mut streamed, mut whole) = (HashMap::new(), HashMap::new());
                let (recipe, _) = join(&mut streamed, &parts[..count]);
                assert_eq!(recipe, join_by_level(&mut whole, parts[..count].to_vec()));
                assert!(streamed == whole, "{count} parts");
            }
        }
    }

    #[test]
    fn no_more_is_held_than_an_open_node_a_level() {
        let mut nodes = HashMap::new();
        let spread: Vec<_> = (0..1_000_000).map(leaf).collect();
        let (recipe, most) = join(&mut nodes, &spread);
        assert_eq!(recipe.depth, 3);
        assert!(most < 3 * NODE_MAX, "{most}");
        // Where no fingerprint ends a node, each has as many children as it may.
        let (_, most) = join(&mut nodes, &vec![leaf(1); 100 * NODE_MAX]);
        assert_eq!(most, NODE_MAX - 1 + 99);
    }

    #[test]
    fn a_change_in_the_middle_shares_the_other_nodes() {
        let mut parts: Vec<_> = (0..100_000).map(leaf).collect();
        let mut nodes = HashMap::new();
        join(&mut nodes, &parts);
        let before = nodes.len();
        parts.insert(50_000, leaf(1 << 40));
        join(&mut nodes, &parts);
        assert!(nodes.len() - before <= 4, "{} new nodes", nodes.len() - before);
    }

    #[test]
    fn no_chunks_are_the_empty_recipe() {
        let joined = Joiner::default().finish(&mut |_| unreachable!("nothing to store")).unwrap();
        assert_eq!(joined, Recipe::EMPTY);
        let mut bytes = Vec::new();
        joined.encode(&mut bytes);
        assert_eq!(Recipe::decode(&mut Reader::new(&bytes)), Ok(Recipe::EMPTY));
    }
}

//! Trees that are read before a walk comes to them.
//!
//! A walk reads a tree when it comes to it. Where requests take time to travel, each tree would wait for
//! some. So the trees below many roots are read level by level, each level by one plan: that takes as
//! many round trips as the trees are deep, and not as many as there are containers of trees.

use std::collections::HashSet;

use crate::Place;
use crate::chunks::ChunkReader;
use crate::entries::Entries;
use crate::tree::{Detail, Node, Tree};

/// Roots below which trees are read together.
pub(crate) const TOGETHER: usize = 256;

/// Bytes of trees that are read ahead, at most. The reader keeps the groups that hold them, which are
/// longer, until the walk comes.
const MAX_AHEAD: u64 = 8 << 20;

/// Reads the trees of directories below `roots`, if they are far away. What cannot be read is reported to
/// the walk.
pub(crate) fn read<'a>(reader: &ChunkReader<'_>, roots: impl Iterator<Item = &'a Node>) {
    if !reader.is_far() {
        return;
    }
    let (mut seen, mut left) = (HashSet::new(), MAX_AHEAD);
    let mut level: Vec<Tree> = roots.filter_map(|root| tree_of(root.clone())).collect();
    loop {
        level.retain(|tree| {
            let is_next = match tree {
                Tree::Stored(recipe) => len(tree) <= left && seen.insert(*recipe),
                Tree::Inline(_) => len(tree) <= left,
            };
            left -= if is_next { len(tree) } else { 0 };
            is_next
        });
        if level.is_empty() {
            return;
        }
        reader.keep_groups(level.iter().flat_map(|tree| places(reader, tree)).collect());
        level = level.iter().flat_map(|tree| children(reader, tree)).collect();
    }
}

fn tree_of(node: Node) -> Option<Tree> {
    match node {
        Node::Directory { tree } => Some(tree).filter(|tree| len(tree) > 0),
        _ => None,
    }
}

/// In bytes.
fn len(tree: &Tree) -> u64 {
    match tree {
        Tree::Stored(recipe) => recipe.len,
        Tree::Inline(bytes) => bytes.len() as u64,
    }
}

/// Where the chunks of a tree lie.
fn places(reader: &ChunkReader<'_>, tree: &Tree) -> Vec<Place> {
    let mut places = Vec::new();
    if let Tree::Stored(recipe) = tree {
        // What cannot be visited, the walk cannot visit either.
        let _ = reader.visit(recipe, &mut |leaf| {
            places.extend(reader.place_of(&leaf.root));
            Ok(())
        });
    }
    places
}

/// The trees of the directories in a directory, as far as that can be read.
fn children(reader: &ChunkReader<'_>, tree: &Tree) -> Vec<Tree> {
    let mut children = Vec::new();
    let Ok(mut entries) = Entries::of(tree) else { return children };
    while let Ok(Some(child)) = entries.next(reader, Detail::Outline) {
        children.extend(tree_of(child.node));
    }
    children
}

//! Trees and lists of chunks that are read before a walk comes to them.
//!
//! Where requests take time to travel, a walk would wait once or twice for each container of trees: each
//! backup leaves one, with the trees that were new and the lists of chunks of the files that were. So what
//! lies below many roots is read level by level, each level by one plan. That takes as many round trips
//! as directories are deep. Nothing but memory is asked here for what a plan did not bring, and nothing is
//! judged: the walk reads it again and says what is wrong.

use std::collections::HashSet;

use crate::Recipe;
use crate::chunks::reader::{ChunkReader, Chunks};
use crate::reading::entries::Entries;
use crate::tree::{Detail, Node, Tree};

/// Roots below which trees are read together.
pub(crate) const TOGETHER: usize = 256;

/// Bytes of decompressed groups that are read ahead, at most. The reader keeps half as many more.
const MAX_AHEAD: usize = 16 << 20;

/// Chunks of one level that are read ahead, at most.
const MAX_CHUNKS: usize = 1 << 16;

/// A recipe of which nodes are read ahead, down to a depth: to 0, where the chunks themselves are, for a
/// tree, and to the lists of chunks for a file.
#[derive(Clone, Copy)]
struct WantedRecipe {
    recipe: Recipe,
    down_to: u8,
}

/// Reads the trees of directories below `roots`, and of their files the lists of chunks, if they are far
/// away, except trees that the walk has been through.
pub(crate) fn read<'a>(
    reader: &ChunkReader<'_>,
    roots: impl Iterator<Item = &'a Node>,
    is_walked: &dyn Fn(&Recipe) -> bool,
) {
    if !reader.is_far() {
        return;
    }
    let (mut seen, mut left) = (HashSet::new(), MAX_AHEAD);
    let mut level: Vec<Node> = roots.cloned().collect();
    while !level.is_empty() && left > 0 {
        level.truncate(MAX_CHUNKS);
        level.retain(|node| match node {
            Node::Directory { tree: Tree::Stored(tree) } => !is_walked(tree) && seen.insert(*tree),
            _ => true,
        });
        keep(reader, level.iter().filter_map(wanted).collect(), &mut left);
        level = level.iter().flat_map(|node| children(reader, node)).collect();
    }
}

fn wanted(node: &Node) -> Option<WantedRecipe> {
    match node {
        Node::Directory { tree: Tree::Stored(recipe) } => {
            Some(WantedRecipe { recipe: *recipe, down_to: 0 })
        }
        Node::File { content, .. } => Some(WantedRecipe { recipe: *content, down_to: 1 }),
        _ => None,
    }
}

/// Has the reader keep what is wanted, level of nodes by level.
fn keep(reader: &ChunkReader<'_>, mut level: Vec<WantedRecipe>, left: &mut usize) {
    let mut seen = HashSet::new();
    while !level.is_empty() {
        level.retain(|WantedRecipe { recipe, down_to }| {
            let is_wanted = recipe.len > 0 && recipe.depth >= *down_to;
            is_wanted && seen.len() < MAX_CHUNKS && seen.insert(recipe.root)
        });
        let places = level.iter().filter_map(|one| reader.place_of(&one.recipe.root));
        *left = left.saturating_sub(reader.keep_groups(places.collect(), *left));
        let below = |one: &WantedRecipe| {
            let down_to = one.down_to;
            let children = match one.recipe.depth > down_to {
                true => reader.kept().children(&one.recipe).unwrap_or_default(),
                false => Vec::new(),
            };
            children.into_iter().map(move |recipe| WantedRecipe { recipe, down_to })
        };
        level = level.iter().flat_map(below).collect();
    }
}

/// Directories and long files in a directory, as far as it is kept.
fn children(reader: &ChunkReader<'_>, node: &Node) -> Vec<Node> {
    let mut children = Vec::new();
    let Node::Directory { tree } = node else { return children };
    let Ok(mut entries) = Entries::of(tree) else { return children };
    while let Ok(Some(child)) = entries.next(&reader.kept(), Detail::Outline) {
        match &child.node {
            Node::Directory { .. } => children.push(child.node),
            Node::File { content, .. } if content.depth > 0 => children.push(child.node),
            _ => {}
        }
    }
    children
}

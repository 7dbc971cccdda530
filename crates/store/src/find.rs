//! Finding entries by name in many snapshots.
//!
//! Snapshots of a source have most trees in common. A tree in which nothing was found is read once,
//! however many snapshots have it; one in which something was found is walked for each, because
//! each snapshot lists its own.

use std::collections::HashSet;

use onefold_fingerprint::Fingerprint;

use crate::chunks::reader::ChunkReader;
use crate::patterns::globs::Globs;
use crate::reading::walk::{Visit, extend, read_tree};
use crate::tree::{self, Entry, Node, Tree};
use crate::{Repository, StoreError};

/// Trees without a find are remembered in about this many bytes. Beyond that they are read again.
const REMEMBERED: usize = 64 << 20;

type Wants<'w> = dyn Fn(&Entry) -> bool + 'w;

/// Looks for entries in one snapshot after another.
pub struct Finder<'a> {
    chunks: ChunkReader<'a>,
    globs: Globs,
    wants: &'a Wants<'a>,
    /// Trees below which nothing is found; with their paths, if patterns look at these.
    barren: HashSet<(Fingerprint, Vec<u8>)>,
    /// Bytes that `barren` may still take.
    room: usize,
    trees: u64,
}

impl<'a> Finder<'a> {
    /// Looks for what matches one of `patterns` and what `wants` takes; `wants` must give the same
    /// answer for the same entry.
    ///
    /// A pattern is a glob on the name. One with a slash is a glob on the path: from the root of the
    /// snapshot if it begins with a slash, else from any directory.
    pub fn new(
        repository: &'a Repository,
        patterns: &[String],
        ignore_case: bool,
        wants: &'a Wants<'a>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            chunks: repository.reader()?,
            globs: Globs::new(patterns, ignore_case)?,
            wants,
            barren: HashSet::new(),
            room: REMEMBERED,
            trees: 0,
        })
    }

    /// Calls `visit` with path and entry of all that is found below `root`, as
    /// [`Repository::walk`] does.
    pub fn find(&mut self, root: &Entry, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.descend(root, 0, &mut Vec::new(), visit).map(drop)
    }

    /// How many trees were read until now.
    pub const fn trees(&self) -> u64 {
        self.trees
    }

    /// Whether something was found below `entry`.
    fn descend(
        &mut self,
        entry: &Entry,
        depth: usize,
        path: &mut Vec<u8>,
        visit: &mut Visit<'_>,
    ) -> Result<bool, StoreError> {
        tree::check_depth(depth)?;
        let key = self.key(entry, path);
        if key.as_ref().is_some_and(|key| self.barren.contains(key)) {
            return Ok(false);
        }
        let Some(entries) = read_tree(&self.chunks, entry)? else { return Ok(false) };
        self.trees += 1;
        let mut is_found = false;
        for child in entries {
            let len = extend(path, &child.name);
            if self.globs.match_one(path, &child.name) && (self.wants)(&child) {
                is_found = true;
                visit(path, &child)?;
            }
            is_found |= self.descend(&child, depth + 1, path, visit)?;
            path.truncate(len);
        }
        if let (Some(key), false) = (key, is_found) {
            self.remember(key);
        }
        Ok(is_found)
    }

    /// What tells the tree of `entry` from others that may hold other finds; `None` if it stands in
    /// its entry, and so costs nothing to read.
    fn key(&self, entry: &Entry, path: &[u8]) -> Option<(Fingerprint, Vec<u8>)> {
        let Node::Directory { tree: Tree::Stored(recipe) } = &entry.node else { return None };
        let path = if self.globs.look_at_paths() { path.to_vec() } else { Vec::new() };
        Some((recipe.root, path))
    }

    fn remember(&mut self, key: (Fingerprint, Vec<u8>)) {
        let len = 2 * size_of_val(&key) + key.1.len();
        if let Some(left) = self.room.checked_sub(len) {
            self.room = left;
            self.barren.insert(key);
        }
    }
}

//! Which names are the same inode.

use std::collections::HashMap;

use crate::tree::{Entry, Node};

/// Inodes with several names: where the first of them is, and what it is.
pub(crate) struct Inodes<P>(HashMap<(u64, u64), (P, Node)>);

impl<P> Default for Inodes<P> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<P: Clone> Inodes<P> {
    /// Where the inode of `entry` has an earlier name. If there is none, `path` becomes its first.
    pub(crate) fn first_name(&mut self, entry: &Entry, path: &P) -> Option<&P> {
        if entry.meta.links < 2 {
            return None;
        }
        let inode = (entry.meta.dev, entry.meta.ino);
        // An inode number may have passed to another file while the backup ran.
        let is_known = self.0.get(&inode).is_some_and(|(_, node)| *node == entry.node);
        if !is_known {
            self.0.insert(inode, (path.clone(), entry.node.clone()));
            return None;
        }
        self.0.get(&inode).map(|(first, _)| first)
    }

    /// Takes `path` for the first name of the inode of `entry`, unless it has one.
    pub(crate) fn note(&mut self, entry: &Entry, path: &P) {
        if entry.meta.links > 1 {
            let inode = (entry.meta.dev, entry.meta.ino);
            self.0.entry(inode).or_insert_with(|| (path.clone(), entry.node.clone()));
        }
    }
}

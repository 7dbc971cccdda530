//! Counting entries.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tree::{Entry, Node};

/// Counts of the entries that finished directories hold, raised by all threads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) files: AtomicU64,
    pub(super) directories: AtomicU64,
    pub(super) others: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Tally {
    pub(super) fn count(&self, entry: &Entry) {
        let counter = match entry.node {
            Node::File { content, .. } => {
                self.bytes.fetch_add(content.len, Ordering::Relaxed);
                &self.files
            }
            Node::Directory { .. } => &self.directories,
            _ => &self.others,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

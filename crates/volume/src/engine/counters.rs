//! Counters of a pool since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// What happened since the pool was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) known: AtomicU64,
    pub(crate) new: AtomicU64,
    pub(crate) zero: AtomicU64,
    pub(crate) unindexed: AtomicU64,
    /// Pages found beside the hooks of a sampled table.
    pub(crate) neighbours: AtomicU64,
    /// Directories that were read for that.
    pub(crate) directories_read: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// Steps all of whose nodes were in memory.
    pub(crate) node_hits: AtomicU64,
    /// Of new pages, before they were compressed.
    pub(crate) new_bytes: AtomicU64,
    /// Of new pages, as they were appended.
    pub(crate) new_stored_bytes: AtomicU64,
    /// Pages that the quota had no room for.
    pub(crate) over_quota: AtomicU64,
    /// Of the batches since the checkpoint: the one number here that also falls.
    pub(crate) journal_bytes: AtomicU64,
}

impl Counters {
    /// Counts a page that the quota has no room for, whatever was given back.
    pub(crate) fn note_over_quota(&self) {
        count(&self.over_quota, 1);
    }
}

pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

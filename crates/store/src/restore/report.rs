//! What a restore did, and how its threads count that.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a restore did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Files written, hard links of anything included.
    pub files: u64,
    /// Directories made or found.
    pub directories: u64,
    /// Links, devices, pipes and sockets made.
    pub others: u64,
    /// Bytes of the files written.
    pub bytes: u64,
    /// Of these, bytes that an earlier restore, which was cut off, had written already.
    pub reused: u64,
    /// Of these, bytes that seeds, or files that were replaced, had.
    pub seeded: u64,
    /// Bytes that came from the repository, of all files.
    pub fetched: u64,
    /// Files and others in whose place something else stood.
    pub replaced: u64,
    /// Files that were in the way and stayed.
    pub kept: u64,
    /// Files that were read again and found right.
    pub verified: u64,
    /// Names that were deleted, because the snapshot does not have them.
    pub deleted: u64,
    /// Names, each with what may be below it, that were not deleted because something could not be
    /// restored.
    pub undeleted: u64,
    /// Files, directories and others that could not be restored, or deleted.
    pub failed: u64,
}

/// What threads of a restore count.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) files: AtomicU64,
    pub(super) directories: AtomicU64,
    pub(super) others: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) reused: AtomicU64,
    pub(super) seeded: AtomicU64,
    pub(super) fetched: AtomicU64,
    pub(super) replaced: AtomicU64,
    pub(super) kept: AtomicU64,
    pub(super) verified: AtomicU64,
    pub(super) deleted: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Counts {
    pub(super) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> Report {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            files: read(&self.files),
            directories: read(&self.directories),
            others: read(&self.others),
            bytes: read(&self.bytes),
            reused: read(&self.reused),
            seeded: read(&self.seeded),
            fetched: read(&self.fetched),
            replaced: read(&self.replaced),
            kept: read(&self.kept),
            verified: read(&self.verified),
            deleted: read(&self.deleted),
            undeleted: 0,
            failed: read(&self.failed),
        }
    }
}

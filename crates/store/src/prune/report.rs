//! What a prune found and did.

use onefold_seal::ObjectId;

use crate::Intent;

/// What a prune found and did; of a dry run, what it would do.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Snapshots that were there.
    pub snapshots: u64,
    /// Containers that were there and not condemned.
    pub containers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Containers of which nothing was needed.
    pub dead_containers: u64,
    /// Their bytes.
    pub dead_bytes: u64,
    /// Containers of which a part was needed and copied.
    pub repacked_containers: u64,
    /// Their bytes.
    pub repacked_bytes: u64,
    /// Containers that were copied only because they are small; none of them was repacked.
    pub merged_containers: u64,
    /// Their bytes.
    pub merged_bytes: u64,
    /// Bytes of the containers that took the copies; unknown to a dry run.
    pub copied_bytes: u64,
    /// Bytes that stay though nobody needs them, about.
    pub unused_bytes: u64,
    /// Containers that were deleted, those of marks that earlier prunes left included.
    pub deleted_containers: u64,
    /// Index runs that were deleted, because nothing of what they covered is left.
    pub deleted_runs: u64,
    /// Bundles of log entries, snapshots or index runs that were put.
    pub put_bundles: u64,
    /// Bundles that were deleted, because others replace them or hold what they hold.
    pub deleted_bundles: u64,
    /// Containers that stay condemned until the backups in `waiting` have ended.
    pub waiting_containers: u64,
    /// Backups that the next prune has to wait for.
    pub waiting: Vec<Waiting>,
    /// Backups that were taken for dead: if one lives, it fails when it ends.
    pub fenced: Vec<Waiting>,
    /// Chunks that turned out to be live in condemned containers and were copied.
    pub rescued_chunks: u64,
    /// What could not be read and was left as it is.
    pub warnings: Vec<String>,
}

/// A backup of which it is not known whether it will commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The snapshot that it would make.
    pub snapshot: ObjectId,
    /// What it says of itself; nothing if that cannot be read.
    pub intent: Option<Intent>,
}

impl Waiting {
    pub(super) fn new(snapshot: ObjectId, intent: Option<&Intent>) -> Self {
        Self { snapshot, intent: intent.cloned() }
    }
}

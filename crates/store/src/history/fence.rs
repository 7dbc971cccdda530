//! Fences: objects in the place of snapshots that will never be.
//!
//! A fence is put as its backup would commit, under the name of the snapshot and only if nothing is
//! there. So of the two exactly one succeeds, and it stays so for ever: a backup may wake up after a
//! year. Listings of snapshots pass over fences.

use bytes::Bytes;
use onefold_backend::BackendError;
use onefold_seal::{Kind, ObjectId, SealError};

use crate::objects::snapshot::{Snapshot, snapshot_name};
use crate::{Repository, StoreError};

/// What became of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its snapshot is there.
    Committed,
    /// A fence is there, or what counts for nothing: it can never commit.
    Fenced,
    /// Nothing is there yet.
    Open,
}

/// What became of the backup that is to make `snapshot`.
pub(crate) fn fate(repository: &Repository, snapshot: ObjectId) -> Result<Fate, StoreError> {
    match Snapshot::find(repository, snapshot) {
        Ok(None) => Ok(Fate::Fenced),
        Ok(Some(_)) => Ok(Fate::Committed),
        Err(StoreError::Backend(error)) if error.is_not_found() => Ok(Fate::Open),
        Err(error) if error.is_unknown_version() => Err(error),
        // A write-only client asks only of a snapshot of its own that it did not put, or does not
        // know to have put: it has failed either way.
        Err(StoreError::Envelope { source: SealError::WriteOnly, .. }) => Ok(Fate::Fenced),
        // What is there is damaged; it was a snapshot or a fence, and nothing else can come there.
        Err(
            StoreError::Envelope { .. }
            | StoreError::Malformed { .. }
            | StoreError::Replaced { .. }
            | StoreError::Disputed { .. },
        ) => Ok(Fate::Committed),
        Err(error) => Err(error),
    }
}

/// Makes sure that what became of `snapshot` is decided: fences it unless it is there already.
pub(crate) fn put(repository: &Repository, snapshot: ObjectId) -> Result<Fate, StoreError> {
    let Repository { objects, envelope, .. } = repository;
    let object = envelope.seal(Kind::Fence, snapshot, &[]);
    match objects.put(&snapshot_name(snapshot), Bytes::from(object)) {
        Ok(()) => Ok(Fate::Fenced),
        Err(BackendError::AlreadyExists { .. }) => fate(repository, snapshot),
        Err(error) => Err(error.into()),
    }
}

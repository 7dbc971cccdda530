//! Bundles: exact copies of many small objects in one, so that whoever has no copies of its own reads
//! a few bundles instead of thousands of log entries, snapshots and index runs.
//!
//! Nothing depends on a bundle. What a copy must pass before it counts is in [`chain`] for log
//! entries, in [`snapshot`](crate::objects::snapshot) for snapshots and in [`loaded`](crate::session::index) for runs;
//! which bundles there are is decided in [`arrange`]. Why nobody gains by a bundle is argued in
//! docs/security.md.

mod arrange;
pub(crate) mod chain;
mod compare;
mod shelf;

use bytes::Bytes;
use onefold_seal::wire::Reader;

pub(crate) use self::arrange::{Arranged, arrange, arrange_after_backup};
pub(crate) use self::compare::{Comparison, compare};
use self::shelf::within_bounds;
use crate::objects::bundle::{Held, Listed, decode};
use crate::{Repository, StoreError};

/// What the bundle holds whose object is `bytes`.
fn open(repository: &Repository, listed: &Listed, bytes: &[u8]) -> Result<Held, StoreError> {
    let body = repository.with_later_epoch(|envelope| {
        envelope
            .open(listed.of.kind(), listed.id, bytes)
            .map(|body| Bytes::from(body.into_owned()))
            .map_err(|source| StoreError::Envelope { object: listed.name(), source })
    })?;
    let malformed = |source| StoreError::Malformed { object: listed.name(), source };
    let copies = decode(&body).map_err(malformed)?;
    if copies.len() != listed.count as usize {
        return Err(malformed(Reader::new(&body).error("as many copies as its id says")));
    }
    Ok(copies)
}

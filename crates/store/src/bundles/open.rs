//! Opening a bundle.

use bytes::Bytes;
use onefold_seal::wire::Reader;

use crate::objects::bundle::{Held, ListedBundle, decode};
use crate::{Repository, StoreError};

/// What the bundle holds whose object is `bytes`.
pub(super) fn open(
    repository: &Repository,
    listed: &ListedBundle,
    bytes: &[u8],
) -> Result<Held, StoreError> {
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

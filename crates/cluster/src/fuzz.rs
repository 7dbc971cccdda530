//! What the fuzz targets call.

use onefold_seal::wire::{Reader, WireError};

use crate::journal::head::State;

/// The fields of a head, decoded and encoded again.
pub fn restate(fields: &[u8]) -> Result<Vec<u8>, WireError> {
    State::read(&mut Reader::new(fields)).map(|state| state.fields())
}

/// How much a shard uses of each container, decoded and encoded again.
pub fn reuse(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    crate::containers::reuse(bytes)
}

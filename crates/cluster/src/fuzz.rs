//! What the fuzz targets call.

use onefold_seal::wire::{Reader, WireError};

use crate::journal::head::State;

/// A record of a gateway, a shard or a volume, decoded and encoded again. The first byte says which.
pub fn rerecord(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    let (kind, fields) = bytes.split_first().unwrap_or((&0, &[]));
    let again = crate::gateway::rerecord(*kind, &mut Reader::new(fields))?;
    Ok([&[*kind], &again[..]].concat())
}

/// The fields of a head, decoded and encoded again.
pub fn restate(fields: &[u8]) -> Result<Vec<u8>, WireError> {
    State::read(&mut Reader::new(fields)).map(|state| state.fields())
}

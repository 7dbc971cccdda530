//! Reading whole objects, their length bounded before memory is taken, and lists of ids.

use bytes::Bytes;
use onefold_backend::{BackendError, Objects};
use onefold_seal::ObjectId;
use onefold_seal::wire::{Reader, WireError};

use crate::StoreError;

/// The bytes of object `name`, if it has no more than `max`.
pub(crate) fn read_object(
    objects: &dyn Objects,
    name: &str,
    max: u64,
) -> Result<Bytes, StoreError> {
    objects.get_limited(name, max).map_err(|error| match error {
        BackendError::TooLong { name, size, max } => {
            StoreError::TooLong { object: name, len: size, max }
        }
        error => error.into(),
    })
}

/// Takes a list of ids; `count` says what its count is of.
pub(crate) fn ids(
    reader: &mut Reader<'_>,
    count: &'static str,
) -> Result<Vec<ObjectId>, WireError> {
    let count = reader.count(ObjectId::LEN, count)?;
    (0..count).map(|_| Ok(ObjectId::from_bytes(reader.array("an id")?))).collect()
}

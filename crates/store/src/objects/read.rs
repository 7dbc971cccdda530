//! Reading whole objects, their length bounded before memory is taken, and the fields that many have.

use std::ops::ControlFlow;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects, Request, Span};
use onefold_seal::ObjectId;
use onefold_seal::wire::{Reader, WireError};

use crate::StoreError;

/// The bytes of object `name`, if it has no more than `max`.
pub(crate) fn read_object(
    objects: &dyn Objects,
    name: &str,
    max: u64,
) -> Result<Bytes, StoreError> {
    objects.get_limited(name, max).map_err(too_long)
}

/// Reads the objects `names`, of at most `max` bytes each, many at a time, and hands each to `take`
/// with its position as it comes. Ends with an error once the storage cannot be reached.
pub(crate) fn read_objects(
    objects: &dyn Objects,
    names: impl IntoIterator<Item = String>,
    max: u64,
    take: &mut dyn FnMut(usize, Result<Bytes, StoreError>),
) -> Result<(), StoreError> {
    read_bounded(objects, names.into_iter().map(|name| (name, max)), take)
}

/// The same, where each object has a bound of its own.
pub(crate) fn read_bounded(
    objects: &dyn Objects,
    bounded: impl IntoIterator<Item = (String, u64)>,
    take: &mut dyn FnMut(usize, Result<Bytes, StoreError>),
) -> Result<(), StoreError> {
    let request = |(name, max)| Request { name, span: Span::Whole { max } };
    let mut requests = bounded.into_iter().map(request);
    let mut outage = Ok(());
    // What ends it early is kept.
    let _ = objects.get_many(&mut requests, &mut |at, answer| match answer.map_err(too_long) {
        Err(error) if error.is_unreachable() => {
            outage = Err(error);
            ControlFlow::Break(())
        }
        read => {
            take(at, read);
            ControlFlow::Continue(())
        }
    });
    outage
}

/// Does `read`, which may end early with an error that it notes.
pub(crate) fn until_error(
    read: impl FnOnce(&mut Result<(), StoreError>) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut failed = Ok(());
    match read(&mut failed) {
        ControlFlow::Continue(()) | ControlFlow::Break(()) => failed,
    }
}

/// Goes on, or ends early with the error of `done`, which is noted.
pub(crate) fn or_end(
    done: Result<(), StoreError>,
    failed: &mut Result<(), StoreError>,
) -> ControlFlow<()> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *failed = Err(error);
            ControlFlow::Break(())
        }
    }
}

/// The store's error for one of the backend that may be about a length.
pub(crate) fn too_long(error: BackendError) -> StoreError {
    match error {
        BackendError::TooLong { name, size, max } => {
            StoreError::TooLong { object: name, len: size, max }
        }
        error => error.into(),
    }
}

/// Takes a list of ids; `count` says what its count is of.
pub(crate) fn ids(
    reader: &mut Reader<'_>,
    count: &'static str,
) -> Result<Vec<ObjectId>, WireError> {
    let count = reader.count(ObjectId::LEN, count)?;
    (0..count).map(|_| Ok(ObjectId::from_bytes(reader.array("an id")?))).collect()
}

pub(crate) fn text(reader: &mut Reader<'_>) -> Result<String, WireError> {
    let bytes = reader.bytes("a text")?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(reader.error("text in UTF-8")),
    }
}

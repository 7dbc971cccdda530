//! Receipts: which backups were acknowledged.
//!
//! A receipt is put after its snapshot is durable and before the backup is acknowledged. It has
//! the snapshot's id and says nothing else: by it [`check`](crate::check) can tell that a snapshot
//! is missing, to which nothing else refers. Forgetting a snapshot deletes its receipt first.

use bytes::Bytes;
use onefold_backend::{ObjectInfo, Objects};
use onefold_seal::wire::Reader;
use onefold_seal::{Envelope, Kind, ObjectId};

use crate::StoreError;
use crate::objects::read::{read_object, read_objects};

/// Under which prefix of a repository receipts lie.
pub(crate) const PREFIX: &str = "receipts/";

/// No receipt is longer than this.
pub(crate) const MAX_LEN: u64 = 64 << 10;

/// The name of the receipt of snapshot `snapshot`.
pub(crate) fn receipt_name(snapshot: ObjectId) -> String {
    format!("{PREFIX}{snapshot}")
}

/// The snapshot whose receipt `name` is, or `None` if it is no receipt's name.
pub(crate) fn receipt_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Says that the backup that made `snapshot` is acknowledged.
pub(crate) fn write(
    objects: &dyn Objects,
    envelope: &Envelope,
    snapshot: ObjectId,
) -> Result<(), StoreError> {
    let object = envelope.seal(Kind::Receipt, snapshot, &[]);
    Ok(objects.put(&receipt_name(snapshot), Bytes::from(object))?)
}

/// The write-only client that sealed the receipt of `snapshot`, if one did. Fails unless it is what
/// was written.
pub(crate) fn read(
    objects: &dyn Objects,
    envelope: &Envelope,
    snapshot: ObjectId,
) -> Result<Option<u32>, StoreError> {
    open(envelope, snapshot, &read_object(objects, &receipt_name(snapshot), MAX_LEN)?)
}

/// The same of the object `bytes`.
pub(crate) fn open(
    envelope: &Envelope,
    snapshot: ObjectId,
    bytes: &[u8],
) -> Result<Option<u32>, StoreError> {
    let object = receipt_name(snapshot);
    match envelope.open(Kind::Receipt, snapshot, bytes) {
        Ok(body) => match Reader::new(&body).finish() {
            Ok(()) => Ok(Envelope::client_of(bytes)),
            Err(source) => Err(StoreError::Malformed { object, source }),
        },
        Err(source) => Err(StoreError::Envelope { object, source }),
    }
}

/// Those of `receipts`, as a listing shows them, that cannot be read or are not what was written, and why.
pub(crate) fn unreadable(
    objects: &dyn Objects,
    envelope: &Envelope,
    receipts: &[ObjectInfo],
) -> Result<Vec<(ObjectId, StoreError)>, StoreError> {
    let ids: Vec<_> = receipts.iter().filter_map(|info| receipt_id(&info.name)).collect();
    let names = ids.iter().map(|id| receipt_name(*id));
    let mut unreadable = Vec::new();
    read_objects(objects, names, MAX_LEN, &mut |at, read| {
        let opened = read.and_then(|bytes| open(envelope, ids[at], &bytes));
        unreadable.extend(opened.err().map(|error| (ids[at], error)));
    })?;
    Ok(unreadable)
}

//! Receipts: what an acknowledged backup left behind, by name.
//!
//! A receipt is put after its snapshot is durable and before the backup is acknowledged. It has
//! the snapshot's id and lists the index runs that the backup wrote, so that [`check`](crate::check)
//! can tell that a snapshot or a run is missing, which nothing else refers to.

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Envelope, Kind, ObjectId};

use crate::StoreError;
use crate::object::read_object;

/// Under which prefix of a repository receipts lie.
pub(crate) const PREFIX: &str = "receipts/";

/// No receipt is longer than this.
const MAX_LEN: u64 = 16 << 20;

/// The name of the receipt of snapshot `snapshot`.
pub(crate) fn receipt_name(snapshot: ObjectId) -> String {
    format!("{PREFIX}{snapshot}")
}

/// The snapshot whose receipt `name` is, or `None` if it is no receipt's name.
pub(crate) fn receipt_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// What an acknowledged backup left behind besides its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The index runs it wrote.
    pub(crate) runs: Vec<ObjectId>,
}

impl Receipt {
    pub(crate) fn write(
        &self,
        objects: &dyn Objects,
        envelope: &Envelope,
        snapshot: ObjectId,
    ) -> Result<(), StoreError> {
        let mut body = Vec::new();
        body.put_varint(self.runs.len() as u64);
        for run in &self.runs {
            body.extend_from_slice(run.as_bytes());
        }
        let object = envelope.seal(Kind::Receipt, snapshot, &body);
        Ok(objects.put(&receipt_name(snapshot), Bytes::from(object))?)
    }

    pub(crate) fn read(
        objects: &dyn Objects,
        envelope: &Envelope,
        snapshot: ObjectId,
    ) -> Result<Self, StoreError> {
        let object = receipt_name(snapshot);
        let bytes = read_object(objects, &object, MAX_LEN)?;
        match envelope.open(Kind::Receipt, snapshot, &bytes) {
            Ok(body) => {
                Self::decode(&body).map_err(|source| StoreError::Malformed { object, source })
            }
            Err(source) => Err(StoreError::Envelope { object, source }),
        }
    }

    fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let count = reader.count(ObjectId::LEN, "the count of runs")?;
        let runs = (0..count)
            .map(|_| Ok(ObjectId::from_bytes(reader.array("a run's id")?)))
            .collect::<Result<_, WireError>>()?;
        reader.finish()?;
        Ok(Self { runs })
    }
}

//! What lies in a snapshot's place.

use onefold_seal::wire::Reader;
use onefold_seal::{Envelope, Kind, ObjectId, SealError};

use crate::objects::read::read_object;
use crate::objects::snapshot::{MAX_FENCE_LEN, MAX_LEN, snapshot_name};
use crate::{Repository, Snapshot, StoreError};

/// What lies in a snapshot's place.
#[derive(Debug)]
pub(crate) enum Found {
    /// The snapshot.
    Snapshot(Box<Snapshot>),
    /// A fence: there never was one, or it was taken away.
    Fence,
    /// What a write-only client put there of which the key was taken back before. It counts for
    /// nothing.
    Refused,
}

impl Found {
    /// The snapshot, unless something else is in its place.
    pub(super) fn into_snapshot(self) -> Option<Snapshot> {
        match self {
            Self::Snapshot(snapshot) => Some(*snapshot),
            Self::Fence | Self::Refused => None,
        }
    }
}

impl Snapshot {
    /// The same, whatever logs say, with the write-only client that sealed it, if one did.
    pub(crate) fn look_alone(
        repository: &Repository,
        id: ObjectId,
    ) -> Result<(Found, Option<u32>), StoreError> {
        let bytes = read_object(&*repository.objects, &snapshot_name(id), MAX_LEN)?;
        Self::open(repository, id, &bytes)
    }

    /// The same, of the object `bytes`.
    pub(super) fn open(
        repository: &Repository,
        id: ObjectId,
        bytes: &[u8],
    ) -> Result<(Found, Option<u32>), StoreError> {
        let envelope = &repository.envelope;
        let object = snapshot_name(id);
        let client = Envelope::client_of(bytes);
        match envelope.open(Kind::Snapshot, id, bytes) {
            Ok(_) if !repository.counts(id, bytes)? => Ok((Found::Refused, client)),
            Ok(body) => match Self::decode(&body) {
                Ok(mut snapshot) => {
                    snapshot.is_from_client |= client.is_some();
                    Ok((Found::Snapshot(Box::new(snapshot)), client))
                }
                Err(source) => Err(StoreError::Malformed { object, source }),
            },
            Err(source @ SealError::WrongKind { .. }) if bytes.len() as u64 <= MAX_FENCE_LEN => {
                match envelope.open(Kind::Fence, id, bytes) {
                    Ok(body) => match Reader::new(&body).finish() {
                        Ok(()) => Ok((Found::Fence, None)),
                        Err(source) => Err(StoreError::Malformed { object, source }),
                    },
                    Err(_) => Err(StoreError::Envelope { object, source }),
                }
            }
            Err(source) => match client {
                // Nor does what nobody can open, or only a later program.
                Some(by) if repository.refuses(by, id)? => Ok((Found::Refused, client)),
                _ => Err(StoreError::Envelope { object, source }),
            },
        }
    }
}

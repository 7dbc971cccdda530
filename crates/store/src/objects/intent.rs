//! Intents: notices of backups that they are about to rely on what the repository holds.
//!
//! An intent is put before the backup looks at what there is, and has the id of the snapshot that
//! the backup will make. While it is there and the snapshot is not, a [prune](crate::prune) deletes
//! nothing on which the backup may rely.

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Envelope, Kind, ObjectId};

use crate::StoreError;
use crate::objects::read::{ids, read_object, text};
use crate::tree::Time;

/// Under which prefix of a repository intents lie.
pub(crate) const PREFIX: &str = "intents/";

/// No intent is longer than this.
const MAX_LEN: u64 = 16 << 20;

/// The name of the intent to make snapshot `snapshot`.
pub(crate) fn intent_name(snapshot: ObjectId) -> String {
    format!("{PREFIX}{snapshot}")
}

/// The snapshot that is to be made by the intent `name`, or `None` if it is no intent's name.
pub(crate) fn intent_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Who is about to make a snapshot. Nothing but a prune's messages and patience depends on it,
/// but for `marks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// When the backup began.
    pub time: Time,
    /// On which host.
    pub host: String,
    /// By which user.
    pub user: String,
    /// With which version of the program.
    pub program: String,
    /// In which process of that host.
    pub process: u32,
    /// Marks that the backup had seen before it put this: it relies on nothing that they condemn,
    /// so whoever finishes them need not wait for it.
    pub marks: Vec<ObjectId>,
}

impl Intent {
    pub(crate) fn write(
        &self,
        objects: &dyn Objects,
        envelope: &Envelope,
        snapshot: ObjectId,
    ) -> Result<(), StoreError> {
        let mut body = Vec::new();
        self.time.encode(&mut body);
        for text in [&self.host, &self.user, &self.program] {
            body.put_bytes(text.as_bytes());
        }
        body.put_varint(self.process.into());
        body.put_varint(self.marks.len() as u64);
        self.marks.iter().for_each(|mark| body.extend_from_slice(mark.as_bytes()));
        let object = envelope.seal(Kind::Intent, snapshot, &body);
        Ok(objects.put(&intent_name(snapshot), Bytes::from(object))?)
    }

    /// The intent to make `snapshot`, and the write-only client that sealed it, if one did.
    pub(crate) fn read(
        objects: &dyn Objects,
        envelope: &Envelope,
        snapshot: ObjectId,
    ) -> Result<(Self, Option<u32>), StoreError> {
        let object = intent_name(snapshot);
        let bytes = read_object(objects, &object, MAX_LEN)?;
        match envelope.open(Kind::Intent, snapshot, &bytes) {
            Ok(body) => match Self::decode(&body) {
                Ok(intent) => Ok((intent, Envelope::client_of(&bytes))),
                Err(source) => Err(StoreError::Malformed { object, source }),
            },
            Err(source) => Err(StoreError::Envelope { object, source }),
        }
    }

    /// Decodes an intent's body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let time = Time::decode(&mut reader)?;
        let host = text(&mut reader)?;
        let user = text(&mut reader)?;
        let program = text(&mut reader)?;
        let process = reader.varint_to(u32::MAX.into(), "a process")? as u32;
        let marks = ids(&mut reader, "the count of marks")?;
        reader.finish()?;
        Ok(Self { time, host, user, program, process, marks })
    }
}

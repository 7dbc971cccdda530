//! Runs: the index at rest.

use std::ops::ControlFlow;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects, Request, Span};
use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Envelope, Kind, ObjectId};

use crate::{IndexError, Place};

/// Under which prefix of a repository runs lie.
pub const PREFIX: &str = "index/";

/// A writer starts another run before one has more entries than this.
pub const MAX_RUN_ENTRIES: usize = 1 << 18;

/// No run is longer than this: four times what [`MAX_RUN_ENTRIES`] take.
const MAX_LEN: u64 = 64 << 20;

/// The name of run `id`.
pub fn run_name(id: ObjectId) -> String {
    format!("{PREFIX}{id}")
}

/// The id that `name` stands for, or `None` if it is no run's name.
pub fn run_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// An immutable part of the index: what the objects in `covers` hold, by fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The objects whose chunks are all listed. Places refer to them by position.
    pub covers: Vec<ObjectId>,
    /// Fingerprints in ascending order and where they lie.
    pub entries: Vec<(Fingerprint, Place)>,
}

impl Run {
    /// A run over `covers` with `entries` in any order.
    pub fn new(covers: Vec<ObjectId>, mut entries: Vec<(Fingerprint, Place)>) -> Self {
        entries.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
        Self { covers, entries }
    }

    /// Puts the run under a new id, which is returned once the run is durable.
    pub fn write(
        &self,
        objects: &dyn Objects,
        envelope: &Envelope,
    ) -> Result<ObjectId, IndexError> {
        let run = ObjectId::random();
        let object = envelope.seal(Kind::Run, run, &self.encode());
        objects
            .put(&run_name(run), Bytes::from(object))
            .map_err(|source| IndexError::Backend { run, source })?;
        Ok(run)
    }

    /// Reads run `run`.
    pub fn read(
        objects: &dyn Objects,
        envelope: &Envelope,
        run: ObjectId,
    ) -> Result<Self, IndexError> {
        Self::open_read(envelope, run, objects.get_limited(&run_name(run), MAX_LEN))
    }

    /// Reads `runs`, many at a time, and hands each to `take` with its position as it comes.
    pub fn read_many(
        objects: &dyn Objects,
        envelope: &Envelope,
        runs: &[ObjectId],
        take: &mut dyn FnMut(usize, Result<Self, IndexError>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let request =
            |run: &ObjectId| Request { name: run_name(*run), span: Span::Whole { max: MAX_LEN } };
        objects.get_many(&mut runs.iter().map(request), &mut |at, answer| {
            take(at, Self::open_read(envelope, runs[at], answer))
        })
    }

    fn open_read(
        envelope: &Envelope,
        run: ObjectId,
        read: Result<Bytes, BackendError>,
    ) -> Result<Self, IndexError> {
        let object = read.map_err(|source| match source {
            BackendError::TooLong { size: len, max, .. } => IndexError::TooLong { run, len, max },
            source => IndexError::Backend { run, source },
        })?;
        Self::open(envelope, run, &object)
    }

    /// Run `run`, whose object is `bytes`.
    pub fn open(envelope: &Envelope, run: ObjectId, bytes: &[u8]) -> Result<Self, IndexError> {
        let body = envelope
            .open(Kind::Run, run, bytes)
            .map_err(|source| IndexError::Envelope { run, source })?;
        Self::decode(&body).map_err(|source| IndexError::Malformed { run, source })
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(16 + self.covers.len() * 16 + self.entries.len() * 44);
        body.put_varint(self.covers.len() as u64);
        for id in &self.covers {
            body.extend_from_slice(id.as_bytes());
        }
        body.put_varint(self.entries.len() as u64);
        for (fingerprint, place) in &self.entries {
            body.extend_from_slice(fingerprint.as_bytes());
            place.encode(&mut body);
        }
        body
    }

    /// Decodes a run's body; entries must ascend, a fingerprint may stand more than once.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let count = reader.count(ObjectId::LEN, "the count of covered objects")?;
        let covers = (0..count)
            .map(|_| Ok(ObjectId::from_bytes(reader.array("a covered object")?)))
            .collect::<Result<Vec<_>, WireError>>()?;
        let count = reader.count(32, "the count of entries")?;
        let mut entries: Vec<(Fingerprint, Place)> = Vec::with_capacity(count);
        for _ in 0..count {
            let fingerprint = Fingerprint::from_bytes(reader.array("a fingerprint")?);
            if entries.last().is_some_and(|(last, _)| *last > fingerprint) {
                return Err(reader.error("fingerprints in ascending order"));
            }
            entries.push((fingerprint, Place::decode(&mut reader)?));
        }
        reader.finish()?;
        Ok(Self { covers, entries })
    }
}

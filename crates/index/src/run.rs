//! Runs: the index in the repository.

use std::ops::ControlFlow;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects, Request, Span};
use onefold_fingerprint::Fingerprint;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Envelope, Kind, ObjectId};

use crate::{IndexError, Place};

/// The prefix of runs in a repository.
pub const PREFIX: &str = "index/";

/// The number of entries before which a writer begins another run.
pub const MAX_RUN_ENTRIES: usize = 1 << 18;

/// The maximum length of a run: four times that of [`MAX_RUN_ENTRIES`].
const MAX_LEN: u64 = 64 << 20;

/// The name of run `id`.
pub fn run_name(id: ObjectId) -> String {
    format!("{PREFIX}{id}")
}

/// The id in `name`, or `None` if it is not the name of a run.
pub fn run_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// An immutable part of the index: the chunks of the objects in `covers`, by fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The objects whose chunks the run lists completely. Places refer to them by position.
    pub covers: Vec<ObjectId>,
    /// Fingerprints in ascending order, and their places.
    pub entries: Vec<(Fingerprint, Place)>,
}

impl Run {
    /// A run over `covers` with `entries`, which may be in any order.
    pub fn new(covers: Vec<ObjectId>, mut entries: Vec<(Fingerprint, Place)>) -> Self {
        entries.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
        Self { covers, entries }
    }

    /// Puts the run under a new id, and returns the id when the run is durable.
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

    /// Reads `runs` with concurrent requests, and calls `take` for each when it arrives, with its position.
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

    /// Decodes run `run` from its object `bytes`.
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

    /// Decodes a run's body. Entries must be in ascending order; a fingerprint may have several.
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

//! Marks: lists of containers that a [prune](crate::prune) is about to delete.
//!
//! A container that a mark names is *condemned*, and stays so until it is deleted: no backup relies
//! on it any more. Only when all of a mark's containers are gone is the mark deleted.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Envelope, Kind, ObjectId};

use crate::StoreError;
use crate::finding::describe;
use crate::objects::read::{ids, read_objects};

/// Under which prefix of a repository marks lie.
pub(crate) const PREFIX: &str = "marks/";

/// No mark is longer than this: four million containers.
const MAX_LEN: u64 = 64 << 20;

/// A writer starts another mark before one condemns more containers than this.
pub(crate) const MAX_CONDEMNED: usize = 1 << 20;

/// The name of mark `id`.
pub(crate) fn mark_name(id: ObjectId) -> String {
    format!("{PREFIX}{id}")
}

/// The id that `name` stands for, or `None` if it is no mark's name.
pub(crate) fn mark_id(name: &str) -> Option<ObjectId> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Puts a mark and gives its id once it is durable.
pub(crate) fn write(
    condemned: &[ObjectId],
    objects: &dyn Objects,
    envelope: &Envelope,
) -> Result<ObjectId, StoreError> {
    let id = ObjectId::random();
    let mut body = Vec::with_capacity(8 + condemned.len() * ObjectId::LEN);
    body.put_varint(condemned.len() as u64);
    condemned.iter().for_each(|container| body.extend_from_slice(container.as_bytes()));
    let object = envelope.seal(Kind::Mark, id, &body);
    objects.put(&mark_name(id), Bytes::from(object))?;
    Ok(id)
}

/// What the mark `id`, whose object is `bytes`, condemns.
fn open(envelope: &Envelope, id: ObjectId, bytes: &[u8]) -> Result<Vec<ObjectId>, StoreError> {
    let object = mark_name(id);
    let malformed = |source| StoreError::Malformed { object: mark_name(id), source };
    let body = envelope
        .open(Kind::Mark, id, bytes)
        .map_err(|source| StoreError::Envelope { object, source })?;
    decode(&body).map_err(malformed)
}

fn decode(body: &[u8]) -> Result<Vec<ObjectId>, WireError> {
    let mut reader = Reader::new(body);
    let condemned = ids(&mut reader, "the count of condemned containers")?;
    reader.finish()?;
    Ok(condemned)
}

/// All marks of a repository, as a listing showed them.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The containers that each of them condemns.
    pub(crate) marks: HashMap<ObjectId, Vec<ObjectId>>,
    /// What is wrong with marks that could not be read.
    pub(crate) damaged: Vec<String>,
}

impl Marks {
    /// Lists and reads them.
    pub(crate) fn read(objects: &dyn Objects, envelope: &Envelope) -> Result<Self, StoreError> {
        Self::read_listed(objects, envelope, &list(objects)?)
    }

    /// Reads those that were listed, many at a time. A mark that vanishes meanwhile is finished: its
    /// containers are gone.
    pub(crate) fn read_listed(
        objects: &dyn Objects,
        envelope: &Envelope,
        listed: &[ObjectId],
    ) -> Result<Self, StoreError> {
        let mut read = BTreeMap::new();
        let names = listed.iter().map(|id| mark_name(*id));
        read_objects(objects, names, MAX_LEN, &mut |at, object| {
            let condemned = object.and_then(|bytes| open(envelope, listed[at], &bytes));
            read.insert(listed[at], condemned);
        })?;
        let mut all = Self::default();
        for (id, condemned) in read {
            match condemned {
                Ok(condemned) => drop(all.marks.insert(id, condemned)),
                Err(StoreError::Backend(error)) if error.is_not_found() => {}
                Err(error) if error.is_unreachable() || error.is_unknown_version() => {
                    return Err(error);
                }
                Err(error) => all.damaged.push(describe(&error)),
            }
        }
        Ok(all)
    }

    /// Every condemned container.
    pub(crate) fn condemned(&self) -> HashSet<ObjectId> {
        self.marks.values().flatten().copied().collect()
    }

    /// Fails if some mark could not be read: then nobody knows which containers may be relied on.
    pub(crate) fn expect_whole(&self) -> Result<(), StoreError> {
        match self.damaged.first() {
            Some(damage) => Err(StoreError::DamagedMark { damage: damage.clone() }),
            None => Ok(()),
        }
    }
}

/// The ids of all marks.
pub(crate) fn list(objects: &dyn Objects) -> Result<Vec<ObjectId>, StoreError> {
    let names = objects.list_names(PREFIX)?;
    Ok(names.iter().filter_map(|name| mark_id(name)).collect())
}

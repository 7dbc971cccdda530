//! Closing containers of which shards use little, so that their space comes back.
//!
//! No shard alone knows how much of a container all of them use. So each now and then stores, in one object of
//! its own, how many bytes it uses of each; the sum over the users of a container is the most that can be in
//! use. A container that is closing takes no registrations; each user writes its pages again and drops it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{Answer, Query, RadosPool, Refusal, Step, Update};
use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_volume::{Pool, VolumeError};

use super::ask;
use super::census::{Candidate, Census, take_census};
use super::guard::Guards;
use super::shared::{SharedContainers, name_of};
use crate::error::{damaged_object, failed};
use crate::hints::ContainerName;

/// The share of all containers' bytes that may be unused, unless the operator says otherwise.
pub const WASTE: f64 = 0.2;

/// What comes after the shard in the name of the object of its uses.
pub(super) const LIVE: &str = "live";

/// The version of the object of a shard's uses.
const VERSION: u8 = 1;

/// Attribute of that object, and of what all shards use: how many bytes of volumes are mapped, 8 bytes.
pub(crate) const MAPPED: &str = "mapped";

/// What closing found and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Closed {
    /// Containers that were looked at: those that are sealed, and of which all users told what they use.
    pub containers: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The bytes that shards say they use, at most.
    pub live_bytes: u64,
    /// Containers that were closed.
    pub closed: u64,
}

/// How much a shard uses of each container.
pub(super) type Uses = BTreeMap<ContainerName, u64>;

/// What a shard says it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) uses: Uses,
    /// Bytes of its volumes that are no holes; 0 if an earlier version of the program said it.
    pub(super) mapped_bytes: u64,
}

/// What attribute [`MAPPED`] says, if it is there.
pub(crate) fn mapped_of(answer: &Answer) -> Option<u64> {
    let found: &[u8] = answer.xattrs.get(MAPPED)?;
    found.try_into().ok().map(u64::from_be_bytes)
}

/// Its value.
pub(crate) fn mapped_value(bytes: u64) -> Bytes {
    Bytes::copy_from_slice(&bytes.to_be_bytes())
}

impl SharedContainers {
    pub(super) fn live_object(shard: &ObjectId) -> String {
        format!("{shard}.{LIVE}")
    }

    /// Stores how many bytes `pool`, the open pool of this shard, uses of each container and how many its volumes
    /// have, unless it stored the same the last time.
    ///
    /// # Errors
    /// If the pool of RADOS refuses it or gives no answer.
    pub fn store_live(&self, pool: &Pool) -> Result<(), VolumeError> {
        let uses = pool.uses().into_iter().filter(|one| one.is_registered);
        let uses: Uses = uses.map(|one| (name_of(&one.container), one.live_bytes)).collect();
        let (object, body) = (Self::live_object(&self.guards.own()), Bytes::from(encode(&uses)));
        let mapped_bytes = pool.statistics().mapped_bytes;
        let now = (body.clone(), mapped_bytes);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() == Some(&now) {
            return Ok(());
        }
        let replaced = |update: Update| {
            let update = update.then(Step::Truncate(0)).then(Step::Append(body.clone()));
            update.set(MAPPED, mapped_value(mapped_bytes))
        };
        // whichever of several arrives last, it costs space alone
        let stored = match self.guards.pool.update(&object, replaced(Update::existing())) {
            Err(error) if error.refusal() == Some(Refusal::Absent) => {
                self.guards.pool.update(&object, replaced(Update::creating()))
            }
            stored => stored,
        };
        *told = stored.is_ok().then_some(now);
        stored.map(drop).map_err(|error| failed(Operation::Write, error))
    }

    /// Closes the containers of which least is in use, until no more than `waste` of all of their bytes are
    /// unused, as far as is known, or `go_on` says no. What one shard alone uses is its own to compact.
    ///
    /// # Errors
    /// If a pool of RADOS refuses something or gives no answer.
    pub fn close_sparse(
        &self,
        waste: f64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Closed, VolumeError> {
        let census = take_census(&self.guards, &self.containers, &BTreeSet::new(), go_on)?;
        census.map_or(Ok(Closed::default()), |census| close(&self.guards, &census, waste, go_on))
    }
}

/// The same by a census that was just taken.
pub(crate) fn close(
    guards: &Guards,
    census: &Census,
    waste: f64,
    go_on: &dyn Fn() -> bool,
) -> Result<Closed, VolumeError> {
    let mut candidates: Vec<&Candidate> = census.candidates.iter().collect();
    let mut done = Closed { containers: candidates.len() as u64, ..Closed::default() };
    done.bytes = candidates.iter().map(|one| one.len).sum();
    done.live_bytes = candidates.iter().map(|one| one.live_bytes).sum();
    let share = |one: &Candidate| one.live_bytes as f64 / one.len.max(1) as f64;
    candidates.sort_by(|one, other| share(one).total_cmp(&share(other)));
    let (mut bytes, live) = (done.bytes, done.live_bytes);
    for one in candidates {
        let unused = bytes.saturating_sub(live) as f64;
        if !go_on() || unused <= waste * bytes as f64 || share(one) >= 1.0 - waste {
            break;
        }
        guards.close(&one.name).map_err(|error| failed(Operation::Write, error))?;
        // what is in use of it is stored again
        bytes = bytes - one.len + one.live_bytes;
        done.closed += 1;
    }
    Ok(done)
}

/// What shard `shard` said it uses; nothing if it said nothing.
pub(super) fn live_of(meta: &dyn RadosPool, shard: &ObjectId) -> Result<Option<Live>, VolumeError> {
    let object = SharedContainers::live_object(shard);
    let query = Query { range: Some(0..u64::from(u32::MAX)), xattrs: true, ..Query::default() };
    let answer = ask(meta, &object, &query);
    let Some(answer) = answer.map_err(|error| failed(Operation::Read, error))? else {
        return Ok(None);
    };
    let uses = decode(&answer.bytes).map_err(|error| damaged_object(&object, &error))?;
    Ok(Some(Live { uses, mapped_bytes: mapped_of(&answer).unwrap_or(0) }))
}

fn encode(uses: &Uses) -> Vec<u8> {
    let mut body = vec![VERSION];
    for (name, live_bytes) in uses {
        body.extend_from_slice(name.shard.as_bytes());
        for number in [name.writer, name.number, *live_bytes] {
            body.put_u64(number);
        }
    }
    body
}

/// For fuzzing: uses as they are stored, decoded and encoded again.
pub(crate) fn reuse(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    decode(bytes).map(|uses| encode(&uses))
}

fn decode(bytes: &[u8]) -> Result<Uses, WireError> {
    let mut reader = Reader::new(bytes);
    if reader.u8("a version")? != VERSION {
        return Err(reader.error("version 1"));
    }
    let mut uses = Uses::new();
    while reader.remaining() > 0 {
        let shard = ObjectId::from_bytes(reader.array("a shard")?);
        let (writer, number) = (reader.u64("a writer")?, reader.u64("a number")?);
        let name = ContainerName { shard, writer, number };
        if uses.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err(reader.error("containers in the order of their names"));
        }
        uses.insert(name, reader.u64("bytes")?);
    }
    Ok(uses)
}

//! Turns to look over all containers, what was counted then, and the quota.
//!
//! One gateway at a time looks over all containers: it takes the turn by a guarded change, and others leave it to
//! that one for as long as a turn lasts. Two that do it, because a clock is wrong, do no harm.
//!
//! What is stored *now* is the last count and what each process says it has written and removed since. It is
//! counted so that it errs on the side of more: writes that happen while containers are counted count twice until
//! the next count, and a removal counts only once it is known to come after.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{Query, Refusal, Step, Update};
use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_volume::VolumeError;

use super::records::{Count, QuotaRecord, TurnRecord, UsageRecord};
use super::{Care, is_due, or_empty};
use crate::containers::{
    Census, Closed, Guards, MAPPED, ShardSpace, close, mapped_of, mapped_value, take_census,
};
use crate::error::{damaged_object, failed};
use crate::gateway::gateway::Gateway;
use crate::gateway::gateways;
use crate::gateway::lease::RENEWAL;
use crate::gateway::records::{decode, id_of};
use crate::gateway::table::{Changed, before_id};
use crate::seeded::fault;

const QUOTA: &str = "quota";
const TURN: &str = "turn";
const COUNT: &str = "count";
/// The object that says what each shard uses.
const SPACE: &str = "space";
/// Its version.
const VERSION: u8 = 1;
/// How long after a removal its process may tell of it.
const TOLD: Duration = RENEWAL.saturating_mul(2);

/// What is stored now, as far as gateways have told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// Bytes of all containers.
    pub bytes: u64,
    /// Bytes of those in which several shards are registered, at the last count.
    pub shared_bytes: u64,
    /// Containers at the last count.
    pub containers: u64,
    /// When that was, in milliseconds since 1970; 0 if nothing was counted yet.
    pub counted: u64,
    /// How many bytes there may be.
    pub quota: Option<u64>,
}

/// What came of a turn.
#[derive(Debug)]
pub struct LookedOver {
    /// What there was.
    pub census: Census,
    /// What was closed.
    pub closed: Closed,
}

impl Care {
    /// How many bytes containers may have together, if that is bounded.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn quota(&self) -> Result<Option<u64>, VolumeError> {
        Ok(self.find(QUOTA, QuotaRecord::read)?.map(|(record, _)| record.bytes))
    }

    /// Sets or removes the quota.
    ///
    /// # Errors
    /// If that is not known to be done.
    pub fn set_quota(&self, quota: Option<u64>) -> Result<(), VolumeError> {
        self.ensure_tables()?;
        loop {
            let earlier = self.find(QUOTA, QuotaRecord::read)?.map(|(_, value)| value);
            let quota = quota.map(|bytes| QuotaRecord::new(bytes).encode());
            if earlier.is_none() && quota.is_none()
                || self.change(QUOTA, earlier.as_ref(), quota)?
            {
                return Ok(());
            }
        }
    }

    /// What is stored now.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn stored(&self) -> Result<Stored, VolumeError> {
        let count = self.find(COUNT, Count::read)?.map(|(count, _)| count).unwrap_or_default();
        let base: BTreeMap<ObjectId, UsageRecord> = count.processes.iter().copied().collect();
        let (mut written, mut removed) = (0_u64, 0_u64);
        for (process, now, _) in self.usages()? {
            let base = base.get(&process).copied().unwrap_or_default();
            written = written.saturating_add(now.written.saturating_sub(base.written));
            removed = removed.saturating_add(now.removed.saturating_sub(base.removed));
        }
        Ok(Stored {
            bytes: count.bytes.saturating_add(written).saturating_sub(removed),
            shared_bytes: count.shared_bytes,
            containers: count.containers,
            counted: count.at,
            quota: self.quota()?,
        })
    }

    /// What each shard uses, as counted last; nothing if nothing was counted.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub fn shard_space(&self) -> Result<BTreeMap<ObjectId, ShardSpace>, VolumeError> {
        let query = Query { range: Some(0..u64::from(u32::MAX)), ..Query::default() };
        let answer = or_empty(self.pool.query(SPACE, &query).map(|answer| Some(answer.bytes)))?;
        let Some(bytes) = answer else { return Ok(BTreeMap::new()) };
        decode_space(&bytes).map_err(|error| damaged_object(SPACE, &error))
    }

    /// Bytes of all volumes that are no holes, as counted last; none if nothing was counted.
    ///
    /// # Errors
    /// If the object cannot be read.
    pub fn mapped_bytes(&self) -> Result<Option<u64>, VolumeError> {
        let query = Query { xattrs: true, ..Query::default() };
        or_empty(self.pool.query(SPACE, &query).map(|answer| mapped_of(&answer)))
    }

    fn store_shard_space(&self, census: &Census) -> Result<(), VolumeError> {
        let body = Bytes::from(encode_space(&census.shards));
        let replaced = |update: Update| {
            let update = update.then(Step::Truncate(0)).then(Step::Append(body.clone()));
            update.set(MAPPED, mapped_value(census.mapped_bytes)).even_if_full()
        };
        // whichever of several arrives last, it is shown and nothing more
        let stored = match self.pool.update(SPACE, replaced(Update::existing())) {
            Err(error) if error.refusal() == Some(Refusal::Absent) => {
                self.pool.update(SPACE, replaced(Update::creating()))
            }
            stored => stored,
        };
        stored.map(drop).map_err(|error| failed(Operation::Write, error))
    }

    /// What processes say they stored, with the values that say it.
    pub(super) fn usages(&self) -> Result<Vec<(ObjectId, UsageRecord, Bytes)>, VolumeError> {
        let object = self.usage.object();
        let found = or_empty(self.usage.all())?.into_iter().map(|(key, value)| {
            let record = decode(object, &key, &value, UsageRecord::read)?;
            Ok((id_of(object, &key)?, record, value))
        });
        found.collect()
    }

    /// Says what `process` has stored, which said `from` the last time; the value that says it now.
    pub(super) fn tell_usage(
        &self,
        process: ObjectId,
        from: Option<Bytes>,
        now: UsageRecord,
    ) -> Result<Bytes, VolumeError> {
        let (key, to, mut from) = (process.to_string(), now.encode(), from);
        loop {
            if self.usage.settle(before_id(&key), &key, from.as_ref(), Some(to.clone()))?
                == Changed::Done
            {
                return Ok(to);
            }
            // one whose answer was lost came first, or another gateway took it for that of a dead process
            from = or_empty(self.usage.get(before_id(&key), &key))?;
        }
    }

    /// Takes the turn for `gateway`; false if another one has it, or has had it lately.
    fn take_turn(&self, gateway: ObjectId, every: Duration, now: u64) -> Result<bool, VolumeError> {
        let found = self.find(TURN, TurnRecord::read)?;
        let is_early = |turn: &TurnRecord| !is_due(turn.begun, every, now);
        if found.as_ref().is_some_and(|(turn, _)| is_early(turn)) && !fault!(TurnTaken) {
            return Ok(false);
        }
        let turn = TurnRecord::new(gateway, now).encode();
        self.change(TURN, found.map(|(_, value)| value).as_ref(), Some(turn))
    }

    /// Notes what a census found, which began after `before` was read. `wait` lets so much time pass.
    fn note_count(
        &self,
        census: &Census,
        before: Vec<(ObjectId, UsageRecord, Bytes)>,
        now: u64,
        wait: &dyn Fn(Duration),
    ) -> Result<(), VolumeError> {
        // by then the gateway has reported what it removed before the census
        wait(TOLD);
        let after: BTreeMap<_, _> =
            self.usages()?.into_iter().map(|(id, usage, _)| (id, usage)).collect();
        let living: BTreeSet<ObjectId> =
            gateways(&self.pool)?.into_iter().map(|(_, record)| record.about.process).collect();
        let (gone, there): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|(process, ..)| !living.contains(process));
        let mut processes: BTreeMap<ObjectId, UsageRecord> = BTreeMap::new();
        for (process, UsageRecord { written, removed }, _) in &there {
            let removed = after.get(process).map_or(*removed, |after| after.removed);
            let mut written = *written;
            fault!(CountedEarly => written = after.get(process).map_or(written, |after| after.written));
            processes.insert(*process, UsageRecord { written, removed });
        }
        for (process, after) in &after {
            let of_new = UsageRecord { written: 0, removed: after.removed };
            processes.entry(*process).or_insert(of_new);
        }
        let count = Count {
            at: now,
            containers: census.containers,
            bytes: census.bytes,
            shared_bytes: census.shared_bytes,
            processes: processes.into_iter().collect(),
            ..Count::default()
        };
        let earlier = self.find(COUNT, Count::read)?.map(|(_, value)| value);
        // refused if another gateway counted meanwhile
        if self.change(COUNT, earlier.as_ref(), Some(count.with_token().encode()))? {
            for (process, _, value) in gone {
                // all that it did is in the count
                let key = process.to_string();
                self.usage.settle(before_id(&key), &key, Some(&value), None)?;
            }
        }
        self.store_shard_space(census)
    }
}

impl Gateway {
    /// The records by which gateways look after the domain.
    pub fn care(&self) -> Care {
        Care::new(&self.pool)
    }

    /// Looks over all containers if that is due at `now`, in milliseconds since 1970, and no other gateway does: counts
    /// them, notes that, and closes those of which all shards together use little, so that at most `waste` of all
    /// bytes are unused. None if it was not due, or `go_on` said no. `wait` lets so much time pass.
    ///
    /// # Errors
    /// If a pool of RADOS refuses something or gives no answer.
    pub fn look_over(
        &self,
        (now, every): (u64, Duration),
        waste: f64,
        wait: &dyn Fn(Duration),
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<LookedOver>, VolumeError> {
        let lease = self.lease();
        if !lease.is_valid() || !self.care().take_turn(lease.id(), every, now)? {
            return Ok(None);
        }
        let Some(census) = self.count(now, wait, go_on)? else { return Ok(None) };
        let closed = close(&self.guards(), &census, waste, go_on)?;
        Ok(Some(LookedOver { census, closed }))
    }

    /// Counts what all containers hold, and notes it.
    ///
    /// # Errors
    /// As [`look_over`](Self::look_over).
    pub fn count(
        &self,
        now: u64,
        wait: &dyn Fn(Duration),
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Census>, VolumeError> {
        let care = self.care();
        self.room.keep()?;
        let before = care.usages()?;
        let records = self.shards.all()?;
        let unserved = records
            .iter()
            .filter(|(_, seen)| super::tending::is_unserved(&seen.record))
            .map(|(id, _)| *id)
            .collect();
        let census = take_census(&self.guards(), &self.containers(), &unserved, go_on)?;
        if let Some(census) = &census {
            // what this gateway removed it tells at once
            self.room.keep()?;
            let is_alone = self.watch().present().len() <= 1;
            care.note_count(census, before, now, &|time| {
                if !is_alone {
                    wait(time);
                }
            })?;
        }
        Ok(census)
    }

    /// All guards, as no shard.
    pub(super) fn guards(&self) -> Guards {
        Guards::new(std::sync::Arc::clone(&self.pool), ObjectId::random())
    }
}

fn encode_space(shards: &BTreeMap<ObjectId, ShardSpace>) -> Vec<u8> {
    let mut body = vec![VERSION];
    for (shard, ShardSpace { unique_bytes, used_bytes }) in shards {
        body.extend(shard.as_bytes());
        body.put_u64(*unique_bytes);
        body.put_u64(*used_bytes);
    }
    body
}

fn decode_space(bytes: &[u8]) -> Result<BTreeMap<ObjectId, ShardSpace>, WireError> {
    let mut reader = Reader::new(bytes);
    if reader.u8("a version")? != VERSION {
        return Err(reader.error("version 1"));
    }
    let mut shards = BTreeMap::<ObjectId, ShardSpace>::new();
    while reader.remaining() > 0 {
        let shard = ObjectId::from_bytes(reader.array("a shard")?);
        if shards.last_key_value().is_some_and(|(last, _)| *last >= shard) {
            return Err(reader.error("shards in the order of their ids"));
        }
        let (unique_bytes, used_bytes) = (reader.u64("bytes")?, reader.u64("bytes")?);
        shards.insert(shard, ShardSpace { unique_bytes, used_bytes });
    }
    Ok(shards)
}

/// For fuzzing: what each shard uses, decoded and encoded again.
pub(crate) fn respace(bytes: &[u8]) -> Result<Vec<u8>, WireError> {
    decode_space(bytes).map(|shards| encode_space(&shards))
}

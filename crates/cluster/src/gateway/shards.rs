//! Who has which shard.
//!
//! A gateway takes a shard by an update that compares the record: from nobody, from itself, or from a
//! gateway whose lease does not exist. Every change of a record compares all of it, and each value has a
//! random token. So of two gateways that take a shard one is refused, and an update that arrives late
//! changes nothing.
//!
//! A shard is *doomed* while it is made, until its first volume has its name, and from when its removal
//! begins. Whoever takes over a doomed shard removes it.

use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::rados::RadosPool;
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::records::{ShardRecord, decode, id_of};
use super::table::{Changed, Table, before_id};
use crate::error::failed;
use onefold_backend::Operation;

/// The records of all shards.
#[derive(Clone)]
pub struct Shards(Table);

/// The record of a shard as it was read.
#[derive(Debug, Clone)]
pub struct SeenShard {
    /// What it says.
    pub record: ShardRecord,
    value: Bytes,
}

impl Shards {
    /// Those of the domain in `pool`.
    pub fn new(pool: &Arc<dyn RadosPool>) -> Self {
        Self(Table::new(pool, "shards"))
    }

    pub(super) fn create_table(&self) -> Result<(), VolumeError> {
        self.0.create()
    }

    fn seen(&self, key: &str, value: Bytes) -> Result<SeenShard, VolumeError> {
        let record = decode(self.0.object(), key, &value, ShardRecord::read)?;
        Ok(SeenShard { record, value })
    }

    /// The record of one shard, if it exists.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn find(&self, id: ObjectId) -> Result<Option<SeenShard>, VolumeError> {
        let key = id.to_string();
        let found = self.0.get(before_id(&key), &key);
        let found = found.map_err(|error| failed(Operation::Read, error))?;
        found.map(|value| self.seen(&key, value)).transpose()
    }

    /// The records of all shards.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn all(&self) -> Result<Vec<(ObjectId, SeenShard)>, VolumeError> {
        let all = self.0.all().map_err(|error| failed(Operation::Read, error))?;
        all.into_iter()
            .map(|(key, value)| Ok((id_of(self.0.object(), &key)?, self.seen(&key, value)?)))
            .collect()
    }

    /// Adds the record of a new shard; what it is then.
    pub(super) fn add(&self, id: ObjectId, record: ShardRecord) -> Result<SeenShard, VolumeError> {
        let (key, value) = (id.to_string(), record.encode());
        match self.0.settle(before_id(&key), &key, None, Some(value.clone()))? {
            Changed::Done => Ok(SeenShard { record, value }),
            Changed::Refused => Err(VolumeError::Damaged {
                object: self.0.object().to_owned(),
                at: 0,
                problem: format!("there is a shard {id}, expected a new random id to be unused"),
            }),
        }
    }

    /// Changes a record; what it is then, or none if it was not as `seen`.
    pub(super) fn change(
        &self,
        id: ObjectId,
        seen: &SeenShard,
        record: ShardRecord,
    ) -> Result<Option<SeenShard>, VolumeError> {
        let (key, value) = (id.to_string(), record.encode());
        let changed =
            self.0.settle(before_id(&key), &key, Some(&seen.value), Some(value.clone()))?;
        Ok((changed == Changed::Done).then_some(SeenShard { record, value }))
    }

    /// Removes a record, if it is as `seen`.
    pub(super) fn remove(&self, id: ObjectId, seen: &SeenShard) -> Result<bool, VolumeError> {
        let key = id.to_string();
        let removed = self.0.settle(before_id(&key), &key, Some(&seen.value), None)?;
        Ok(removed == Changed::Done)
    }

    /// Asks that the gateway `to` has the shard; false if there is no such shard.
    ///
    /// # Errors
    /// If that is not known to be noted.
    pub fn want(&self, id: ObjectId, to: ObjectId) -> Result<bool, VolumeError> {
        loop {
            let Some(seen) = self.find(id)?.filter(|seen| !seen.record.is_doomed) else {
                return Ok(false);
            };
            let record = ShardRecord::new(seen.record.gateway, Some(to));
            if self.change(id, &seen, record)?.is_some() {
                return Ok(true);
            }
        }
    }
}

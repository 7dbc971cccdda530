//! Which shard has the volume of a name.
//!
//! Only the gateway that has a shard changes names that lead to it. A new name is claimed before the volume
//! is made, and given up after it was deleted. A crash between the two leaves a name without a volume. The next
//! gateway that opens the shard removes it.
//!
//! A superseded gateway may claim a name late. If its shard was removed before, the name leads to no shard: it
//! counts as free, and no shard's id is used twice. If another gateway has the shard open, the name is removed
//! when that gateway claims or deletes it, or by the next that opens the shard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::RadosPool;
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::records::{NameRecord, decode};
use super::shards::Shards;
use super::table::{Changed, Table};
use crate::clock::LeaseClock;
use crate::error::failed;

/// What a key ends with. No name has a control character, so that no key is between a name and its key.
const END: char = '\u{1}';

/// The names of all volumes of a domain.
#[derive(Clone)]
pub struct Names {
    table: Table,
    shards: Shards,
}

impl Names {
    /// Those of the domain in `pool`.
    pub fn new(pool: &Arc<dyn RadosPool>) -> Self {
        Self { table: Table::new(pool, "names"), shards: Shards::new(pool) }
    }

    pub(super) fn create_table(&self) -> Result<(), VolumeError> {
        self.table.create()
    }

    fn read(&self, key: &str, value: &Bytes) -> Result<NameRecord, VolumeError> {
        decode(self.table.object(), key, value, NameRecord::read)
    }

    /// Where the volume `name` is, if there is one.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<NameRecord>, VolumeError> {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Ok(None);
        }
        let key = format!("{name}{END}");
        let found = self.table.get(name.to_owned(), &key);
        let found = found.map_err(|error| failed(Operation::Read, error))?;
        found.map(|value| self.read(&key, &value)).transpose()
    }

    /// Whether `record` is that of no volume: its shard was removed before a gateway claimed the name, late.
    ///
    /// # Errors
    /// If the record of the shard cannot be read.
    pub fn is_left_over(&self, record: &NameRecord) -> Result<bool, VolumeError> {
        self.shards.find(record.shard).map(|shard| shard.is_none())
    }

    /// Whether a new volume may be called `name`, as far as other volumes are concerned.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn is_free(&self, name: &str) -> Result<bool, VolumeError> {
        self.find(name)?.map_or(Ok(true), |record| self.is_left_over(&record))
    }

    /// The names that lead to `shard`, as far as their records can be read.
    pub(super) fn of(&self, shard: ObjectId) -> Result<BTreeMap<String, NameRecord>, VolumeError> {
        Ok(self.by_shard()?.remove(&shard).unwrap_or_default())
    }

    /// The names that lead to each shard, as far as their records can be read: one that cannot keeps no shard from
    /// being opened.
    fn by_shard(&self) -> Result<ByShard, VolumeError> {
        let all = self.table.all().map_err(|error| failed(Operation::Read, error))?;
        let mut by_shard = ByShard::new();
        for (key, value) in all {
            if let Ok(record) = self.read(&key, &value) {
                let names = by_shard.entry(record.shard).or_default();
                names.insert(without_end(&key).to_owned(), record);
            }
        }
        Ok(by_shard)
    }

    /// All volumes, by name.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn all(&self) -> Result<Vec<(String, NameRecord)>, VolumeError> {
        let all = self.table.all().map_err(|error| failed(Operation::Read, error))?;
        let named = |(key, value): (String, Bytes)| {
            let record = self.read(&key, &value)?;
            Ok((without_end(&key).to_owned(), record))
        };
        all.into_iter().map(named).collect()
    }

    /// Changes the record of `name`; false if it was not `from`.
    pub(super) fn change(
        &self,
        name: &str,
        from: Option<&NameRecord>,
        to: Option<&NameRecord>,
    ) -> Result<bool, VolumeError> {
        let key = format!("{name}{END}");
        let (from, to) = (from.map(NameRecord::encode), to.map(NameRecord::encode));
        Ok(self.table.settle(name.to_owned(), &key, from.as_ref(), to)? == Changed::Done)
    }
}

/// The name whose key is `key`.
fn without_end(key: &str) -> &str {
    key.strip_suffix(END).unwrap_or(key)
}

type ByShard = BTreeMap<ObjectId, BTreeMap<String, NameRecord>>;

/// The names as a gateway read them last: one that takes many shards at once reads them once.
#[derive(Default)]
pub(super) struct LastNames(Mutex<Option<(Duration, ByShard)>>);

impl LastNames {
    /// The names that lead to `shard`, by a read that began later than `since`, a time of `clock`.
    pub(super) fn of(
        &self,
        shard: ObjectId,
        since: Duration,
        names: &Names,
        clock: &dyn LeaseClock,
    ) -> Result<BTreeMap<String, NameRecord>, VolumeError> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match last.take() {
            Some(read) if read.0 > since => read,
            // the time before the read
            _ => (clock.now(), names.by_shard()?),
        };
        let (_, by_shard) = last.insert(read);
        Ok(by_shard.get(&shard).cloned().unwrap_or_default())
    }
}

//! A shard that this gateway has open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_seal::ObjectId;
use onefold_volume::{Pool, Volume, VolumeError, VolumeInfo};

use super::device::LeasedDevice;
use super::names::Names;
use super::records::{NameRecord, token};
use super::tenure::Tenure;
use super::unsettled::Unsettled;
use crate::shard::SharedShard;

/// A shard that a gateway has open.
pub struct OpenShard {
    shared: SharedShard,
    tenure: Arc<Tenure>,
    names: Names,
    /// The records of the names of its volumes. Volumes are changed one at a time.
    known: Mutex<BTreeMap<String, NameRecord>>,
    /// The writes of each volume that a client has used.
    unsettled: Mutex<BTreeMap<String, Arc<Unsettled>>>,
}

impl std::fmt::Debug for OpenShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenShard").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// The right to create, delete and rename volumes of a shard, one caller at a time.
pub struct Changing<'a> {
    shard: &'a OpenShard,
    known: MutexGuard<'a, BTreeMap<String, NameRecord>>,
}

impl OpenShard {
    pub(super) fn new(shared: SharedShard, tenure: Tenure, names: Names) -> Self {
        let tenure = Arc::new(tenure);
        Self { shared, tenure, names, known: Mutex::default(), unsettled: Mutex::default() }
    }

    /// The id of the shard.
    pub fn id(&self) -> ObjectId {
        self.shared.id()
    }

    /// Its volumes.
    pub fn pool(&self) -> &Pool {
        self.shared.pool()
    }

    /// The shard, with the containers that it shares.
    pub fn shared(&self) -> &SharedShard {
        &self.shared
    }

    /// Until when its reads are answered.
    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// The volume `name` as clients see it.
    ///
    /// # Errors
    /// [`VolumeError::NoVolume`].
    pub fn device(&self, name: &str) -> Result<LeasedDevice<Volume>, VolumeError> {
        let volume = self.pool().volume(name)?;
        Ok(LeasedDevice::new(volume, Arc::clone(&self.tenure), self.unsettled(name)))
    }

    fn unsettled(&self, name: &str) -> Arc<Unsettled> {
        let mut all = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(name.to_owned()).or_default())
    }

    /// Has the next read of volume `name` make all changes of the shard durable before it is answered: a change of
    /// what the volume is has failed, and this gateway's memory shows it. To be called before clients can read it.
    pub fn unsettle(&self, name: &str) {
        self.unsettled(name).fail();
    }

    /// Waits until no other caller changes volumes.
    pub fn change(&self) -> Changing<'_> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Changing { shard: self, known }
    }

    /// Whether names have to be brought in line with the volumes: a client has resized one. False while
    /// another caller changes volumes.
    pub(super) fn has_unnoted(&self) -> bool {
        let Ok(known) = self.known.try_lock() else { return false };
        let volumes = self.pool().volumes();
        let is_noted =
            |one: &VolumeInfo| known.get(&one.name).is_some_and(|record| is_as(record, one));
        volumes.len() != known.len() || !volumes.iter().all(is_noted)
    }
}

fn is_as(record: &NameRecord, one: &VolumeInfo) -> bool {
    (record.size, record.block_size, record.is_read_only)
        == (one.size, one.block_size, one.is_read_only)
}

impl Changing<'_> {
    fn record(&self, one: &VolumeInfo) -> NameRecord {
        NameRecord {
            shard: self.shard.id(),
            token: token(),
            size: one.size,
            block_size: one.block_size,
            is_read_only: one.is_read_only,
        }
    }

    /// Fails if the gateway has given the shard away, or may have lost it.
    ///
    /// # Errors
    /// [`VolumeError::Stopped`].
    pub fn ensure_current(&self) -> Result<(), VolumeError> {
        if self.shard.tenure.is_current() {
            return Ok(());
        }
        let why = "the gateway gave the volume away, or could not renew its lease".to_owned();
        Err(VolumeError::Stopped { why })
    }

    /// Claims `name` for a volume that is about to be made in this shard.
    ///
    /// # Errors
    /// [`VolumeError::VolumeExists`] if another volume of the domain has it.
    pub fn claim(&mut self, name: &str) -> Result<(), VolumeError> {
        self.ensure_current()?;
        let exists = || VolumeError::VolumeExists { name: name.to_owned() };
        if self.known.contains_key(name) {
            return Err(exists());
        }
        let shard = self.shard.id();
        let record =
            NameRecord { shard, token: token(), size: 0, block_size: 0, is_read_only: false };
        let names = &self.shard.names;
        let earlier = names.find(name)?;
        // a name that leads here, without a volume, is left from a crash
        let is_free = match &earlier {
            Some(earlier) => earlier.shard == shard || names.is_left_over(earlier)?,
            None => true,
        };
        if !is_free || !names.change(name, earlier.as_ref(), Some(&record))? {
            return Err(exists());
        }
        self.known.insert(name.to_owned(), record);
        Ok(())
    }

    /// Takes `names` for those that lead to this shard, so that [`sync`](Self::sync) removes those that a crash left.
    pub(super) fn recall_all(&mut self, names: BTreeMap<String, NameRecord>) {
        *self.known = names;
    }

    /// Finds out whether `name` leads to this shard: a superseded gateway may have claimed it since the shard was opened.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn recall(&mut self, name: &str) -> Result<(), VolumeError> {
        let found = self.shard.names.find(name)?.filter(|record| record.shard == self.shard.id());
        if let Some(record) = found {
            self.known.insert(name.to_owned(), record);
        }
        Ok(())
    }

    /// Brings the names in line with the volumes that there are.
    ///
    /// # Errors
    /// [`VolumeError::VolumeExists`] if a name leads to another shard, after all others were brought in
    /// line. After any other error the call may be repeated.
    pub fn sync(&mut self) -> Result<(), VolumeError> {
        let volumes = self.shard.pool().volumes();
        let names = &self.shard.names;
        let is_gone = |name: &String| volumes.iter().all(|one| one.name != *name);
        let gone: Vec<String> = self.known.keys().filter(|name| is_gone(name)).cloned().collect();
        for name in gone {
            // refused if it was done before and its answer was lost
            names.change(&name, self.known.get(&name), None)?;
            self.known.remove(&name);
        }
        let mut taken = None;
        for one in &volumes {
            let known = self.known.get(&one.name).copied();
            let earlier = match known {
                Some(record) => Some(record),
                None => names.find(&one.name)?,
            };
            let record = match earlier {
                Some(earlier) if earlier.shard == self.shard.id() && is_as(&earlier, one) => {
                    earlier
                }
                Some(earlier)
                    if earlier.shard != self.shard.id() && !names.is_left_over(&earlier)? =>
                {
                    taken = Some(one.name.clone());
                    continue;
                }
                earlier => {
                    let record = self.record(one);
                    if !names.change(&one.name, earlier.as_ref(), Some(&record))? {
                        // this gateway lost the shard, or an earlier answer: the next call finds out
                        self.known.remove(&one.name);
                        continue;
                    }
                    record
                }
            };
            self.known.insert(one.name.clone(), record);
        }
        taken.map_or(Ok(()), |name| Err(VolumeError::VolumeExists { name }))
    }

    /// Whether the shard has no volume, and can be removed.
    pub fn is_empty(&self) -> bool {
        self.shard.pool().volumes().is_empty()
    }
}

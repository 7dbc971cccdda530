//! How a gateway takes shards, opens them, and makes new ones.

use std::sync::Arc;
use std::time::Duration;

use onefold_seal::ObjectId;
use onefold_volume::{Options, Pool, Repaired, VolumeError};

use super::events::GatewayEvent;
use super::gateway::{Gateway, Slot};
use super::lease::GatewayLease;
use super::open::OpenShard;
use super::records::ShardRecord;
use super::shards::SeenShard;
use super::tenure::Tenure;
use crate::shard::{SharedShard, create_shard, open_counted, repair_shard};

/// The fewest shares into which a gateway divides its memory.
const LEAST_SHARES: usize = 8;
/// A shard gets at least so much memory for its table of fingerprints, in bytes.
const LEAST_TABLE: usize = 1 << 20;
/// A shard gets at least so much memory for maps, in bytes: some steps need all nodes of a container.
const LEAST_NODES: u64 = 16 << 20;
/// A shard that was opened, and what is damaged in it.
type Opened = (Arc<OpenShard>, Vec<VolumeError>);

impl Gateway {
    /// Takes the shard `id`, whose record was as `seen` at `since`: from nobody, from this gateway, or from one that has
    /// no lease. Opens it, or removes it if it is doomed or empty. None if another gateway or thread came first,
    /// or it was removed.
    pub(super) fn take(
        &self,
        id: ObjectId,
        seen: SeenShard,
        since: Duration,
    ) -> Result<Option<Arc<OpenShard>>, VolumeError> {
        self.take_after(id, seen, since, || Ok(()))
    }

    /// The same, and calls `prepare` once the shard is this gateway's and before it is opened.
    pub(super) fn take_after(
        &self,
        id: ObjectId,
        seen: SeenShard,
        since: Duration,
        prepare: impl FnOnce() -> Result<(), VolumeError>,
    ) -> Result<Option<Arc<OpenShard>>, VolumeError> {
        let lease = self.lease();
        if self.is_ending() || !lease.is_valid() || !self.begin_taking(id) {
            return Ok(None);
        }
        let taken = self.take_busy(id, seen, since, &lease, prepare).map(|taken| {
            taken.map(|(shard, damage)| {
                // before another thread finds it
                self.audience.opened(&shard, damage);
                shard
            })
        });
        self.settle(id, taken.as_ref().ok().into_iter().flatten().next().cloned().map(Slot::Open));
        taken
    }

    fn take_busy(
        &self,
        id: ObjectId,
        seen: SeenShard,
        since: Duration,
        lease: &Arc<GatewayLease>,
        prepare: impl FnOnce() -> Result<(), VolumeError>,
    ) -> Result<Option<Opened>, VolumeError> {
        let record = ShardRecord {
            is_doomed: seen.record.is_doomed,
            ..ShardRecord::new(Some(lease.id()), None)
        };
        let from = seen.record.gateway;
        let Some(taken) = self.shards.change(id, &seen, record)? else { return Ok(None) };
        if record.is_doomed {
            self.erase(id, &taken)?;
            return Ok(None);
        }
        let (shard, damage) = match prepare().and_then(|()| self.open(id, since, lease)) {
            Ok(opened) => opened,
            Err(error) => {
                // another gateway may be able to open it
                self.shards.change(id, &taken, ShardRecord::new(None, None))?;
                return Err(error);
            }
        };
        if shard.change().is_empty() {
            drop(shard);
            if let Some(doomed) = self.shards.change(id, &taken, ShardRecord::doomed(lease.id()))? {
                self.erase(id, &doomed)?;
            }
            return Ok(None);
        }
        if !lease.is_valid() {
            return Ok(None);
        }
        let volumes = shard.pool().volumes().into_iter().map(|one| one.name).collect();
        self.audience.tell(GatewayEvent::Took { shard: id, from, volumes });
        Ok(Some((shard, damage)))
    }

    fn open_shared(&self, id: ObjectId) -> Result<(SharedShard, Vec<VolumeError>), VolumeError> {
        let (hints, usage) = (Arc::clone(&self.settings.hints), Arc::clone(self.room.usage()));
        open_counted(&self.pool, self.data(), id, hints, usage, self.share())
    }

    /// Repairs the shard `id`, which is this gateway's and is not open.
    pub(super) fn repair(&self, id: ObjectId, done: &mut Repaired) -> Result<(), VolumeError> {
        repair_shard(&self.pool, self.data(), (id, self.domain.hash), self.share(), done)
    }

    /// Opens the shard `id`, which nobody else had since `since`, and brings the names that lead to it in line with its
    /// volumes.
    fn open(
        &self,
        id: ObjectId,
        since: Duration,
        lease: &Arc<GatewayLease>,
    ) -> Result<Opened, VolumeError> {
        let (shared, damage) = self.open_shared(id)?;
        let tenure = Tenure::new(Arc::clone(lease));
        let shard = Arc::new(OpenShard::new(shared, tenure, self.names.clone()));
        let mut changing = shard.change();
        changing.recall_all(self.last_names.of(id, since, &self.names, &*self.clock)?);
        match changing.sync() {
            // its other volumes can be used
            Err(error @ VolumeError::VolumeExists { .. }) => {
                self.audience.tell(GatewayEvent::Failed(error));
            }
            synced => synced?,
        }
        drop(changing);
        Ok((shard, damage))
    }

    /// The options by which the next shard is opened: an equal share of the memory. There are shares for
    /// twice as many shards as there are for each living gateway, for as many as are open, and for
    /// [`LEAST_SHARES`].
    fn share(&self) -> Options {
        let (living, all) = (self.watch().living_count().max(1), self.rounds().shards);
        let shares = (2 * all.div_ceil(living)).max(self.slots().len()).max(LEAST_SHARES);
        let options = &self.settings.options;
        let node_bytes = (options.node_bytes / shares as u64).max(LEAST_NODES);
        Options {
            codec: Some(options.codec.unwrap_or(self.domain.codec)),
            table_bytes: (options.table_bytes / shares).max(LEAST_TABLE),
            node_bytes,
            open_files: (options.open_files / shares).max(4),
            ..options.clone()
        }
    }

    /// Makes a shard whose volumes `make` makes; it must make `name`. The shard is open here then.
    ///
    /// # Errors
    /// [`VolumeError::VolumeExists`] if the name is taken, [`VolumeError::Stopped`] if the lease of this gateway ended
    /// meanwhile, and what `make` returns. What was made is removed then, or by the gateway that takes it over.
    pub fn create(
        &self,
        name: &str,
        make: impl FnOnce(&Pool) -> Result<(), VolumeError>,
    ) -> Result<Arc<OpenShard>, VolumeError> {
        self.create_shard(name, |shard| make(shard.pool()))
    }

    /// The same where `make` uses containers of other shards, as [`detach`](crate::detach) does.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_shard(
        &self,
        name: &str,
        make: impl FnOnce(&SharedShard) -> Result<(), VolumeError>,
    ) -> Result<Arc<OpenShard>, VolumeError> {
        if !self.names.is_free(name)? {
            return Err(VolumeError::VolumeExists { name: name.to_owned() });
        }
        let (id, lease) = (ObjectId::random(), self.lease());
        if !self.begin_taking(id) {
            return Err(VolumeError::VolumeExists { name: name.to_owned() });
        }
        let doomed = self.shards.add(id, ShardRecord::doomed(lease.id()));
        let made = doomed.and_then(|doomed| {
            let made = self.make_shard(id, name, make, &lease);
            let (shard, named) = match made {
                Ok(shard) => (shard, ShardRecord::new(Some(lease.id()), None)),
                Err(error) => {
                    // whatever keeps it from being removed, the next that takes it over removes it
                    if let Err(error) = self.erase(id, &doomed) {
                        self.audience.tell(GatewayEvent::Failed(error));
                    }
                    return Err(if lease.is_valid() { error } else { outlived(name, &error) });
                }
            };
            match self.shards.change(id, &doomed, named)? {
                Some(_) => Ok(shard),
                None => Err(VolumeError::Stopped { why: self.lost_why() }),
            }
        });
        if let Ok(shard) = &made {
            self.audience.opened(shard, Vec::new());
        }
        self.settle(id, made.as_ref().ok().cloned().map(Slot::Open));
        made
    }

    fn make_shard(
        &self,
        id: ObjectId,
        name: &str,
        make: impl FnOnce(&SharedShard) -> Result<(), VolumeError>,
        lease: &Arc<GatewayLease>,
    ) -> Result<Arc<OpenShard>, VolumeError> {
        create_shard(&self.pool, id, self.domain.hash)?;
        let (shared, _) = self.open_shared(id)?;
        make(&shared)?;
        let tenure = Tenure::new(Arc::clone(lease));
        let shard = Arc::new(OpenShard::new(shared, tenure, self.names.clone()));
        let mut changing = shard.change();
        changing.claim(name)?;
        changing.sync()?;
        drop(changing);
        Ok(shard)
    }
}

/// The error of a gateway whose lease ended before volume `name` was complete. What it made is missing by now, as
/// `error` says, or soon.
fn outlived(name: &str, error: &VolumeError) -> VolumeError {
    let why = format!(
        "the lease of this process ended before volume '{name}' was complete, so that gateways remove what there is of \
         it: repeat the command ({error})"
    );
    VolumeError::Stopped { why }
}

//! A gateway: a process that has shards by one lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use onefold_backend::rados::RadosPool;
use onefold_seal::ObjectId;
use onefold_volume::{Options, Pool, VolumeError};

use super::domain::Domain;
use super::events::{Audience, GatewayEvent};
use super::lease::GatewayLease;
use super::names::Names;
use super::open::OpenShard;
use super::records::{About, GatewayRecord, ShardRecord};
use super::shards::{SeenShard, Shards};
use super::tenure::Tenure;
use super::watch::Watch;
use crate::clock::LeaseClock;
use crate::shard;

/// A gateway makes room for at least so many shards in its memory.
const LEAST_SHARES: usize = 8;
/// A shard gets at least so much memory for its table of fingerprints, in bytes.
const LEAST_TABLE: usize = 1 << 20;
/// A shard gets at least so much memory for maps, in bytes.
const LEAST_NODES: u64 = 2 << 20;
/// How long a caller waits at a time for another thread that takes or gives away the same shard.
const SETTLING: Duration = Duration::from_secs(60);

/// What a gateway is, and how it opens shards.
#[derive(Clone)]
pub struct Settings {
    /// What it tells others of itself.
    pub about: About,
    /// How shards are opened. The memory in it is that of all of them.
    pub options: Options,
}

/// A gateway.
pub struct Gateway {
    pub(super) pool: Arc<dyn RadosPool>,
    clock: Arc<dyn LeaseClock>,
    domain: Domain,
    settings: Settings,
    pub(super) audience: Arc<dyn Audience>,
    pub(super) shards: Shards,
    names: Names,
    lease: Mutex<Arc<GatewayLease>>,
    slots: Mutex<BTreeMap<ObjectId, Slot>>,
    /// Notified when a slot is no longer busy.
    settled: Condvar,
    /// Whether it takes nothing more.
    is_ending: AtomicBool,
    watch: Mutex<Watch>,
    /// The gateways that had a lease at the last look.
    present: RwLock<BTreeSet<ObjectId>>,
    pub(super) rounds: Mutex<super::round::Rounds>,
}

/// What a gateway has of a shard.
#[derive(Clone)]
enum Slot {
    /// A thread takes it or gives it away.
    Busy,
    Open(Arc<OpenShard>),
}

/// Where a shard is.
#[derive(Debug)]
pub enum Reached {
    /// This gateway has it open.
    Here(Arc<OpenShard>),
    /// Another gateway has it, or had it until its lease ends.
    There {
        /// The gateway.
        gateway: ObjectId,
        /// What it tells of itself, if this version can read that.
        record: Option<GatewayRecord>,
    },
    /// It changes hands: ask again in a moment.
    Moving,
    /// There is no such shard, or it is being made or removed.
    Absent,
}

impl Gateway {
    /// Begins a gateway of the domain in `pool`, which takes a lease.
    ///
    /// The caller must renew it and look around, as [`Running`](super::Running) does.
    ///
    /// # Errors
    /// [`VolumeError::NoPool`] if there is no domain.
    pub fn begin(
        pool: &Arc<dyn RadosPool>,
        clock: &Arc<dyn LeaseClock>,
        settings: Settings,
        audience: Arc<dyn Audience>,
    ) -> Result<Self, VolumeError> {
        let domain = Domain::find(&**pool)?.ok_or(VolumeError::NoPool)?;
        let lease = Arc::new(GatewayLease::claim(pool, clock, settings.about.clone())?);
        audience.tell(GatewayEvent::Began(lease.id()));
        let gateway = Self {
            pool: Arc::clone(pool),
            clock: Arc::clone(clock),
            domain,
            settings,
            audience,
            shards: Shards::new(pool),
            names: Names::new(pool),
            lease: Mutex::new(lease),
            slots: Mutex::default(),
            settled: Condvar::new(),
            is_ending: AtomicBool::new(false),
            watch: Mutex::new(Watch::new(pool, clock)),
            present: RwLock::default(),
            rounds: Mutex::default(),
        };
        drop(gateway.look_at_leases()?);
        Ok(gateway)
    }

    /// The domain.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// The names of all volumes.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The lease that it has now.
    pub fn lease(&self) -> Arc<GatewayLease> {
        Arc::clone(&self.lease.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The time by the clock of its lease.
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    pub(super) fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all leases.
    pub(super) fn look_at_leases(&self) -> Result<MutexGuard<'_, Watch>, VolumeError> {
        let mut watch = self.watch();
        watch.look()?;
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = watch.present();
        Ok(watch)
    }

    /// Whether the gateway `id` had a lease at the last look. Never waits for Ceph.
    pub fn has_lease(&self, id: ObjectId) -> bool {
        self.present.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shards that it has open.
    pub fn open_shards(&self) -> Vec<Arc<OpenShard>> {
        let open = |slot: &Slot| match slot {
            Slot::Open(shard) => Some(Arc::clone(shard)),
            Slot::Busy => None,
        };
        self.slots().values().filter_map(open).collect()
    }

    /// Whether a shard is open, or a thread takes it or gives it away.
    pub(super) fn has_slot(&self, id: ObjectId) -> bool {
        self.slots().contains_key(&id)
    }

    /// Renews the lease. A lease that was lost is not renewed: [`poll`](Self::poll) takes another one.
    pub fn renew(&self) {
        let lease = self.lease();
        if !lease.is_lost()
            && let Err(error) = lease.renew()
            && !lease.is_lost()
        {
            self.audience.tell(GatewayEvent::NotRenewed(error));
        }
    }

    /// Looks at all leases, and breaks those that have not changed for [`WAIT`](super::WAIT): what a command
    /// does that waits for the shard of a dead gateway.
    ///
    /// # Errors
    /// If the leases cannot be read or broken.
    pub fn look(&self) -> Result<(), VolumeError> {
        self.break_silent().map(|_| ())
    }

    /// Finds the shard `id`, and takes it if no gateway has it.
    ///
    /// # Errors
    /// If the shard cannot be taken or opened.
    pub fn reach(&self, id: ObjectId) -> Result<Reached, VolumeError> {
        if let Some(open) = self.wait_for(id) {
            return Ok(Reached::Here(open));
        }
        let Some(seen) = self.shards.find(id)? else { return Ok(Reached::Absent) };
        let own = self.lease().id();
        if seen.record.is_doomed {
            return Ok(Reached::Absent);
        }
        if let Some(gateway) = seen.record.gateway.filter(|gateway| *gateway != own) {
            // a lease that exists now may not have existed at the last look
            let watch = self.look_at_leases()?;
            if watch.has(gateway) {
                let record = watch.record(gateway).cloned();
                return Ok(Reached::There { gateway, record });
            }
        }
        if let Some(wanted) = seen.record.wanted.filter(|wanted| *wanted != own)
            && self.watch().has(wanted)
        {
            return Ok(Reached::Moving);
        }
        Ok(self.take(id, seen)?.map_or(Reached::Moving, Reached::Here))
    }

    /// Waits while a thread takes a shard or gives it away. The shard, if it is open then.
    fn wait_for(&self, id: ObjectId) -> Option<Arc<OpenShard>> {
        let is_busy =
            |slots: &mut BTreeMap<ObjectId, Slot>| matches!(slots.get(&id), Some(Slot::Busy));
        let waited = self.settled.wait_timeout_while(self.slots(), SETTLING, is_busy);
        let (slots, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match slots.get(&id) {
            // one that was lost is about to be dropped
            Some(Slot::Open(shard)) if shard.tenure().is_under(&self.lease()) => {
                Some(Arc::clone(shard))
            }
            _ => None,
        }
    }

    /// Marks a shard as busy; false if it is, or is open.
    fn begin_taking(&self, id: ObjectId) -> bool {
        let mut slots = self.slots();
        let is_free = !slots.contains_key(&id);
        if is_free {
            slots.insert(id, Slot::Busy);
        }
        is_free
    }

    fn settle(&self, id: ObjectId, slot: Option<Slot>) {
        let mut slots = self.slots();
        match slot {
            Some(slot) => slots.insert(id, slot),
            None => slots.remove(&id),
        };
        drop(slots);
        self.settled.notify_all();
    }

    /// Takes the shard `id`, whose record is as `seen`: from nobody, from this gateway, or from one that has no
    /// lease. Opens it, or removes it if it is doomed or empty. None if another gateway or thread came first,
    /// or it was removed.
    pub(super) fn take(
        &self,
        id: ObjectId,
        seen: SeenShard,
    ) -> Result<Option<Arc<OpenShard>>, VolumeError> {
        let lease = self.lease();
        if self.is_ending() || !lease.is_valid() || !self.begin_taking(id) {
            return Ok(None);
        }
        let taken = self.take_busy(id, seen, &lease).map(|taken| {
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
        lease: &Arc<GatewayLease>,
    ) -> Result<Option<(Arc<OpenShard>, Vec<VolumeError>)>, VolumeError> {
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
        let (shard, damage) = match self.open(id, lease) {
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

    /// Opens the shard `id`, and brings its names in line with its volumes.
    fn open(
        &self,
        id: ObjectId,
        lease: &Arc<GatewayLease>,
    ) -> Result<(Arc<OpenShard>, Vec<VolumeError>), VolumeError> {
        let (pool, damage) = shard::open(&self.pool, id, self.share())?;
        let tenure = Tenure::new(Arc::clone(lease));
        let shard = Arc::new(OpenShard::new(id, pool, tenure, self.names.clone()));
        match shard.change().sync() {
            // its other volumes can be used
            Err(error @ VolumeError::VolumeExists { .. }) => {
                self.audience.tell(GatewayEvent::Failed(error));
            }
            synced => synced?,
        }
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
    /// [`VolumeError::VolumeExists`] if the name is taken, and what `make` returns. What was made is removed
    /// then, or by the gateway that takes it over.
    pub fn create(
        &self,
        name: &str,
        make: impl FnOnce(&Pool) -> Result<(), VolumeError>,
    ) -> Result<Arc<OpenShard>, VolumeError> {
        if self.names.find(name)?.is_some() {
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
                    return Err(error);
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
        make: impl FnOnce(&Pool) -> Result<(), VolumeError>,
        lease: &Arc<GatewayLease>,
    ) -> Result<Arc<OpenShard>, VolumeError> {
        shard::create(&self.pool, id, self.domain.hash)?;
        let (pool, _) = shard::open(&self.pool, id, self.share())?;
        make(&pool)?;
        let tenure = Tenure::new(Arc::clone(lease));
        let shard = Arc::new(OpenShard::new(id, pool, tenure, self.names.clone()));
        let mut changing = shard.change();
        changing.claim(name)?;
        changing.sync()?;
        drop(changing);
        Ok(shard)
    }

    pub(super) fn lost_why(&self) -> String {
        "another gateway broke the lease of this one".to_owned()
    }

    /// Removes the doomed shard `id`, which this gateway has by the record `doomed`: its objects, names that
    /// lead to it, and last its record.
    fn erase(&self, id: ObjectId, doomed: &SeenShard) -> Result<(), VolumeError> {
        shard::remove(&self.pool, id)?;
        for (name, record) in self.names.all()? {
            if record.shard == id {
                self.names.change(&name, Some(&record), None)?;
            }
        }
        self.shards.remove(id, doomed)?;
        self.audience.tell(GatewayEvent::Removed(id));
        Ok(())
    }

    /// Gives the shard `id` back, or removes it if it has no volume left: completes what clients asked for,
    /// makes a checkpoint, and lets other gateways take it. Does nothing if it is not open.
    ///
    /// # Errors
    /// If it is not known to be given back. Others take it when the lease of this gateway has ended.
    pub fn give_back(&self, id: ObjectId) -> Result<(), VolumeError> {
        let Some(shard) = self.close(id) else { return Ok(()) };
        let is_empty = shard.change().is_empty();
        let error = if is_empty { None } else { shard.pool().checkpoint().err() };
        drop(shard);
        let given = self.give_record(id, is_empty);
        self.settle(id, None);
        given?;
        if !is_empty {
            self.audience.tell(GatewayEvent::Gave { shard: id, error });
        }
        Ok(())
    }

    /// Ends the use of an open shard, whose slot is busy then.
    fn close(&self, id: ObjectId) -> Option<Arc<OpenShard>> {
        let shard = match self.slots().get_mut(&id) {
            Some(slot @ Slot::Open(_)) => std::mem::replace(slot, Slot::Busy),
            _ => return None,
        };
        let Slot::Open(shard) = shard else { return None };
        // a change of volumes that has begun is completed
        drop(shard.change());
        self.audience.closing(&shard);
        shard.tenure().end();
        Some(shard)
    }

    /// Says in the record of a closed shard that nobody has it, or removes it.
    fn give_record(&self, id: ObjectId, is_empty: bool) -> Result<(), VolumeError> {
        let own = self.lease().id();
        loop {
            let Some(seen) = self.shards.find(id)?.filter(|seen| seen.record.gateway == Some(own))
            else {
                return Ok(());
            };
            let record = if is_empty {
                ShardRecord::doomed(own)
            } else {
                ShardRecord::new(None, seen.record.wanted.filter(|wanted| *wanted != own))
            };
            // refused if a move was asked for since
            if let Some(changed) = self.shards.change(id, &seen, record)? {
                return if is_empty { self.erase(id, &changed) } else { Ok(()) };
            }
        }
    }

    /// Lets go of a shard that another gateway has, or that takes no more changes.
    pub(super) fn drop_shard(&self, id: ObjectId, why: String) {
        if self.close(id).is_some() {
            self.settle(id, None);
            self.audience.tell(GatewayEvent::Dropped { shard: id, why });
        }
    }

    /// Lets go of all shards after the lease was lost, and takes another one.
    pub(super) fn begin_anew(&self) -> Result<(), VolumeError> {
        self.audience.tell(GatewayEvent::Lost);
        for shard in self.open_shards() {
            self.drop_shard(shard.id(), self.lost_why());
        }
        let lease = GatewayLease::claim(&self.pool, &self.clock, self.settings.about.clone())?;
        self.audience.tell(GatewayEvent::Began(lease.id()));
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(lease);
        Ok(())
    }

    /// Gives all shards and the lease back, so that no other gateway waits.
    ///
    /// # Errors
    /// The first error, after everything was tried. Others take the shards when the lease has ended.
    pub fn end(&self) -> Result<(), VolumeError> {
        self.is_ending.store(true, Ordering::Release);
        let mut outcome = Ok(());
        for shard in self.open_shards() {
            let id = shard.id();
            drop(shard);
            outcome = outcome.and(self.give_back(id));
        }
        let released = self.lease().release();
        outcome.and(
            released
                .map_err(|error| crate::error::failed(onefold_backend::Operation::Write, error)),
        )
    }
}

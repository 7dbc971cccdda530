//! A gateway: a process that has shards by one lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use onefold_backend::rados::RadosPool;
use onefold_seal::ObjectId;
use onefold_volume::{Options, Repaired, VolumeError};

use super::care::{Care, RoomKeeper, Stored};
use super::domain::Domain;
use super::events::{Audience, GatewayEvent};
use super::lease::GatewayLease;
use super::names::{LastNames, Names};
use super::open::OpenShard;
use super::records::{About, GatewayRecord};
use super::shards::{SeenShard, Shards};
use super::watch::Watch;
use crate::clock::LeaseClock;
use crate::hints::Hints;

/// How long a caller waits at a time for another thread that takes or gives away the same shard.
const SETTLING: Duration = Duration::from_secs(60);

/// What a gateway is, and how it opens shards.
#[derive(Clone)]
pub struct Settings {
    /// What it tells others of itself.
    pub about: About,
    /// How shards are opened. The memory in it is that of all of them.
    pub options: Options,
    /// The pool for containers, if it is not that of everything else.
    pub data: Option<Arc<dyn RadosPool>>,
    /// Where shards look for pages that others have stored.
    pub hints: Arc<dyn Hints>,
    /// How many shards of a dead gateway it opens at once, at least one.
    pub at_once: usize,
}

impl Settings {
    /// Those of a gateway whose containers are where all else is, and that asks nobody for pages.
    pub fn new(about: About, options: Options) -> Self {
        Self { about, options, data: None, hints: Arc::new(()), at_once: 8 }
    }
}

/// A gateway.
pub struct Gateway {
    pub(super) pool: Arc<dyn RadosPool>,
    pub(super) clock: Arc<dyn LeaseClock>,
    pub(super) domain: Domain,
    pub(super) settings: Settings,
    pub(super) audience: Arc<dyn Audience>,
    pub(super) shards: Shards,
    pub(super) names: Names,
    pub(super) last_names: LastNames,
    pub(super) lease: Mutex<Arc<GatewayLease>>,
    slots: Mutex<BTreeMap<ObjectId, Slot>>,
    /// Notified when a slot is no longer busy.
    settled: Condvar,
    /// Whether it takes nothing more.
    pub(super) is_ending: AtomicBool,
    watch: Mutex<Watch>,
    /// The gateways that had a lease at the last look.
    present: RwLock<BTreeSet<ObjectId>>,
    pub(super) rounds: Mutex<super::round::Rounds>,
    /// What it may store.
    pub(super) room: Arc<RoomKeeper>,
}

/// What a gateway has of a shard.
#[derive(Clone)]
pub(super) enum Slot {
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
    /// [`VolumeError::NoPool`] if there is no domain; those of [`Domain::ensure_data`].
    pub fn begin(
        pool: &Arc<dyn RadosPool>,
        clock: &Arc<dyn LeaseClock>,
        settings: Settings,
        audience: Arc<dyn Audience>,
    ) -> Result<Self, VolumeError> {
        let mut domain = Domain::find(&**pool)?.ok_or(VolumeError::NoPool)?;
        domain.ensure_data(settings.data.as_deref())?;
        domain.note_place(&**pool, settings.data.as_deref())?;
        let care = Care::new(pool);
        care.ensure_tables()?;
        let room = RoomKeeper::begin(care, settings.about.process, clock)?;
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
            last_names: LastNames::default(),
            lease: Mutex::new(lease),
            slots: Mutex::default(),
            settled: Condvar::new(),
            is_ending: AtomicBool::new(false),
            watch: Mutex::new(Watch::new(pool, clock)),
            present: RwLock::default(),
            rounds: Mutex::default(),
            room,
        };
        drop(gateway.look_at_leases()?);
        Ok(gateway)
    }

    /// The domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
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
        let present = watch.present();
        self.room.note_gateways(present.len());
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = present;
        Ok(watch)
    }

    /// Whether the gateway `id` had a lease at the last look. Never waits for Ceph.
    pub fn has_lease(&self, id: ObjectId) -> bool {
        self.present.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Slot>> {
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

    /// Tells other gateways what this one has stored, and finds out what the quota of the domain leaves it. To be
    /// called every [`RENEWAL`](super::RENEWAL), by a thread of its own.
    pub fn keep_room(&self) {
        if let Err(error) = self.room.keep() {
            self.audience.tell(GatewayEvent::Failed(error));
        }
    }

    /// What the domain has stored, as this gateway counted it last.
    pub fn stored(&self) -> Option<Stored> {
        self.room.stored()
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
        self.reach_by(id, |seen| self.take(id, seen, self.now()))
    }

    /// The same, but for a shard that no gateway has, which is repaired before it is opened
    /// ([`repair_shard`](crate::repair_shard)). What that did is added to `done`, also before an error.
    ///
    /// # Errors
    /// If the shard cannot be taken, repaired or opened.
    pub fn reach_to_repair(
        &self,
        id: ObjectId,
        done: &mut Repaired,
    ) -> Result<Reached, VolumeError> {
        let prepare = || self.repair(id, done);
        self.reach_by(id, |seen| self.take_after(id, seen, self.now(), prepare))
    }

    /// Finds the shard `id`, and takes it by `take` if no gateway has it.
    fn reach_by(
        &self,
        id: ObjectId,
        take: impl FnOnce(SeenShard) -> Result<Option<Arc<OpenShard>>, VolumeError>,
    ) -> Result<Reached, VolumeError> {
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
        Ok(take(seen)?.map_or(Reached::Moving, Reached::Here))
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
    pub(super) fn begin_taking(&self, id: ObjectId) -> bool {
        let mut slots = self.slots();
        let is_free = !slots.contains_key(&id);
        if is_free {
            slots.insert(id, Slot::Busy);
        }
        is_free
    }

    pub(super) fn settle(&self, id: ObjectId, slot: Option<Slot>) {
        let mut slots = self.slots();
        match slot {
            Some(slot) => slots.insert(id, slot),
            None => slots.remove(&id),
        };
        drop(slots);
        self.settled.notify_all();
    }

    pub(super) fn lost_why(&self) -> String {
        "another gateway broke the lease of this one".to_owned()
    }
}

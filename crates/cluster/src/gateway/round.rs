//! What a gateway does by itself, again and again: it looks at leases and shards, breaks leases that ended,
//! takes over the shards of gateways without a lease, and gives away what another one is to have.
//!
//! A look finds out what is due and waits for no shard: what is to be done with one may take many minutes where a part
//! of Ceph does not answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::events::GatewayEvent;
use super::gateway::Gateway;
use super::lease::RENEWAL;
use super::open::OpenShard;
use super::records::ShardRecord;
use super::shards::SeenShard;
use crate::seeded::fault;

/// How often all records of shards are read. Those of a gateway whose lease was broken are read at once.
const SHARDS_EVERY: Duration = RENEWAL;
/// How much longer each further gateway leaves a shard to those that come before it.
const RANK_WAIT: Duration = Duration::from_secs(3);
/// The most gateways that a gateway lets come first when a shard is taken over.
const MOST_RANKS: u32 = 4;
/// How long a shard is left alone that could not be opened.
const FAILED_WAIT: Duration = Duration::from_secs(10);

/// What a gateway remembers between rounds.
#[derive(Default)]
pub(super) struct Rounds {
    /// When the records of shards were read.
    looked: Option<Duration>,
    /// Since when shards are seen whose gateway has no lease.
    orphans: BTreeMap<ObjectId, Duration>,
    /// When shards could not be opened.
    failed: BTreeMap<ObjectId, Duration>,
    /// How many shards there were.
    pub(super) shards: usize,
}

impl Gateway {
    pub(super) fn rounds(&self) -> MutexGuard<'_, Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks around, and does what is due, for several shards at once. To be called several times a second, by one
    /// thread, which may be another one than that which [renews](Self::renew).
    pub fn poll(&self) {
        let due = Mutex::new(self.look_around());
        let next = || due.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
        let work = || {
            while let Some((id, work)) = next() {
                self.work(id, work);
            }
        };
        let threads = due.lock().unwrap_or_else(PoisonError::into_inner).len();
        let threads = threads.min(self.settings.at_once);
        if threads <= 1 {
            return work();
        }
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    }

    /// Looks at leases and shards, and breaks leases that ended. What is to be [done](Self::work) with which shard.
    pub(super) fn look_around(&self) -> BTreeMap<ObjectId, Work> {
        let mut due = BTreeMap::new();
        if let Err(error) = self.round(&mut due) {
            self.audience.tell(GatewayEvent::Failed(error));
        }
        due
    }

    fn round(&self, due: &mut BTreeMap<ObjectId, Work>) -> Result<(), VolumeError> {
        if self.is_ending() {
            return Ok(());
        }
        self.keep_open_shards(due);
        if self.lease().is_lost() {
            self.begin_anew()?;
        }
        let has_broken = self.break_silent()?;
        let is_due = {
            let mut rounds = self.rounds();
            let now = self.now();
            let is_due =
                rounds.looked.is_none_or(|looked| now.saturating_sub(looked) >= SHARDS_EVERY);
            if is_due || has_broken {
                rounds.looked = Some(now);
            }
            is_due || has_broken || !rounds.orphans.is_empty()
        };
        if is_due && self.lease().is_valid() { self.look_at_shards(due) } else { Ok(()) }
    }

    /// Breaks leases that have not changed for long; whether there were any.
    pub(super) fn break_silent(&self) -> Result<bool, VolumeError> {
        let own = self.lease().id();
        let mut watch = self.look_at_leases()?;
        let mut has_broken = false;
        for id in watch.silent().into_iter().filter(|id| *id != own) {
            let host = watch.record(id).map(|record| record.about.host.clone()).unwrap_or_default();
            if fault!(TakenUnbroken) {
                has_broken = true;
            } else if watch.break_lease(id)? {
                has_broken = true;
                self.audience.tell(GatewayEvent::Broke { gateway: id, host });
            }
        }
        Ok(has_broken)
    }

    /// Notes sizes that clients changed, and lets go of shards that take no more changes.
    fn keep_open_shards(&self, due: &mut BTreeMap<ObjectId, Work>) {
        let lease = self.lease();
        for shard in self.open_shards() {
            if lease.is_lost() || !shard.tenure().is_under(&lease) {
                due.insert(shard.id(), Work::Drop(self.lost_why()));
            } else if let Some(why) = shard.pool().stopped() {
                due.insert(shard.id(), Work::Drop(why.to_owned()));
            } else if shard.has_unnoted() {
                due.insert(shard.id(), Work::Note(shard));
            }
        }
    }

    fn look_at_shards(&self, due: &mut BTreeMap<ObjectId, Work>) -> Result<(), VolumeError> {
        let all = self.shards.all()?;
        // a gateway that a record names had a lease before: looked at now, it has one or it is over
        if !fault!(LeasesSeenEarlier) {
            drop(self.look_at_leases()?);
        }
        let since = self.now();
        self.forget_absent(&all, due);
        for (id, seen) in all {
            let work = match self.due(id, &seen.record) {
                Due::Nothing => continue,
                Due::Take => Work::Take(seen, since),
                Due::Give => Work::Give,
                Due::Drop => Work::Drop("another gateway has it".to_owned()),
                Due::Keep => {
                    // the gateway that was to have it is gone: all leases were looked at after the records
                    self.shards.change(id, &seen, ShardRecord::new(seen.record.gateway, None))?;
                    continue;
                }
            };
            // one that is to be dropped is taken again later
            due.entry(id).or_insert(work);
        }
        Ok(())
    }

    fn forget_absent(&self, all: &[(ObjectId, SeenShard)], due: &mut BTreeMap<ObjectId, Work>) {
        let is_there = |id: &ObjectId| all.binary_search_by_key(id, |(id, _)| *id).is_ok();
        {
            let mut rounds = self.rounds();
            rounds.orphans.retain(|id, _| is_there(id));
            rounds.failed.retain(|id, _| is_there(id));
            rounds.shards = all.len();
        }
        // one that was made since the records were read has one now
        for shard in self.open_shards().into_iter().filter(|shard| !is_there(&shard.id())) {
            if matches!(self.shards.find(shard.id()), Ok(None)) {
                due.insert(shard.id(), Work::Drop("it was removed".to_owned()));
            }
        }
    }

    /// What is due with the shard `id`.
    fn due(&self, id: ObjectId, record: &ShardRecord) -> Due {
        let (own, now) = (self.lease().id(), self.now());
        let watch = self.watch();
        let mut rounds = self.rounds();
        if rounds.failed.get(&id).is_some_and(|failed| now.saturating_sub(*failed) < FAILED_WAIT) {
            return Due::Nothing;
        }
        let wanted = record.wanted.filter(|wanted| *wanted != own);
        match record.gateway {
            Some(gateway) if gateway == own => {
                rounds.orphans.remove(&id);
                drop(rounds);
                match (self.has_slot(id), wanted) {
                    (true, Some(wanted)) if watch.has(wanted) => Due::Give,
                    (true, Some(_)) => Due::Keep,
                    (true, None) => Due::Nothing,
                    // the answer to an earlier update was lost, or it could not be opened
                    (false, _) => Due::Take,
                }
            }
            Some(gateway)
                if watch.has(gateway)
                    && !(fault!(TakenUnbroken) && watch.silent().contains(&gateway)) =>
            {
                rounds.orphans.remove(&id);
                drop(rounds);
                if self.has_slot(id) { Due::Drop } else { Due::Nothing }
            }
            None if record.wanted == Some(own) => Due::Take,
            None if wanted.is_some_and(|wanted| !watch.has(wanted)) => Due::Keep,
            // the first client that asks for it decides who takes it
            None => Due::Nothing,
            Some(_) => {
                let since = *rounds.orphans.entry(id).or_insert(now);
                let rank = u32::try_from(watch.rank(id, own)).unwrap_or(MOST_RANKS);
                let is_due = now.saturating_sub(since) >= RANK_WAIT * rank.min(MOST_RANKS);
                if is_due { Due::Take } else { Due::Nothing }
            }
        }
    }

    /// Does `work` with the shard `id`, for which it may wait long.
    pub(super) fn work(&self, id: ObjectId, work: Work) {
        let done = match work {
            Work::Take(seen, since) => {
                self.rounds().orphans.remove(&id);
                if let Err(error) = self.take(id, seen, since) {
                    self.rounds().failed.insert(id, self.now());
                    self.audience.tell(GatewayEvent::NotOpened { shard: id, error });
                }
                Ok(())
            }
            Work::Give => self.give_back(id),
            Work::Note(shard) => {
                let mut changing = shard.change();
                // another gateway may have it by now
                if changing.ensure_current().is_ok() { changing.sync() } else { Ok(()) }
            }
            Work::Drop(why) => {
                self.drop_shard(id, why);
                // this gateway may be the one that is to take it
                self.rounds().looked = None;
                Ok(())
            }
        };
        if let Err(error) = done {
            self.audience.tell(GatewayEvent::Failed(error));
        }
    }
}

/// What is to be done with a shard, and may wait for Ceph.
pub(super) enum Work {
    /// Take it, whose record was as this at that time.
    Take(SeenShard, Duration),
    /// Give it to the gateway that is to have it.
    Give,
    /// Let go of it, and why.
    Drop(String),
    /// Note the sizes of its volumes.
    Note(Arc<OpenShard>),
}

/// What a gateway is to do with a shard.
enum Due {
    Nothing,
    Take,
    Give,
    Drop,
    /// Leave it with the gateway that has it, or with none, and note that no other one is to have it.
    Keep,
}

//! What a gateway does by itself, again and again: it looks at leases and shards, breaks leases that ended,
//! takes over the shards of gateways without a lease, and gives away what another one is to have.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::events::GatewayEvent;
use super::gateway::Gateway;
use super::lease::RENEWAL;
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

    /// Does what is due. To be called several times a second, by one thread, which may be another one than
    /// that which [renews](Self::renew).
    pub fn poll(&self) {
        if let Err(error) = self.round() {
            self.audience.tell(GatewayEvent::Failed(error));
        }
    }

    fn round(&self) -> Result<(), VolumeError> {
        if self.is_ending() {
            return Ok(());
        }
        if self.lease().is_lost() {
            self.begin_anew()?;
        }
        let has_broken = self.break_silent()?;
        self.keep_open_shards();
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
        if is_due && self.lease().is_valid() { self.look_at_shards() } else { Ok(()) }
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
    fn keep_open_shards(&self) {
        let lease = self.lease();
        for shard in self.open_shards() {
            if !shard.tenure().is_under(&lease) {
                self.drop_shard(shard.id(), self.lost_why());
            } else if let Some(why) = shard.pool().stopped() {
                let why = why.to_owned();
                self.drop_shard(shard.id(), why);
            } else if shard.has_unnoted()
                && let Err(error) = shard.change().sync()
            {
                self.audience.tell(GatewayEvent::Failed(error));
            }
        }
    }

    fn look_at_shards(&self) -> Result<(), VolumeError> {
        let all = self.shards.all()?;
        // a gateway that a record names had a lease before: looked at now, it has one or it is over
        if !fault!(LeasesSeenEarlier) {
            drop(self.look_at_leases()?);
        }
        let (mut due, mut given) = (Vec::new(), Vec::new());
        self.forget_absent(&all);
        for (id, seen) in all {
            match self.due(id, &seen.record) {
                Due::Nothing => {}
                Due::Take => due.push((id, seen)),
                Due::Give => given.push(id),
                Due::Drop => self.drop_shard(id, "another gateway has it".to_owned()),
                Due::Keep => {
                    // the gateway that was to have it is gone: all leases were looked at after the records
                    self.shards.change(id, &seen, ShardRecord::new(seen.record.gateway, None))?;
                }
            }
        }
        self.take_all(due);
        given.into_iter().try_for_each(|id| self.give_back(id))
    }

    fn forget_absent(&self, all: &[(ObjectId, SeenShard)]) {
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
                self.drop_shard(shard.id(), "it was removed".to_owned());
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

    fn take_all(&self, due: Vec<(ObjectId, SeenShard)>) {
        let due = std::sync::Mutex::new(due.into_iter());
        let next = || due.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some((id, seen)) = next() {
                self.rounds().orphans.remove(&id);
                if let Err(error) = self.take(id, seen) {
                    self.rounds().failed.insert(id, self.now());
                    self.audience.tell(GatewayEvent::NotOpened { shard: id, error });
                }
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

//! What a gateway of a cluster does in the background: it maintains the shards that it has open, and gives back
//! the space of containers that shards share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use onefold_cluster::{Gateway, OpenShard};
use onefold_nbd::ExportList;
use onefold_seal::ObjectId;
use onefold_store::Cancel;
use tracing::{info, warn};

use super::serve::{PAUSE, Upkeep};
use crate::domain::remove_left;
use crate::service::metrics::SpaceCounts;

/// How often a shard drops what it needs no longer, and tells how much it uses of each container.
const SETTLE_EVERY: Duration = Duration::from_secs(60);

/// How often a gateway checks the containers of all shards, and closes those of which little is used.
const CHECK_EVERY: Duration = Duration::from_secs(300);

/// How often upkeep looks what is due.
const LOOK: Duration = Duration::from_secs(1);

/// Maintains the shards that are open until the server ends.
pub(super) fn keep_up(gateway: &Gateway, cancel: &Cancel, tell: impl Fn()) {
    let mut upkeep: BTreeMap<ObjectId, (Arc<OpenShard>, Upkeep)> = BTreeMap::new();
    let mut looked: Option<Instant> = None;
    while !cancel.is_cancelled() {
        thread::sleep(PAUSE);
        tell();
        if looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            continue;
        }
        looked = Some(Instant::now());
        let open = gateway.open_shards();
        // one that was given back and taken again is another one
        upkeep.retain(|_, (shard, _)| open.iter().any(|other| Arc::ptr_eq(other, shard)));
        for shard in open {
            let (shard, upkeep) =
                upkeep.entry(shard.id()).or_insert_with(|| (shard, Upkeep::new()));
            let goes_on = || !cancel.is_cancelled() && shard.tenure().is_current();
            if goes_on() && shard.pool().stopped().is_none() {
                upkeep.keep_up(shard.pool(), goes_on);
            }
        }
    }
}

/// The upkeep of containers that shards share.
pub(super) struct Space {
    /// The share of all containers' bytes that may be unused.
    max_waste: f64,
    counts: Arc<SpaceCounts>,
    /// When each open shard settles next.
    settles: BTreeMap<ObjectId, Instant>,
    /// When the gateway checks next.
    checks: Instant,
}

impl Space {
    /// One that begins at `now`. So that gateways that start together do not check at the same time, the first
    /// check is due after a random time.
    pub(super) fn new(max_waste: f64, counts: Arc<SpaceCounts>, now: Instant) -> Self {
        let checks = now + spread(ObjectId::random(), CHECK_EVERY);
        Self { max_waste, counts, settles: BTreeMap::new(), checks }
    }

    /// Does what is due until the server ends.
    pub(super) fn keep(&mut self, gateway: &Gateway, exports: &ExportList, cancel: &Cancel) {
        let mut looked = Instant::now();
        while !cancel.is_cancelled() {
            thread::sleep(PAUSE);
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            let withdraw = |name: &str| {
                // it was not offered, or ends with an error that its client hears
                let _ = exports.remove(name, true);
            };
            self.keep_at(looked, gateway, &withdraw, &|| !cancel.is_cancelled());
        }
    }

    /// Does what is due at `now`, as long as `go_on` says so. `withdraw` ends the use of a volume.
    fn keep_at(
        &mut self,
        now: Instant,
        gateway: &Gateway,
        withdraw: &dyn Fn(&str),
        go_on: &dyn Fn() -> bool,
    ) {
        let is_usable =
            |shard: &OpenShard| shard.tenure().is_current() && shard.pool().stopped().is_none();
        let open: Vec<_> =
            gateway.open_shards().into_iter().filter(|shard| is_usable(shard)).collect();
        self.settles.retain(|id, _| open.iter().any(|shard| shard.id() == *id));
        for shard in &open {
            let id = shard.id();
            let due = *self.settles.entry(id).or_insert_with(|| now + spread(id, SETTLE_EVERY));
            if now < due || !go_on() || !is_usable(shard) {
                continue;
            }
            self.settles.insert(id, now + SETTLE_EVERY);
            if let Err(error) = shard.shared().settle_uses() {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(shard = %id, error, "what it uses of containers was not settled");
            }
        }
        if now >= self.checks {
            self.checks = now + CHECK_EVERY;
            self.check(gateway, &open, go_on);
            self.close(gateway, go_on);
            remove_temporary(gateway, &open, withdraw, go_on);
        }
    }

    fn check(&self, gateway: &Gateway, open: &[Arc<OpenShard>], go_on: &dyn Fn() -> bool) {
        // one shard says of the others' that they exist, so none says nothing
        if open.is_empty() || !go_on() {
            return;
        }
        // a lease that ended would leave shards whose registrations are not known
        let goes_on = || go_on() && open.iter().all(|shard| shard.tenure().is_current());
        let checked = match gateway.fsck(open, true, &goes_on) {
            Ok(checked) => checked,
            Err(error) => {
                let error = format!("{:#}", anyhow::Error::from(error));
                return warn!(error, "containers could not be checked");
            }
        };
        self.counts.repaired.fetch_add(checked.repaired, Ordering::Relaxed);
        if checked.repaired > 0 {
            info!(leaks = checked.repaired, "removed what no shard needs");
        }
        let damage = || checked.problems.iter().filter(|problem| !problem.is_leak());
        for problem in damage() {
            warn!(%problem, "a container is damaged");
        }
        if !checked.is_stopped {
            self.counts.problems.store(damage().count() as u64, Ordering::Relaxed);
        }
    }

    fn close(&self, gateway: &Gateway, go_on: &dyn Fn() -> bool) {
        match gateway.close_sparse(self.max_waste, go_on) {
            Ok(closed) => {
                self.counts.closed.fetch_add(closed.closed, Ordering::Relaxed);
                if closed.closed > 0 {
                    let (bytes, live_bytes) = (closed.bytes, closed.live_bytes);
                    info!(
                        containers = closed.closed,
                        bytes, live_bytes, "closed containers of which little is used"
                    );
                }
            }
            Err(error) => {
                let error = format!("{:#}", anyhow::Error::from(error));
                warn!(error, "containers of which little is used could not be closed");
            }
        }
    }
}

/// Removes temporary snapshots that dead gateways left, and shards that have nothing else.
fn remove_temporary(
    gateway: &Gateway,
    open: &[Arc<OpenShard>],
    withdraw: &dyn Fn(&str),
    go_on: &dyn Fn() -> bool,
) {
    for shard in open.iter().take_while(|_| go_on()) {
        let told = |error: anyhow::Error| {
            warn!(shard = %shard.id(), error = format!("{error:#}"), "what an earlier gateway left stays");
        };
        match remove_left(gateway, shard, withdraw) {
            Ok(0) => {}
            Ok(removed) => {
                info!(shard = %shard.id(), removed, "removed temporary snapshots of an earlier gateway");
                if shard.change().is_empty()
                    && let Err(error) = gateway.give_back(shard.id())
                {
                    told(error.into());
                }
            }
            Err(error) => told(error),
        }
    }
}

/// A time below `every`, the same for the same id.
fn spread(id: ObjectId, every: Duration) -> Duration {
    let [first, second, ..] = *id.as_bytes();
    every * u32::from(u16::from_be_bytes([first, second])) / (1 << 16)
}

#[cfg(test)]
mod tests {
    use onefold_backend::rados::{MemoryRados, Query, RadosPool};
    use onefold_block::BlockSize;
    use onefold_cluster::containers::{Guards, Value};
    use onefold_cluster::hints::ContainerName;
    use onefold_cluster::{BootClock, Domain, LeaseClock, Settings};
    use onefold_volume::{Codec, Hash, Options};

    use super::*;
    use crate::cluster::about;

    fn gateway(pool: &Arc<dyn RadosPool>) -> Gateway {
        Domain::create(pool, Hash::Blake3, Codec::Zstd).unwrap();
        let clock: Arc<dyn LeaseClock> = Arc::new(BootClock);
        let options = Options { table_bytes: 1 << 20, ..Options::default() };
        let settings = Settings::new(about(String::new(), true), options);
        Gateway::begin(pool, &clock, settings, Arc::new(())).unwrap()
    }

    #[test]
    fn what_is_due_is_done_and_nothing_before() {
        let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
        let gateway = gateway(&pool);
        let make =
            |pool: &onefold_volume::Pool| pool.create_volume("disk", 1 << 20, BlockSize::B4096);
        let shard = gateway.create("disk", make).unwrap();
        let temporary = format!(".detach-{}-{}", ObjectId::random(), ObjectId::random());
        shard.pool().clone_volume("disk", &temporary, true).unwrap();
        shard.change().sync().unwrap();
        // a guard that was made late, of a shard that is gone
        let lost = ObjectId::random();
        let name = ContainerName { shard: lost, writer: 1, number: 1 };
        let guards = Guards::new(Arc::clone(&pool), lost);
        guards.create(&name, Value { writer: 1, number: 1 }).unwrap();
        let live = format!("{}.live", shard.id());
        let has_live = || pool.query(&live, &Query::default()).is_ok();

        let (counts, begun) = (Arc::<SpaceCounts>::default(), Instant::now());
        let mut space = Space::new(0.2, Arc::clone(&counts), begun);
        let withdrawn = std::cell::RefCell::new(Vec::new());
        let withdraw = |name: &str| withdrawn.borrow_mut().push(name.to_owned());
        let mut keep = |now, goes_on| space.keep_at(now, &gateway, &withdraw, &move || goes_on);
        keep(begun - Duration::from_secs(1), true);
        assert!(!has_live() && guards.read(&name).unwrap().is_some());
        keep(begun + SETTLE_EVERY, true);
        assert!(has_live());
        // a server that ends begins nothing more
        keep(begun + CHECK_EVERY, false);
        assert!(guards.read(&name).unwrap().is_some() && shard.pool().volume(&temporary).is_ok());
        keep(begun + 2 * CHECK_EVERY, true);
        assert_eq!(guards.read(&name).unwrap(), None);
        assert_eq!(counts.repaired.load(Ordering::Relaxed), 1);
        assert_eq!(counts.problems.load(Ordering::Relaxed), 0);
        assert_eq!(*withdrawn.borrow(), std::slice::from_ref(&temporary));
        assert!(shard.pool().volume(&temporary).is_err());
        assert_eq!(gateway.names().find(&temporary).unwrap(), None);
        assert_eq!(gateway.open_shards().len(), 1);
    }

    #[test]
    fn times_are_spread_below_the_period() {
        for _ in 0..100 {
            assert!(spread(ObjectId::random(), CHECK_EVERY) < CHECK_EVERY);
        }
    }
}

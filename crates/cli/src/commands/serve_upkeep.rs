//! What a gateway of a cluster does in the background: it maintains the shards that it has open, and gives back
//! the space of containers that shards share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use onefold_cluster::hints::ContainerName;
use onefold_cluster::{Gateway, LookedOver, OpenShard, wall_clock};
use onefold_nbd::ExportList;
use onefold_seal::ObjectId;
use onefold_store::Cancel;
use onefold_volume::Unanswered;
use tracing::{info, warn};

use super::serve::{PAUSE, Upkeep};
use crate::domain::{has_left, lost_volumes, remove_left};
use crate::service::metrics::SpaceCounts;

/// How often a shard drops what it needs no longer, and tells how much it uses of each container.
const SETTLE_EVERY: Duration = Duration::from_secs(60);

/// How often a gateway checks the containers of all shards.
#[cfg(test)]
const CHECK_EVERY: Duration = Duration::from_secs(300);

/// How long at least lies between two shards that a gateway opens because nobody has them and they keep space.
const TEND_EVERY: Duration = Duration::from_secs(5);

/// How long a shard is left alone that was opened for the same containers.
const TEND_AGAIN: Duration = Duration::from_secs(3600);

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

/// What clients and commands ask for while a shard is open for its containers alone: then it stays.
#[derive(Default)]
pub(super) struct AskedFor(Mutex<Option<BTreeSet<String>>>);

impl AskedFor {
    fn asked(&self) -> MutexGuard<'_, Option<BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records requests from now on.
    fn begin(&self) {
        *self.asked() = Some(BTreeSet::new());
    }

    /// Remembers nothing any more.
    fn end(&self) {
        *self.asked() = None;
    }

    /// A volume, or a shard by its id, is asked for.
    pub(super) fn note(&self, what: &str) {
        if let Some(asked) = &mut *self.asked() {
            asked.insert(what.to_owned());
        }
    }

    fn has(&self, what: &str) -> bool {
        self.asked().as_ref().is_some_and(|asked| asked.contains(what))
    }
}

/// The upkeep of containers that shards share.
pub(super) struct Space {
    /// The share of all containers' bytes that may be unused.
    max_waste: f64,
    every: Duration,
    counts: Arc<SpaceCounts>,
    /// When each open shard settles next.
    settles: BTreeMap<ObjectId, Instant>,
    /// When the gateway checks next.
    checks: Instant,
    /// Shards that no gateway has and that are to be opened, one after the other, for these containers.
    waiting: Vec<(ObjectId, BTreeSet<ContainerName>)>,
    /// When the next of them is.
    tends: Instant,
    /// When shards were opened for that, and for which containers.
    tended: BTreeMap<ObjectId, (Instant, BTreeSet<ContainerName>)>,
    /// Damage that open shards already know.
    told: BTreeMap<ObjectId, Vec<(ContainerName, u64)>>,
}

impl Space {
    /// One that begins at `now`, lets so much be wasted, and checks so often. So that gateways that start together do
    /// not check at the same time, the first check is due after a random time.
    pub(super) fn new(
        (max_waste, every): (f64, Duration),
        counts: Arc<SpaceCounts>,
        now: Instant,
    ) -> Self {
        let checks = now + spread(ObjectId::random(), every);
        Self {
            max_waste,
            every,
            counts,
            settles: BTreeMap::new(),
            checks,
            waiting: Vec::new(),
            tends: now,
            tended: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    /// Does what is due until the server ends.
    pub(super) fn keep(
        &mut self,
        gateway: &Gateway,
        exports: &ExportList,
        asked: &AskedFor,
        cancel: &Cancel,
    ) {
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
            let go_on = || !cancel.is_cancelled();
            self.keep_at(looked, gateway, &withdraw, &go_on);
            self.tend_one(looked, gateway, asked, &withdraw, &go_on);
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
            self.checks = now + self.every;
            self.check(gateway, &open, go_on);
            self.look_over(now, gateway, go_on);
            remove_temporary(gateway, &open, withdraw, go_on);
            self.tell_damage(gateway, &open, go_on);
        }
    }

    fn check(&self, gateway: &Gateway, open: &[Arc<OpenShard>], go_on: &dyn Fn() -> bool) {
        if !go_on() {
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

    /// Looks over all containers if it is this gateway's turn: counts them, closes those of which little is used, and
    /// finds out which shards that no gateway has keep space.
    fn look_over(&mut self, now: Instant, gateway: &Gateway, go_on: &dyn Fn() -> bool) {
        // what another gateway finds is its to do
        self.waiting.clear();
        let turn = (wall_clock(), self.every);
        let wait = |time: Duration| {
            let begun = Instant::now();
            while go_on() && begun.elapsed() < time {
                thread::sleep(PAUSE);
            }
        };
        let looked = gateway.look_over(turn, self.max_waste, &wait, go_on).and_then(|looked| {
            if looked.is_some() {
                gateway.forget_damage()?;
            }
            Ok(looked)
        });
        let LookedOver { census, closed } = match looked {
            Ok(None) => return,
            Ok(Some(looked)) => looked,
            Err(error) => {
                let error = format!("{:#}", anyhow::Error::from(error));
                return warn!(error, "containers could not be looked over");
            }
        };
        self.counts.closed.fetch_add(closed.closed, Ordering::Relaxed);
        if closed.closed > 0 {
            let (bytes, live_bytes) = (closed.bytes, closed.live_bytes);
            info!(
                containers = closed.closed,
                bytes, live_bytes, "closed containers of which little is used"
            );
        }
        let mut waiting = census.waiting;
        match gateway.names().all() {
            Ok(names) => {
                for (_, record) in names.iter().filter(|(name, _)| has_left(gateway, name)) {
                    waiting.entry(record.shard).or_default();
                }
            }
            Err(error) => warn!(%error, "the names of volumes cannot be read"),
        }
        self.tended.retain(|_, (when, _)| now.saturating_duration_since(*when) < TEND_AGAIN);
        let is_new = |shard: &ObjectId, names: &BTreeSet<ContainerName>| {
            self.tended.get(shard).is_none_or(|(_, before)| !names.is_subset(before))
        };
        waiting.retain(|shard, names| is_new(shard, names));
        self.waiting = waiting.into_iter().collect();
    }

    /// Opens one shard that no gateway has so that it lets containers go, if that is due, and gives it back unless it
    /// was asked for meanwhile.
    fn tend_one(
        &mut self,
        now: Instant,
        gateway: &Gateway,
        asked: &AskedFor,
        withdraw: &dyn Fn(&str),
        go_on: &dyn Fn() -> bool,
    ) {
        if now < self.tends || !go_on() {
            return;
        }
        let Some((id, containers)) = self.waiting.pop() else { return };
        self.tends = now + self.every.min(TEND_EVERY);
        asked.begin();
        let tended = tend(gateway, asked, (id, &containers), withdraw, go_on);
        asked.end();
        match tended {
            // another gateway has it by now
            Ok(false) => {}
            Ok(true) => {
                self.tended.insert(id, (now, containers));
                self.counts.tended.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.tended.insert(id, (now, containers));
                let error = format!("{error:#}");
                warn!(shard = %id, error, "a shard that nobody uses keeps space, and cannot be opened");
            }
        }
    }

    /// Tells shards of the damage that scrubs found in containers that they use.
    fn tell_damage(
        &mut self,
        gateway: &Gateway,
        open: &[Arc<OpenShard>],
        go_on: &dyn Fn() -> bool,
    ) {
        self.told.retain(|id, _| open.iter().any(|shard| shard.id() == *id));
        let damage = match gateway.care().damage() {
            Ok(damage) => damage.into_iter().map(|(name, one)| (name, one.found)),
            Err(error) => return warn!(%error, "what scrubs found cannot be read"),
        };
        let damage: Vec<(ContainerName, u64)> = damage.collect();
        let mut lost: BTreeMap<String, u64> = BTreeMap::new();
        for shard in open.iter().take_while(|_| go_on()) {
            let goes_on = || go_on() && shard.tenure().is_current();
            let found = match gateway.damage_in(shard, &goes_on) {
                Ok(found) if !found.is_stopped => found,
                Ok(_) => continue,
                Err(error) => {
                    warn!(shard = %shard.id(), %error, "it cannot be told of damage");
                    continue;
                }
            };
            let is_new = self.told.get(&shard.id()) != Some(&damage);
            for (volume, (blocks, first)) in lost_volumes(&found) {
                if is_new {
                    warn!(volume, blocks, first, "blocks of a volume are lost");
                }
                lost.insert(volume, blocks);
            }
            if let Some(Unanswered { pages, problem }) = found.unanswered {
                warn!(shard = %shard.id(), pages, problem, "pages of damaged containers could not be read");
                // the next look may find more
                continue;
            }
            self.told.insert(shard.id(), damage.clone());
        }
        *self.counts.lost.lock().unwrap_or_else(PoisonError::into_inner) = lost;
    }
}

/// Opens the shard `id` for these containers, and gives it back; false if it was not to be had.
fn tend(
    gateway: &Gateway,
    asked: &AskedFor,
    (id, containers): (ObjectId, &BTreeSet<ContainerName>),
    withdraw: &dyn Fn(&str),
    go_on: &dyn Fn() -> bool,
) -> anyhow::Result<bool> {
    let Some(tended) = gateway.tend(id, containers, go_on)? else { return Ok(false) };
    let open = gateway.open_shards().into_iter().find(|shard| shard.id() == id);
    let mut names = vec![id.to_string()];
    if let Some(shard) = open {
        remove_left(gateway, &shard, withdraw)?;
        names.extend(shard.pool().volumes().into_iter().map(|one| one.name));
    }
    let is_used = || names.iter().any(|name| asked.has(name));
    let is_given = gateway.give_back_unless(id, &is_used)?;
    info!(shard = %id, is_given, "opened a shard that nobody uses, so that it lets containers go");
    tended?;
    Ok(true)
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
    use onefold_block::{BlockDevice, BlockSize, Durability};
    use onefold_cluster::containers::{Guards, Value};
    use onefold_cluster::hints::ContainerName;
    use onefold_cluster::{Audience, Domain, GatewayEvent, LeaseClock, Settings};
    use onefold_volume::{Codec, Hash, Options};

    use super::*;
    use crate::cluster::about;

    /// A clock that stands still: no gateway renews its lease here, and a slow machine must not end it.
    struct Still;

    impl LeaseClock for Still {
        fn now(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn gateway(pool: &Arc<dyn RadosPool>) -> Gateway {
        gateway_for(pool, Arc::new(()))
    }

    fn gateway_for(pool: &Arc<dyn RadosPool>, audience: Arc<dyn Audience>) -> Gateway {
        Domain::create(pool, Hash::Blake3, Codec::Zstd).unwrap();
        let clock: Arc<dyn LeaseClock> = Arc::new(Still);
        let options = Options { table_bytes: 1 << 20, ..Options::default() };
        let settings = Settings::new(about(String::new(), true), options);
        Gateway::begin(pool, &clock, settings, audience).unwrap()
    }

    /// Clients that ask for the volume `disk` as soon as it is open, if they ask.
    struct Clients {
        asked: AskedFor,
        ask: bool,
    }

    impl Audience for Clients {
        fn opened(&self, _: &Arc<OpenShard>, _: Vec<onefold_volume::VolumeError>) {
            if self.ask {
                self.asked.note("disk");
            }
        }

        fn closing(&self, _: &Arc<OpenShard>) {}

        fn tell(&self, _: GatewayEvent) {}
    }

    #[test]
    fn a_shard_that_keeps_space_is_opened_and_given_back_unless_a_client_asks_for_it() {
        for ask in [false, true] {
            let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
            let clients = Arc::new(Clients { asked: AskedFor::default(), ask });
            let gateway = gateway_for(&pool, Arc::<Clients>::clone(&clients));
            let made = gateway
                .create("disk", |pool| pool.create_volume("disk", 1 << 20, BlockSize::B4096));
            let shard = made.unwrap();
            let disk = shard.device("disk").unwrap();
            disk.write(0, &onefold_testkit::random(1, 200 << 12), Durability::OnReturn).unwrap();
            disk.erase(0..150 << 12, Durability::OnReturn).unwrap();
            let id = shard.id();
            drop((disk, shard));
            gateway.give_back(id).unwrap();

            let (counts, begun) = (Arc::<SpaceCounts>::default(), Instant::now());
            let mut space = Space::new((0.2, CHECK_EVERY), Arc::clone(&counts), begun);
            let now = begun + CHECK_EVERY;
            space.keep_at(now, &gateway, &|_| {}, &|| true);
            assert_eq!(space.waiting.len(), 1);
            let before = gateway.stored().unwrap();
            space.tend_one(now, &gateway, &clients.asked, &|_| {}, &|| true);
            assert_eq!(gateway.open_shards().len(), usize::from(ask));
            assert_eq!(counts.tended.load(Ordering::Relaxed), 1);
            gateway.keep_room();
            let after = gateway.stored().unwrap();
            assert!(after.bytes * 2 < before.bytes, "{after:?}, {before:?}");
            // nothing is left to do
            space.tend_one(now + CHECK_EVERY, &gateway, &clients.asked, &|_| {}, &|| true);
            assert_eq!(counts.tended.load(Ordering::Relaxed), 1);
        }
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
        let mut space = Space::new((0.2, CHECK_EVERY), Arc::clone(&counts), begun);
        // each is due at a random time otherwise
        space.settles.insert(shard.id(), begun + SETTLE_EVERY);
        space.checks = begun + 2 * CHECK_EVERY;
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

//! Gateways that serve two volumes, which are shards that share containers. Each gateway has a thread of its own;
//! they run one at a time and change between any two operations on objects, as a seed says. They crash, sleep and
//! lose answers; some cannot reach RADOS, or one another, for a while; updates arrive late or twice; clocks differ
//! in time and rate. Clients note what they saw. In the end all volumes are deleted, and no container and no guard
//! may be left.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::iter;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosError, RadosPool, Update};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_cluster::containers::fsck;
use onefold_cluster::hints::{ContainerName, Hints};
use onefold_cluster::{
    About, Audience, Domain, Gateway, GatewayEvent, LeaseClock, LookedOver, OpenShard, Reached,
    ScrubStep, Scrubbing, Settings, Shards,
};
use onefold_seal::ObjectId;
use onefold_volume::{Codec, Hash, Options, VolumeError};

use super::history::{Did, Seen, violation};
use super::partitions::{Cut, CutHints, Partitions};
use super::shards::MemoryHints;
use super::turns::Turns;

const GATEWAYS: usize = 3;
/// How often each process is started.
const LIVES: usize = 3;
const NAMES: [&str; 2] = ["disk", "copy"];
const BLOCK: usize = 512;
const BLOCKS: u64 = 3;
/// Each operation on an object takes at most so long, in milliseconds.
const STEP: u64 = 60;
/// One that RADOS does not answer takes at most so long.
const UNREACHED: u64 = 1_000;
/// How long a partition lasts at most: longer than a lease.
const PARTITION: u64 = 20_000;

/// What happened in all worlds, so that a test sees that it was tried.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) reads: usize,
    pub(crate) writes: usize,
    /// Writes without an answer, or with an error.
    pub(crate) unanswered: usize,
    pub(crate) crashes: usize,
    pub(crate) late: usize,
    /// How often a gateway opened a shard.
    pub(crate) opened: usize,
    pub(crate) maintained: usize,
    /// Shards that were opened because no gateway had them.
    pub(crate) tended: usize,
    /// Containers that were scrubbed.
    pub(crate) scrubbed: usize,
    /// Partitions that began.
    pub(crate) partitions: usize,
    /// Reads that a gateway answered while it could not reach RADOS.
    pub(crate) cut_reads: usize,
}

struct World {
    pool: Arc<MemoryRados>,
    turns: Turns,
    /// Milliseconds since the world began.
    time: AtomicU64,
    /// Counts what clients ask and are answered.
    moment: AtomicU64,
    history: Mutex<Vec<Seen>>,
    /// How often each block was written: blocks of both volumes get the same pages, one after the other.
    written: Mutex<BTreeMap<u64, u64>>,
    /// What shards tell one another of pages.
    hints: Arc<MemoryHints>,
    /// What gateways told, for who looks for an error.
    events: Mutex<Vec<String>>,
    clients: Mutex<Vec<Arc<FatedRados>>>,
    /// Of so many operations about one goes wrong; of none if that is 0.
    trouble: u64,
    /// What gateways cannot reach; none in a world without partitions.
    partitions: Option<Partitions>,
    tally: Mutex<Tally>,
    /// Containers that gateways say they scrubbed, in which cycle.
    scrubbed: Mutex<BTreeSet<(u64, ContainerName)>>,
}

/// A clock of one process, which began at any time and runs a little fast or slow.
struct Skewed {
    world: Arc<World>,
    offset: u64,
    /// In thousandths.
    rate: u64,
}

impl LeaseClock for Skewed {
    fn now(&self) -> Duration {
        let time = self.world.time.load(Ordering::Relaxed);
        Duration::from_millis(self.offset + time * self.rate / 1000)
    }
}

/// A process of a gateway, and its connection.
struct Process {
    world: Arc<World>,
    number: usize,
    /// Once it is set nothing that the process does reaches anybody.
    is_dead: Arc<AtomicBool>,
}

impl World {
    fn below(&self, bound: u64) -> u64 {
        self.turns.below(bound)
    }

    fn tally(&self, note: impl FnOnce(&mut Tally)) {
        note(&mut self.tally.lock().unwrap());
    }

    fn moment(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Before each operation of a process: others run, time passes, late updates happen, and it meets its
    /// fate.
    fn fate(&self, number: usize, is_dead: &AtomicBool, update: Option<&Update>) -> Fate {
        self.turns.pass(number);
        self.time.fetch_add(self.below(STEP), Ordering::Relaxed);
        let may_be_late = self.trouble > 0 || self.partitions.is_some();
        if may_be_late && self.below(5) == 0 {
            self.deliver_one();
        }
        if self.trouble > 0 && self.below(self.trouble * 20) == 0 {
            is_dead.store(true, Ordering::Relaxed);
        }
        if is_dead.load(Ordering::Relaxed) {
            return Fate::Lost;
        }
        if let Some(fate) = self.partitioned(number) {
            return fate;
        }
        let is_making = update.is_some_and(|update| {
            matches!(update.steps().first(), Some(onefold_backend::rados::Step::Create))
        });
        match if self.trouble == 0 { 9 } else { self.below(self.trouble * 5) } {
            0 => Fate::Lost,
            1 => Fate::AnswerLost,
            2 => Fate::Late,
            3 if !is_making => Fate::Twice,
            _ => Fate::Answered,
        }
    }

    /// Begins a partition now and then. What becomes of an operation of gateway `number` if RADOS is cut off from it;
    /// others run while it waits for an answer.
    fn partitioned(&self, number: usize) -> Option<Fate> {
        let partitions = self.partitions.as_ref()?;
        if self.cut(number).is_none() && self.below(400) == 0 {
            let (cut, length) = (Cut::chosen(self.below(5)), 1_000 + self.below(PARTITION));
            partitions.begin(number, cut, self.time.load(Ordering::Relaxed) + length);
            self.tally(|tally| tally.partitions += 1);
        }
        let fate = self.cut(number)?.fate()?;
        self.sleep(number, self.below(UNREACHED));
        Some(fate)
    }

    /// What is cut off from gateway `number` now.
    fn cut(&self, number: usize) -> Option<Cut> {
        let time = self.time.load(Ordering::Relaxed);
        Some(self.partitions.as_ref()?.of(number, time)?.0)
    }

    /// Lets others run until so many milliseconds have passed.
    fn sleep(&self, number: usize, milliseconds: u64) {
        let until = self.time.load(Ordering::Relaxed) + milliseconds;
        while self.time.load(Ordering::Relaxed) < until {
            self.turns.pass(number);
            self.time.fetch_add(5, Ordering::Relaxed);
        }
    }

    fn deliver_one(&self) -> bool {
        let delivered = self.turns.deliver_one(&self.clients.lock().unwrap());
        self.tally(|tally| tally.late += usize::from(delivered == Some(true)));
        delivered.is_some()
    }
}

fn settings(host: &str, hints: Arc<dyn Hints>) -> Settings {
    let options = Options {
        table_bytes: 64 << 10,
        container_len: 4096,
        node_bytes: 1 << 20,
        ..Options::default()
    };
    let about = About {
        process: ObjectId::random(),
        is_serving: true,
        host: host.to_owned(),
        nbd: format!("{host}:10809"),
        rpc: Bytes::new(),
    };
    // so that one thread does it all
    Settings { hints, at_once: 1, ..Settings::new(about, options) }
}

/// The bytes of a block: not zeros but for 0, which is what a hole has.
fn page(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK / 8)
}

impl Process {
    fn below(&self, bound: u64) -> u64 {
        self.world.below(bound)
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Whether it cannot reach RADOS now.
    fn is_cut(&self) -> bool {
        self.world.cut(self.number).is_some_and(|cut| cut.fate().is_some())
    }

    fn audience(&self) -> Arc<Notes> {
        Arc::new(Notes { world: Arc::clone(&self.world), number: self.number })
    }

    fn sleep(&self, milliseconds: u64) {
        self.world.sleep(self.number, milliseconds);
    }

    /// One request of a client to a block of volume `volume` of `shard`.
    fn ask(&self, shard: &OpenShard, volume: usize) {
        let Ok(device) = shard.device(NAMES[volume]) else { return };
        let block = self.below(BLOCKS);
        let (register, offset) = (volume as u64 * BLOCKS + block, block * BLOCK as u64);
        let invoked = self.world.moment();
        if self.below(2) == 0 {
            let value = {
                let mut written = self.world.written.lock().unwrap();
                let count = written.entry(register).or_default();
                *count += 1;
                1 + *count * BLOCKS + block
            };
            let outcome = device.write(offset, &page(value), Durability::OnFlush);
            let is_answered = outcome.is_ok() && !self.is_dead();
            let answered = is_answered.then(|| self.world.moment());
            self.note(Seen {
                by: self.number,
                register,
                did: Did::Write(value),
                invoked,
                answered,
            });
            self.world.tally(|tally| match is_answered {
                true => tally.writes += 1,
                false => tally.unanswered += 1,
            });
            return;
        }
        let mut found = vec![0; BLOCK];
        if device.read(offset, &mut found).is_ok() && !self.is_dead() {
            let value = u64::from_le_bytes(*found.first_chunk().expect("a block is longer"));
            assert!(found == page(value), "a torn block");
            let answered = Some(self.world.moment());
            self.note(Seen { by: self.number, register, did: Did::Read(value), invoked, answered });
            let is_cut = self.is_cut();
            self.world.tally(|tally| {
                tally.reads += 1;
                tally.cut_reads += usize::from(is_cut);
            });
        }
    }

    fn note(&self, seen: Seen) {
        self.world.history.lock().unwrap().push(seen);
    }

    /// The shard of a volume, if it is here or can be had.
    fn reach(
        &self,
        gateway: &Gateway,
        volume: usize,
    ) -> Result<Option<Arc<OpenShard>>, VolumeError> {
        let Some(record) = gateway.names().find(NAMES[volume])? else { return Ok(None) };
        match gateway.reach(record.shard)? {
            Reached::Here(shard) => {
                self.world.tally(|tally| tally.opened += 1);
                Ok(Some(shard))
            }
            _ => Ok(None),
        }
    }

    /// Lives until it ends or crashes. Errors are those of a connection that fails.
    fn live(&self, client: &Arc<FatedRados>) -> Result<(), VolumeError> {
        let clock = Skewed {
            world: Arc::clone(&self.world),
            offset: self.below(1_000_000),
            rate: 980 + self.below(40),
        };
        let pool: Arc<dyn RadosPool> = Arc::<FatedRados>::clone(client);
        let clock: Arc<dyn LeaseClock> = Arc::new(clock);
        let host = format!("node-{}", self.number);
        let gateway =
            Gateway::begin(&pool, &clock, settings(&host, self.hints()), self.audience())?;
        // clients keep the shards that they found, as open connections do
        let mut shards: [Option<Arc<OpenShard>>; NAMES.len()] = Default::default();
        let mut scrubbing = Scrubbing::default();
        for _ in 0..20 + self.below(60) {
            if self.is_dead() {
                break;
            }
            let volume = self.below(NAMES.len() as u64) as usize;
            // clients do not know of a partition, and go on
            let step = if self.is_cut() && self.below(4) > 0 { 0 } else { self.below(28) };
            let done = match step {
                0..=9 => {
                    let shard = &mut shards[volume];
                    if shard.is_none() {
                        *shard = self.reach(&gateway, volume).unwrap_or_default();
                    }
                    if let Some(shard) = shard {
                        self.ask(shard, volume);
                    }
                    Ok(())
                }
                10..=15 => {
                    gateway.renew();
                    Ok(())
                }
                16..=20 => {
                    gateway.poll();
                    Ok(())
                }
                21 => {
                    self.sleep(self.below(12_000));
                    Ok(())
                }
                22 => {
                    shards[volume] = None;
                    Ok(())
                }
                23 => self.keep(&shards),
                24 => self.close(&shards),
                25 => self.look_over(&gateway),
                26 => self.scrub(&gateway, &mut scrubbing),
                _ => self.hand_over(&gateway, volume),
            };
            // a gateway survives a partition
            if done.is_err() && self.world.cut(self.number).is_none() {
                return done;
            }
        }
        if self.below(2) == 0 && !self.is_dead() {
            return gateway.end();
        }
        // nothing that is dropped writes any more
        self.is_dead.store(true, Ordering::Relaxed);
        self.world.tally(|tally| tally.crashes += 1);
        Ok(())
    }

    fn hints(&self) -> Arc<dyn Hints> {
        let (world, number) = (Arc::clone(&self.world), self.number);
        let all = Arc::<MemoryHints>::clone(&world.hints);
        Arc::new(CutHints { all, now: move || world.cut(number) })
    }

    /// What a gateway does for its shards now and then. A shard that it has lost refuses it.
    fn keep(&self, shards: &[Option<Arc<OpenShard>>]) -> Result<(), VolumeError> {
        for shard in shards.iter().flatten().filter(|shard| shard.pool().stopped().is_none()) {
            if shard.shared().maintain().is_ok() {
                self.world.tally(|tally| tally.maintained += 1);
            }
        }
        Ok(())
    }

    /// Closes containers, and looks for leaks.
    fn close(&self, shards: &[Option<Arc<OpenShard>>]) -> Result<(), VolumeError> {
        let open: Vec<_> = shards.iter().flatten().map(|shard| shard.shared()).collect();
        if let Some(first) = open.first() {
            first.close_sparse(0.2)?;
            fsck(&open, true)?;
        }
        Ok(())
    }

    /// Milliseconds since 1970, as all gateways see them.
    fn wall(&self) -> u64 {
        1 + self.world.time.load(Ordering::Relaxed)
    }

    /// Looks over all containers, and opens what no gateway has so that it lets containers go.
    fn look_over(&self, gateway: &Gateway) -> Result<(), VolumeError> {
        let turn = (self.wall(), Duration::from_secs(2));
        let looked = gateway.look_over(turn, 0.2, &|_| {}, &|| true)?;
        let Some(LookedOver { census, .. }) = looked else { return Ok(()) };
        for (shard, containers) in census.waiting {
            if gateway.tend(shard, &containers, &|| true)?.is_some() {
                self.world.tally(|tally| tally.tended += 1);
                let is_used = self.below(4) == 0;
                gateway.give_back_unless(shard, &|| is_used)?;
            }
        }
        Ok(())
    }

    /// Scrubs a container. No other gateway says that it has scrubbed it in the same cycle.
    fn scrub(&self, gateway: &Gateway, scrubbing: &mut Scrubbing) -> Result<(), VolumeError> {
        let turn = (self.wall(), Duration::from_secs(10));
        let step = gateway.scrub_step(scrubbing, turn, &|_| true)?;
        if let ScrubStep::Scrubbed { cycle, container, found: Some(found), counts: true } = step {
            assert_eq!(found.bad, 0, "{container}: {found:?}");
            let is_first = self.world.scrubbed.lock().unwrap().insert((cycle, container));
            assert!(is_first, "{container} was scrubbed twice in cycle {cycle}");
            self.world.tally(|tally| tally.scrubbed += 1);
        }
        Ok(())
    }

    fn hand_over(&self, gateway: &Gateway, volume: usize) -> Result<(), VolumeError> {
        let Some(record) = gateway.names().find(NAMES[volume])? else { return Ok(()) };
        if self.below(2) == 0 {
            return gateway.give_back(record.shard);
        }
        let all = onefold_cluster::gateways(&gateway_pool(&self.world))?;
        if let Some((to, _)) = all.get(self.below(all.len().max(1) as u64) as usize) {
            Shards::new(&gateway_pool(&self.world)).want(record.shard, *to)?;
        }
        Ok(())
    }
}

/// Notes what a gateway tells.
struct Notes {
    world: Arc<World>,
    number: usize,
}

impl Notes {
    fn note(&self, what: &str) {
        let (moment, time) = (&self.world.moment, &self.world.time);
        let (moment, time) = (moment.load(Ordering::Relaxed), time.load(Ordering::Relaxed));
        let line = format!("after {moment}, {time} ms: gateway {}: {what}\n", self.number);
        self.world.events.lock().unwrap().push(line);
    }
}

impl Audience for Notes {
    fn opened(&self, shard: &Arc<OpenShard>, damage: Vec<VolumeError>) {
        // what it could not read just now is all that it may tell
        assert!(damage.iter().all(is_unanswered), "{damage:?}");
        self.note(&format!("opened {:?}", shard.tenure()));
    }

    fn closing(&self, _: &Arc<OpenShard>) {
        self.note("closes");
    }

    fn tell(&self, event: GatewayEvent) {
        self.note(&format!("{event:?}"));
    }
}

/// Whether RADOS gave no answer, which is no damage.
fn is_unanswered(error: &VolumeError) -> bool {
    let mut causes = iter::successors(Some(error as &dyn Error), |&error| error.source());
    causes.any(|cause| matches!(cause.downcast_ref(), Some(RadosError::Unknown { .. })))
}

/// The pool without fates, as an operator's command sees it.
fn gateway_pool(world: &World) -> Arc<dyn RadosPool> {
    Arc::<MemoryRados>::clone(&world.pool)
}

struct Still;

impl LeaseClock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// A gateway on whom nothing happens, which makes the volumes and ends.
fn make(pool: &Arc<dyn RadosPool>) {
    Domain::create(pool, Hash::Blake3, Codec::Zstd).unwrap();
    let clock: Arc<dyn LeaseClock> = Arc::new(Still);
    let settings = settings("first", Arc::new(()));
    let gateway = Gateway::begin(pool, &clock, settings, Arc::new(())).unwrap();
    gateway.renew();
    let size = BLOCKS * BLOCK as u64;
    for name in NAMES {
        gateway.create(name, |pool| pool.create_volume(name, size, BlockSize::B512)).unwrap();
    }
    gateway.end().unwrap();
}

/// Runs one world, and fails if clients saw what one register a block cannot have shown.
pub(crate) fn run(seed: u64, tally: &mut Tally) {
    let trouble = if seed.is_multiple_of(4) { 0 } else { 2 + seed % 30 };
    // in every second of them, also in those without other trouble
    let partitions = (seed / 4 % 2 == 1).then(|| Partitions::new(GATEWAYS));
    let pool = Arc::new(MemoryRados::replicated());
    let plain: Arc<dyn RadosPool> = Arc::<MemoryRados>::clone(&pool);
    make(&plain);
    let world = Arc::new(World {
        pool,
        turns: Turns::new(seed, GATEWAYS),
        time: AtomicU64::new(0),
        moment: AtomicU64::new(0),
        history: Mutex::default(),
        written: Mutex::default(),
        hints: Arc::default(),
        events: Mutex::default(),
        clients: Mutex::default(),
        trouble,
        partitions,
        tally: Mutex::default(),
        scrubbed: Mutex::default(),
    });
    world.turns.run(|number| {
        for _ in 0..LIVES {
            let is_dead = Arc::new(AtomicBool::new(false));
            let fates = (Arc::clone(&world), Arc::clone(&is_dead));
            let fate =
                move |_: &str, update: Option<&Update>| fates.0.fate(number, &fates.1, update);
            let client = Arc::new(FatedRados::new(Arc::<MemoryRados>::clone(&world.pool), fate));
            world.clients.lock().unwrap().push(Arc::clone(&client));
            let process = Process { world: Arc::clone(&world), number, is_dead };
            // no gateway can begin meanwhile
            let time = world.time.load(Ordering::Relaxed);
            let cut = world.partitions.as_ref().and_then(|all| all.of(number, time));
            if let Some((_, until)) = cut {
                process.sleep(until - time);
            }
            // how it ended makes no difference to the next one
            let _ = process.live(&client);
        }
    });
    while world.deliver_one() {}
    end(&world, &plain);
    let problem = violation(&world.history.lock().unwrap());
    world.clients.lock().unwrap().clear();
    let history = world.history.lock().unwrap();
    assert!(
        problem.is_none(),
        "seed {seed}: {problem:?}\n{}{}",
        told(&history),
        world.events.lock().unwrap().concat()
    );
    drop(history);
    world.tally(|found| {
        tally.reads += found.reads;
        tally.writes += found.writes;
        tally.unanswered += found.unanswered;
        tally.crashes += found.crashes;
        tally.late += found.late;
        tally.opened += found.opened;
        tally.maintained += found.maintained;
        tally.tended += found.tended;
        tally.scrubbed += found.scrubbed;
        tally.partitions += found.partitions;
        tally.cut_reads += found.cut_reads;
    });
}

/// A gateway on whom nothing happens takes the shards over, reads all blocks, and deletes everything.
fn end(world: &Arc<World>, pool: &Arc<dyn RadosPool>) {
    let clock = Skewed { world: Arc::clone(world), offset: 0, rate: 1000 };
    let clock: Arc<dyn LeaseClock> = Arc::new(clock);
    let hints: Arc<dyn Hints> = Arc::<MemoryHints>::clone(&world.hints);
    let gateway = Gateway::begin(pool, &clock, settings("last", hints), Arc::new(())).unwrap();
    for (volume, name) in NAMES.into_iter().enumerate() {
        let shard = reach_at_last(world, &gateway, name);
        read_all(world, &shard, volume);
        assert_eq!(shard.pool().check(), Vec::<String>::new());
    }
    // this one stays, to look after what the others leave
    gateway.create("none", |pool| pool.create_volume("none", 4096, BlockSize::B512)).unwrap();
    for name in NAMES {
        let shard = reach_at_last(world, &gateway, name);
        let mut changing = shard.change();
        shard.pool().delete_volume(name).unwrap();
        changing.sync().unwrap();
        drop(changing);
        let id = shard.id();
        drop(shard);
        gateway.give_back(id).unwrap();
    }
    let last = reach_at_last(world, &gateway, "none");
    last.shared().vacate().unwrap();
    fsck(&[last.shared()], true).unwrap();
    let mut left = Vec::new();
    let mut each = |object: &str| {
        let is_left = object.contains(".guard.") || object.contains(".container.");
        left.extend(is_left.then(|| object.to_owned()));
        ControlFlow::Continue(())
    };
    pool.list(&mut each).unwrap();
    assert_eq!(left, Vec::<String>::new());
}

fn reach_at_last(world: &World, gateway: &Gateway, name: &str) -> Arc<OpenShard> {
    let record = gateway.names().find(name).unwrap().expect("nobody deletes it");
    loop {
        world.time.fetch_add(1000, Ordering::Relaxed);
        gateway.renew();
        gateway.poll();
        match gateway.reach(record.shard).unwrap() {
            Reached::Here(shard) => return shard,
            other => assert!(world.time.load(Ordering::Relaxed) < 10_000_000, "{other:?}"),
        }
    }
}

fn read_all(world: &World, shard: &OpenShard, volume: usize) {
    let device = shard.device(NAMES[volume]).unwrap();
    for block in 0..BLOCKS {
        let mut found = vec![0; BLOCK];
        let invoked = world.moment();
        device.read(block * BLOCK as u64, &mut found).unwrap();
        let value = u64::from_le_bytes(*found.first_chunk().expect("a block is longer"));
        let (register, answered) = (volume as u64 * BLOCKS + block, Some(world.moment()));
        let did = Did::Read(value);
        let seen = Seen { by: GATEWAYS, register, did, invoked, answered };
        world.history.lock().unwrap().push(seen);
    }
}

/// A history, a line for each operation.
fn told(history: &[Seen]) -> String {
    let line = |one: &Seen| {
        let Seen { by, register, did, invoked, answered } = *one;
        let answered = answered.map_or("never".to_owned(), |answered| answered.to_string());
        format!("{invoked} to {answered}: gateway {by}, block {register}, {did:?}\n")
    };
    history.iter().map(line).collect()
}

//! What gateways look after together, in scenes: shards that nobody has, space and its quota, scrubs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onefold_backend::rados::{Fate, FatedRados, RadosPool, Step, Update};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
use onefold_cluster::containers::Containers;
use onefold_cluster::hints::ContainerName;
use onefold_cluster::{
    Care, Gateway, LeaseClock, LookedOver, OpenShard, Reached, ScrubStep, Scrubbing, Settings, WAIT,
};
use onefold_volume::Options;

use super::domain::{self, Clients, Moved, about, owner};
use super::shards::{MemoryHints, image};

const PAGE: usize = 4096;
const MINUTE: u64 = 60_000;
const EVERY: Duration = Duration::from_secs(60);

/// A domain whose gateways share hints, and a clock.
struct Cluster {
    pool: Arc<dyn RadosPool>,
    clock: Arc<Moved>,
    hints: Arc<MemoryHints>,
}

impl Cluster {
    fn new() -> Self {
        Self { pool: domain::domain(), clock: Arc::default(), hints: Arc::default() }
    }

    fn gateway(&self, host: &str) -> Gateway {
        self.gateway_by(&self.pool, host)
    }

    /// A gateway that reaches the pool by this client.
    fn gateway_by(&self, pool: &Arc<dyn RadosPool>, host: &str) -> Gateway {
        let options =
            Options { table_bytes: 1 << 20, container_len: 64 << 10, ..Options::default() };
        let clock: Arc<dyn LeaseClock> = Arc::<Moved>::clone(&self.clock);
        let settings = Settings {
            hints: Arc::<MemoryHints>::clone(&self.hints),
            ..Settings::new(about(host), options)
        };
        Gateway::begin(pool, &clock, settings, Arc::<Clients>::default()).unwrap()
    }

    fn care(&self) -> Care {
        Care::new(&self.pool)
    }

    /// All containers and their bytes.
    fn containers(&self) -> BTreeMap<ContainerName, u64> {
        let containers = Containers::new(Arc::clone(&self.pool));
        let mut names = Vec::new();
        let mut each = |object: &str| {
            names.extend(Containers::name_of(object));
            ControlFlow::Continue(())
        };
        self.pool.list(&mut each).unwrap();
        let len = |name: &ContainerName| containers.look(name).unwrap().unwrap().length;
        names.iter().map(|name| (*name, len(name))).collect()
    }

    fn stored(&self) -> u64 {
        self.containers().values().sum()
    }

    /// Damages a page of container `name`.
    fn damage(&self, name: &ContainerName) {
        let object = format!("{}.container.{:016x}.{:016x}", name.shard, name.writer, name.number);
        let damage = Update::existing().then(Step::Write(1000, vec![0xaa; 100].into()));
        self.pool.update(&object, damage).unwrap();
    }
}

fn create(gateway: &Gateway, name: &str, bytes: &[u8]) -> Arc<OpenShard> {
    let make = |pool: &onefold_volume::Pool| {
        pool.create_volume(name, bytes.len() as u64, BlockSize::B4096)
    };
    let shard = gateway.create(name, make).unwrap();
    for (at, part) in (0_u64..).zip(bytes.chunks(PAGE)) {
        put(&shard, name, at, part).unwrap();
    }
    shard
}

fn put(shard: &OpenShard, name: &str, block: u64, page: &[u8]) -> Result<(), BlockError> {
    shard.device(name).unwrap().write(block * PAGE as u64, page, Durability::OnReturn)
}

/// The volumes one and two with the same content, one at each gateway; their containers are sealed.
fn sealed_twins(a: &Gateway, b: &Gateway, bytes: &[u8]) -> (Arc<OpenShard>, Arc<OpenShard>) {
    let twins = (create(a, "one", bytes), create(b, "two", bytes));
    for shard in [&twins.0, &twins.1] {
        shard.pool().seal_open().unwrap();
    }
    twins
}

fn erase(shard: &OpenShard, name: &str, blocks: std::ops::Range<u64>) {
    let bytes = blocks.start * PAGE as u64..blocks.end * PAGE as u64;
    shard.device(name).unwrap().erase(bytes, Durability::OnReturn).unwrap();
}

#[track_caller]
fn expect(gateway: &Gateway, name: &str, bytes: &[u8]) {
    let record = gateway.names().find(name).unwrap().unwrap();
    let Reached::Here(shard) = gateway.reach(record.shard).unwrap() else {
        panic!("{name} is not here")
    };
    let mut found = vec![0; bytes.len()];
    shard.device(name).unwrap().read(0, &mut found).unwrap();
    assert!(found == bytes, "{name} has other bytes");
    assert_eq!(shard.pool().check(), Vec::<String>::new());
}

fn look_over(gateway: &Gateway, now: u64) -> Option<LookedOver> {
    gateway.look_over((now, EVERY), 0.2, &|_| {}, &|| true).unwrap()
}

pub(crate) fn shards_that_no_gateway_has_are_opened_in_turn_and_let_containers_go() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway("a"), cluster.gateway("b"));
    let mut bytes = image(1, 300);
    let shards = [create(&a, "one", &bytes), create(&b, "two", &bytes)];
    let before = cluster.stored();
    for (shard, name) in shards.iter().zip(["one", "two"]) {
        for from in (0..300).step_by(10) {
            erase(shard, name, from..from + 9);
        }
    }
    for from in (0..300).step_by(10) {
        bytes[from * PAGE..(from + 9) * PAGE].fill(0);
    }
    let ids = shards.each_ref().map(|shard| shard.id());
    drop(shards);
    a.give_back(ids[0]).unwrap();
    b.give_back(ids[1]).unwrap();
    // a gateway that has no shard looks after all
    let c = cluster.gateway("c");
    let (mut now, mut tended) = (MINUTE, BTreeSet::new());
    loop {
        let LookedOver { census, closed } = look_over(&c, now).expect("it is due");
        assert_eq!(census.bytes, cluster.stored());
        // while it has the turn no other gateway takes it
        assert!(look_over(&a, now + MINUTE - 1).is_none());
        let waiting: Vec<_> = census.waiting.into_iter().collect();
        for (shard, containers) in &waiting {
            c.tend(*shard, containers, &|| true).unwrap().expect("no gateway has it").unwrap();
            // a client that asks meanwhile is passed on to this gateway
            assert!(matches!(a.reach(*shard).unwrap(), Reached::There { .. }));
            assert!(c.give_back_unless(*shard, &|| false).unwrap());
            assert_eq!(owner(&cluster.pool, *shard), Some((None, None)));
            tended.insert(*shard);
        }
        if waiting.is_empty() && closed.closed == 0 {
            break;
        }
        now += MINUTE;
        assert!(now < 20 * MINUTE, "{waiting:?} are never done");
    }
    assert_eq!(tended, BTreeSet::from(ids));
    let after = cluster.stored();
    assert!(after * 4 < before, "{after} of {before} bytes are left");
    expect(&a, "one", &bytes);
    expect(&b, "two", &bytes);
}

pub(crate) fn a_shard_that_is_asked_for_while_it_is_tended_stays() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway("a"), cluster.gateway("b"));
    let id = create(&a, "disk", &image(1, 5)).id();
    a.give_back(id).unwrap();
    b.tend(id, &BTreeSet::new(), &|| true).unwrap().unwrap().unwrap();
    assert!(!b.give_back_unless(id, &|| true).unwrap());
    let Reached::Here(shard) = b.reach(id).unwrap() else { panic!("it is open") };
    assert!(put(&shard, "disk", 0, &[7; PAGE]).is_ok());
    // what a gateway has is nobody's to tend
    assert!(a.tend(id, &BTreeSet::new(), &|| true).unwrap().is_none());
    drop(shard);
    assert!(b.give_back_unless(id, &|| false).unwrap());
    assert!(a.tend(id, &BTreeSet::new(), &|| true).unwrap().is_some());
}

pub(crate) fn a_registration_that_no_journal_knows_is_found_in_a_shard_that_nobody_has() {
    let cluster = Cluster::new();
    let a = cluster.gateway("a");
    let one = create(&a, "one", &image(1, 30));
    let two = create(&a, "two", &image(2, 5));
    one.pool().seal_open().unwrap();
    one.shared().settle_uses().unwrap();
    let ids = [one.id(), two.id()];
    // a late registration of the second shard in a container of the first
    let name = *cluster.containers().keys().find(|name| name.shard == ids[0]).unwrap();
    let guards = onefold_cluster::containers::Guards::new(Arc::clone(&cluster.pool), ids[1]);
    let value = onefold_cluster::containers::Value { writer: 1, number: 77 };
    guards.register(&name, value).unwrap();
    drop((one, two));
    for id in ids {
        a.give_back(id).unwrap();
    }
    let LookedOver { census, .. } = look_over(&a, MINUTE).unwrap();
    assert_eq!(census.waiting.get(&ids[1]), Some(&BTreeSet::from([name])), "{census:?}");
    let swept = a.tend(ids[1], &census.waiting[&ids[1]], &|| true).unwrap().unwrap().unwrap();
    assert_eq!(swept.dropped, 1);
    assert!(!guards.read(&name).unwrap().unwrap().users.contains_key(&ids[1]));
    expect(&a, "one", &image(1, 30));
}

pub(crate) fn what_is_stored_is_counted_and_told_by_shard() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway("a"), cluster.gateway("b"));
    let shared = image(1, 100);
    let one = create(&a, "one", &[&shared[..], &image(2, 50)].concat());
    let two = create(&b, "two", &shared);
    for shard in [&one, &two] {
        shard.pool().seal_open().unwrap();
        shard.shared().settle_uses().unwrap();
    }
    a.keep_room();
    b.keep_room();
    let care = cluster.care();
    // before anything is counted: what gateways say
    assert_eq!(care.mapped_bytes().unwrap(), None);
    assert_eq!(care.stored().unwrap().bytes, cluster.stored());
    look_over(&b, MINUTE).unwrap();
    let stored = care.stored().unwrap();
    assert_eq!((stored.bytes, stored.counted), (cluster.stored(), MINUTE));
    assert_eq!(stored.containers, cluster.containers().len() as u64);
    assert_eq!(care.mapped_bytes().unwrap(), Some(250 * PAGE as u64));
    let space = care.shard_space().unwrap();
    // the second has next to nothing of its own
    assert!(space[&one.id()].unique_bytes > 20 * PAGE as u64, "{space:?}");
    assert!(space[&two.id()].unique_bytes < 5 * PAGE as u64, "{space:?}");
    assert!(space[&two.id()].used_bytes > 40 * PAGE as u64, "{space:?}");
    assert!(stored.shared_bytes > 40 * PAGE as u64 && stored.shared_bytes < stored.bytes);
    // what is written and removed since then counts at once
    put(&one, "one", 0, &image(3, 1)).unwrap();
    a.keep_room();
    assert_eq!(care.stored().unwrap().bytes, cluster.stored());
    erase(&one, "one", 0..150);
    one.shared().maintain().unwrap();
    a.keep_room();
    assert_eq!(care.stored().unwrap().bytes, cluster.stored());
    // and also by a gateway that is gone
    let before = cluster.stored();
    let id = one.id();
    drop(one);
    a.give_back(id).unwrap();
    a.end().unwrap();
    look_over(&b, 2 * MINUTE).unwrap();
    assert_eq!(care.stored().unwrap().bytes, cluster.stored());
    assert!(cluster.stored() <= before);
}

pub(crate) fn new_pages_are_refused_beyond_the_quota_and_room_comes_back() {
    let cluster = Cluster::new();
    let gateways = [cluster.gateway("a"), cluster.gateway("b")];
    let quota = 2 << 20;
    let care = cluster.care();
    care.set_quota(Some(quota)).unwrap();
    let tick = || {
        cluster.clock.pass(Duration::from_millis(300));
        gateways.iter().for_each(Gateway::renew);
    };
    let empty = vec![0; 1000 * PAGE];
    let shards = [create(&gateways[0], "one", &empty), create(&gateways[1], "two", &empty)];
    gateways.iter().for_each(Gateway::keep_room);
    let mut refused = [None, None];
    for block in 0..1000 {
        for (n, (shard, name)) in shards.iter().zip(["one", "two"]).enumerate() {
            if refused[n].is_none() {
                let page = onefold_testkit::random(block * 2 + n as u64, PAGE);
                refused[n] = put(shard, name, block, &page).err().map(|error| (block, error));
            }
        }
        if block % 20 == 0 {
            tick();
            gateways.iter().for_each(Gateway::keep_room);
        }
    }
    for (_, error) in refused.iter().flatten() {
        let told = error.to_string();
        assert!(matches!(error, BlockError::NoSpace { .. }), "{error:?}");
        assert!(told.contains("quota") && told.contains("onefold cluster quota"), "{told}");
    }
    let [Some((first, _)), Some((second, _))] = &refused else { panic!("nothing was refused") };
    // pages, their directories, and what two gateways write between two counts
    let stored = cluster.stored();
    assert!(stored <= quota + (128 << 10), "{stored} bytes, {quota} allowed");
    assert!(stored >= quota * 3 / 4, "{stored} bytes, {quota} allowed, at {first} and {second}");
    tick();
    // a page that is there takes no space, and neither do holes
    let known = onefold_testkit::random(0, PAGE);
    put(&shards[0], "one", 999, &known).unwrap();
    put(&shards[0], "one", 998, &[0; PAGE]).unwrap();
    let more = onefold_testkit::random(1 << 40, PAGE);
    tick();
    assert!(put(&shards[1], "two", 997, &more).is_err());
    // frees work, and bring room to the other gateway
    erase(&shards[0], "one", 0..1000);
    shards[0].shared().maintain().unwrap();
    gateways.iter().for_each(Gateway::keep_room);
    tick();
    put(&shards[1], "two", 997, &more).unwrap();
    // and so does a higher quota, or none
    care.set_quota(Some(1)).unwrap();
    gateways.iter().for_each(Gateway::keep_room);
    tick();
    assert!(put(&shards[1], "two", 996, &onefold_testkit::random(1 << 41, PAGE)).is_err());
    care.set_quota(None).unwrap();
    tick();
    put(&shards[1], "two", 996, &onefold_testkit::random(1 << 41, PAGE)).unwrap();
    assert_eq!(care.quota().unwrap(), None);
}

/// Steps of a cycle until it ends; which containers were read by whom.
fn cycle(gateways: &[&Gateway], now: u64) -> (Vec<(usize, ContainerName)>, u64) {
    let mut scrubbing: Vec<Scrubbing> = gateways.iter().map(|_| Scrubbing::default()).collect();
    let mut read = Vec::new();
    for turn in 0..10_000 {
        let n = turn % gateways.len();
        match gateways[n].scrub_step(&mut scrubbing[n], (now, EVERY), &|_| true).unwrap() {
            ScrubStep::Scrubbed { container, found: Some(_), counts: true, .. } => {
                read.push((n, container));
            }
            ScrubStep::Ended(cycle) => return (read, cycle.damaged),
            _ => {}
        }
    }
    panic!("the cycle does not end");
}

pub(crate) fn each_container_is_scrubbed_once_a_cycle_and_its_users_are_told_of_damage() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway("a"), cluster.gateway("b"));
    let bytes = image(1, 100);
    let (one, two) = sealed_twins(&a, &b, &bytes);
    let all: BTreeSet<ContainerName> = cluster.containers().into_keys().collect();
    let (read, damaged) = cycle(&[&a, &b], MINUTE);
    assert_eq!(read.iter().map(|(_, name)| *name).collect::<BTreeSet<_>>(), all);
    assert_eq!((read.len(), damaged), (all.len(), 0));
    assert!(read.iter().any(|(n, _)| *n == 0) && read.iter().any(|(n, _)| *n == 1));
    let care = cluster.care();
    let ended = care.scrub_cycle().unwrap().unwrap();
    assert_eq!((ended.cycle, ended.ended, ended.is_running), (1, MINUTE, false));
    // the next one is not due yet
    let idle = b.scrub_step(&mut Scrubbing::default(), (2 * MINUTE - 1, EVERY), &|_| true);
    assert!(matches!(idle.unwrap(), ScrubStep::Idle));
    assert_eq!(a.damage_in(&one, &|| true).unwrap().bad, []);

    // a page of a container that both shards use is damaged
    let name = *all.iter().find(|name| name.shard == one.id()).unwrap();
    cluster.damage(&name);
    let (read, damaged) = cycle(&[&b, &a], 2 * MINUTE);
    assert_eq!((read.len(), damaged), (all.len(), 1));
    // which stays as long as the container
    a.forget_damage().unwrap();
    let noted = care.damage().unwrap();
    assert_eq!(noted.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [name]);
    for (gateway, shard, volume) in [(&a, &one, "one"), (&b, &two, "two")] {
        let found = gateway.damage_in(shard, &|| true).unwrap();
        assert!(!found.bad.is_empty(), "{volume}");
        assert!(found.bad[0].container.contains(&name.shard.to_string()), "{found:?}");
        let blocks = found.bad.iter().flat_map(|page| &page.blocks);
        let blocks: Vec<u64> =
            blocks.inspect(|(name, _)| assert_eq!(name, volume)).map(|(_, at)| *at).collect();
        // written again, it is stored again
        for block in &blocks {
            let at = *block as usize * PAGE;
            put(shard, volume, *block, &bytes[at..at + PAGE]).unwrap();
        }
        assert!(shard.pool().statistics().damaged_containers > 0 || blocks.is_empty());
    }
    expect(&a, "one", &bytes);
    expect(&b, "two", &bytes);
    // damage of a container that goes is forgotten
    for (shard, name) in [(&one, "one"), (&two, "two")] {
        erase(shard, name, 0..100);
        shard.shared().maintain().unwrap();
    }
    assert!(!cluster.containers().contains_key(&name));
    a.forget_damage().unwrap();
    assert_eq!(care.damage().unwrap(), []);
}

pub(crate) fn what_a_dead_gateway_had_begun_to_scrub_another_one_reads_and_it_counts_once() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway("a"), cluster.gateway("b"));
    let shard = create(&a, "disk", &image(1, 60));
    shard.pool().seal_open().unwrap();
    let all = cluster.containers().len();
    // it began, and was stopped before it was done
    let mut scrubbing = Scrubbing::default();
    let begun = a.scrub_step(&mut scrubbing, (MINUTE, EVERY), &|_| false).unwrap();
    let ScrubStep::Scrubbed { container, found: None, counts: false, .. } = begun else {
        panic!("{begun:?}")
    };
    // nobody else reads it while the gateway lives
    let mut others = Scrubbing::default();
    let mut read = Vec::new();
    loop {
        match b.scrub_step(&mut others, (MINUTE, EVERY), &|_| true).unwrap() {
            ScrubStep::Scrubbed { container, counts: true, .. } => read.push(container),
            ScrubStep::Waiting => break,
            step => panic!("{step:?}"),
        }
    }
    assert_eq!(read.len(), all - 1);
    assert!(!read.contains(&container));
    // it dies
    let begun = cluster.clock.now();
    while cluster.clock.now() - begun <= WAIT + Duration::from_secs(1) {
        cluster.clock.pass(Duration::from_millis(500));
        b.renew();
        b.poll();
    }
    assert!(matches!(
        b.scrub_step(&mut others, (MINUTE, EVERY), &|_| true).unwrap(),
        ScrubStep::Scrubbed { container: again, counts: true, .. } if again == container
    ));
    let ended = b.scrub_step(&mut others, (MINUTE, EVERY), &|_| true).unwrap();
    assert!(
        matches!(&ended, ScrubStep::Ended(cycle) if cycle.containers == all as u64),
        "{ended:?}"
    );
    // the dead one wakes: its lease is over
    let woken = a.scrub_step(&mut scrubbing, (MINUTE, EVERY), &|_| true);
    assert!(matches!(woken, Ok(ScrubStep::Waiting)), "{woken:?}");
}

/// A scrub of one shard tells all users of a container what it found there.
pub(crate) fn what_a_scrub_of_one_shard_finds_is_noted_for_all() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway("a"), cluster.gateway("b"));
    let bytes = image(1, 100);
    let (one, two) = sealed_twins(&a, &b, &bytes);
    let note = |gateway: &Gateway, shard: &OpenShard| {
        gateway.note_scrubbed(&shard.pool().scrub(), MINUTE, &|_| true).unwrap()
    };
    assert_eq!(note(&b, &two), 0);
    let care = cluster.care();
    assert_eq!(care.damage().unwrap(), []);
    let all = cluster.containers();
    let name = *all.keys().find(|name| name.shard == one.id()).unwrap();
    cluster.damage(&name);
    assert_eq!(note(&b, &two), 1);
    let noted = care.damage().unwrap();
    let [(found, damage)] = &noted[..] else { panic!("{noted:?}") };
    assert_eq!((found, damage.pages, damage.found), (&name, 1, MINUTE));
    assert_eq!(a.damage_in(&one, &|| true).unwrap().bad.len(), 1);
    // of a shard that was stopped nothing is noted anew
    assert_eq!(b.note_scrubbed(&two.pool().scrub(), 2 * MINUTE, &|_| false).unwrap(), 0);
    assert_eq!(care.damage().unwrap(), noted);
}

/// What a scrub finds in a container that is not sealed yet is noted as it was found, and a cycle lets it be.
pub(crate) fn what_a_scrub_finds_in_an_open_container_is_noted() {
    let cluster = Cluster::new();
    let a = cluster.gateway("a");
    let shard = create(&a, "one", &image(1, 100));
    let all = cluster.containers();
    let containers = Containers::new(Arc::clone(&cluster.pool));
    let is_open = |name: &ContainerName| {
        let look = containers.look(name).unwrap().unwrap();
        look.sealed.is_none() && look.length > 10_000
    };
    let name = *all.keys().find(|name| is_open(name)).unwrap();
    cluster.damage(&name);
    let found = shard.pool().scrub();
    assert_eq!(a.note_scrubbed(&found, MINUTE, &|_| true).unwrap(), 1);
    let care = cluster.care();
    let noted = care.damage().unwrap();
    let [(found, damage)] = &noted[..] else { panic!("{noted:?}") };
    assert_eq!((*found, damage.pages, damage.found), (name, 1, MINUTE));
    let mut scrubbing = Scrubbing::default();
    for _ in 0..=all.len() {
        a.scrub_step(&mut scrubbing, (MINUTE, EVERY), &|_| true).unwrap();
    }
    assert!(care.scrub_cycle().unwrap().is_some_and(|cycle| !cycle.is_running));
    assert_eq!(care.damage().unwrap(), noted);
    assert_eq!(a.damage_in(&shard, &|| true).unwrap().bad.len(), 1);
}

/// Pages of a container that is not sealed yet, and that a scrub could not read, are noted by nobody.
pub(crate) fn pages_without_an_answer_are_not_noted_as_damage() {
    let cluster = Cluster::new();
    let is_silent = Arc::new(AtomicBool::new(false));
    let silent = Arc::clone(&is_silent);
    let client: Arc<dyn RadosPool> =
        Arc::new(FatedRados::new(Arc::clone(&cluster.pool), move |object, update| {
            let is_page = object.contains(".container.") && update.is_none();
            if is_page && silent.load(Ordering::SeqCst) { Fate::Lost } else { Fate::Answered }
        }));
    let a = cluster.gateway_by(&client, "a");
    let shard = create(&a, "disk", &image(1, 10));
    let containers = Containers::new(Arc::clone(&cluster.pool));
    let is_open = |name| containers.look(name).unwrap().unwrap().sealed.is_none();
    assert!(cluster.containers().keys().all(is_open));
    is_silent.store(true, Ordering::SeqCst);
    let found = shard.pool().scrub();
    is_silent.store(false, Ordering::SeqCst);
    assert_eq!(found.unanswered.as_ref().map(|those| those.pages), Some(10), "{found:?}");
    assert_eq!(a.note_scrubbed(&found, MINUTE, &|_| true).unwrap(), 0);
    assert_eq!(cluster.care().damage().unwrap(), []);
    assert!(shard.pool().scrub().is_good());
}

/// Damage that could not be noted is found again in the same cycle.
pub(crate) fn damage_without_an_answer_is_noted_by_the_next_step() {
    let cluster = Cluster::new();
    let is_cut_off = Arc::new(AtomicBool::new(false));
    let cut_off = Arc::clone(&is_cut_off);
    let client: Arc<dyn RadosPool> =
        Arc::new(FatedRados::new(Arc::clone(&cluster.pool), move |object, update| {
            let is_damage = object == "damage" && update.is_some();
            if is_damage && cut_off.load(Ordering::SeqCst) { Fate::Lost } else { Fate::Answered }
        }));
    let a = cluster.gateway_by(&client, "a");
    let shard = create(&a, "disk", &image(1, 60));
    shard.pool().seal_open().unwrap();
    let all = cluster.containers();
    let (name, _) = all.iter().next().unwrap();
    cluster.damage(name);
    is_cut_off.store(true, Ordering::SeqCst);
    let mut scrubbing = Scrubbing::default();
    let mut steps =
        (0..=all.len()).map(|_| a.scrub_step(&mut scrubbing, (MINUTE, EVERY), &|_| true));
    assert!(steps.any(|step| step.is_err()), "damage was noted without an answer");
    is_cut_off.store(false, Ordering::SeqCst);
    for _ in 0..=all.len() {
        if let ScrubStep::Ended(cycle) =
            a.scrub_step(&mut scrubbing, (MINUTE, EVERY), &|_| true).unwrap()
        {
            assert_eq!((cycle.containers, cycle.damaged), (all.len() as u64, 1));
        }
    }
    let noted = cluster.care().damage().unwrap();
    assert_eq!(noted.iter().map(|(name, _)| name).collect::<Vec<_>>(), [name]);
}

/// What is stored while containers are counted is in no count, and counts.
pub(crate) fn what_is_stored_during_a_count_counts() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway("a"), cluster.gateway("b"));
    let shard = create(&a, "one", &image(1, 20));
    a.keep_room();
    a.poll();
    b.poll();
    b.count(
        MINUTE,
        &|_| {
            // by then all containers were looked at
            create(&a, "two", &image(2, 50));
            a.keep_room();
        },
        &|| true,
    )
    .unwrap()
    .unwrap();
    let counted = cluster.care().stored().unwrap().bytes;
    assert!(counted >= cluster.stored(), "{counted} of {} bytes", cluster.stored());
    drop(shard);
}

/// All of them.
#[allow(dead_code, reason = "not in every test")]
pub(crate) fn all() {
    shards_that_no_gateway_has_are_opened_in_turn_and_let_containers_go();
    a_shard_that_is_asked_for_while_it_is_tended_stays();
    a_registration_that_no_journal_knows_is_found_in_a_shard_that_nobody_has();
    what_is_stored_is_counted_and_told_by_shard();
    new_pages_are_refused_beyond_the_quota_and_room_comes_back();
    each_container_is_scrubbed_once_a_cycle_and_its_users_are_told_of_damage();
    what_a_dead_gateway_had_begun_to_scrub_another_one_reads_and_it_counts_once();
    what_a_scrub_of_one_shard_finds_is_noted_for_all();
    what_a_scrub_finds_in_an_open_container_is_noted();
    pages_without_an_answer_are_not_noted_as_damage();
    damage_without_an_answer_is_noted_by_the_next_step();
    what_is_stored_during_a_count_counts();
}

//! Gateways that share an index: three in one process, over TLS on loopback.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onefold_backend::rados::{
    Fate, FatedRados, MemoryRados, Query, RadosPool, Refusal, Step, Update,
};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_cluster::containers::Containers;
use onefold_cluster::hints::{ContainerName, GatewayId, Hint, Hints};
use onefold_cluster::peers::{self, Authority, Members};
use onefold_cluster::pooled::{Notice, PeerPlace, PooledHints, PooledOptions, Pools};
use onefold_cluster::{SharedShard, create_shard, open_shard};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use onefold_testkit::{SplitMix64, random};
use onefold_volume::{Hash, Options};

const PATIENCE: Duration = Duration::from_secs(20);

/// Less than the 5 s that an attempt to connect may take: who asks has not waited for one.
const NO_CONNECTING: Duration = Duration::from_secs(4);

/// The gateways that a test says are alive.
#[derive(Default)]
struct Known(Mutex<BTreeMap<GatewayId, SocketAddr>>);

impl Members for Known {
    fn living(&self) -> Vec<(GatewayId, SocketAddr)> {
        self.0.lock().unwrap().iter().map(|(id, address)| (*id, *address)).collect()
    }
}

impl Known {
    fn add(&self, gateway: &PooledHints) {
        self.0.lock().unwrap().insert(gateway.gateway(), gateway.address());
    }

    fn remove(&self, gateway: GatewayId) {
        self.0.lock().unwrap().remove(&gateway);
    }
}

/// A cluster without gateways.
struct Cluster {
    pool: Arc<dyn RadosPool>,
    known: Arc<Known>,
    authority: Arc<Authority>,
    notices: Arc<Mutex<Vec<String>>>,
    options: PooledOptions,
}

impl Cluster {
    fn new() -> Self {
        Self::on(Arc::new(MemoryRados::replicated()))
    }

    fn on(pool: Arc<dyn RadosPool>) -> Self {
        let authority = Arc::new(Authority::create(&*pool).unwrap());
        let options = PooledOptions {
            memory: 64 << 20,
            // a test machine may be busy
            deadline: Duration::from_secs(2),
            poll: Duration::from_millis(20),
            read_again: Duration::from_millis(300),
            ..PooledOptions::default()
        };
        Self { pool, known: Arc::default(), authority, notices: Arc::default(), options }
    }

    /// One more gateway, which is not yet known to others.
    fn start(&self) -> PooledHints {
        let place = PeerPlace {
            gateway: ObjectId::random(),
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            authority: Arc::clone(&self.authority),
        };
        let notices = Arc::clone(&self.notices);
        PooledHints::start(
            place,
            Pools { meta: Arc::clone(&self.pool), data: Arc::clone(&self.pool) },
            Arc::<Known>::clone(&self.known),
            self.options.clone(),
            Arc::new(|request, _| [b"you said ", request].concat()),
            move |notice| {
                if matches!(notice, Notice::Dump(_) | Notice::Footer(_) | Notice::NoMemory(_)) {
                    notices.lock().unwrap().push(format!("{notice:?}"));
                }
            },
        )
        .unwrap()
    }

    /// Gateways that are known to one another and connected.
    fn gateways(&self, count: usize) -> Vec<PooledHints> {
        let all: Vec<_> = (0..count).map(|_| self.start()).collect();
        all.iter().for_each(|one| self.known.add(one));
        settle(&all);
        all
    }
}

/// Waits until `all` are connected with one another, and know no others.
fn settle(all: &[PooledHints]) {
    wait("the gateways are not connected", || {
        all.iter().all(|one| {
            let others = one.others();
            others.len() == all.len() - 1 && others.iter().all(|(.., is_up)| *is_up)
        }) && all.iter().map(PooledHints::slices).sum::<usize>() == 4096
    });
}

fn wait(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "{what} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Pages that a seed makes.
fn pages(seed: u64, count: usize) -> Vec<(Fingerprint, Hint)> {
    let mut numbers = SplitMix64::new(seed);
    let page = |at| {
        let mut bytes = [0; 32];
        let words = bytes.chunks_exact_mut(8);
        words.for_each(|word| word.copy_from_slice(&numbers.next_u64().to_le_bytes()));
        let shard = ObjectId::from_bytes([seed as u8; 16]);
        let container = ContainerName { shard, writer: 1, number: at as u64 / 1000 };
        let hint = Hint { container, offset: at as u32 * 4096, stored_len: 4096, check: at as u32 };
        (Fingerprint::from_bytes(bytes), hint)
    };
    (0..count).map(page).collect()
}

fn fingerprints(pages: &[(Fingerprint, Hint)]) -> Vec<Fingerprint> {
    pages.iter().map(|(fingerprint, _)| *fingerprint).collect()
}

/// How many of `pages` `gateway` finds as they are. No other hint may come.
fn found(gateway: &PooledHints, pages: &[(Fingerprint, Hint)]) -> usize {
    let hints = gateway.find(&fingerprints(pages));
    assert_eq!(hints.len(), pages.len());
    let right = hints.iter().zip(pages).filter(|(found, (_, hint))| **found == Some(*hint)).count();
    assert_eq!(right, hints.iter().flatten().count(), "hints of other pages");
    right
}

/// Tells `gateway` of `pages`, and waits until all gateways have them.
fn tell(gateway: &PooledHints, all: &[PooledHints], pages: &[(Fingerprint, Hint)]) {
    let before: usize = all.iter().map(PooledHints::count).sum();
    gateway.add(pages);
    wait("pages were not told", || {
        all.iter().map(PooledHints::count).sum::<usize>() == before + pages.len()
    });
}

#[test]
fn what_one_gateway_is_told_all_others_find() {
    let cluster = Cluster::new();
    let all = cluster.gateways(3);
    let pages = pages(1, 10_000);
    tell(&all[0], &all, &pages);
    for gateway in &all {
        assert!(gateway.count() > 2_000, "each holds about a third: {}", gateway.count());
        assert_eq!(found(gateway, &pages), pages.len());
        let counters = gateway.counters();
        assert_eq!((counters.lookups, counters.hits, counters.late), (10_000, 10_000, 0));
        assert!(counters.received_bytes > 0 && counters.sent_bytes > 0);
        assert!((2..=12).contains(&counters.finds), "batches, not pages: {}", counters.finds);
    }
    let (asked, answered) = all.iter().fold((0, 0), |(asked, answered), one| {
        (asked + one.counters().asked, answered + one.counters().answered)
    });
    assert_eq!((asked, answered), (20_000, 20_000), "two thirds of each look-up travel");
    let told = all[0].counters();
    assert_eq!((told.added, told.dropped, told.passed_over), (10_000, 0, 0));
    assert!((2..=100).contains(&told.tells), "batches, not pages: {}", told.tells);
    // the order of answers is that of fingerprints, and others are missing
    let mut mixed = pages[..10].to_vec();
    mixed.extend(self::pages(2, 10));
    mixed.reverse();
    let hints = all[1].find(&fingerprints(&mixed));
    assert!(hints[..10].iter().all(Option::is_none));
    assert!(hints[10..].iter().zip(&mixed[10..]).all(|(found, (_, hint))| *found == Some(*hint)));
    assert_eq!(all[2].find(&[]), []);
}

#[test]
fn wrong_hints_pass_through_and_the_last_one_wins() {
    let cluster = Cluster::new();
    let all = cluster.gateways(3);
    let mut pages = pages(3, 500);
    tell(&all[0], &all, &pages);
    // nobody here looks at a page: the shard that asks verifies what it gets
    pages.iter_mut().for_each(|(_, hint)| (hint.offset, hint.check) = (u32::MAX, 0));
    all[1].add(&pages);
    wait("the wrong hints did not come", || {
        all.iter().all(|one| {
            one.find(&fingerprints(&pages))
                .iter()
                .zip(&pages)
                .all(|(found, (_, hint))| *found == Some(*hint))
        })
    });
}

#[test]
fn a_page_that_others_know_is_a_hit_or_late() {
    let mut cluster = Cluster::new();
    cluster.options.deadline = Duration::from_micros(400);
    let all = cluster.gateways(2);
    let pages = pages(9, 4_000);
    tell(&all[0], &all, &pages);
    for some in pages.chunks(20) {
        found(&all[0], some);
    }
    let counters = all[0].counters();
    assert_eq!(counters.hits + counters.late, counters.lookups, "{counters:?}");
}

#[test]
fn a_gateway_that_dies_costs_misses_alone() {
    let mut cluster = Cluster::new();
    cluster.options.deadline = Duration::from_millis(500);
    let mut all = cluster.gateways(3);
    let pages = pages(4, 3_000);
    tell(&all[0], &all, &pages);
    let dead = all.pop().unwrap();
    let lost = dead.count();
    drop(dead);
    // it is still thought to be alive
    for gateway in &all {
        for _ in 0..3 {
            let start = Instant::now();
            assert_eq!(found(gateway, &pages), pages.len() - lost);
            assert!(start.elapsed() < NO_CONNECTING, "{:?}", start.elapsed());
        }
        assert_eq!(gateway.counters().late, 3 * lost as u64);
        let start = Instant::now();
        gateway.add(&pages);
        assert!(start.elapsed() < Duration::from_millis(500), "telling waits for nobody");
    }
    wait("pages for the dead gateway were not counted", || {
        all.iter().all(|one| one.counters().dropped == lost as u64)
    });
}

#[test]
fn a_gateway_that_hangs_costs_no_more_than_the_deadline() {
    let mut cluster = Cluster::new();
    cluster.options.deadline = Duration::from_millis(50);
    let one = cluster.start();
    cluster.known.add(&one);
    // accepts, and never says a word
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    cluster.known.0.lock().unwrap().insert(ObjectId::random(), silent.local_addr().unwrap());
    wait("the other one is not known", || one.others().len() == 1);
    let pages = pages(5, 1_000);
    one.add(&pages);
    let kept = one.count();
    assert!((1..1_000).contains(&kept));
    for _ in 0..20 {
        let start = Instant::now();
        assert_eq!(found(&one, &pages), kept);
        assert!(start.elapsed() < NO_CONNECTING, "{:?}", start.elapsed());
    }
}

#[test]
fn pages_that_find_no_room_in_the_queue_are_dropped_and_counted() {
    let mut cluster = Cluster::new();
    cluster.options.queue = 100;
    let all = cluster.gateways(2);
    let pages = pages(6, 4_000);
    all[0].add(&pages);
    let dropped = all[0].counters().dropped as usize;
    assert!(dropped > 1_000, "{dropped}");
    wait("the others did not come", || all[0].count() + all[1].count() + dropped == pages.len());
}

#[test]
fn ranges_move_with_their_pages_when_a_gateway_leaves_and_when_one_comes() {
    let cluster = Cluster::new();
    let mut all = cluster.gateways(3);
    let pages = pages(7, 6_000);
    tell(&all[0], &all, &pages);
    // one ends: it writes its dumps
    let gone = all.remove(1);
    cluster.known.remove(gone.gateway());
    drop(gone);
    settle(&all);
    wait("the dumps were not read", || all.iter().map(PooledHints::count).sum::<usize>() == 6_000);
    all.iter().for_each(|one| assert_eq!(found(one, &pages), pages.len()));
    // another one comes: those that lose ranges dump them, perhaps after it has looked
    let new = cluster.start();
    cluster.known.add(&new);
    all.push(new);
    settle(&all);
    wait("the new one did not learn", || found(&all[2], &pages) == pages.len());
    assert!(all[2].count() > 1_000);
    assert_eq!(all.iter().map(PooledHints::count).sum::<usize>(), 6_000);
    assert_eq!(*cluster.notices.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_cluster_that_starts_anew_finds_its_pages_but_for_damaged_dumps() {
    let cluster = Cluster::new();
    let all = cluster.gateways(2);
    let pages = pages(8, 5_000);
    tell(&all[0], &all, &pages);
    let ids: Vec<_> = all.iter().map(PooledHints::gateway).collect();
    drop(all);
    ids.into_iter().for_each(|id| cluster.known.remove(id));
    // a page whose dump is damaged, one of a later version, and one that is cut off
    let names = pages[..3]
        .iter()
        .map(|(fingerprint, _)| format!("hints.{}", &fingerprint.to_string()[..3]));
    let damages =
        [Step::Append(b"more".to_vec().into()), Step::Write(0, vec![9].into()), Step::Truncate(7)];
    let names: Vec<_> = names.collect();
    for (name, damage) in names.iter().zip(damages) {
        cluster.pool.update(name, Update::existing().then(damage)).unwrap();
    }
    let is_damaged = |fingerprint: &Fingerprint| {
        names.iter().any(|name| name[6..] == fingerprint.to_string()[..3])
    };
    let whole: Vec<_> =
        pages.iter().copied().filter(|(fingerprint, _)| !is_damaged(fingerprint)).collect();
    let one = cluster.start();
    wait("the dumps were not read", || found(&one, &whole) == whole.len());
    assert_eq!(found(&one, &pages), whole.len());
    let notices = cluster.notices.lock().unwrap().clone();
    // each dump is looked at twice
    assert!(notices.iter().all(|one| names.iter().any(|name| one.contains(name))), "{notices:?}");
    names.iter().for_each(|name| assert!(notices.iter().any(|one| one.contains(name)), "{name}"));
}

#[test]
fn a_pool_that_is_full_costs_dumps_alone_and_they_come_later() {
    let memory = Arc::new(MemoryRados::replicated());
    let is_full = Arc::new(AtomicBool::new(false));
    let full = Arc::clone(&is_full);
    let fated = FatedRados::new(Arc::<MemoryRados>::clone(&memory), move |_, update| {
        match update.is_some() && full.load(Ordering::Relaxed) {
            true => Fate::Refused(Refusal::Full),
            false => Fate::Answered,
        }
    });
    let mut cluster = Cluster::on(Arc::new(fated));
    cluster.options.dump_every = Duration::from_millis(50);
    is_full.store(true, Ordering::Relaxed);
    let one = cluster.gateways(1).remove(0);
    let pages = pages(9, 2);
    one.add(&pages);
    wait("the full pool was not told", || !cluster.notices.lock().unwrap().is_empty());
    assert_eq!(found(&one, &pages), 2);
    is_full.store(false, Ordering::Relaxed);
    let name = format!("hints.{}", &pages[0].0.to_string()[..3]);
    // it is tried again 5 seconds later
    wait("the dump was not written", || memory.query(&name, &Query::default()).is_ok());
}

/// Makes shard `n`, which asks `hints`.
fn shard(cluster: &Cluster, n: u8, hints: &Arc<PooledHints>) -> SharedShard {
    let id = ObjectId::from_bytes([n; ObjectId::LEN]);
    create_shard(&cluster.pool, id, Hash::Blake3).unwrap();
    open(cluster, n, hints)
}

fn open(cluster: &Cluster, n: u8, hints: &Arc<PooledHints>) -> SharedShard {
    let (id, pool) = (ObjectId::from_bytes([n; ObjectId::LEN]), &cluster.pool);
    let hints = Arc::<PooledHints>::clone(hints);
    let options = Options { table_bytes: 4 << 20, container_len: 256 << 10, ..Options::default() };
    let (shard, damage) = open_shard(pool, pool, id, hints, options).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    shard
}

/// Makes a volume with these bytes, durably. How many pages were stored for that.
fn put(shard: &SharedShard, name: &str, bytes: &[u8]) -> u64 {
    let before = shard.pool().statistics().new_pages;
    shard.pool().create_volume(name, bytes.len() as u64, BlockSize::B4096).unwrap();
    let volume = shard.pool().volume(name).unwrap();
    volume.write(0, bytes, Durability::OnReturn).unwrap();
    shard.pool().statistics().new_pages - before
}

/// How many containers of shard `n` are sealed, and how many are not.
fn containers(cluster: &Cluster, n: u8) -> (u64, u64) {
    let (containers, mut names) = (Containers::new(Arc::clone(&cluster.pool)), Vec::new());
    let listed = cluster.pool.list(&mut |object| {
        names.extend(Containers::name_of(object));
        ControlFlow::Continue(())
    });
    listed.unwrap();
    names.retain(|name| name.shard == ObjectId::from_bytes([n; ObjectId::LEN]));
    let is_sealed = |name| containers.look(name).unwrap().unwrap().sealed.is_some();
    let sealed = names.iter().filter(|name| is_sealed(name)).count() as u64;
    (sealed, names.len() as u64 - sealed)
}

#[test]
fn pages_that_no_dump_of_a_killed_gateway_has_are_found_in_footers() {
    const PAGES: usize = 300;
    let memory = Arc::new(MemoryRados::replicated());
    let mut cluster = Cluster::on(Arc::<MemoryRados>::clone(&memory));
    cluster.options.clocks_apart = Duration::ZERO;
    cluster.options.footer_every = Duration::from_millis(1);
    cluster.options.look_again = Duration::from_millis(200);
    let (old, new) = (random(1, PAGES * 4096), random(2, PAGES * 4096));
    // what dumps have
    let first = Arc::new(cluster.gateways(1).remove(0));
    assert_eq!(put(&shard(&cluster, 1, &first), "old", &old), PAGES as u64);
    memory.pass(100);
    cluster.known.remove(first.gateway());
    drop(Arc::into_inner(first).expect("its shard is closed"));
    // a slice without pages has a dump as well, once dumps are due
    let dump_every = std::mem::replace(&mut cluster.options.dump_every, Duration::from_millis(20));
    let second = cluster.gateways(1).remove(0);
    let is_dumped = |slice| memory.query(&format!("hints.{slice:03x}"), &Query::default()).is_ok();
    wait("not all slices were dumped", || (0..4096).all(is_dumped));
    assert_eq!(second.count(), PAGES);
    cluster.known.remove(second.gateway());
    drop(second);
    // what no dump has: the gateway that stores it ends without
    (cluster.options.dump_every, cluster.options.last_dumps) = (dump_every, Duration::ZERO);
    let mut all: Vec<_> = cluster.gateways(2).into_iter().map(Arc::new).collect();
    let total = |all: &[Arc<PooledHints>]| all.iter().map(|one| one.count()).sum::<usize>();
    wait("the dumps were not read", || total(&all) == PAGES);
    let killed = all.remove(0);
    let lost = shard(&cluster, 2, &killed);
    assert_eq!(put(&lost, "new", &new), PAGES as u64);
    wait("the pages were not told", || killed.count() + total(&all) == 2 * PAGES);
    assert!(containers(&cluster, 1).0 > 2 && containers(&cluster, 2).0 > 2);
    cluster.known.remove(killed.gateway());
    drop(lost);
    drop(Arc::into_inner(killed).expect("its shard is closed"));
    // the container that it was filling is sealed when another gateway takes its shard over
    let left = &all[0];
    wait("no footer was read", || left.counters().footers == containers(&cluster, 2).0);
    assert_eq!(containers(&cluster, 2).1, 1);
    assert!(left.count() < 2 * PAGES, "pages of a container without a footer");
    let taken = open(&cluster, 2, left);
    wait("the last footer was not read", || left.count() == 2 * PAGES);
    assert_eq!(containers(&cluster, 2).1, 0);
    assert_eq!(left.counters().footers, containers(&cluster, 2).0, "those of the first are older");
    let another = shard(&cluster, 3, left);
    assert_eq!((put(&another, "new", &new), put(&another, "old", &old)), (0, 0));
    assert_eq!(*cluster.notices.lock().unwrap(), Vec::<String>::new());
    drop(taken);
}

#[test]
fn a_command_reaches_a_gateway_with_a_control_request() {
    let cluster = Cluster::new();
    let one = cluster.start();
    // a command reads the authority anew, on any machine
    let authority = Arc::new(Authority::read(&*cluster.pool).unwrap());
    let ask = |gateway| peers::control(&authority, gateway, one.address(), b"hello", PATIENCE);
    assert_eq!(ask(one.gateway()).unwrap(), b"you said hello");
    ask(ObjectId::random()).unwrap_err();
    let other = Arc::new(Authority::create(&MemoryRados::replicated()).unwrap());
    peers::control(&other, one.gateway(), one.address(), b"hello", PATIENCE).unwrap_err();
}

#[test]
fn gateways_of_another_cluster_are_asked_in_vain() {
    let (ours, theirs) = (Cluster::new(), Cluster::new());
    let (one, two) = (ours.gateways(1).remove(0), theirs.gateways(1).remove(0));
    ours.known.add(&two);
    theirs.known.add(&one);
    wait("they do not know one another", || one.others().len() == 1 && two.others().len() == 1);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!one.others()[0].2 && !two.others()[0].2);
    let pages = pages(11, 100);
    one.add(&pages);
    assert_eq!(two.count(), 0);
}

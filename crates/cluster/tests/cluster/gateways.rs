//! Many gateways and shards, by a clock that the tests move.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosPool, Step, Update};
use onefold_block::{BlockDevice, BlockSize};
use onefold_cluster::{
    Domain, Gateway, LeaseClock, Names, RENEWAL, Reached, Settings, Shards, VALID, WAIT, gateways,
};
use onefold_seal::ObjectId;
use onefold_volume::{Codec, Hash, Options, VolumeError};

use crate::common::domain::{
    self, BLOCK, Moved, about, begin, domain, node, owner, read, told, write,
};
use crate::common::handover;

const MOMENT: Duration = Duration::from_millis(500);

fn objects(pool: &Arc<dyn RadosPool>) -> Vec<String> {
    let mut names = Vec::new();
    let mut each = |name: &str| {
        names.push(name.to_owned());
        ControlFlow::Continue(())
    };
    pool.list(&mut each).unwrap();
    names
}

#[test]
fn a_domain_is_made_once_and_found_as_it_was_made() {
    let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    assert_eq!(Domain::find(&*pool).unwrap(), None);
    let made = Domain::create(&pool, Hash::Sha3, Codec::Lz4).unwrap();
    assert_eq!(Domain::find(&*pool).unwrap(), Some(made));
    Domain::create(&pool, Hash::Sha3, Codec::Lz4).unwrap_err();
    let erasure_coded: Arc<dyn RadosPool> = Arc::new(MemoryRados::erasure_coded());
    let refused = Domain::create(&erasure_coded, Hash::Sha3, Codec::Lz4).unwrap_err();
    assert!(format!("{refused}: {refused:?}").contains("ErasureCoded"), "{refused:?}");
    assert!(objects(&erasure_coded).is_empty());
    let clock: Arc<dyn LeaseClock> = Arc::<Moved>::default();
    let settings = Settings::new(about("a"), Options::default());
    let empty: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    let refused = Gateway::begin(&empty, &clock, settings, Arc::new(()));
    assert!(matches!(refused, Err(VolumeError::NoPool)));
}

fn memory() -> Arc<dyn RadosPool> {
    Arc::new(MemoryRados::replicated())
}

#[test]
fn containers_of_a_domain_are_in_its_own_pool_and_no_other() {
    let (meta, data) = (memory(), Arc::new(MemoryRados::erasure_coded()) as Arc<dyn RadosPool>);
    let made = Domain::create_with(&meta, Some(&data), Hash::Blake3, Codec::Zstd).unwrap();
    assert_eq!(made.data.as_deref(), Some(&*data.kind().name));
    assert_eq!(Domain::find(&*meta).unwrap(), Some(made));
    assert!(told(Domain::find(&*data)).contains("containers alone"));
    assert!(told(begin(&meta, None)).contains("was not opened"));
    assert!(told(begin(&meta, Some(&memory()))).contains("is missing"));
    // a namespace of which another domain is
    let other: Arc<dyn RadosPool> = domain();
    let refused = Domain::create_with(&memory(), Some(&other), Hash::Blake3, Codec::Zstd);
    assert!(told(refused).contains("containers alone"));
    assert!(told(begin(&other, Some(&data))).contains("with all else"));
    let gateway = begin(&meta, Some(&data)).unwrap();
    let made = gateway.create("disk", |pool| pool.create_volume("disk", 1 << 20, BlockSize::B4096));
    let shard = made.unwrap();
    write(&shard, "disk", 1, 7);
    assert_eq!(read(&shard, "disk", 1).unwrap(), 7);
    let kinds = |pool| objects(pool).iter().filter(|name| name.contains(".container.")).count();
    assert!(kinds(&data) > 0 && kinds(&meta) == 0, "{:?}", objects(&data));
    // a claim that a crash left is used again by the same pool
    let (meta, data) = (memory(), memory());
    let first = Domain::create_with(&meta, Some(&data), Hash::Blake3, Codec::Zstd).unwrap();
    meta.update("onefold", Update::existing().then(Step::Remove)).unwrap();
    for table in ["authority", "gateways", "shards", "names"] {
        let _ = meta.update(table, Update::existing().then(Step::Remove));
    }
    let again = Domain::create_with(&meta, Some(&data), Hash::Blake3, Codec::Zstd).unwrap();
    assert_eq!(first, again);
}

#[test]
fn a_clone_becomes_a_shard_of_its_own() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let a = node(&pool, &clock, "a");
    let source = a.create("disk");
    write(&source, "disk", 1, 7);
    source.pool().clone_volume("disk", "monday", true).unwrap();
    let detached = |name: &str, go_on: &dyn Fn() -> bool| {
        a.gateway.create_shard(name, |target| {
            onefold_cluster::detach_while(source.shared(), "monday", target, name, go_on).map(drop)
        })
    };
    // one that was stopped leaves neither a name nor a shard
    detached("tried", &|| false).unwrap_err();
    assert_eq!(Names::new(&pool).find("tried").unwrap(), None);
    assert_eq!(Shards::new(&pool).all().unwrap().len(), 1);
    let made = detached("tried", &|| true).unwrap();
    assert_eq!(read(&made, "tried", 1).unwrap(), 7);
    source.pool().delete_volume("monday").unwrap();
    source.pool().delete_volume("disk").unwrap();
    source.change().sync().unwrap();
    let (id, source_id) = (made.id(), source.id());
    drop((made, source));
    a.gateway.give_back(source_id).unwrap();
    let left = || a.gateway.open_shards();
    let checked = a.gateway.fsck(&left(), false, &|| true).unwrap();
    assert_eq!((checked.problems, checked.unasked), (vec![], 0));
    a.gateway.give_back(id).unwrap();
    let b = node(&pool, &clock, "b");
    let Reached::Here(made) = b.reach("tried") else { panic!("it has no gateway") };
    assert_eq!(read(&made, "tried", 1).unwrap(), 7);
}

#[test]
fn a_dead_gateways_shards_are_taken_over_after_eight_seconds_and_not_before() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    let old = a.create("disk");
    assert!(write(&old, "disk", 3, 7));
    b.live();
    b.is_there("disk", "a");
    // the last renewal of the dead one was sent before this moment
    let died = clock.now();
    let begun = loop {
        clock.pass(MOMENT);
        b.live();
        if let [shard] = &b.clients.open()[..] {
            break Arc::clone(shard);
        }
        assert!(clock.now() - died <= WAIT + MOMENT, "it is not taken over");
        let is_old_read = read(&old, "disk", 3).is_some();
        assert_eq!(is_old_read, clock.now() - died < VALID, "{:?}", clock.now() - died);
        if clock.now() - died < WAIT {
            b.is_there("disk", "a");
        }
    };
    assert!(clock.now() - died >= WAIT, "{:?}", clock.now() - died);
    // nothing was flushed
    assert_eq!(read(&begun, "disk", 3), Some(7));
    assert!(write(&begun, "disk", 3, 8));
    // the old one wakes: no read, no write, and no lease
    assert_eq!(read(&old, "disk", 3), None);
    assert!(!write(&old, "disk", 4, 9));
    a.gateway.renew();
    assert!(a.gateway.lease().is_lost());
    assert_eq!(read(&old, "disk", 3), None);
    // it goes on under another id, without the shard
    a.gateway.poll();
    assert_eq!((a.clients.told("Lost"), a.clients.open().len()), (1, 0));
    assert!(a.gateway.lease().is_valid());
    a.is_there("disk", "b");
    assert_eq!((read(&begun, "disk", 3), read(&begun, "disk", 4)), (Some(8), Some(0)));
}

#[test]
fn a_gateway_that_began_since_others_looked_keeps_what_it_took() {
    handover::begin_while_another_looks();
}

#[test]
fn a_lease_that_is_renewed_is_left_alone() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    let shard = a.create("disk");
    for _ in 0..40 {
        clock.pass(RENEWAL);
        a.live();
        b.live();
        assert_eq!(read(&shard, "disk", 0), Some(0));
    }
    assert_eq!((b.clients.told("Broke"), a.clients.told("Broke")), (0, 0));
    b.is_there("disk", "a");
}

#[test]
fn a_shard_that_nobody_has_goes_to_one_of_those_who_ask() {
    for _ in 0..20 {
        let (pool, clock) = (domain(), Arc::<Moved>::default());
        let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
        let shard = a.create("disk");
        let id = shard.id();
        drop(shard);
        a.gateway.give_back(id).unwrap();
        assert_eq!(owner(&pool, id), Some((None, None)));
        let found: Vec<Reached> = thread::scope(|scope| {
            let reach = |node: &domain::Node| {
                loop {
                    match node.reach("disk") {
                        Reached::Moving => thread::yield_now(),
                        found => return found,
                    }
                }
            };
            let (a, b) = (&a, &b);
            let threads = [scope.spawn(move || reach(a)), scope.spawn(move || reach(b))];
            threads.map(|thread| thread.join().unwrap()).into()
        });
        let here = found.iter().filter(|found| matches!(found, Reached::Here(_))).count();
        let there = found.iter().filter(|found| matches!(found, Reached::There { .. })).count();
        assert_eq!((here, there), (1, 1), "{found:?}");
    }
}

#[test]
fn a_gateway_that_ends_leaves_nobody_waiting() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    for n in 0..5 {
        assert!(write(&a.create(&format!("disk-{n}")), &format!("disk-{n}"), 1, n + 1));
    }
    let before = clock.now();
    a.gateway.end().unwrap();
    assert!(a.clients.open().is_empty());
    for n in 0..5 {
        let shard = b.here(&format!("disk-{n}"));
        assert_eq!(read(&shard, &format!("disk-{n}"), 1), Some(n + 1));
    }
    assert_eq!(clock.now(), before);
    // the one that ended takes nothing more
    assert!(matches!(a.reach("disk-0"), Reached::There { .. }));
    assert_eq!(gateways(&pool).unwrap().len(), 1);
}

#[test]
fn a_volume_moves_under_writes_and_loses_nothing() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let nodes = [node(&pool, &clock, "a"), node(&pool, &clock, "b")];
    let id = nodes[0].create("disk").id();
    let mut last = [0_u8; 16];
    for round in 1..60_u8 {
        for node in &nodes {
            for shard in node.clients.open() {
                let block = usize::from(round) % 16;
                if write(&shard, "disk", block as u64, round) {
                    last[block] = round;
                }
            }
        }
        if round % 7 == 0 {
            let to = &nodes[usize::from(round / 7) % 2];
            assert!(Shards::new(&pool).want(id, to.gateway.lease().id()).unwrap());
        }
        clock.pass(RENEWAL);
        nodes.iter().for_each(domain::Node::live);
    }
    let shard = nodes.iter().find_map(|node| node.clients.open().pop()).expect("it is served");
    for (block, byte) in last.into_iter().enumerate() {
        assert_eq!(read(&shard, "disk", block as u64), Some(byte), "block {block}");
    }
    assert!(nodes[0].clients.told("Gave") >= 3 && nodes[1].clients.told("Gave") >= 3);
    assert!(last.iter().filter(|byte| **byte > 40).count() >= 8, "{last:?}");
}

#[test]
fn a_move_to_a_gateway_that_died_is_forgotten() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let a = node(&pool, &clock, "a");
    let id = a.create("disk").id();
    assert!(Shards::new(&pool).want(id, ObjectId::random()).unwrap());
    clock.pass(RENEWAL);
    a.live();
    assert_eq!(owner(&pool, id), Some((Some(a.gateway.lease().id()), None)));
    assert!(matches!(a.reach("disk"), Reached::Here(_)));
    // one that a gateway gave away to it: until then nobody tends it
    a.gateway.give_back(id).unwrap();
    let (b, other) = (node(&pool, &clock, "b"), ObjectId::random());
    assert!(Shards::new(&pool).want(id, other).unwrap());
    assert!(b.gateway.tend(id, &BTreeSet::new(), &|| true).unwrap().is_none());
    clock.pass(RENEWAL);
    b.live();
    assert_eq!(owner(&pool, id), Some((None, None)));
    b.gateway.tend(id, &BTreeSet::new(), &|| true).unwrap().unwrap().unwrap();
    // and it waits for one that lives
    b.gateway.give_back(id).unwrap();
    let to = a.gateway.lease().id();
    assert!(Shards::new(&pool).want(id, to).unwrap());
    clock.pass(RENEWAL);
    b.live();
    assert_eq!(owner(&pool, id), Some((None, Some(to))));
}

#[test]
fn shards_of_a_dead_gateway_are_shared_by_the_living() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let dead = node(&pool, &clock, "dead");
    let living = ["a", "b", "c"].map(|host| node(&pool, &clock, host));
    for n in 0..30 {
        dead.create(&format!("disk-{n}"));
    }
    for _ in 0..14 {
        clock.pass(Duration::from_secs(1));
        living.iter().for_each(domain::Node::live);
    }
    let counts = living.each_ref().map(|node| node.clients.open().len());
    assert_eq!(counts.iter().sum::<usize>(), 30, "{counts:?}");
    assert!(counts.iter().all(|count| *count >= 3), "{counts:?}");
    // and one that does not take its share leaves it to others
    for _ in 0..30 {
        clock.pass(Duration::from_secs(1));
        living[0].live();
    }
    assert_eq!(living[0].clients.open().len(), 30);
}

#[test]
fn names_lead_to_the_shard_that_has_the_volume() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    let (names, shard) = (Names::new(&pool), a.create("disk"));
    let refused = b.gateway.create("disk", |_| panic!("the name is taken"));
    assert!(matches!(refused, Err(VolumeError::VolumeExists { .. })));
    b.create("other");
    {
        let mut changing = shard.change();
        assert!(matches!(changing.claim("other"), Err(VolumeError::VolumeExists { .. })));
        changing.claim("monday").unwrap();
        shard.pool().clone_volume("disk", "monday", true).unwrap();
        changing.sync().unwrap();
    }
    let found = names.find("monday").unwrap().unwrap();
    assert_eq!((found.shard, found.size, found.is_read_only), (shard.id(), 16 * BLOCK, true));
    // a client resizes one
    shard.pool().volume("disk").unwrap().resize(32 * BLOCK).unwrap();
    clock.pass(RENEWAL);
    a.live();
    assert_eq!(names.find("disk").unwrap().unwrap().size, 32 * BLOCK);
    // names that begin alike are different
    for name in ["dis", "disk ", "disk-", "disk.", "", "\u{1}"] {
        assert_eq!(names.find(name).unwrap(), None, "{name:?}");
    }
}

#[test]
fn a_shard_without_volumes_is_removed() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let before = objects(&pool);
    let a = node(&pool, &clock, "a");
    let shard = a.create("disk");
    let id = shard.id();
    assert!(write(&shard, "disk", 0, 1));
    {
        let mut changing = shard.change();
        shard.pool().delete_volume("disk").unwrap();
        changing.sync().unwrap();
        assert!(changing.is_empty());
    }
    drop(shard);
    a.gateway.give_back(id).unwrap();
    assert_eq!(objects(&pool), before);
    assert!(owner(&pool, id).is_none());
    assert!(Names::new(&pool).all().unwrap().is_empty());
}

#[test]
fn what_a_crash_left_of_a_new_shard_is_removed() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let before = objects(&pool);
    let a = node(&pool, &clock, "a");
    // it fails, and what it made is removed at once
    let failed = a.gateway.create("disk", |_| Err(VolumeError::NoPool));
    assert!(failed.is_err());
    assert_eq!(objects(&pool), before);
    // it crashes: the shard is doomed, and has its name or not
    let crashed = node(&pool, &clock, "crashed");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let made = crashed.gateway.create("disk", |pool| {
            pool.create_volume("disk", BLOCK, BlockSize::B4096)?;
            panic!("the process ends here")
        });
        drop(made);
    }));
    assert!(caught.is_err());
    assert!(objects(&pool).len() > before.len());
    assert_eq!(Shards::new(&pool).all().unwrap().len(), 1);
    for _ in 0..14 {
        clock.pass(Duration::from_secs(1));
        a.live();
    }
    assert_eq!(objects(&pool), before);
    assert!(Shards::new(&pool).all().unwrap().is_empty());
    a.create("disk");
}

#[test]
fn a_volume_whose_lease_ends_while_it_is_made_is_said_to_be_stopped_and_not_damaged() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let before = objects(&pool);
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    let made = a.gateway.create("disk", |pool| {
        pool.create_volume("disk.importing", BLOCK, BlockSize::B4096)?;
        for _ in 0..10 {
            clock.pass(Duration::from_secs(1));
            b.live();
        }
        pool.rename_volume("disk.importing", "disk")
    });
    let error = made.unwrap_err();
    let told = error.to_string();
    assert!(matches!(error, VolumeError::Stopped { .. }), "{told}");
    assert!(told.contains("volume 'disk'") && told.contains("repeat the command"), "{told}");
    assert_eq!(objects(&pool), before);
    a.live();
    a.create("disk");
}

#[test]
fn what_a_failed_change_of_volumes_shows_is_read_once_it_is_durable() {
    let (inner, clock) = (domain(), Arc::<Moved>::default());
    let is_lost = Arc::new(AtomicBool::new(false));
    let lost = Arc::clone(&is_lost);
    let fate = move |object: &str, update: Option<&Update>| {
        let is_batch = update.is_some() && object.contains(".segment.");
        if is_batch && lost.load(Ordering::Relaxed) { Fate::Lost } else { Fate::Answered }
    };
    let pool: Arc<dyn RadosPool> = Arc::new(FatedRados::new(Arc::clone(&inner), fate));
    let a = node(&pool, &clock, "a");
    let shard = a.create("disk");
    assert!(write(&shard, "disk", 1, 7));
    let set = |lost| is_lost.store(lost, Ordering::Relaxed);
    let expect_undurable = |name: &str, byte| {
        shard.unsettle(name);
        assert_eq!(read(&shard, name, 1), None, "{name}: it is not durable");
        set(false);
        assert_eq!(read(&shard, name, 1), Some(byte), "{name}");
    };
    set(true);
    shard.pool().clone_volume("disk", "monday", true).unwrap_err();
    expect_undurable("monday", 7);
    assert!(write(&shard, "disk", 1, 8));
    set(true);
    shard.pool().roll_back_volume("disk", "monday").unwrap_err();
    expect_undurable("disk", 7);
    // the next gateway has both
    drop((shard, a));
    let b = node(&inner, &clock, "b");
    for _ in 0..10 {
        clock.pass(Duration::from_secs(1));
        b.live();
    }
    let shard = b.here("disk");
    assert_eq!((read(&shard, "disk", 1), read(&shard, "monday", 1)), (Some(7), Some(7)));
}

#[test]
fn whatever_becomes_of_gateways_no_read_is_stale_and_no_write_is_lost() {
    let mut tally = handover::Tally::default();
    for seed in 0..150 {
        handover::play(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.took > 500 && tally.broke > 150 && tally.lost > 100, "{tally:?}");
    assert!(tally.reads > 5_000 && tally.writes > 5_000 && tally.unread > 300, "{tally:?}");
}

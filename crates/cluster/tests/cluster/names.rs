//! Names that crashes and superseded gateways leave: none keeps a new volume from being called so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::rados::{Fate, FatedRados, OmapRange, Query, RadosPool, Step, Update};
use onefold_cluster::{BootClock, Gateway, LeaseClock, Names, Reached, Settings, Shards};
use onefold_volume::Options;

use crate::common::domain::{Moved, Node, about, domain, node};

/// Lets `a` die, and `b` take over what it had.
fn take_over(b: &Node, a: Node, clock: &Moved) {
    drop(a);
    for _ in 0..10 {
        clock.pass(Duration::from_secs(1));
        b.live();
    }
}

#[test]
fn names_that_a_crash_left_are_removed_by_the_next_gateway_that_opens_the_shard() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    let (names, shard) = (Names::new(&pool), a.create("disk"));
    {
        let mut changing = shard.change();
        changing.claim("monday").unwrap();
        shard.pool().clone_volume("disk", "monday", true).unwrap();
        changing.sync().unwrap();
    }
    // before the name of a deleted volume is given up, and after the claim of a new one
    shard.pool().delete_volume("monday").unwrap();
    shard.change().claim("never-made").unwrap();
    assert_eq!(names.all().unwrap().len(), 3);
    drop(shard);
    take_over(&b, a, &clock);
    let known: Vec<String> = names.all().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(known, ["disk"]);
    b.create("never-made");
    b.here("disk").change().claim("monday").unwrap();
}

/// The record of `name`, as bytes.
fn name_record(pool: &Arc<dyn RadosPool>, name: &str) -> Bytes {
    let omap = Some(OmapRange { after: name.to_owned(), limit: 1 });
    let answer = pool.query("names", &Query { omap, ..Query::default() }).unwrap();
    answer.omap.into_iter().next().unwrap().1
}

fn note_late(pool: &Arc<dyn RadosPool>, name: &str, record: Bytes) {
    let entry = Step::SetOmap(vec![(format!("{name}\u{1}"), record)]);
    pool.update("names", Update::existing().then(entry)).unwrap();
}

#[test]
fn names_that_a_superseded_gateway_claims_late_are_free() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    let (names, shard) = (Names::new(&pool), a.create("disk"));
    // the shard that was to have the volume was removed before
    let gone = a.create("gone").id();
    let record = name_record(&pool, "gone");
    let doomed = a.here("gone");
    doomed.pool().delete_volume("gone").unwrap();
    drop(doomed);
    a.gateway.give_back(gone).unwrap();
    for name in ["first", "second", "disk"] {
        note_late(&pool, name, record.clone());
        assert!(names.is_free(name).unwrap() && names.find(name).unwrap().is_some());
    }
    a.create("first");
    shard.change().claim("second").unwrap();
    // a volume gets its name back
    let id = shard.id();
    drop(shard);
    a.gateway.give_back(id).unwrap();
    let Reached::Here(shard) = b.gateway.reach(id).unwrap() else { panic!("it has no gateway") };
    assert_eq!(names.find("disk").unwrap().unwrap().shard, id);
    // another gateway has the shard open
    note_late(&pool, "late", name_record(&pool, "disk"));
    assert!(!names.is_free("late").unwrap());
    let mut changing = shard.change();
    changing.recall("late").unwrap();
    changing.sync().unwrap();
    assert_eq!(names.find("late").unwrap(), None);
}

#[test]
fn a_gateway_that_takes_many_shards_at_once_reads_the_names_once() {
    const SHARDS: usize = 20;
    let (inner, clock) = (domain(), Arc::<Moved>::default());
    let a = node(&inner, &clock, "a");
    let ids: Vec<_> = (0..SHARDS).map(|n| a.create(&format!("disk-{n}")).id()).collect();
    // a crash left this one
    a.here("disk-3").change().claim("never-made").unwrap();
    a.gateway.end().unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let fate = move |object: &str, update: Option<&Update>| {
        let is_read = object == "names" && update.is_none();
        counted.fetch_add(usize::from(is_read), Ordering::Relaxed);
        Fate::Answered
    };
    let pool: Arc<dyn RadosPool> = Arc::new(FatedRados::new(Arc::clone(&inner), fate));
    // a clock that goes on while shards are opened
    let clock: Arc<dyn LeaseClock> = Arc::new(BootClock);
    let options = Options { table_bytes: 1 << 20, ..Options::default() };
    let settings = Settings::new(about("b"), options);
    let b = Gateway::begin(&pool, &clock, settings, Arc::new(())).unwrap();
    let shards = Shards::new(&inner);
    for id in ids {
        assert!(shards.want(id, b.lease().id()).unwrap());
    }
    reads.store(0, Ordering::Relaxed);
    b.poll();
    assert_eq!(b.open_shards().len(), SHARDS);
    assert_eq!(reads.load(Ordering::Relaxed), 1);
    assert_eq!(Names::new(&inner).all().unwrap().len(), SHARDS);
    b.end().unwrap();
}

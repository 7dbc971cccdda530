//! Names that crashes and superseded gateways leave: none keeps a new volume from being called so.

#[path = "common/domain.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod domain;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Moved, Node, domain, node};
use onefold_backend::rados::{OmapRange, Query, RadosPool, Step, Update};
use onefold_cluster::{Names, Reached};

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

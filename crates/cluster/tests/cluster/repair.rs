//! A repair of a shard restores what can be read, keeps copies of what it gives up, and leaves containers alone.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, Query, RadosPool, Step, Update};
use onefold_block::{BlockDevice, Durability};
use onefold_cluster::containers::{Guards, fsck};
use onefold_cluster::{Reached, repair_shard};
use onefold_volume::{Hash, Repaired, VolumeError};

use crate::common::domain::{self, Moved, node, owner, read, write};
use crate::common::shards::{Space, expect, expect_sound, id, image, options, put};

const PAGE: usize = 4096;
/// Bytes before the nodes of a file, and of each node with its check.
const HEADER: usize = 4096;
const SLOT: usize = 4112;

fn try_repair(space: &Space, n: u8) -> Result<Repaired, VolumeError> {
    let mut done = Repaired::default();
    repair_shard(&space.meta, &space.data, (id(n), Hash::Blake3), options(), &mut done)?;
    Ok(done)
}

fn repair(space: &Space, n: u8) -> Repaired {
    try_repair(space, n).unwrap()
}

/// The objects of `pool` whose names have `part`.
fn objects(pool: &Arc<dyn RadosPool>, part: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut each = |object: &str| {
        found.extend(object.contains(part).then(|| object.to_owned()));
        ControlFlow::Continue(())
    };
    pool.list(&mut each).unwrap();
    found.sort_unstable();
    found
}

fn bytes_of(pool: &Arc<dyn RadosPool>, object: &str) -> Vec<u8> {
    let query = Query { range: Some(0..u64::from(u32::MAX)), ..Query::default() };
    pool.query(object, &query).unwrap().bytes.to_vec()
}

/// Changes a byte of an object.
fn flip(pool: &Arc<dyn RadosPool>, object: &str, at: usize) {
    let byte = bytes_of(pool, object)[at] ^ 4;
    let update = Update::existing().then(Step::Write(at as u64, vec![byte].into()));
    pool.update(object, update).unwrap();
}

/// A namespace in which shard 2 has pages of shard 1, and both have made a checkpoint and gone on.
fn shared() -> (Space, Vec<u8>) {
    filled(Space::new())
}

/// The same in `space`, which is empty.
fn filled(space: Space) -> (Space, Vec<u8>) {
    let bytes = image(1, 600);
    for n in [1, 2] {
        let shard = space.add(n);
        put(&shard, "a", &bytes);
        shard.pool().seal_open().unwrap();
        shard.pool().checkpoint().unwrap();
    }
    (space, bytes)
}

#[test]
fn a_shard_with_nothing_wrong_stays_as_it_is() {
    let (space, bytes) = shared();
    assert_eq!(repair(&space, 2), Repaired::default());
    let shard = space.open(2);
    expect(&shard, "a", &bytes);
    expect_sound(&shard);
    assert_eq!(objects(&space.meta, "lost-"), Vec::<String>::new());
}

#[test]
fn batches_from_the_first_damaged_one_on_are_given_up_and_kept() {
    // in the segment that the head names, and in one that follows it
    for rolled in [false, true] {
        let (space, bytes) = shared();
        let shard = space.open(2);
        for name in ["b", "c", "d"] {
            put(&shard, name, &image(9, 20));
        }
        drop(shard);
        let before = objects(&space.meta, &format!("{}.segment.", id(2)));
        let segment = before.last().unwrap().clone();
        let whole = bytes_of(&space.meta, &segment);
        flip(&space.meta, &segment, if rolled { whole.len() / 2 } else { 50 });
        let broken = bytes_of(&space.meta, &segment);
        let error = space.try_open(2).map(drop).unwrap_err();
        assert!(matches!(error, VolumeError::Damaged { .. }), "{error}");
        let done = repair(&space, 2);
        assert_eq!(done.settled.len(), 1, "{done:?}");
        assert!(done.settled[0].starts_with("gave up changes from batch "), "{done:?}");
        let copy = objects(&space.meta, &done.kept[0]);
        assert_eq!(bytes_of(&space.meta, &copy[0]), broken);
        let shard = space.open(2);
        expect(&shard, "a", &bytes);
        assert_eq!(shard.pool().check(), Vec::<String>::new());
        let left = shard.pool().volumes().len();
        assert!(if rolled { left > 1 && left < 5 } else { left == 1 }, "{left} volumes");
        // it goes on, and so does its next writer
        put(&shard, "e", &image(7, 20));
        drop(shard);
        assert_eq!(repair(&space, 2), Repaired::default());
        let shard = space.open(2);
        expect(&shard, "e", &image(7, 20));
        shard.maintain().unwrap();
        expect_sound(&shard);
        expect(&space.open(1), "a", &bytes);
    }
}

#[test]
fn a_segment_that_is_gone_ends_what_is_restored() {
    let (space, bytes) = shared();
    let shard = space.open(2);
    put(&shard, "b", &image(9, 20));
    drop(shard);
    for segment in objects(&space.meta, &format!("{}.segment.", id(2))) {
        space.meta.update(&segment, Update::existing().then(Step::Remove)).unwrap();
    }
    assert!(space.try_open(2).is_err());
    let done = repair(&space, 2);
    assert_eq!((done.settled.len(), done.kept.len()), (1, 0), "{done:?}");
    let shard = space.open(2);
    expect(&shard, "a", &bytes);
    put(&shard, "c", &image(8, 20));
    drop(shard);
    expect(&space.open(2), "c", &image(8, 20));
}

/// A namespace in which shard 2 has dropped its pages of shard 1, and the batches that said so are damaged.
fn dropped() -> (Space, Vec<u8>) {
    let (space, bytes) = shared();
    let shard = space.open(2);
    put(&shard, "b", &image(9, 2));
    let segment = objects(&space.meta, &format!("{}.segment.", id(2))).pop().unwrap();
    let len = bytes_of(&space.meta, &segment).len();
    shard.pool().delete_volume("a").unwrap();
    shard.maintain().unwrap();
    let guards = space.guards();
    assert!(guards.iter().any(|guard| !guard.contains(&id(2).to_string())), "{guards:#?}");
    drop(shard);
    flip(&space.meta, &segment, len + 4);
    (space, bytes)
}

#[test]
fn pages_in_a_container_without_protection_are_moved_once_a_check_has_seen_it() {
    let (space, bytes) = shared();
    let (shard, guards) = (space.open(2), Guards::new(Arc::clone(&space.meta), id(2)));
    for name in space.left().iter().filter_map(|object| Guards::name_of(object)) {
        if let Some(value) = guards.read(&name).unwrap().unwrap().users.get(&id(2)) {
            guards.drop(&name, *value).unwrap();
        }
    }
    assert!(!fsck(&[&shard], false).unwrap().problems.is_empty());
    shard.maintain().unwrap();
    assert_eq!(fsck(&[&shard], false).unwrap().problems, []);
    empty_first(&space);
    expect(&shard, "a", &bytes);
    expect_sound(&shard);
}

/// Shard 1 lets its pages go.
fn empty_first(space: &Space) {
    let first = space.open(1);
    first.pool().delete_volume("a").unwrap();
    first.maintain().unwrap();
    first.maintain().unwrap();
}

#[test]
fn containers_that_given_up_batches_dropped_are_protected_again() {
    for is_closed in [false, true] {
        let (space, bytes) = dropped();
        if is_closed {
            let guards = Guards::new(Arc::clone(&space.meta), id(1));
            for guard in space.left().iter().filter_map(|object| Guards::name_of(object)) {
                guards.close(&guard).unwrap();
            }
        }
        let done = repair(&space, 2);
        let expected = if is_closed { "moved the pages in use out" } else { "registered again in" };
        assert!(done.settled.iter().any(|what| what.starts_with(expected)), "{done:?}");
        assert!(done.left.is_empty(), "{done:?}");
        assert_eq!(repair(&space, 2), Repaired::default());
        let shard = space.open(2);
        assert_eq!(fsck(&[&shard], false).unwrap().problems, [], "{is_closed}");
        empty_first(&space);
        expect(&shard, "a", &bytes);
        expect_sound(&shard);
    }
}

#[test]
fn a_container_that_went_after_a_given_up_batch_dropped_it_is_a_problem_that_is_left() {
    let (space, _) = dropped();
    empty_first(&space);
    let done = repair(&space, 2);
    assert!(!done.left.is_empty(), "{done:?}");
    assert!(done.left[0].contains("`onefold cluster fsck`"), "{done:?}");
    let (shard, _) = space.try_open(2).unwrap();
    assert!(!fsck(&[&shard], false).unwrap().problems.is_empty());
    let bytes = image(1, 600);
    let volume = shard.pool().volume("a").unwrap();
    for (at, page) in (0..).step_by(PAGE).zip(bytes.chunks(PAGE)) {
        volume.write(at, page, Durability::OnReturn).unwrap();
    }
    drop(volume);
    shard.maintain().unwrap();
    expect(&shard, "a", &bytes);
    assert_eq!(fsck(&[&shard], false).unwrap().problems, []);
}

#[test]
fn nodes_that_cannot_be_read_cost_their_blocks_alone() {
    let (space, bytes) = shared();
    let files = objects(&space.meta, &format!("{}.file.nodes", id(2)));
    let nodes: usize = files.iter().map(|file| bytes_of(&space.meta, file).len() / SLOT).sum();
    assert!(nodes > 4, "{nodes} nodes in {files:?}");
    let mut losses = BTreeSet::new();
    // each node alone, with and without the headers of all files, and then all of them
    for damaged in 0..=2 * nodes {
        let (space, _) = shared();
        let files = objects(&space.meta, &format!("{}.file.nodes", id(2)));
        let mut at = 0;
        for file in &files {
            if damaged % 2 == 1 {
                flip(&space.meta, file, 100);
            }
            for slot in 0..bytes_of(&space.meta, file).len() / SLOT {
                if damaged / 2 == at || damaged == 2 * nodes {
                    flip(&space.meta, file, HEADER + slot * SLOT + 2000);
                }
                at += 1;
            }
        }
        let context = format!("{damaged} of {nodes} nodes");
        losses.insert(expect_mended(&space, &bytes, &context));
    }
    // what other files tell costs nothing, and all nodes together cost all blocks
    assert!(losses.first() == Some(&0) && losses.last() == Some(&600), "{losses:?}");
    assert!(losses.len() > 3, "{losses:?}");
}

/// Nodes of shard 2 are damaged: a repair makes it one that can be read, and what is lost is whole once it is written.
/// How many blocks were lost.
fn expect_mended(space: &Space, bytes: &[u8], context: &str) -> usize {
    let (shard, _) = space.try_open(2).unwrap();
    assert_ne!(shard.pool().check(), Vec::<String>::new(), "{context}");
    drop(shard);
    let done = repair(space, 2);
    assert!(!done.settled.is_empty() && !done.kept.is_empty(), "{context}: {done:?}");
    let (shard, _) = space.try_open(2).unwrap();
    assert_eq!(shard.pool().check(), Vec::<String>::new(), "{context}: {done:?}");
    let bad = shard.pool().scrub().bad;
    let lost: BTreeSet<u64> =
        bad.iter().flat_map(|page| page.blocks.iter().map(|(_, block)| *block)).collect();
    let volume = shard.pool().volume("a").unwrap();
    let mut found = vec![0; PAGE];
    for (block, page) in (0_u64..).zip(bytes.chunks(PAGE)) {
        let is_read = volume.read(block * PAGE as u64, &mut found).is_ok();
        assert_eq!(is_read, !lost.contains(&block), "{context}: block {block}, {done:?}");
        assert!(!is_read || found == page, "{context}: block {block} has other bytes");
        volume.write(block * PAGE as u64, page, Durability::OnReturn).unwrap();
    }
    drop((volume, shard));
    assert_eq!(repair(space, 2).settled, Vec::<String>::new(), "{context}");
    let shard = space.try_open(2).unwrap().0;
    expect(&shard, "a", bytes);
    expect_sound(&shard);
    let other = space.open(1);
    expect(&other, "a", bytes);
    expect_sound(&other);
    for shard in [&shard, &other] {
        shard.pool().delete_volume("a").unwrap();
    }
    for shard in [&shard, &other, &shard, &other] {
        shard.maintain().unwrap();
    }
    assert_eq!(space.left(), Vec::<String>::new(), "{context}: {:#?}", space.guards());
    lost.len()
}

/// The nodes of shard `n`: the file of each, and where it begins.
fn nodes(space: &Space, n: u8) -> Vec<(String, usize)> {
    let files = objects(&space.meta, &format!("{}.file.nodes", id(n)));
    let slots = |file: &String| 0..bytes_of(&space.meta, file).len() / SLOT;
    let of = |file: String| {
        slots(&file).map(move |slot| (file.clone(), HEADER + slot * SLOT)).collect::<Vec<_>>()
    };
    files.into_iter().flat_map(of).collect()
}

/// Damages each node of shard 2 alone, of a namespace that `make` makes. A repair that fails as `is_expected` says must
/// change no node, and once `allow` was called the repair must succeed and lose no block. Returns how often it failed.
fn expect_refused<T>(
    make: impl Fn() -> (Space, Vec<u8>, T),
    is_expected: impl Fn(&VolumeError) -> bool,
    forbid: impl Fn(&T),
    allow: impl Fn(&T),
) -> usize {
    let mut refused = 0;
    for at in 0..nodes(&make().0, 2).len() {
        let (space, bytes, by) = make();
        let (file, begin) = nodes(&space, 2).swap_remove(at);
        flip(&space.meta, &file, begin + 2000);
        let before = bytes_of(&space.meta, &file);
        forbid(&by);
        let Err(error) = try_repair(&space, 2) else { continue };
        assert!(is_expected(&error), "node {at}: {error:?}");
        assert_eq!(objects(&space.meta, "lost-"), Vec::<String>::new(), "node {at}");
        assert!(bytes_of(&space.meta, &file) == before, "node {at}");
        allow(&by);
        assert!(!repair(&space, 2).settled.is_empty(), "node {at}");
        let shard = space.open(2);
        expect(&shard, "a", &bytes);
        expect_sound(&shard);
        refused += 1;
    }
    refused
}

#[test]
fn a_container_that_another_shard_fills_yet_gives_nothing_up() {
    let make = || {
        let (space, bytes) = (Space::new(), image(1, 20));
        let first = space.add(1);
        put(&first, "a", &bytes);
        let second = space.add(2);
        put(&second, "a", &bytes);
        second.pool().checkpoint().unwrap();
        drop(second);
        (space, bytes, first)
    };
    let is_expected = |error: &VolumeError| {
        let text = error.to_string();
        matches!(error, VolumeError::NotSealed { .. }) && text.contains("not sealed yet")
    };
    let refused = expect_refused(
        make,
        is_expected,
        |_| {},
        |first| {
            first.pool().seal_open().unwrap();
        },
    );
    assert!(refused > 0, "no repair asked for the directory");
}

#[test]
fn a_pool_without_answers_gives_nothing_up() {
    let make = || {
        let is_silent = Arc::new(AtomicBool::new(false));
        let meta: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
        let fate = {
            let is_silent = Arc::clone(&is_silent);
            move |_: &str, _: Option<&Update>| match is_silent.load(Ordering::Relaxed) {
                true => Fate::Lost,
                false => Fate::Answered,
            }
        };
        let data = Arc::new(FatedRados::new(Arc::clone(&meta), fate));
        let (space, bytes) = filled(Space::over(meta, data));
        (space, bytes, is_silent)
    };
    let is_expected = |error: &VolumeError| matches!(error, VolumeError::Unanswered { .. });
    let silence =
        |to: bool| move |is_silent: &Arc<AtomicBool>| is_silent.store(to, Ordering::Relaxed);
    let refused = expect_refused(make, is_expected, silence(true), silence(false));
    assert!(refused > 0, "no repair asked for a container");
}

#[test]
fn a_lost_head_file_is_made_anew_and_a_lost_head_is_not() {
    let (space, bytes) = shared();
    let own = objects(&space.meta, &format!("{}.file.pool", id(2)));
    space.meta.update(&own[0], Update::existing().then(Step::Remove)).unwrap();
    assert!(space.try_open(2).is_err());
    assert_eq!(repair(&space, 2).settled, ["made 'pool' anew"]);
    expect(&space.open(2), "a", &bytes);
    // nor is the first batch of all
    let shard = space.add(3);
    put(&shard, "b", &image(3, 5));
    drop(shard);
    let first = objects(&space.meta, &format!("{}.segment.", id(3)));
    flip(&space.meta, &first[0], 20);
    let failed = try_repair(&space, 3);
    assert!(matches!(failed, Err(VolumeError::Damaged { .. })), "{failed:?}");
    let head = format!("{}.head", id(2));
    space.meta.update(&head, Update::existing().then(Step::Remove)).unwrap();
    let failed = try_repair(&space, 2);
    let error = failed.unwrap_err().to_string();
    assert!(error.contains(&head) && error.contains("missing"), "{error}");
}

#[test]
fn a_gateway_repairs_a_shard_that_no_other_one_has() {
    let (pool, clock) = (domain::domain(), Arc::<Moved>::default());
    let (a, b) = (node(&pool, &clock, "a"), node(&pool, &clock, "b"));
    let shard = a.create("disk");
    let shard_id = shard.id();
    assert!(write(&shard, "disk", 0, 7));
    drop(shard);
    let mut repaired = Repaired::default();
    let reached = b.gateway.reach_to_repair(shard_id, &mut repaired).unwrap();
    assert!(matches!(reached, Reached::There { .. }), "{reached:?}");
    assert_eq!(repaired, Repaired::default());
    a.gateway.give_back(shard_id).unwrap();
    let shard = a.here("disk");
    for byte in 0..5 {
        assert!(write(&shard, "disk", 1, byte));
        shard.pool().flush().unwrap();
    }
    drop(shard);
    // it dies, and its journal is damaged
    drop(a);
    let segment = objects(&pool, &format!("{shard_id}.segment.")).pop().unwrap();
    let len = bytes_of(&pool, &segment).len();
    flip(&pool, &segment, len - 10);
    for _ in 0..20 {
        clock.pass(std::time::Duration::from_secs(1));
        b.gateway.renew();
        // it cannot open the shard, and gives it back
        b.gateway.poll();
    }
    assert!(b.gateway.reach(shard_id).is_err());
    assert_eq!(owner(&pool, shard_id), Some((None, None)));
    let reached = b.gateway.reach_to_repair(shard_id, &mut repaired).unwrap();
    let Reached::Here(shard) = reached else { panic!("{reached:?}") };
    assert_eq!((repaired.settled.len(), repaired.kept.len()), (1, 1), "{repaired:?}");
    assert_eq!((read(&shard, "disk", 0), read(&shard, "disk", 1)), (Some(7), Some(3)));
}

#[test]
fn a_repair_that_fails_at_a_guard_names_the_copies_that_it_made() {
    let is_silent = Arc::new(AtomicBool::new(false));
    let plain: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    let fate = {
        let is_silent = Arc::clone(&is_silent);
        move |object: &str, _: Option<&Update>| {
            let is_lost = object.contains(".guard.") && is_silent.load(Ordering::Relaxed);
            if is_lost { Fate::Lost } else { Fate::Answered }
        }
    };
    let meta: Arc<dyn RadosPool> = Arc::new(FatedRados::new(Arc::clone(&plain), fate));
    let (space, bytes) = filled(Space::over(meta, plain));
    let shard = space.open(2);
    put(&shard, "b", &image(9, 20));
    drop(shard);
    let segment = objects(&space.meta, &format!("{}.segment.", id(2))).pop().unwrap();
    flip(&space.meta, &segment, 50);
    is_silent.store(true, Ordering::Relaxed);
    let mut done = Repaired::default();
    let of_shard = (id(2), Hash::Blake3);
    let failed = repair_shard(&space.meta, &space.data, of_shard, options(), &mut done);
    assert!(matches!(failed, Err(VolumeError::Unanswered { .. })), "{failed:?}");
    assert_eq!((done.settled.len(), done.kept.len()), (1, 1), "{done:?}");
    assert_eq!(objects(&space.meta, &done.kept[0]).len(), 1);
    // what was cut stays cut, so that only the first call could name them
    is_silent.store(false, Ordering::Relaxed);
    assert!(repair(&space, 2).kept.is_empty());
    expect(&space.open(2), "a", &bytes);
}

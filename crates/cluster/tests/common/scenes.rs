//! What shards that share containers promise, in scenes of few steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, Step, Update};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_cluster::containers::{Containers, Guards, Problem, Value, fsck};
use onefold_cluster::hints::ContainerName;
use onefold_cluster::{SharedShard, detach, detach_while, open_shard};
use onefold_volume::VolumeError;

use super::shards::{Space, expect, expect_sound, id, image, options, put};

const PAGE: usize = 4096;

fn delete(shard: &SharedShard, name: &str) {
    shard.pool().delete_volume(name).unwrap();
    shard.maintain().unwrap();
}

/// Deletes all volumes of `shards` and expects that nothing is left then.
#[track_caller]
fn expect_empty(space: &Space, shards: &[&SharedShard]) {
    for shard in shards {
        for volume in shard.pool().volumes() {
            shard.pool().delete_volume(&volume.name).unwrap();
        }
    }
    for shard in shards.iter().chain(shards) {
        shard.maintain().unwrap();
    }
    assert_eq!(space.left(), Vec::<String>::new(), "{:#?}", space.guards());
}

/// Opens shard `n` by a client whose calls on guards meet what `choose` says.
fn open_by(
    space: &Space,
    n: u8,
    choose: impl Fn(&str, Option<&Update>) -> Fate + Send + Sync + 'static,
) -> (SharedShard, Arc<FatedRados>) {
    let is_guard = |object: &str| Guards::name_of(object).is_some();
    let client = Arc::new(FatedRados::new(Arc::clone(&space.meta), move |object, update| {
        if is_guard(object) { choose(object, update) } else { Fate::Answered }
    }));
    let (meta, hints) = (Arc::clone(&client) as _, Arc::clone(&space.hints) as _);
    let (shard, damage) = open_shard(&meta, &space.data, id(n), hints, options()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    (shard, client)
}

fn is_registration(update: Option<&Update>) -> bool {
    update.is_some_and(|update| {
        let steps = update.steps();
        steps[0] != Step::Create && steps.iter().any(|step| matches!(step, Step::SetOmap(_)))
    })
}

fn is_drop(update: Option<&Update>) -> bool {
    update
        .is_some_and(|update| update.steps().iter().any(|step| matches!(step, Step::RemoveOmap(_))))
}

/// Equal images of three shards are stored once, whoever opens them later; two may go, and with the last one
/// all space comes back.
pub(crate) fn equal_images_are_stored_once() {
    for is_coded in [false, true] {
        let make = || match is_coded {
            false => Space::new(),
            true => Space::over(
                Arc::new(MemoryRados::replicated()),
                Arc::new(MemoryRados::erasure_coded()),
            ),
        };
        let bytes = image(1, 600);
        let alone = make();
        put(&alone.add(1), "a", &bytes);
        let space = make();
        let shards = [1, 2, 3].map(|n| space.add(n));
        for shard in &shards {
            put(shard, "a", &bytes);
        }
        assert!(space.hints.len() >= 600);
        let (found, expected) = (space.stored(), alone.stored());
        assert!(found as f64 <= 1.02 * expected as f64, "{found} bytes, {expected} in one pool");
        for shard in &shards {
            expect(shard, "a", &bytes);
            expect_sound(shard);
        }
        // as every successor finds it, from batches and from checkpoints
        drop(shards);
        let shards = [1, 2, 3].map(|n| space.open(n));
        for shard in &shards {
            expect(shard, "a", &bytes);
            expect_sound(shard);
            shard.pool().checkpoint().unwrap();
        }
        drop(shards);
        let shards = [1, 2, 3].map(|n| space.open(n));
        delete(&shards[0], "a");
        delete(&shards[1], "a");
        expect(&shards[2], "a", &bytes);
        expect_sound(&shards[2]);
        delete(&shards[2], "a");
        assert_eq!(space.left(), Vec::<String>::new(), "{:#?}", space.guards());
    }
}

/// A page in a container that takes no registrations any more is stored anew.
pub(crate) fn a_closing_container_is_not_adopted() {
    let space = Space::new();
    let (first, second) = (space.add(1), space.add(2));
    let bytes = image(1, 150);
    put(&first, "a", &bytes);
    for object in space.left() {
        if let Some(name) = Guards::name_of(&object) {
            Guards::new(Arc::clone(&space.meta), id(1)).close(&name).unwrap();
        }
    }
    put(&second, "a", &bytes);
    delete(&first, "a");
    expect(&second, "a", &bytes);
    expect_sound(&second);
    expect_empty(&space, &[&first, &second]);
}

/// A page in a container whose registration gets no answer is stored anew.
pub(crate) fn an_unanswered_registration_is_not_used() {
    let space = Space::new();
    let first = space.add(1);
    let bytes = image(1, 150);
    put(&first, "a", &bytes);
    drop(space.add(2));
    let (second, _client) = open_by(&space, 2, |_, update| match is_registration(update) {
        true => Fate::Lost,
        false => Fate::Answered,
    });
    put(&second, "a", &bytes);
    delete(&first, "a");
    expect(&second, "a", &bytes);
    expect_sound(&second);
    expect_empty(&space, &[&first, &second]);
}

/// A registration that arrives after it was given up pins nothing once it is swept.
pub(crate) fn a_late_registration_is_swept() {
    let space = Space::new();
    let first = space.add(1);
    let bytes = image(1, 150);
    put(&first, "a", &bytes);
    drop(space.add(2));
    let count = Mutex::new(0);
    let (second, client) = open_by(&space, 2, move |_, update| {
        if !is_registration(update) {
            return Fate::Answered;
        }
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count == 1 { Fate::Late } else { Fate::Lost }
    });
    put(&second, "a", &bytes);
    second.maintain().unwrap();
    client.deliver(0).unwrap();
    expect_empty(&space, &[&first, &second]);
}

/// A check of the namespace names what is leaked, and a repair takes it away and nothing else.
pub(crate) fn leaks_are_found_and_repaired() {
    let space = Space::new();
    let (first, second) = (space.add(1), space.add(2));
    let bytes = image(1, 150);
    put(&first, "a", &bytes);
    put(&second, "a", &bytes);
    let check = |repair| fsck(&[&first, &second], repair).unwrap();
    assert_eq!(check(false).problems, []);
    // a late registration of each of two shards, one of which does not exist; a late guard and a late
    // container
    let names: Vec<_> = space.left().iter().filter_map(|name| Guards::name_of(name)).collect();
    let guards = |n| Guards::new(Arc::clone(&space.meta), id(n));
    let containers = Containers::new(Arc::clone(&space.data));
    let value = Value { writer: 1, number: 77 };
    guards(9).register(&names[0], value).unwrap();
    let late = |number| ContainerName { number, ..names[0] };
    guards(1).create(&late(1000), value).unwrap();
    containers.create(&late(1001)).unwrap();
    let found = check(false);
    let expected = [
        Problem::NoShard { container: names[0], shard: id(9), value },
        Problem::LeakedRegistration { container: late(1000), shard: id(1), value },
        Problem::Unused { container: late(1001) },
    ];
    assert_eq!(found.problems, expected);
    // a shard that is not open here is not asked
    assert!(fsck(&[&first], false).unwrap().unasked > 0);
    assert_eq!(check(true).repaired, 3);
    assert_eq!(check(false).problems, []);
    // what is lost is named, and stays
    containers.remove(&names[0]).unwrap();
    assert_eq!(check(true).problems, [Problem::Missing { container: names[0] }]);
    let used = guards(1).read(&names[0]).unwrap().unwrap();
    guards(1).drop(&names[0], used.users[&id(1)]).unwrap();
    let unprotected = Problem::Unprotected { container: names[0], shard: id(1) };
    assert!(check(true).problems.contains(&unprotected));
}

/// A gateway that lost a shard takes no registration of its successor for a leak.
pub(crate) fn a_superseded_gateway_repairs_nothing_of_its_successor() {
    let space = Space::new();
    let old = space.add(1);
    put(&old, "a", &image(1, 150));
    old.pool().seal_open().unwrap();
    let new = space.open(1);
    put(&new, "b", &image(2, 150));
    let checked = fsck(&[&old], true).unwrap();
    assert_eq!((checked.problems, checked.repaired), (vec![], 0));
    assert!(checked.unasked > 0);
    expect_sound(&new);
    assert_eq!(fsck(&[&new], false).unwrap().problems, []);
}

/// A copy to another shard that is stopped leaves no volume there.
pub(crate) fn a_detached_clone_that_is_stopped_is_not_there() {
    let space = Space::new();
    let (first, second) = (space.add(1), space.add(2));
    put(&first, "a", &image(1, 150));
    first.pool().clone_volume("a", "s", true).unwrap();
    let stopped = detach_while(&first, "s", &second, "b", &|| false).unwrap_err();
    assert!(matches!(stopped, VolumeError::Stopped { .. }), "{stopped}");
    assert!(second.pool().volumes().is_empty());
}

/// What a shard that was removed with its head left is swept by another one.
pub(crate) fn a_removed_shard_leaves_nothing() {
    let space = Space::new();
    let (first, second) = (space.add(1), space.add(2));
    let bytes = image(1, 150);
    put(&first, "a", &bytes);
    put(&second, "a", &bytes);
    put(&second, "b", &image(2, 150));
    second.maintain().unwrap();
    drop(second);
    let remove = |object: &str| {
        let removal = Update::existing().then(Step::Remove);
        space.meta.update(object, removal).unwrap();
    };
    assert!(space.has(&format!("{}.live", id(2))));
    remove(&format!("{}.head", id(2)));
    first.sweep().unwrap();
    assert!(!space.has(&format!("{}.live", id(2))));
    expect(&first, "a", &bytes);
    expect_sound(&first);
    expect_empty(&space, &[&first]);
}

/// A clone in another shard stores no page again, and outlives what it was made of.
pub(crate) fn a_detached_clone_stores_nothing_again() {
    let space = Space::new();
    let (first, second) = (space.add(1), space.add(2));
    let mut bytes = image(1, 150);
    put(&first, "a", &bytes);
    first.pool().create_volume("holes", 1 << 30, BlockSize::B4096).unwrap();
    assert!(detach(&first, "a", &second, "b").is_err());
    assert!(second.pool().volumes().is_empty());
    first.pool().clone_volume("a", "s", true).unwrap();
    first.pool().seal_open().unwrap();
    let before = space.stored();
    assert_eq!(detach(&first, "s", &second, "b").unwrap(), 0);
    assert_eq!(space.stored(), before);
    expect(&second, "b", &bytes);
    expect_sound(&second);
    // and back, where the pages are in containers of the target
    second.pool().clone_volume("b", "s", true).unwrap();
    assert_eq!(detach(&second, "s", &first, "c").unwrap(), 0);
    assert_eq!(space.stored(), before);
    expect(&first, "c", &bytes);
    delete(&second, "s");
    delete(&first, "c");
    // each has its own from here on
    for (shard, name) in [(&first, "a"), (&second, "b")] {
        let volume = shard.pool().volume(name).unwrap();
        volume.write(0, &image(u64::from(name == "a"), 3), Durability::OnReturn).unwrap();
    }
    bytes[..3 * PAGE].copy_from_slice(&image(0, 3));
    drop(second);
    let second = space.open(2);
    expect(&second, "b", &bytes);
    delete(&first, "a");
    delete(&first, "s");
    expect(&second, "b", &bytes);
    expect_sound(&second);
    expect_empty(&space, &[&first, &second]);
}

/// A drop that a crashed gateway announced, and that arrives late, takes nothing from its successor.
pub(crate) fn a_late_drop_takes_nothing_from_the_successor() {
    let space = Space::new();
    let first = space.add(1);
    let bytes = image(1, 150);
    put(&first, "a", &bytes);
    drop(space.add(2));
    let is_cut_off = Arc::new(AtomicBool::new(false));
    let cut_off = Arc::clone(&is_cut_off);
    let (second, client) = open_by(&space, 2, move |_, update| match update {
        _ if !cut_off.load(Ordering::SeqCst) => Fate::Answered,
        update if is_drop(update) => Fate::Late,
        _ => Fate::Lost,
    });
    put(&second, "a", &bytes);
    is_cut_off.store(true, Ordering::SeqCst);
    // announced by this flush; the drops themselves get no answer
    second.pool().volume("a").unwrap().erase(0..bytes.len() as u64, Durability::OnReturn).unwrap();
    drop(second);
    assert!(client.undelivered() > 0);
    let second = space.open(2);
    let volume = second.pool().volume("a").unwrap();
    volume.write(0, &bytes, Durability::OnReturn).unwrap();
    while client.undelivered() > 0 {
        let _ = client.deliver(0);
    }
    delete(&first, "a");
    expect(&second, "a", &bytes);
    expect_sound(&second);
    expect_empty(&space, &[&first, &second]);
}

/// A sweep drops no registration that begins while it reads.
pub(crate) fn a_sweep_leaves_what_begins_meanwhile() {
    leaves_what_begins_meanwhile(|shard, _| {
        shard.sweep().unwrap();
    });
}

/// Nor does one of some containers, in a shard that was opened for them.
pub(crate) fn tending_leaves_what_begins_meanwhile() {
    leaves_what_begins_meanwhile(|shard, names| {
        shard.tend(names, &|| true).unwrap();
    });
}

fn leaves_what_begins_meanwhile(sweep: impl Fn(&SharedShard, &[ContainerName])) {
    let space = Space::new();
    let first = space.add(1);
    let bytes = image(1, 150);
    put(&first, "a", &bytes);
    drop(space.add(2));
    // what a guard's reader does before it reads, once
    let meanwhile: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::default();
    let (is_armed, before) = (Arc::new(AtomicBool::new(false)), Arc::clone(&meanwhile));
    let armed = Arc::clone(&is_armed);
    let (second, _client) = open_by(&space, 2, move |_, update| {
        if update.is_none() && armed.swap(false, Ordering::SeqCst) {
            before.get().expect("it is set before")();
        }
        Fate::Answered
    });
    second.pool().create_volume("a", bytes.len() as u64, BlockSize::B4096).unwrap();
    let volume = Arc::new(second.pool().volume("a").unwrap());
    let written = (Arc::clone(&volume), bytes.clone());
    let set = meanwhile.set(Box::new(move || {
        written.0.write(0, &written.1, Durability::OnReturn).unwrap();
    }));
    assert!(set.is_ok());
    let names: Vec<_> = space.left().iter().filter_map(|name| Guards::name_of(name)).collect();
    is_armed.store(true, Ordering::SeqCst);
    sweep(&second, &names);
    drop(volume);
    expect(&second, "a", &bytes);
    delete(&first, "a");
    expect(&second, "a", &bytes);
    expect_sound(&second);
}

/// Hints that are wrong, late or lead nowhere cost space alone.
pub(crate) fn wrong_hints_cost_space_alone() {
    for kind in 0..6 {
        let space = Space::new();
        let first = space.add(1);
        let bytes = image(1, 200);
        put(&first, "a", &bytes);
        let mut last = None;
        space.hints.spoil(|hint| match kind {
            0 => hint.offset += 1,
            1 => hint.container.number += 1,
            2 => hint.check ^= 1,
            3 => hint.stored_len += 1,
            4 => hint.offset = u32::MAX,
            // a hint of another page
            _ => std::mem::swap(hint, last.get_or_insert(*hint)),
        });
        let second = space.add(2);
        put(&second, "a", &bytes);
        expect(&second, "a", &bytes);
        expect_sound(&second);
        delete(&first, "a");
        expect(&second, "a", &bytes);
        // and those of containers that are gone
        let third = space.add(3);
        put(&third, "a", &bytes);
        expect(&third, "a", &bytes);
        expect_sound(&third);
        expect_empty(&space, &[&first, &second, &third]);
    }
}

/// Containers of which little is used are closed, and what is left is stored once again.
pub(crate) fn sparse_containers_are_closed_and_their_pages_stay_shared() {
    let space = Space::new();
    let shards = [1, 2, 3].map(|n| space.add(n));
    let mut bytes = image(1, 600);
    for shard in &shards {
        put(shard, "a", &bytes);
    }
    let before = space.stored();
    for from in (0..600).step_by(10) {
        let range = from * PAGE..(from + 9) * PAGE;
        for shard in &shards {
            let volume = shard.pool().volume("a").unwrap();
            let range = range.start as u64..range.end as u64;
            volume.erase(range, Durability::OnReturn).unwrap();
        }
        bytes[range].fill(0);
    }
    for shard in &shards {
        shard.maintain().unwrap();
    }
    let closed = shards[0].close_sparse(0.2).unwrap();
    assert!(closed.closed > 0, "{closed:?}");
    for shard in shards.iter().chain(&shards) {
        shard.maintain().unwrap();
    }
    let after = space.stored();
    assert!(after as f64 <= 0.2 * before as f64, "{after} of {before} bytes are left");
    for shard in &shards {
        expect(shard, "a", &bytes);
        expect_sound(shard);
    }
    let closed = shards[0].close_sparse(0.2).unwrap();
    let unused = closed.bytes - closed.live_bytes;
    assert!(unused as f64 <= 0.2 * closed.bytes as f64 || closed.closed > 0, "{closed:?}");
    expect_empty(&space, &[&shards[0], &shards[1], &shards[2]]);
}

/// All of them.
#[allow(dead_code, reason = "not in every test")]
pub(crate) fn all() {
    a_closing_container_is_not_adopted();
    an_unanswered_registration_is_not_used();
    a_late_registration_is_swept();
    a_late_drop_takes_nothing_from_the_successor();
    a_sweep_leaves_what_begins_meanwhile();
    tending_leaves_what_begins_meanwhile();
    wrong_hints_cost_space_alone();
}

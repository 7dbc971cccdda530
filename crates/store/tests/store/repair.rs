//! A repair keeps what can be kept, says what was lost, and makes nothing worse.

use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{MemoryObjects, Objects, Operation};
use onefold_container::{Content, Directory, container_id};
use onefold_fingerprint::Fingerprint;
use onefold_store::repair::TAG;
use onefold_store::{Progress, StoreError};
use onefold_testkit::random;
use tempfile::tempdir;

use crate::common::picture::Picture;
use crate::common::repaired::{Damaged, flip, repair, repair_at};
use crate::common::trials::Trial;
use crate::common::{
    Protection, back_up, chain, checked, config, copy, in_memory, init, names, open, options,
    replace, restored, small_chunks, try_back_up, write,
};

#[test]
fn a_repair_cut_anywhere_makes_nothing_worse_and_is_finished_by_the_next() {
    let count = Damaged::new(Protection::Plain).cut_power_everywhere(2).unwrap();
    println!("a repair: {count}");
    assert!(count.operations > 60 && count.states > count.operations, "{count}");
}

#[test]
fn a_repair_of_which_any_call_fails_makes_nothing_worse() {
    let count = Damaged::new(Protection::Plain).fail_every(&Fault::new(Failure::Io)).unwrap();
    println!("a repair whose calls fail: {count}");
    assert!(count.operations > 30, "{count}");
}

#[test]
fn what_can_be_kept_is_kept_and_what_was_lost_is_named() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let scene = Damaged::new(protection);
        let objects = copy(&*scene.before);
        let report = repair_at(Arc::clone(&objects)).unwrap();
        assert_eq!(report.condemned.len(), 2, "one by a group, one by its footer");
        assert!(report.saved_chunks > 0 && report.lost_chunks > 0, "{report:?}");
        assert_eq!((report.deleted_runs.len(), report.receipts.len()), (1, 1));
        let repository = open(&objects);
        for (id, snapshot) in repository.snapshots().unwrap().0 {
            if scene.ids.contains(&id) {
                continue;
            }
            let old = snapshot.parent.unwrap();
            let (_, before) = repository.find(&old.to_string().parse().unwrap()).unwrap();
            assert!(snapshot.tags.contains(&TAG.to_owned()));
            assert_eq!(
                (snapshot.time, &snapshot.host, &snapshot.paths),
                (before.time, &before.host, &before.paths)
            );
            let lost = scene.lost(old).len() as u64;
            assert_eq!(snapshot.summary.files, before.summary.files - lost);
            assert_eq!(snapshot.summary.directories, before.summary.directories);
            assert_eq!(snapshot.summary.others, before.summary.others);
            assert_eq!(snapshot.summary.unreadable, lost);
        }
        // Wrong is only that the old snapshots miss something.
        let after = checked(&repository).unwrap();
        let ids = scene.ids.map(|id| id.to_string());
        let is_of_old = |object: &str| ids.iter().any(|id| object.contains(&id[..]));
        assert!(after.findings.iter().all(|found| is_of_old(&found.object)), "{after:?}");
        scene.expect_repaired(&objects, &report).unwrap();
    }
}

#[test]
fn a_backup_after_a_repair_heals_the_old_snapshots() {
    let scene = Damaged::new(Protection::Plain);
    let objects = copy(&*scene.before);
    repair_at(Arc::clone(&objects)).unwrap();
    let source = [scene.source()];
    let options = onefold_store::backup::Options { force: true, ..options() };
    let backed_up = try_back_up(&open(&objects), &source, &options, &Progress::default());
    let (_, snapshot) = backed_up.unwrap();
    let picture = Picture::of(scene.source());
    restored(&open(&objects), &snapshot).unwrap().expect(&picture).unwrap();
    let repository = open(&objects);
    let (_, second) = repository.find(&scene.ids[1].to_string().parse().unwrap()).unwrap();
    restored(&repository, &second).unwrap().expect(&picture).unwrap();
}

#[test]
fn nothing_is_done_where_nothing_is_wrong() {
    let source = tempdir().unwrap();
    write(source.path().join("file"), random(1, 100_000));
    let (objects, repository) = in_memory(small_chunks());
    back_up(&repository, source.path());
    let before = names(&*objects, "");
    let report = repair_at(Arc::clone(&objects)).unwrap();
    assert!(!report.is_loss() && report.check.findings.is_empty(), "{report:?}");
    assert_eq!(names(&*objects, ""), before);
}

#[test]
fn a_second_repair_does_not_rewrite_again() {
    let scene = Damaged::new(Protection::Plain);
    let objects = copy(&*scene.before);
    let first = repair_at(Arc::clone(&objects)).unwrap();
    let there = names(&*objects, "snapshots/");
    let second = repair_at(Arc::clone(&objects)).unwrap();
    assert_eq!(names(&*objects, "snapshots/"), there);
    assert!(second.condemned.is_empty() && second.deleted_runs.is_empty());
    for one in &second.snapshots {
        assert!(one.is_from_before);
        let before = first.snapshots.iter().find(|before| before.old == one.old).unwrap();
        assert_eq!(one.new, before.new);
    }
}

#[test]
fn a_lost_tree_takes_what_was_below_it_along_and_nothing_else() {
    let source = tempdir().unwrap();
    write(source.path().join("kept/file"), random(1, 5000));
    let (objects, repository) = in_memory(small_chunks());
    back_up(&repository, source.path());
    let before = names(&*objects, "containers/");
    for number in 0..3 {
        write(source.path().join(format!("lost/{number}")), random(2, 5000));
    }
    let (id, _) = back_up(&open(&objects), source.path());
    // All that the second backup stored but its root's tree, which no small file can be kept with.
    let new: Vec<_> =
        names(&*objects, "containers/").into_iter().filter(|name| !before.contains(name)).collect();
    let damaged = copy(&*objects);
    for name in &new {
        damaged.delete(name).unwrap();
    }
    let report = repair_at(Arc::clone(&damaged)).unwrap();
    // The root itself was lost: nothing could be kept of it, and that is said.
    let [one] = &report.snapshots[..] else { panic!("{report:?}") };
    assert_eq!((one.old, one.new, &one.lost[..]), (id, None, &[Vec::new()][..]));
}

#[test]
fn what_cannot_be_reached_is_not_taken_for_damaged() {
    let source = tempdir().unwrap();
    write(source.path().join("file"), random(1, 100_000));
    let (objects, repository) = in_memory(small_chunks());
    back_up(&repository, source.path());
    let before = names(&*objects, "");
    for name in names(&*objects, "containers/") {
        let faults = Faults::none();
        let faulty = Faulty::new(Arc::clone(&objects), "memory", &faults);
        faults.add(Fault::new(Failure::Io).on(Operation::Get).named(&name).times(u64::MAX));
        let error = repair_at(Arc::new(faulty)).unwrap_err();
        assert!(matches!(error, StoreError::Backend(_) | StoreError::Container(_)), "{error}");
        assert_eq!(names(&*objects, ""), before);
    }
}

#[test]
fn a_repair_that_cannot_tell_of_a_snapshot_stops_half_way_and_the_next_tells_of_it() {
    let scene = Damaged::new(Protection::Plain);
    for prefix in ["receipts/", "logs/"] {
        let objects = copy(&*scene.before);
        let faults = Faults::none();
        let faulty = Faulty::new(Arc::clone(&objects), "memory", &faults);
        faults.add(Fault::new(Failure::Io).on(Operation::Put).named(prefix).times(u64::MAX));
        let error = repair_at(Arc::new(faulty)).unwrap_err();
        let StoreError::HalfWay { source } = &error else { panic!("{error}") };
        assert!(matches!(**source, StoreError::Unacknowledged { .. }), "{source}");
        assert_eq!(names(&*objects, "snapshots/").len(), 3, "one of two was made");
        let report = repair_at(Arc::clone(&objects)).unwrap();
        let told = report.snapshots.iter().map(|one| one.is_from_before).collect::<Vec<_>>();
        assert_eq!(told.iter().filter(|is_from_before| **is_from_before).count(), 1, "{told:?}");
        assert_eq!(names(&*objects, "receipts/").len(), 4);
        let notes = checked(&open(&objects)).unwrap().notes;
        for new in report.snapshots.iter().map(|one| one.new.unwrap().to_string()) {
            assert!(!notes.iter().any(|note| note.contains(&new)), "{notes:?}");
        }
        scene.expect_repaired(&objects, &report).unwrap();
    }
}

#[test]
fn groups_are_saved_in_order_whoever_reads_them() {
    let source = tempdir().unwrap();
    // Groups of a mebibyte at most, so a dozen at least.
    for number in 0..12 {
        write(source.path().join(format!("{number}")), random(number, 800_000));
    }
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository =
        init(Arc::clone(&objects), config(16 << 10, 64 << 10, 256 << 10), Protection::Plain);
    let whole = onefold_store::backup::Options { container_len: 16 << 20, ..options() };
    let sources = [source.path()];
    try_back_up(&repository.unwrap(), &sources, &whole, &Progress::default()).unwrap();
    let name = largest(&*objects);
    let envelope = crate::common::envelope(&*objects, open(&objects).id());
    let directory = {
        let object = objects.get(&name).unwrap();
        Directory::of_object(&envelope, container_id(&name).unwrap(), &object).unwrap()
    };
    assert!(directory.groups.len() >= 10, "{} groups", directory.groups.len());
    let lost = [2, 7];
    for group in lost {
        flip(&*objects, &name, directory.groups[group].offset as usize + 50);
    }
    let found = checked(&open(&objects)).unwrap().findings;
    let at = |group: usize| format!("group {group} ");
    let of_it: Vec<_> = found.iter().filter(|one| one.object == name).collect();
    assert_eq!(of_it.len(), 2, "{found:?}");
    for (finding, group) in of_it.iter().zip(lost) {
        assert!(finding.problem.contains(&at(group)), "{finding}");
    }
    let report = repair_at(Arc::clone(&objects)).unwrap();
    let in_lost = |group: u32| lost.contains(&(group as usize));
    let expected: Vec<_> = directory.chunks.iter().filter(|chunk| !in_lost(chunk.group)).collect();
    assert_eq!(report.saved_chunks, expected.len() as u64);
    assert_eq!(report.lost_chunks, (directory.chunks.len() - expected.len()) as u64);
    // The new containers have them one behind the other as the damaged one had.
    let new = names(&*objects, "containers/");
    let of_new = new.iter().filter(|other| **other != name).map(|name| {
        let object = objects.get(name).unwrap();
        Directory::of_object(&envelope, container_id(name).unwrap(), &object).unwrap()
    });
    let mut of_new: Vec<_> =
        of_new.filter(|directory| directory.content == Content::Data).collect();
    let place = |fingerprint: &Fingerprint| {
        expected.iter().position(|chunk| chunk.fingerprint == *fingerprint)
    };
    of_new.sort_by_key(|directory| place(&directory.chunks[0].fingerprint));
    let saved: Vec<_> =
        of_new.iter().flat_map(|one| &one.chunks).map(|one| one.fingerprint).collect();
    assert_eq!(saved, expected.iter().map(|one| one.fingerprint).collect::<Vec<_>>());
}

fn largest(objects: &dyn Objects) -> String {
    let all = objects.list("containers/").unwrap();
    all.into_iter().max_by_key(|info| info.size).unwrap().name
}

#[test]
fn a_damaged_mark_stops_a_repair() {
    let scene = Damaged::new(Protection::Plain);
    let objects = copy(&*scene.before);
    repair_at(Arc::clone(&objects)).unwrap();
    let mark = names(&*objects, "marks/").remove(0);
    flip(&*objects, &mark, 60);
    let before = names(&*objects, "");
    assert!(matches!(repair_at(Arc::clone(&objects)), Err(StoreError::DamagedMark { .. })));
    assert_eq!(names(&*objects, ""), before);
    replace(&*objects, &mark, Vec::new());
}

#[test]
fn what_was_sealed_in_an_epoch_that_began_meanwhile_is_not_taken_for_damaged() {
    let source = tempdir().unwrap();
    write(source.path().join("file"), random(1, 100_000));
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let old = init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
    old.rotate().unwrap();
    back_up(&open(&objects), source.path());
    let before = names(&*objects, "");
    let error = repair(&old).unwrap_err();
    assert!(chain(&error).contains("key epoch 1"), "{error}");
    assert_eq!(names(&*objects, ""), before);
    assert!(!repair(&open(&objects)).unwrap().is_loss());
}

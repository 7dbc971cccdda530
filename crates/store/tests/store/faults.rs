//! Storage that fails: every call once, with each kind of backup and restore around it.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{LocalObjects, MemoryObjects, Objects, Operation};
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Unused};
use onefold_store::{
    Cancel, KeyRemark, Progress, Repository, Snapshot, StoreError, backup, forget, restore,
};
use onefold_testkit::{random, skip, text};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::common::hang::expect_end;
use crate::common::picture::Picture;
use crate::common::{
    CHEAP, Protection, back_up, chain, checked, copy, expect_clean, in_memory, init, open, options,
    password, restored, small_chunks, try_back_up, try_open, try_restore, write,
};

/// A repository with one snapshot, and the source changed since.
struct Scene {
    source: TempDir,
    before: Arc<dyn Objects>,
    first: (ObjectId, Snapshot),
    first_picture: Picture,
    picture: Picture,
}

impl Scene {
    fn new() -> Arc<Self> {
        let source = tempfile::tempdir().unwrap();
        let root = source.path();
        for number in 0..20 {
            write(root.join(format!("a/{number}")), text(number, 5000));
        }
        write(root.join("large"), random(1, 400_000));
        let (before, repository) = in_memory(small_chunks());
        let first = back_up(&repository, root);
        let first_picture = Picture::of(root);
        write(root.join("large"), [random(2, 600_000), random(1, 400_000)].concat());
        write(root.join("b/new"), text(99, 9000));
        let picture = Picture::of(root);
        Arc::new(Self { source, before, first, first_picture, picture })
    }

    /// Opens the repository in `objects` and backs the source up.
    fn back_up(
        &self,
        objects: Arc<dyn Objects>,
        threads: usize,
    ) -> Result<(ObjectId, Snapshot), StoreError> {
        let options = backup::Options { threads: NonZero::new(threads), ..options() };
        let repository = Repository::open(objects)?;
        try_back_up(&repository, &[self.source.path()], &options, &Progress::default())
    }

    /// Holds the repository against what was acknowledged: only that is there, whole.
    fn expect_only(&self, objects: &Arc<dyn Objects>, second: Option<ObjectId>) {
        let repository = open(objects);
        expect_clean(&repository).unwrap();
        let (snapshots, damaged) = repository.snapshots().unwrap();
        assert!(damaged.is_empty());
        let ids: Vec<_> = snapshots.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [Some(self.first.0), second].into_iter().flatten().collect::<Vec<_>>());
        for (id, snapshot) in &snapshots {
            let expected = if Some(*id) == second { &self.picture } else { &self.first_picture };
            restored(&repository, snapshot).unwrap().expect(expected).unwrap();
        }
    }
}

/// The objects of `scene`, and faults that make its calls fail.
fn faulty(scene: &Scene) -> (Arc<dyn Objects>, Arc<dyn Objects>, Faults) {
    let faults = Faults::none();
    let memory = copy(&scene.before);
    let objects = Arc::new(Faulty::new(Arc::clone(&memory), "memory", &faults));
    (memory, objects, faults)
}

/// Lets the backup's calls of one kind fail, one after the other. How many there are.
fn each_call_fails_once(operation: Operation, threads: usize) -> u64 {
    let scene = Scene::new();
    for call in 0.. {
        let (memory, objects, faults) = faulty(&scene);
        faults.add(Fault::new(Failure::Io).on(operation).skip(call));
        let what = format!("backup with {threads} threads, {operation} {call} failing");
        let of_thread = (Arc::clone(&scene), Arc::clone(&objects));
        let done = expect_end(&what, move || of_thread.0.back_up(of_thread.1, threads));
        if faults.failed() == 0 {
            done.unwrap();
            return call;
        }
        match done {
            Ok((id, _)) => {
                // What is only read may be done without: then more is read from the source.
                assert_eq!(operation, Operation::Get, "{what} went unnoticed");
                scene.expect_only(&memory, Some(id));
            }
            Err(error) => {
                let said = chain(&error);
                assert!(said.contains("injected") && !said.contains("stopped"), "{what}: {said}");
                // Receipt and log entry are put after the snapshot: if only they fail, the snapshot is
                // there and whole, though nobody was told.
                let (mut snapshots, _) = open(&memory).snapshots().unwrap();
                let newest = snapshots.pop().map(|(id, _)| id).filter(|id| *id != scene.first.0);
                if newest.is_some() {
                    let is_later = said.contains("receipts/") || said.contains("logs/");
                    assert!(is_later, "{what}: {said}");
                }
                let told = match &error {
                    StoreError::Unacknowledged { snapshot, .. } => Some(*snapshot),
                    _ => None,
                };
                assert_eq!(told, newest, "{what}: {said}");
                scene.expect_only(&memory, newest);
            }
        }
        let (_, again) = scene.back_up(Arc::clone(&memory), threads).unwrap();
        let repository = open(&memory);
        expect_clean(&repository).unwrap();
        restored(&repository, &again).unwrap().expect(&scene.picture).unwrap();
    }
    unreachable!("a backup ends")
}

#[test]
fn a_put_that_fails_makes_the_backup_fail_and_the_next_one_work() {
    for threads in [1, 4] {
        let puts = each_call_fails_once(Operation::Put, threads);
        println!("{threads} threads: {puts} puts");
        assert!(puts >= 5);
    }
}

#[test]
fn a_get_that_fails_costs_time_or_the_backup_and_never_data() {
    for threads in [1, 4] {
        let gets = each_call_fails_once(Operation::Get, threads);
        println!("{threads} threads: {gets} gets");
        assert!(gets >= 3);
    }
}

#[test]
fn a_listing_that_fails_makes_the_backup_fail() {
    let lists = each_call_fails_once(Operation::List, 2);
    assert!(lists >= 3);
}

#[test]
fn errors_of_puts_name_the_object() {
    let scene = Scene::new();
    for kind in ["containers/", "index/", "snapshots/", "receipts/"] {
        let (_, objects, faults) = faulty(&scene);
        faults.add(Fault::new(Failure::Io).on(Operation::Put).named(kind));
        let error = scene.back_up(objects, 2).unwrap_err();
        let said = chain(&error);
        assert!(said.contains(kind), "{kind}: {said}");
    }
}

#[test]
fn a_backup_whose_storage_fills_up_says_so_and_keeps_what_was() {
    let scene = Scene::new();
    let whole = faulty(&scene);
    scene.back_up(whole.1, 1).unwrap();
    for put in 0..whole.2.count(Operation::Put) {
        let (memory, objects, faults) = faulty(&scene);
        faults.add(Fault::new(Failure::Full).on(Operation::Put).skip(put).times(u64::MAX));
        let error = scene.back_up(objects, 2).unwrap_err();
        assert!(error.is_full(), "put {put}: {}", chain(&error));
        let (snapshots, _) = open(&memory).snapshots().unwrap();
        let first = snapshots.into_iter().find(|(id, _)| *id == scene.first.0).unwrap();
        restored(&open(&memory), &first.1).unwrap().expect(&scene.first_picture).unwrap();
        expect_clean(&open(&memory)).unwrap();
    }
}

#[test]
fn a_put_whose_answer_is_lost_fails_the_backup_and_leaves_it_whole() {
    let scene = Scene::new();
    let whole = faulty(&scene);
    scene.back_up(whole.1, 1).unwrap();
    for put in 0..whole.2.count(Operation::Put) {
        let (memory, objects, faults) = faulty(&scene);
        faults.add(Fault::new(Failure::Timeout).on(Operation::Put).skip(put).answer_lost());
        let error = scene.back_up(objects, 1).unwrap_err();
        assert!(chain(&error).contains("injected"), "put {put}");
        expect_clean(&open(&memory)).unwrap();
        let (id, next) = scene.back_up(Arc::clone(&memory), 1).unwrap();
        expect_clean(&open(&memory)).unwrap();
        restored(&open(&memory), &next)
            .and_then(|restored| restored.expect(&scene.picture))
            .unwrap_or_else(|broken| panic!("put {put}, snapshot {id}: {broken}"));
    }
}

#[test]
fn the_next_backup_through_the_same_handle_stores_what_the_failed_one_did_not() {
    let scene = Scene::new();
    for put in 0..2 {
        let (memory, objects, faults) = faulty(&scene);
        let repository = open(&objects);
        faults.add(Fault::new(Failure::Io).on(Operation::Put).named("containers/").skip(put));
        let again =
            || try_back_up(&repository, &[scene.source.path()], &options(), &Progress::default());
        again().unwrap_err();
        let (id, _) = again().unwrap();
        scene.expect_only(&memory, Some(id));
    }
}

#[test]
fn a_read_that_fails_loses_files_of_a_restore_never_bytes() {
    let scene = Scene::new();
    for threads in [1, 4] {
        for call in 0.. {
            let (_, objects, faults) = faulty(&scene);
            faults.add(Fault::new(Failure::Io).on(Operation::Get).skip(call));
            let snapshot = scene.first.1.clone();
            let restored = expect_end("a restore", move || {
                let options =
                    restore::Options { threads: NonZero::new(threads), ..Default::default() };
                let repository = Repository::open(objects)?;
                try_restore(&repository, &snapshot, &options)
            });
            let has_failed = faults.failed() > 0;
            match restored {
                Err(error) => assert!(chain(&error).contains("injected"), "{}", chain(&error)),
                Ok(restored) => {
                    let found = Picture::of(restored.folder.path());
                    found.expect_no_other_bytes(&scene.first_picture).unwrap();
                    assert!(no_temporaries(restored.folder.path()));
                    if restored.report.failed == 0 {
                        found.expect(&scene.first_picture).unwrap();
                    } else {
                        assert!(has_failed && !restored.issues.is_empty());
                        assert!(restored.issues.iter().all(|issue| issue.contains("injected")));
                    }
                }
            }
            if !has_failed {
                assert!(call > 3, "{call} reads");
                break;
            }
        }
    }
}

fn no_temporaries(folder: &Path) -> bool {
    Picture::of(folder).paths().all(|path| !path.to_string_lossy().contains(".onefold-restore"))
}

#[test]
fn a_check_whose_reads_fail_finds_or_fails_and_never_calls_it_clean() {
    let scene = Scene::new();
    for call in 0.. {
        let (_, objects, faults) = faulty(&scene);
        let Ok(repository) = Repository::open(objects) else { unreachable!("no faults yet") };
        faults.add(Fault::new(Failure::Io).on(Operation::Get).skip(call));
        let report = checked(&repository);
        if faults.failed() == 0 {
            assert!(report.unwrap().findings.is_empty());
            break;
        }
        if let Ok(report) = report {
            assert!(!report.findings.is_empty(), "get {call} failed unseen");
        }
    }
}

/// Objects in memory that are full once so many puts were done, and the same without that limit.
fn full_after(
    before: &Arc<dyn Objects>,
    puts: u64,
) -> (Arc<dyn Objects>, Arc<dyn Objects>, Faults) {
    let (memory, faults) = (copy(&**before), Faults::none());
    faults.add(Fault::new(Failure::Full).on(Operation::Put).skip(puts).times(u64::MAX));
    let limited = Arc::new(Faulty::new(Arc::clone(&memory), "memory", &faults));
    (memory, limited, faults)
}

fn prune_all(objects: &Arc<dyn Objects>, max_repack: u64) -> Result<prune::Report, StoreError> {
    let options = prune::Options {
        max_unused: Unused::Bytes(0),
        max_repack,
        container_len: 64 << 10,
        ..prune::Options::default()
    };
    let repository = try_open(Arc::clone(objects))?;
    prune::prune(&repository, &options, &Progress::default(), &Cancel::default())
}

#[test]
fn a_prune_whose_storage_fills_up_says_so_loses_nothing_and_is_finished_later() {
    let scene = Scene::new();
    let before = copy(&*scene.before);
    let (_, second) = scene.back_up(Arc::clone(&before), 1).unwrap();
    forget::forget(&open(&before), &[scene.first.0]).unwrap();
    for puts in 0.. {
        let (memory, limited, faults) = full_after(&before, puts);
        let pruned = prune_all(&limited, u64::MAX);
        let has_failed = faults.failed() > 0;
        match &pruned {
            // Without room for copies it deletes what it can, and says that there is more.
            Ok(report) => {
                let told = report.warnings.iter().any(|warning| warning.contains("prune again"));
                assert_eq!(told, has_failed, "put {puts}: {:?}", report.warnings);
            }
            Err(error) => assert!(error.is_full(), "put {puts}: {}", chain(error)),
        }
        let repository = open(&memory);
        expect_clean(&repository).unwrap();
        restored(&repository, &second).unwrap().expect(&scene.picture).unwrap();
        prune_all(&memory, u64::MAX).unwrap();
        restored(&open(&memory), &second).unwrap().expect(&scene.picture).unwrap();
        let again = prune_all(&memory, u64::MAX).unwrap();
        assert_eq!((again.dead_containers, again.repacked_containers), (0, 0), "put {puts}");
        if !has_failed {
            assert!(puts >= 3, "{puts} puts");
            break;
        }
    }
}

#[test]
fn keys_and_a_new_repository_on_a_full_storage_say_so_and_can_be_made_again() {
    let empty: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    for puts in 0..2 {
        let (memory, limited, _) = full_after(&empty, puts);
        let error = init(limited, small_chunks(), Protection::Encrypted).map(drop).unwrap_err();
        assert!(error.is_full(), "put {puts}: {}", chain(&error));
        assert!(matches!(try_open(Arc::clone(&memory)), Err(StoreError::NoRepository)));
        init(memory, small_chunks(), Protection::Encrypted).unwrap();
    }
    let made: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    init(Arc::clone(&made), small_chunks(), Protection::Encrypted).unwrap();
    let (memory, limited, _) = full_after(&made, 0);
    let repository = open(&limited);
    let error = repository.rotate().map(drop).unwrap_err();
    assert!(error.is_full(), "{}", chain(&error));
    let error = repository.add_key(&password(), CHEAP, &KeyRemark::default()).unwrap_err();
    assert!(error.is_full(), "{}", chain(&error));
    let repository = open(&memory);
    assert_eq!((repository.epoch(), repository.keys().unwrap().0.len()), (0, 1));
    assert_eq!(repository.rotate().unwrap(), 1);
}

#[test]
fn a_disk_that_is_full_keeps_what_it_has_and_gives_space_back() {
    let place = tempfile::tempdir().unwrap();
    match mount("tmpfs", place.path(), "tmpfs", MountFlags::empty(), Some(c"size=1m")) {
        Ok(()) => {}
        Err(errno) => return skip(&format!("cannot mount a small tmpfs: {errno}")),
    }
    let ran = std::panic::catch_unwind(|| fill_and_prune(&place.path().join("repository")));
    unmount(place.path(), UnmountFlags::DETACH).unwrap();
    ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Backs up until the disk is full, then forgets the oldest snapshot and prunes.
fn fill_and_prune(root: &Path) {
    let source = tempfile::tempdir().unwrap();
    let objects: Arc<dyn Objects> = Arc::new(LocalObjects::create(root).unwrap());
    init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
    let mut made = Vec::new();
    let error = loop {
        write(source.path().join("file"), random(made.len() as u64, 150_000));
        let (repository, progress) = (open(&objects), Progress::default());
        match try_back_up(&repository, &[source.path()], &options(), &progress) {
            Ok(done) => made.push((done, Picture::of(source.path()))),
            Err(error) => break error,
        }
    };
    assert!(error.is_full() && (3..8).contains(&made.len()), "{}", chain(&error));
    let expect_all = |made: &[((ObjectId, Snapshot), Picture)]| {
        let repository = open(&objects);
        expect_clean(&repository).unwrap();
        assert_eq!(repository.snapshots().unwrap().0.len(), made.len());
        for ((_, snapshot), picture) in made {
            restored(&repository, snapshot).unwrap().expect(picture).unwrap();
        }
    };
    expect_all(&made);
    let ((oldest, _), _) = made.remove(0);
    forget::forget(&open(&objects), &[oldest]).unwrap();
    // What was forgotten made room for the mark, and nothing has to be copied.
    let report = prune_all(&objects, 0).unwrap();
    assert!(report.deleted_containers > 0, "{report:?}");
    expect_all(&made);
    let repository = open(&objects);
    try_back_up(&repository, &[source.path()], &options(), &Progress::default()).unwrap();
}

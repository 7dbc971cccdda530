//! Forget and prune, and the backups and restores that run beside them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_backend::{AppendOnly, MemoryObjects, Objects};
use onefold_container::{Content, Directory, container_id};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Report, Unused};
use onefold_store::{Cancel, Progress, Repository, Snapshot, StoreError, backup, forget};
use onefold_testkit::random;
use tempfile::TempDir;

use crate::common::far::Far;
use crate::common::hooked::Hooked;
use crate::common::picture::Picture;
use crate::common::sealed::{Forger, directory, file};
use crate::common::{
    Protection, back_up, chain, checked, config, copy, envelope, expect_clean, in_memory, init,
    names, open, options, restored, small_chunks, try_back_up, try_open, write,
};

const A_WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

fn prune_with(repository: &Repository, options: &prune::Options) -> Result<Report, StoreError> {
    prune::prune(repository, options, &Progress::default(), &Cancel::default())
}

/// Leaves nothing that nobody needs; backups that run are waited for or not.
fn thoroughly(fence_after: Duration) -> prune::Options {
    let max_unused = Unused::Bytes(0);
    prune::Options { max_unused, fence_after, container_len: 64 << 10, ..prune::Options::default() }
}

fn prune_all(objects: &Arc<dyn Objects>, fence_after: Duration) -> Report {
    prune_with(&open(objects), &thoroughly(fence_after)).unwrap()
}

fn forget(objects: &Arc<dyn Objects>, id: ObjectId) {
    forget::forget(&open(objects), &[id]).unwrap();
}

fn bytes(objects: &dyn Objects, prefix: &str) -> u64 {
    objects.list(prefix).unwrap().iter().map(|info| info.size).sum()
}

/// A repository with a snapshot of the first version of a source, which has its second by now. Both
/// have half of their files in common.
struct Scene {
    source: TempDir,
    objects: Arc<dyn Objects>,
    first: (ObjectId, Snapshot),
    pictures: [Picture; 2],
}

impl Scene {
    fn new() -> Self {
        Self::protected(Protection::Plain)
    }

    fn protected(protection: Protection) -> Self {
        let source = tempfile::tempdir().unwrap();
        for number in 0..10 {
            write(source.path().join(format!("{number}")), random(number, 20_000));
        }
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let repository = init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        let first = back_up(&repository, source.path());
        let first_picture = Picture::of(source.path());
        for number in 0..5 {
            write(source.path().join(format!("{}", 2 * number)), random(50 + number, 20_000));
        }
        let pictures = [first_picture, Picture::of(source.path())];
        Self { source, objects, first, pictures }
    }

    fn back_up(&self) -> (ObjectId, Snapshot) {
        back_up(&open(&self.objects), self.source.path())
    }

    /// Backs up; `at` is called once, before the first put of a name that begins with `prefix`.
    fn back_up_and(
        &self,
        prefix: &'static str,
        at: impl FnOnce() + Send,
    ) -> Result<(ObjectId, Snapshot), StoreError> {
        let at = Mutex::new(Some(at));
        // The hook borrows what outlives the backup, but the repository wants 'static objects.
        let hook = |name: &str| {
            if name.starts_with(prefix)
                && let Some(at) = at.lock().unwrap().take()
            {
                at();
            }
        };
        with_hook(&self.objects, &hook, |objects| {
            let repository = try_open(objects)?;
            let source = [self.source.path()];
            try_back_up(&repository, &source, &options(), &Progress::default())
        })
    }

    fn expect_whole(&self, snapshot: &Snapshot, version: usize) {
        let repository = open(&self.objects);
        expect_clean(&repository).unwrap();
        restored(&repository, snapshot).unwrap().expect(&self.pictures[version]).unwrap();
    }
}

/// Calls `run` with objects that call `hook` before each put.
fn with_hook<T>(
    objects: &Arc<dyn Objects>,
    hook: &(dyn Fn(&str) + Sync),
    run: impl FnOnce(Arc<dyn Objects>) -> T,
) -> T {
    let (ask, asked) = std::sync::mpsc::channel::<(String, std::sync::mpsc::Sender<()>)>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (name, done) in asked {
                hook(&name);
                done.send(()).unwrap();
            }
        });
        let ask = Mutex::new(ask);
        run(Arc::new(Hooked::new(objects, move |name: &str| {
            let (done, is_done) = std::sync::mpsc::channel();
            ask.lock().unwrap().send((name.to_owned(), done)).unwrap();
            is_done.recv().unwrap();
        })))
    })
}

#[test]
fn two_prunes_that_each_keep_what_the_other_condemns_lose_nothing() {
    crate::common::two_prunes::prune_apart().unwrap();
}

#[test]
fn what_only_forgotten_snapshots_needed_is_given_back() {
    let scene = Scene::new();
    let (_, second) = scene.back_up();
    let whole = bytes(&*scene.objects, "containers/");
    forget(&scene.objects, scene.first.0);
    assert!(open(&scene.objects).snapshots().unwrap().0.iter().all(|(id, _)| *id != scene.first.0));
    assert_eq!(bytes(&*scene.objects, "containers/"), whole, "forgetting alone frees nothing");

    let before = copy(&scene.objects);
    let dry = prune::Options { dry_run: true, ..thoroughly(A_WEEK) };
    let expected = prune_with(&open(&scene.objects), &dry).unwrap();
    assert_eq!(names(&*scene.objects, ""), names(&*before, ""), "a dry run changes nothing");

    let report = prune_all(&scene.objects, A_WEEK);
    assert_eq!(
        (report.dead_containers, report.repacked_containers, report.unused_bytes),
        (expected.dead_containers, expected.repacked_containers, expected.unused_bytes)
    );
    assert!(report.dead_containers + report.repacked_containers > 0 && report.waiting.is_empty());
    assert_eq!(
        report.deleted_containers,
        report.dead_containers + report.repacked_containers,
        "{report:?}"
    );
    scene.expect_whole(&second, 1);
    // As much as a repository takes that never had anything else, and a little for metadata.
    let (fresh, repository) = in_memory(small_chunks());
    back_up(&repository, scene.source.path());
    let (left, least) = (bytes(&*scene.objects, ""), bytes(&*fresh, ""));
    assert!(left < least + least / 20, "{left} bytes are left, {least} needed");
    let again = prune_all(&scene.objects, A_WEEK);
    assert_eq!((again.deleted_containers, again.repacked_containers), (0, 0));
    // The next backup finds everything.
    let (_, third) = scene.back_up();
    assert_eq!((third.summary.new_bytes, third.summary.unchanged_files), (0, 10));
}

/// The names of all objects but log entries, which stay.
fn but_logs(objects: &dyn Objects) -> Vec<String> {
    names(objects, "").into_iter().filter(|name| !name.starts_with("logs/")).collect()
}

#[test]
fn without_snapshots_nothing_is_left() {
    let scene = Scene::new();
    forget(&scene.objects, scene.first.0);
    let report = prune_all(&scene.objects, A_WEEK);
    assert_eq!(report.repacked_containers, 0);
    assert_eq!(but_logs(&*scene.objects), ["config"]);
}

#[test]
fn limits_are_kept() {
    let scene = Scene::new();
    scene.back_up();
    forget(&scene.objects, scene.first.0);
    let with =
        |options: prune::Options| prune_with(&open(&copy(&scene.objects)), &options).unwrap();
    let all = with(thoroughly(A_WEEK));
    let lazy = with(prune::Options { max_unused: Unused::Unlimited, ..thoroughly(A_WEEK) });
    assert_eq!(lazy.repacked_containers, 0);
    assert!(lazy.unused_bytes > 0 && all.unused_bytes == 0);
    let bound = all.repacked_bytes / 2;
    let bounded = with(prune::Options { max_repack: bound, ..thoroughly(A_WEEK) });
    assert!(bounded.repacked_bytes <= bound && bounded.repacked_bytes > 0, "{bounded:?}");
    assert!(bounded.unused_bytes < lazy.unused_bytes);
}

#[test]
fn a_prune_that_is_to_leave_nothing_unused_writes_no_more_than_it_frees() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let source = tempfile::tempdir().unwrap();
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let repository = init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        for number in 0..40 {
            write(source.path().join(format!("{number:02}")), random(number, 5000));
        }
        write(source.path().join("small"), "of the first snapshot alone");
        let (first, _) = back_up(&repository, source.path());
        std::fs::remove_file(source.path().join("small")).unwrap();
        let (_, second) = back_up(&repository, source.path());
        forget(&objects, first);
        let lazy = prune::Options { max_unused: Unused::Unlimited, ..thoroughly(A_WEEK) };
        prune_with(&open(&objects), &lazy).unwrap();
        let before = bytes(&*objects, "");
        let report = prune_all(&objects, A_WEEK);
        let after = bytes(&*objects, "");
        assert!(after <= before, "{before} bytes are {after} after {report:?}");
        assert_eq!((report.copied_bytes, report.repacked_containers), (0, 0), "{report:?}");
        assert!(report.unused_bytes > 0, "{report:?}");
        let picture = Picture::of(source.path());
        restored(&open(&objects), &second).unwrap().expect(&picture).unwrap();
    }
}

#[test]
fn a_backup_that_sleeps_through_two_prunes_is_revoked_and_the_next_succeeds() {
    let plain = ["containers/", "index/", "snapshots/"].map(|prefix| (prefix, Protection::Plain));
    for (prefix, protection) in plain.into_iter().chain([("snapshots/", Protection::Encrypted)]) {
        let scene = Scene::protected(protection);
        let result = scene.back_up_and(prefix, || {
            forget(&scene.objects, scene.first.0);
            for _ in 0..2 {
                let report = prune_all(&scene.objects, Duration::ZERO);
                assert!(report.waiting.is_empty(), "{report:?}");
            }
        });
        let error = result.map(drop).unwrap_err();
        assert!(matches!(error, StoreError::Revoked), "{prefix}: {}", chain(&error));
        let (snapshots, damaged) = open(&scene.objects).snapshots().unwrap();
        assert!(snapshots.is_empty() && damaged.is_empty(), "a fence is no snapshot");
        assert!(open(&scene.objects).find(&"latest".parse().unwrap()).is_err());
        expect_clean(&open(&scene.objects)).unwrap();
        let (_, second) = scene.back_up();
        scene.expect_whole(&second, 1);
    }
}

#[test]
fn a_prune_waits_for_a_backup_that_sleeps_before_it_commits() {
    let scene = Scene::new();
    let reports = Mutex::new(Vec::new());
    let done = scene.back_up_and("snapshots/", || {
        forget(&scene.objects, scene.first.0);
        for _ in 0..2 {
            reports.lock().unwrap().push(prune_all(&scene.objects, A_WEEK));
        }
        // Whoever begins now relies on nothing that is condemned, and is not waited for.
        let (_, snapshot) = back_up(&open(&scene.objects), scene.source.path());
        assert!(snapshot.summary.new_bytes > 0);
    });
    let (id, second) = done.unwrap();
    for report in &*reports.lock().unwrap() {
        assert!(report.waiting_containers > 0 && report.deleted_containers == 0, "{report:?}");
        assert_eq!(report.waiting.len(), 1);
        assert_eq!(report.waiting[0].snapshot, id);
        assert_eq!(report.waiting[0].intent.as_ref().unwrap().host, "host");
    }
    // What it reused is condemned, and is read all the same.
    scene.expect_whole(&second, 1);
    let report = prune_all(&scene.objects, A_WEEK);
    assert!(report.deleted_containers > 0 && report.rescued_chunks == 0, "{report:?}");
    scene.expect_whole(&second, 1);
    assert!(names(&*scene.objects, "marks/").is_empty());
}

#[test]
fn what_a_backup_reused_while_it_was_condemned_is_rescued() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let scene = Scene::protected(protection);
        let done = scene.back_up_and("snapshots/", || {
            forget(&scene.objects, scene.first.0);
            prune_all(&scene.objects, A_WEEK);
        });
        let (_, second) = done.unwrap();
        scene.expect_whole(&second, 1);
        let report = prune_all(&scene.objects, A_WEEK);
        assert!(report.deleted_containers > 0 && report.rescued_chunks > 0, "{report:?}");
        scene.expect_whole(&second, 1);
        let again = prune_all(&scene.objects, A_WEEK);
        assert_eq!(again.deleted_containers + again.rescued_chunks, 0, "{again:?}");
    }
}

#[test]
fn an_encrypted_repository_is_pruned_across_key_epochs() {
    let scene = Scene::protected(Protection::Encrypted);
    assert_eq!(open(&scene.objects).rotate().unwrap(), 1);
    let (_, second) = scene.back_up();
    assert_eq!(open(&scene.objects).rotate().unwrap(), 2);
    forget(&scene.objects, scene.first.0);
    let before = names(&*scene.objects, "containers/");
    let report = prune_all(&scene.objects, A_WEEK);
    assert!(report.repacked_containers > 0 && report.waiting.is_empty(), "{report:?}");
    scene.expect_whole(&second, 1);
    // The copies are sealed by the latest key, and what stays as it was.
    let after = names(&*scene.objects, "containers/");
    let epoch_of = |name: &String| scene.objects.get(name).unwrap()[8];
    assert!(after.iter().any(|name| !before.contains(name)));
    for name in &after {
        assert_eq!(before.contains(name), epoch_of(name) < 2, "{name}");
    }
    let again = prune_all(&scene.objects, A_WEEK);
    assert_eq!((again.deleted_containers, again.repacked_containers), (0, 0));
    let (_, third) = scene.back_up();
    assert_eq!((third.summary.new_bytes, third.summary.unchanged_files), (0, 10));
    assert_eq!(names(&*scene.objects, "epochs/").len(), 2);
}

#[test]
fn intents_marks_and_fences_that_were_changed_are_not_believed() {
    let scene = Scene::protected(Protection::Encrypted);
    let kept = Mutex::new(None);
    let revoked = scene.back_up_and("snapshots/", || {
        forget(&scene.objects, scene.first.0);
        let waits = prune_all(&scene.objects, A_WEEK);
        assert_eq!(waits.waiting.len(), 1);
        *kept.lock().unwrap() = Some(copy(&scene.objects));
        prune_all(&scene.objects, Duration::ZERO);
    });
    assert!(matches!(revoked, Err(StoreError::Revoked)));
    // As it was with a mark and an intent that names no mark.
    let waiting = kept.lock().unwrap().take().unwrap();
    let [mark] = &names(&*waiting, "marks/")[..] else { panic!("one mark") };
    let [intent] = &names(&*waiting, "intents/")[..] else { panic!("one intent") };
    for at in 0..waiting.get(mark).unwrap().len() {
        let objects = copy(&*waiting);
        let mut changed = objects.get(mark).unwrap().to_vec();
        changed[at] ^= 1;
        crate::common::replace(&*objects, mark, changed);
        let result = prune_with(&open(&objects), &thoroughly(A_WEEK));
        assert!(result.is_err(), "byte {at} of {mark}");
        assert_eq!(names(&*objects, ""), names(&*waiting, ""), "nothing was deleted");
    }
    for at in 0..waiting.get(intent).unwrap().len() {
        let objects = copy(&*waiting);
        let mut changed = objects.get(intent).unwrap().to_vec();
        changed[at] ^= 1;
        crate::common::replace(&*objects, intent, changed);
        // Nobody can say what it relies on: it is fenced before anything is deleted. Another
        // version of the format is not judged at all.
        match prune_with(&open(&objects), &thoroughly(A_WEEK)) {
            Ok(report) => assert_eq!(report.fenced.len(), 1, "byte {at} of {intent}"),
            Err(error) => panic!("byte {at} of {intent}: {}", chain(&error)),
        }
    }
    // A fence that was changed is neither a snapshot nor taken for none.
    let [fence] = &names(&*scene.objects, "snapshots/")[..] else { panic!("one fence") };
    for at in 0..scene.objects.get(fence).unwrap().len() {
        let objects = copy(&*scene.objects);
        let mut changed = objects.get(fence).unwrap().to_vec();
        changed[at] ^= 1;
        crate::common::replace(&*objects, fence, changed);
        let (snapshots, damaged) = open(&objects).snapshots().unwrap();
        assert_eq!((snapshots.len(), damaged.len()), (0, 1), "byte {at} of {fence}");
        let found = checked(&open(&objects)).unwrap().findings;
        assert!(found.iter().any(|finding| finding.object == *fence), "byte {at}: {found:?}");
    }
}

#[test]
fn whoever_may_not_delete_prunes_nothing_away_and_loses_nothing() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let scene = Scene::protected(protection);
        let (_, second) = scene.back_up();
        forget(&scene.objects, scene.first.0);
        let before = names(&*scene.objects, "");
        let append_only: Arc<dyn Objects> = Arc::new(AppendOnly(Arc::clone(&scene.objects)));
        let error = prune_with(&open(&append_only), &thoroughly(A_WEEK)).map(drop).unwrap_err();
        assert!(chain(&error).contains("append-only"), "{}", chain(&error));
        let after = names(&*scene.objects, "");
        assert!(before.iter().all(|name| after.contains(name)), "something was deleted");
        scene.expect_whole(&second, 1);
        // Backups go on beside the mark that it left, and the next prune finishes it.
        let (_, third) = back_up(&open(&append_only), scene.source.path());
        scene.expect_whole(&third, 1);
        let report = prune_all(&scene.objects, A_WEEK);
        assert!(report.deleted_containers > 0 && report.waiting.is_empty(), "{report:?}");
        scene.expect_whole(&third, 1);
        for prefix in ["marks/", "intents/"] {
            assert!(names(&*scene.objects, prefix).is_empty());
        }
        // A backup that may not delete leaves its intent; nobody waits for it once it is forgotten.
        let (fourth, _) = back_up(&open(&append_only), scene.source.path());
        assert_eq!(names(&*scene.objects, "intents/").len(), 1);
        forget(&scene.objects, fourth);
        assert!(names(&*scene.objects, "intents/").is_empty());
        let again = prune_all(&scene.objects, A_WEEK);
        assert_eq!((again.deleted_containers, again.repacked_containers), (0, 0));
    }
}

#[test]
fn backups_one_after_another_do_not_keep_a_prune_from_ending() {
    let scene = Scene::new();
    let deleted = Mutex::new(0);
    // Each prune runs beside a backup that began after the prune before it.
    let done = scene.back_up_and("snapshots/", || {
        forget(&scene.objects, scene.first.0);
        assert!(prune_all(&scene.objects, A_WEEK).deleted_containers == 0);
    });
    done.unwrap();
    write(scene.source.path().join("more"), random(90, 20_000));
    let done = scene.back_up_and("snapshots/", || {
        *deleted.lock().unwrap() = prune_all(&scene.objects, A_WEEK).deleted_containers;
    });
    done.unwrap();
    assert!(*deleted.lock().unwrap() > 0);
    expect_clean(&open(&scene.objects)).unwrap();
}

#[test]
fn a_handle_that_was_opened_before_a_prune_backs_up_and_restores() {
    let scene = Scene::new();
    let (_, second) = scene.back_up();
    let old = open(&scene.objects);
    old.load().unwrap();
    forget(&scene.objects, scene.first.0);
    let report = prune_all(&scene.objects, A_WEEK);
    assert!(report.repacked_containers > 0);
    restored(&old, &second).unwrap().expect(&scene.pictures[1]).unwrap();
    let (_, third) = back_up(&old, scene.source.path());
    scene.expect_whole(&third, 1);
    // And beside a mark that waits.
    write(scene.source.path().join("more"), random(91, 20_000));
    let done = scene.back_up_and("snapshots/", || {
        let (newest, _) = open(&scene.objects).find(&"latest".parse().unwrap()).unwrap();
        forget(&scene.objects, newest);
        prune_all(&scene.objects, A_WEEK);
        back_up(&old, scene.source.path());
    });
    let (_, last) = done.unwrap();
    prune_all(&scene.objects, A_WEEK);
    prune_all(&scene.objects, A_WEEK);
    let expected = Picture::of(scene.source.path());
    restored(&open(&scene.objects), &last).unwrap().expect(&expected).unwrap();
    expect_clean(&open(&scene.objects)).unwrap();
}

#[test]
fn two_prunes_that_condemn_each_others_copies_keep_one() {
    // Without runs each prune takes one of two places of a chunk at random.
    for _ in 0..20 {
        let source = tempfile::tempdir().unwrap();
        write(source.path().join("a"), random(1, 3_000));
        let (objects, repository) = in_memory(small_chunks());
        back_up(&repository, source.path());
        let twin = copy(&objects);
        names(&*twin, "").iter().filter(|name| !name.starts_with("config")).for_each(|name| {
            twin.delete(name).unwrap();
        });
        // The same chunks once more, stored by a backup that did not see them.
        let (_, snapshot) = back_up(&open(&twin), source.path());
        for name in names(&*twin, "containers/") {
            objects.put(&name, twin.get(&name).unwrap()).unwrap();
        }
        names(&*objects, "index/").iter().for_each(|name| objects.delete(name).unwrap());
        let other = Mutex::new(Some(()));
        let hook = |name: &str| {
            if name.starts_with("marks/") && other.lock().unwrap().take().is_some() {
                prune_all(&objects, A_WEEK);
            }
        };
        with_hook(&objects, &hook, |hooked| {
            prune_with(&Repository::open(hooked).unwrap(), &thoroughly(A_WEEK)).unwrap();
        });
        expect_clean(&open(&objects)).unwrap();
        restored(&open(&objects), &snapshot).unwrap();
    }
}

#[test]
fn a_file_that_looks_like_a_tree_keeps_nothing_from_being_found() {
    let (objects, repository) = in_memory(small_chunks());
    let forger = Forger::new(&objects, &repository);
    let content = forger.chunk(Content::Data, &random(1, 900));
    let tree = forger.tree(&[file(b"content", content)]);
    // The file comes first and has the bytes of the tree.
    let root = forger.tree(&[file(b"a", tree), directory(b"b", tree)]);
    let id = forger.snapshot(root);
    prune_all(&objects, A_WEEK);
    expect_clean(&open(&objects)).unwrap();
    let (_, snapshot) = open(&objects).find(&id.to_string().parse().unwrap()).unwrap();
    let restored = restored(&open(&objects), &snapshot).unwrap();
    assert_eq!(restored.bytes("b/content").unwrap(), random(1, 900));
}

#[test]
fn a_snapshot_that_is_not_whole_stops_a_prune_until_it_is_forgotten() {
    let scene = Scene::new();
    let (second, _) = scene.back_up();
    forget(&scene.objects, scene.first.0);
    let containers = names(&*scene.objects, "containers/");
    for name in &containers {
        let objects = copy(&scene.objects);
        objects.delete(name).unwrap();
        let before = names(&*objects, "");
        match prune_with(&open(&objects), &thoroughly(A_WEEK)) {
            // Nothing of it was needed.
            Ok(_) => expect_clean(&open(&objects)).unwrap(),
            Err(StoreError::Broken { snapshot, .. }) => {
                assert_eq!(snapshot, second);
                assert_eq!(names(&*objects, ""), before, "nothing was changed");
                forget(&objects, second);
                prune_all(&objects, A_WEEK);
                assert_eq!(but_logs(&*objects), ["config"]);
            }
            Err(error) => panic!("{}", chain(&error)),
        }
    }
}

#[test]
fn a_mark_that_cannot_be_read_stops_backups_and_not_restores() {
    let scene = Scene::new();
    let mark = format!("marks/{}", ObjectId::random());
    scene.objects.put(&mark, "no mark".into()).unwrap();
    let repository = open(&scene.objects);
    restored(&repository, &scene.first.1).unwrap().expect(&scene.pictures[0]).unwrap();
    let source = [scene.source.path()];
    let progress = Progress::default();
    for _ in 0..2 {
        let error = try_back_up(&repository, &source, &options(), &progress).map(drop).unwrap_err();
        assert!(matches!(&error, StoreError::DamagedMark { damage } if damage.contains(&mark)));
    }
    let error = prune_with(&repository, &thoroughly(A_WEEK)).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::DamagedMark { .. }), "{}", chain(&error));
    let report = checked(&repository).unwrap();
    assert!(report.findings.iter().any(|finding| finding.to_string().contains(&mark)));
    assert!(names(&*scene.objects, "intents/").is_empty(), "failed backups take their notice back");
}

#[test]
fn intents_of_wrong_clocks_and_damaged_ones_do_not_wait_for_ever() {
    let scene = Scene::new();
    scene.objects.put(&format!("intents/{}", ObjectId::random()), "damaged".into()).unwrap();
    let done = scene.back_up_and("snapshots/", || {
        // A backup that died a moment ago, and one whose notice is damaged.
        let report = prune_all(&scene.objects, A_WEEK);
        assert_eq!(report.fenced.len(), 1, "{report:?}");
    });
    done.unwrap();
    let dry = prune::Options { dry_run: true, ..thoroughly(Duration::ZERO) };
    assert!(prune_with(&open(&scene.objects), &dry).unwrap().fenced.is_empty());
    assert!(names(&*scene.objects, "intents/").is_empty());
}

#[test]
fn a_forgotten_snapshot_is_no_loss_to_a_check_and_a_damaged_one_can_be_forgotten() {
    let scene = Scene::new();
    let (second, _) = scene.back_up();
    crate::common::replace(&*scene.objects, &format!("snapshots/{second}"), "x");
    let repository = open(&scene.objects);
    let spec = second.to_string()[..12].parse().unwrap();
    assert!(repository.find(&spec).is_err());
    assert_eq!(repository.find_id(&spec).unwrap(), second);
    forget(&scene.objects, second);
    expect_clean(&open(&scene.objects)).unwrap();
    assert!(repository.find_id(&spec).is_err());
}

#[test]
fn an_interrupted_prune_is_finished_by_the_next() {
    let scene = Scene::new();
    let (_, second) = scene.back_up();
    forget(&scene.objects, scene.first.0);
    let cancel = Cancel::default();
    cancel.cancel();
    let result =
        prune::prune(&open(&scene.objects), &thoroughly(A_WEEK), &Progress::default(), &cancel);
    assert!(matches!(result, Err(StoreError::Interrupted)));
    prune_all(&scene.objects, A_WEEK);
    scene.expect_whole(&second, 1);
}

/// What is stored of the groups that hold a chunk which `is_needed`, in all containers.
fn stored_groups(
    objects: &dyn Objects,
    id: ObjectId,
    is_needed: impl Fn(&Fingerprint) -> bool,
) -> u64 {
    let stored = |directory: Directory| {
        let is_needed = |group: u32| {
            let mut chunks = directory.chunks.iter().filter(|chunk| chunk.group == group);
            chunks.any(|chunk| is_needed(&chunk.fingerprint))
        };
        let groups = (0..).zip(&directory.groups).filter(|(number, _)| is_needed(*number));
        groups.map(|(_, group)| u64::from(group.stored_len)).sum::<u64>()
    };
    directories(objects, id).map(stored).sum()
}

fn directories(objects: &dyn Objects, id: ObjectId) -> impl Iterator<Item = Directory> {
    let envelope = envelope(objects, id);
    objects.list("containers/").unwrap().into_iter().map(move |info| {
        let id = container_id(&info.name).unwrap();
        Directory::read(objects, &envelope, id, info.size).unwrap()
    })
}

#[test]
fn a_prune_far_away_reads_the_groups_that_hold_what_is_needed_once() {
    let source = tempfile::tempdir().unwrap();
    for number in 0..48 {
        write(source.path().join(format!("{number}")), random(number, 1 << 20));
    }
    let (objects, repository) = in_memory(config(16 << 10, 64 << 10, 256 << 10));
    let id = repository.id();
    let backup = backup::Options { container_len: 8 << 20, ..options() };
    let back_up = || {
        let (repository, progress) = (open(&objects), Progress::default());
        try_back_up(&repository, &[source.path()], &backup, &progress).unwrap()
    };
    let (first, _) = back_up();
    for number in (0..48).filter(|number| number % 4 < 2) {
        std::fs::remove_file(source.path().join(format!("{number}"))).unwrap();
    }
    let (_, snapshot) = back_up();
    forget(&objects, first);
    let before = copy(&*objects);
    let far = Far::new(Arc::clone(&objects));
    let repository = open(&(Arc::clone(&far) as Arc<dyn Objects>));
    let report = prune_with(&repository, &thoroughly(A_WEEK)).unwrap();
    assert!(report.repacked_bytes > 40 << 20, "{report:?}");
    let left: HashSet<Fingerprint> = directories(&*objects, id)
        .flat_map(|directory| directory.chunks.into_iter().map(|chunk| chunk.fingerprint))
        .collect();
    let needed = stored_groups(&*before, id, |fingerprint| left.contains(fingerprint));
    let (received, requests) = (far.received(), far.take_count("containers/"));
    // Of each container the footer comes besides, with what lies before it.
    let footers = names(&*before, "containers/").len() as u64 * (64 << 10);
    assert!(received <= needed * 21 / 20 + footers, "{received} bytes of {needed}");
    assert!(needed < 40 << 20 && requests <= 100, "{requests} requests for {needed} bytes");
    restored(&open(&objects), &snapshot).unwrap().expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn a_prune_whose_containers_another_prune_takes_at_any_read_loses_nothing() {
    let mut warned = 0;
    for at in 0..30 {
        let scene = Scene::new();
        let (_, second) = scene.back_up();
        forget(&scene.objects, scene.first.0);
        let (reads, objects) = (AtomicUsize::new(0), Arc::clone(&scene.objects));
        let hooked = Hooked::reading(&scene.objects, move |name| {
            let is_container = name.starts_with("containers/");
            if is_container && reads.fetch_add(1, Ordering::Relaxed) == at {
                prune_all(&objects, A_WEEK);
                prune_all(&objects, A_WEEK);
            }
        });
        let repository = open(&(Arc::new(hooked) as Arc<dyn Objects>));
        let report = prune_with(&repository, &thoroughly(A_WEEK)).unwrap();
        warned += report.warnings.len();
        scene.expect_whole(&second, 1);
        prune_all(&scene.objects, A_WEEK);
        scene.expect_whole(&second, 1);
    }
    assert!(warned > 0, "some prune misses what it wants to copy");
}

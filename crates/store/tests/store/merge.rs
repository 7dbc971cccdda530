//! Prunes that merge the small containers that many small backups leave.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_backend::{AppendOnly, MemoryObjects, Objects};
use onefold_container::{Content, Directory, container_id};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Report, Unused};
use onefold_store::{
    Cancel, KeyRemark, Located, Progress, Repository, Snapshot, StoreError, WriteOnlyKey, forget,
};
use onefold_testkit::random;
use tempfile::TempDir;

use crate::common::hooked::Hooked;
use crate::common::picture::Picture;
use crate::common::{
    Protection, back_up, chain, envelope, expect_clean, init, names, open, restored, small_chunks,
    write,
};

/// So many containers may be too few to merge: seven small ones of each content.
const FEW: usize = 2 * 7;

/// As the command prunes.
fn prune_with(objects: &Arc<dyn Objects>, options: &prune::Options) -> Result<Report, StoreError> {
    prune::prune(&open(objects), options, &Progress::default(), &Cancel::default())
}

fn prune(objects: &Arc<dyn Objects>) -> Report {
    prune_with(objects, &prune::Options::default()).unwrap()
}

/// The names of all objects but log entries, which stay.
fn but_logs(objects: &dyn Objects) -> Vec<String> {
    names(objects, "").into_iter().filter(|name| !name.starts_with("logs/")).collect()
}

/// A repository with a snapshot after each of many small changes. Each backup stored the chunks of
/// two files in one container and the tree in another, and an index run over both.
struct Scene {
    source: TempDir,
    objects: Arc<dyn Objects>,
    backups: Vec<(ObjectId, Snapshot, Picture)>,
}

impl Scene {
    fn new(backups: u64) -> Self {
        Self::protected(backups, Protection::Plain)
    }

    fn protected(backups: u64, protection: Protection) -> Self {
        let source = tempfile::tempdir().unwrap();
        for number in 0..30 {
            write(source.path().join(format!("unchanged-{number}")), random(number, 100));
        }
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        let mut scene = Self { source, objects, backups: Vec::new() };
        scene.back_up_often(backups);
        scene
    }

    fn change(&self) {
        let made = self.backups.len() as u64;
        write(self.source.path().join(format!("kept-{made}")), random(1000 + made, 2000));
        write(self.source.path().join("replaced"), random(2000 + made, 2000));
    }

    fn back_up_often(&mut self, backups: u64) {
        for _ in 0..backups {
            self.change();
            let (id, snapshot) = back_up(&open(&self.objects), self.source.path());
            self.backups.push((id, snapshot, Picture::of(self.source.path())));
        }
    }

    /// Forgets all snapshots but the last `kept`.
    fn forget_all_but(&mut self, kept: usize) {
        let forgotten = self.backups.drain(..self.backups.len() - kept);
        let forgotten: Vec<ObjectId> = forgotten.map(|(id, ..)| id).collect();
        forget::forget(&open(&self.objects), &forgotten).unwrap();
    }

    fn expect_whole(&self) {
        let repository = open(&self.objects);
        expect_clean(&repository).unwrap();
        for (_, snapshot, picture) in &self.backups {
            restored(&repository, snapshot).unwrap().expect(picture).unwrap();
        }
    }

    fn containers(&self) -> usize {
        names(&*self.objects, "containers/").len()
    }

    fn runs(&self) -> usize {
        names(&*self.objects, "index/").len()
    }
}

/// What the containers in `objects` hold, by content.
fn chunks(objects: &dyn Objects, id: ObjectId) -> HashMap<Fingerprint, Content> {
    let envelope = envelope(objects, id);
    let mut chunks = HashMap::new();
    for info in objects.list("containers/").unwrap() {
        let id = container_id(&info.name).unwrap();
        let directory = Directory::read(objects, &envelope, id, info.size).unwrap();
        chunks.extend(directory.chunks.iter().map(|chunk| (chunk.fingerprint, directory.content)));
    }
    chunks
}

#[test]
fn many_small_backups_leave_few_objects() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let mut scene = Scene::protected(40, protection);
        assert_eq!((scene.containers(), scene.runs()), (80, 40));
        scene.forget_all_but(5);
        let report = prune(&scene.objects);
        assert_eq!((scene.containers(), scene.runs()), (2, 1), "{report:?}");
        // The configuration and its key, a snapshot and a receipt each, the containers and the run.
        let keys = usize::from(protection == Protection::Encrypted);
        assert_eq!(but_logs(&*scene.objects).len(), 1 + keys + 5 + 5 + 2 + 1);
        assert!(report.merged_containers > 0 && report.waiting.is_empty(), "{report:?}");
        assert_eq!(
            report.deleted_containers,
            report.dead_containers + report.repacked_containers + report.merged_containers
        );
        assert_eq!(report.deleted_runs, 40);
        scene.expect_whole();
        let (_, next) = back_up(&open(&scene.objects), scene.source.path());
        assert_eq!(next.summary.new_bytes, 0);
    }
}

#[test]
fn the_next_prune_has_nothing_to_merge() {
    let mut scene = Scene::new(10);
    scene.forget_all_but(9);
    assert!(prune(&scene.objects).merged_containers > 0);
    let before = names(&*scene.objects, "");
    let again = prune(&scene.objects);
    let done = (again.merged_containers, again.repacked_containers, again.deleted_containers);
    assert_eq!((done, again.copied_bytes), ((0, 0, 0), 0), "{again:?}");
    assert_eq!(names(&*scene.objects, ""), before);
}

#[test]
fn objects_stay_few_however_often_backups_and_prunes_take_turns() {
    let mut scene = Scene::new(1);
    for round in 0..12 {
        scene.back_up_often(3);
        scene.forget_all_but(4);
        prune(&scene.objects);
        assert!(scene.containers() <= FEW, "{} containers, round {round}", scene.containers());
        assert!(scene.runs() <= FEW, "{} runs, round {round}", scene.runs());
        let again = prune(&scene.objects);
        assert_eq!((again.merged_containers, again.repacked_containers), (0, 0), "{again:?}");
    }
    scene.expect_whole();
}

#[test]
fn seven_small_backups_are_left_as_they_are() {
    let scene = Scene::new(7);
    let before = names(&*scene.objects, "");
    let report = prune(&scene.objects);
    assert_eq!((report.merged_containers, report.deleted_containers), (0, 0), "{report:?}");
    assert_eq!(names(&*scene.objects, ""), before);
}

/// The sizes of the containers of one content, in ascending order.
fn sizes(objects: &dyn Objects, repository: ObjectId, content: Content) -> Vec<u64> {
    let envelope = envelope(objects, repository);
    let of_content =
        |id, size| Directory::read(objects, &envelope, id, size).unwrap().content == content;
    let infos = objects.list("containers/").unwrap();
    let sizes = infos.iter().map(|info| (container_id(&info.name).unwrap(), info.size));
    let mut sizes: Vec<u64> =
        sizes.filter(|(id, size)| of_content(*id, *size)).map(|(_, size)| size).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn what_fills_a_container_is_merged_though_there_are_few() {
    let scene = Scene::new(7);
    let repository = open(&scene.objects).id();
    let data = sizes(&*scene.objects, repository, Content::Data);
    let [small @ .., first] = &data[..] else { panic!("no containers") };
    let sum: u64 = small.iter().sum();
    assert!(4 * first > sum + 1 && 4 * small[5] < sum, "only six are small: {data:?}");
    let metadata = sizes(&*scene.objects, repository, Content::Metadata);
    let of_trees = metadata.iter().sum::<u64>();
    assert!(of_trees < sum, "metadata would be merged by itself: {of_trees} bytes, {sum} of data");
    let with = |container_len| {
        let container_len = container_len as usize;
        let options = prune::Options { container_len, ..prune::Options::default() };
        prune_with(&scene.objects, &options).unwrap()
    };
    let report = with(sum + 1);
    assert_eq!(report.merged_containers, 0, "{report:?}");
    // The metadata of the same runs goes along; the first container of data stays, with its run.
    let report = with(sum);
    assert_eq!((report.merged_containers, report.deleted_runs), (12, 6), "{report:?}");
    scene.expect_whole();
}

#[test]
fn a_dry_run_says_what_is_merged_and_changes_nothing() {
    let mut scene = Scene::new(12);
    scene.forget_all_but(9);
    let before = names(&*scene.objects, "");
    let dry = prune::Options { dry_run: true, ..prune::Options::default() };
    let would = prune_with(&scene.objects, &dry).unwrap();
    assert_eq!(names(&*scene.objects, ""), before);
    let report = prune(&scene.objects);
    assert!(would.merged_containers > 0);
    assert_eq!(
        (would.merged_containers, would.merged_bytes, would.unused_bytes),
        (report.merged_containers, report.merged_bytes, report.unused_bytes)
    );
}

#[test]
fn no_more_is_merged_than_is_allowed_and_the_next_prunes_go_on() {
    let scene = Scene::new(30);
    let all = prune::Options { dry_run: true, ..prune::Options::default() };
    let all = prune_with(&scene.objects, &all).unwrap().merged_bytes;
    let bound = prune::Options { max_repack: all / 2, ..prune::Options::default() };
    let report = prune_with(&scene.objects, &bound).unwrap();
    assert!(report.merged_bytes <= all / 2 && report.merged_containers >= 16, "{report:?}");
    // Of every run both containers were merged or none, and with them the run.
    assert_eq!(report.merged_containers, 2 * report.deleted_runs, "{report:?}");
    scene.expect_whole();
    let none = prune::Options { max_repack: 0, ..prune::Options::default() };
    assert_eq!(prune_with(&scene.objects, &none).unwrap().merged_containers, 0);
    prune(&scene.objects);
    assert_eq!((scene.containers(), scene.runs()), (2, 1));
    scene.expect_whole();
}

#[test]
fn a_prune_that_repacks_nothing_merges_nothing() {
    let mut scene = Scene::new(12);
    scene.forget_all_but(10);
    let options = prune::Options { max_unused: Unused::Unlimited, ..prune::Options::default() };
    let report = prune_with(&scene.objects, &options).unwrap();
    assert_eq!((report.merged_containers, report.copied_bytes), (0, 0), "{report:?}");
}

#[test]
fn what_is_unused_in_small_containers_is_not_copied() {
    let mut scene = Scene::new(12);
    // What eleven of the twelve containers have of the file that was replaced is unused.
    scene.forget_all_but(1);
    let options =
        prune::Options { max_unused: Unused::Percent(100.0), ..prune::Options::default() };
    let report = prune_with(&scene.objects, &options).unwrap();
    assert_eq!((report.repacked_containers, report.unused_bytes), (0, 0), "{report:?}");
    assert!(report.merged_containers >= 12, "{report:?}");
    assert!(report.copied_bytes < report.merged_bytes * 3 / 4, "{report:?}");
    scene.expect_whole();
}

#[test]
fn data_and_trees_are_merged_apart() {
    let scene = Scene::new(10);
    let repository = open(&scene.objects).id();
    let before = chunks(&*scene.objects, repository);
    assert!(prune(&scene.objects).merged_containers > 0);
    assert_eq!(chunks(&*scene.objects, repository), before);
    for content in [Content::Data, Content::Metadata] {
        assert!(before.values().any(|one| *one == content), "{content:?}");
    }
}

#[test]
fn a_small_container_that_cannot_be_read_is_left_and_the_others_are_merged() {
    let scene = Scene::new(10);
    let first = names(&*scene.objects, "containers/").remove(0);
    let mut damaged = scene.objects.get(&first).unwrap().to_vec();
    let at = damaged.len() - 1;
    damaged[at] ^= 1;
    crate::common::replace(&*scene.objects, &first, damaged);
    let report = prune_with(&scene.objects, &prune::Options::default());
    // The index says what it holds, and its footer does not.
    match report {
        Ok(report) => {
            assert!(report.merged_containers >= 9, "{report:?}");
            assert!(report.warnings.iter().any(|warning| warning.contains(&first)), "{report:?}");
        }
        // A tree in it is read by the walk.
        Err(error) => assert!(matches!(error, StoreError::Broken { .. }), "{}", chain(&error)),
    }
    assert!(names(&*scene.objects, "containers/").contains(&first));
}

#[test]
fn who_may_not_delete_merges_nothing_away_and_backs_up_after_a_merge() {
    let scene = Scene::new(10);
    let before = names(&*scene.objects, "");
    let append_only: Arc<dyn Objects> = Arc::new(AppendOnly(Arc::clone(&scene.objects)));
    let error = prune_with(&append_only, &prune::Options::default()).map(drop).unwrap_err();
    assert!(chain(&error).contains("append-only"), "{}", chain(&error));
    let after = names(&*scene.objects, "");
    assert!(before.iter().all(|name| after.contains(name)), "something was deleted");
    scene.expect_whole();
    // It has the copies, and stores nothing again.
    let (_, next) = back_up(&open(&append_only), scene.source.path());
    assert_eq!(next.summary.new_bytes, 0);
    prune(&scene.objects);
    assert_eq!((scene.containers(), scene.runs()), (2, 1));
    scene.expect_whole();
    let (_, next) = back_up(&open(&append_only), scene.source.path());
    assert_eq!(next.summary.new_bytes, 0);
}

#[test]
fn a_write_only_client_finds_what_was_merged_and_what_it_stores_is_merged() {
    let mut scene = Scene::protected(10, Protection::Encrypted);
    let key = open(&scene.objects).add_client(&KeyRemark::default()).unwrap();
    let key = WriteOnlyKey::parse(&key.to_text()).unwrap();
    let back_up_as_client = |source: &Path| match Repository::locate(Arc::clone(&scene.objects)) {
        Ok(Located::Locked(locked)) => back_up(&locked.open_write_only(&key).unwrap(), source),
        _ => panic!("it is encrypted"),
    };
    prune(&scene.objects);
    let (id, snapshot) = back_up_as_client(scene.source.path());
    assert_eq!(snapshot.summary.new_bytes, 0, "it has no parent and finds all chunks");
    let mut backups = vec![(id, snapshot, Picture::of(scene.source.path()))];
    for number in 0..10 {
        write(scene.source.path().join("client"), random(3000 + number, 900));
        let (id, snapshot) = back_up_as_client(scene.source.path());
        backups.push((id, snapshot, Picture::of(scene.source.path())));
    }
    scene.backups.extend(backups);
    assert!(prune(&scene.objects).merged_containers >= 20);
    assert_eq!((scene.containers(), scene.runs()), (2, 1));
    scene.expect_whole();
}

/// Backs up what is unchanged since the last snapshot of `scene`, reads all of it, and calls `at`
/// before the snapshot is put.
fn back_up_and(scene: &Scene, at: impl FnOnce() + Send + 'static) -> (ObjectId, Snapshot) {
    let at = Mutex::new(Some(at));
    let hooked = Hooked::new(&scene.objects, move |name: &str| {
        if name.starts_with("snapshots/")
            && let Some(at) = at.lock().unwrap().take()
        {
            at();
        }
    });
    back_up(&open(&(Arc::new(hooked) as Arc<dyn Objects>)), scene.source.path())
}

#[test]
fn a_backup_that_relies_on_what_is_merged_meanwhile_is_waited_for_and_loses_nothing() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let mut scene = Scene::protected(10, protection);
        let objects = Arc::clone(&scene.objects);
        let (id, snapshot) = back_up_and(&scene, move || {
            let before = names(&*objects, "containers/");
            let report = prune(&objects);
            assert_eq!(report.merged_containers, 20, "{report:?}");
            assert_eq!((report.waiting_containers, report.waiting.len()), (20, 1), "{report:?}");
            let after = names(&*objects, "containers/");
            assert!(before.iter().all(|name| after.contains(name)), "something was deleted");
        });
        assert_eq!(snapshot.summary.new_bytes, 0, "all of it was in what was merged");
        scene.backups.push((id, snapshot, Picture::of(scene.source.path())));
        scene.expect_whole();
        let report = prune(&scene.objects);
        assert_eq!((report.deleted_containers, report.rescued_chunks), (20, 0), "{report:?}");
        assert_eq!((scene.containers(), scene.runs()), (2, 1));
        scene.expect_whole();
    }
}

#[test]
fn a_backup_that_begins_while_a_merge_waits_relies_on_the_copies() {
    let mut scene = Scene::new(10);
    let (objects, source) = (Arc::clone(&scene.objects), scene.source.path().to_owned());
    let (id, snapshot) = back_up_and(&scene, move || {
        prune(&objects);
        let (_, other) = back_up(&open(&objects), &source);
        assert_eq!(other.summary.new_bytes, 0, "the copies are known");
    });
    scene.backups.push((id, snapshot, Picture::of(scene.source.path())));
    prune(&scene.objects);
    assert!(names(&*scene.objects, "marks/").is_empty());
    scene.expect_whole();
}

#[test]
fn a_backup_that_sleeps_through_the_merge_of_what_it_relies_on_is_revoked() {
    let scene = Scene::new(10);
    let objects = Arc::clone(&scene.objects);
    let at = Mutex::new(Some(()));
    let hooked = Hooked::new(&scene.objects, move |name: &str| {
        if name.starts_with("snapshots/") && at.lock().unwrap().take().is_some() {
            let options = prune::Options { fence_after: Duration::ZERO, ..Default::default() };
            let report = prune_with(&objects, &options).unwrap();
            assert_eq!(report.deleted_containers, 20, "{report:?}");
        }
    });
    let repository = open(&(Arc::new(hooked) as Arc<dyn Objects>));
    let source = [scene.source.path()];
    let done = crate::common::try_back_up(
        &repository,
        &source,
        &crate::common::options(),
        &Progress::default(),
    );
    assert!(matches!(done, Err(StoreError::Revoked)));
    scene.expect_whole();
}

#[test]
fn two_prunes_that_merge_the_same_containers_lose_nothing() {
    let scene = Scene::new(10);
    let objects = Arc::clone(&scene.objects);
    let other = Mutex::new(Some(()));
    let hooked = Hooked::new(&scene.objects, move |name: &str| {
        if name.starts_with("marks/") && other.lock().unwrap().take().is_some() {
            // Of chunks that are in an original and in a copy, it needs one or the other.
            assert!(prune(&objects).deleted_containers > 0);
        }
    });
    let report = prune(&(Arc::new(hooked) as Arc<dyn Objects>));
    assert_eq!(report.merged_containers, 20);
    scene.expect_whole();
    prune(&scene.objects);
    assert!(scene.containers() <= FEW && scene.runs() <= FEW, "too many are left");
    scene.expect_whole();
}

#[test]
fn a_handle_that_was_opened_before_a_merge_restores_and_backs_up() {
    let mut scene = Scene::new(10);
    let old = open(&scene.objects);
    old.load().unwrap();
    assert_eq!(prune(&scene.objects).deleted_containers, 20);
    let (_, snapshot, picture) = &scene.backups[3];
    restored(&old, snapshot).unwrap().expect(picture).unwrap();
    scene.change();
    let (id, snapshot) = back_up(&old, scene.source.path());
    scene.backups.push((id, snapshot, Picture::of(scene.source.path())));
    scene.expect_whole();
    assert!(names(&*scene.objects, "marks/").is_empty());
}

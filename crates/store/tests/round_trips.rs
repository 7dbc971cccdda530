//! How many round trips commands take where each takes long.

mod common;

use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_backend::{Folder, MemoryFolder, MemoryObjects, Objects};
use onefold_index::Memory;
use onefold_store::check::{Reading, check};
use onefold_store::forget::forget;
use onefold_store::{
    Cancel, IndexPlace, ObjectCache, Progress, Repository, backup, prune, restore,
};
use onefold_testkit::random;
use tempfile::TempDir;

use common::rounds::Rounds;
use common::{
    Protection, back_up, config, init, names, open_early, options, small_chunks, try_back_up, write,
};

/// Bytes of copies at most, of which there are few here.
const CACHE: u64 = 64 << 20;

/// Rounds are counted of a whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A host that backs up to a repository far away.
struct Host {
    objects: Arc<dyn Objects>,
    source: TempDir,
    memory: Arc<MemoryFolder>,
    index: Arc<MemoryFolder>,
    cache: Option<TempDir>,
}

impl Host {
    /// A host that has made `snapshots`, each of which stored something.
    fn with_snapshots(snapshots: usize) -> Self {
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
        let host = Self::new(objects);
        for number in 0..snapshots {
            host.change(number);
            back_up(&host.open(&host.objects, false), host.source());
        }
        host
    }

    /// A host that knows nothing yet of the repository in `objects`.
    fn new(objects: Arc<dyn Objects>) -> Self {
        Self {
            objects,
            source: tempfile::tempdir().unwrap(),
            memory: Arc::default(),
            index: Arc::default(),
            cache: Some(tempfile::tempdir().unwrap()),
        }
    }

    fn source(&self) -> &Path {
        self.source.path()
    }

    fn change(&self, number: usize) {
        write(self.source().join("a/b/file"), format!("state {number}"));
        write(self.source().join("other"), "the same always");
    }

    /// Opens the repository as a command does.
    fn open(&self, objects: &Arc<dyn Objects>, needs_index: bool) -> Repository {
        let mut repository = open_early(Arc::clone(objects), needs_index);
        let index =
            IndexPlace::Folder(Arc::clone(&self.index) as Arc<dyn Folder>, Memory::default());
        repository.keep_index(index);
        if let Some(cache) = &self.cache {
            let cache = ObjectCache::open(cache.path(), repository.id(), CACHE).unwrap();
            repository.keep_copies(cache);
        }
        repository.act_as("host".into(), Some(Arc::clone(&self.memory) as Arc<dyn Folder>));
        assert_eq!(repository.recall().unwrap(), []);
        repository
    }

    /// Fails unless `command` takes `expected` round trips.
    #[track_caller]
    fn expect_rounds(&self, expected: u64, needs_index: bool, command: impl FnOnce(&Repository)) {
        let (count, asked) = self.rounds_of(needs_index, command);
        assert_eq!(count, expected, "\n{asked}");
    }

    /// How many round trips `command` takes, and what is asked for in each.
    fn rounds_of(&self, needs_index: bool, command: impl FnOnce(&Repository)) -> (u64, String) {
        let rounds = Arc::new(Rounds::new(&self.objects));
        let objects = Arc::clone(&rounds) as Arc<dyn Objects>;
        let repository = self.open(&objects, needs_index);
        command(&repository);
        assert_eq!(repository.trouble(), [""; 0]);
        (rounds.count(), rounds.asked())
    }

    fn expect_snapshots(&self, rounds: u64, count: usize) {
        self.expect_rounds(rounds, false, |repository| {
            let (snapshots, damaged) = repository.snapshots().unwrap();
            assert_eq!((snapshots.len(), damaged.len()), (count, 0));
        });
    }

    fn expect_restore(&self, rounds: u64, content: &str) {
        self.expect_rounds(rounds, true, |repository| {
            let (id, snapshot) = repository.latest(|_| true).unwrap();
            let entry = repository.entry_at(id, &snapshot, b"a/b").unwrap();
            let folder = tempfile::tempdir().unwrap();
            let options = restore::Options { threads: NonZero::new(2), ..Default::default() };
            let (progress, cancel) = (Progress::default(), Cancel::default());
            restore::restore(repository, &entry, folder.path(), &options, &progress, &cancel)
                .unwrap();
            assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), content);
        });
    }
}

#[test]
fn listing_snapshots_takes_two_round_trips_with_a_cache_and_three_without() {
    let _alone = alone();
    for snapshots in [3, 30] {
        let host = Host::with_snapshots(snapshots);
        host.expect_snapshots(2, snapshots);
        let mut other = Host::new(Arc::clone(&host.objects));
        other.expect_snapshots(3, snapshots);
        other.expect_snapshots(2, snapshots);
        other.cache = None;
        other.expect_snapshots(3, snapshots);
    }
}

#[test]
fn showing_many_snapshots_takes_one_round_trip_more_the_first_time_if_some_are_in_no_bundle() {
    let _alone = alone();
    for (snapshots, rounds) in [(64, 3), (128, 3), (70, 4)] {
        let host = Host::with_snapshots(snapshots);
        assert!(!names(&*host.objects, "bundles/").is_empty());
        let expect_shown = |host: &Host, rounds| {
            host.expect_rounds(rounds, false, |repository| {
                let (shown, damaged) = repository.shown_snapshots().unwrap();
                assert_eq!((shown.len(), damaged.len()), (snapshots, 0));
            });
        };
        let other = Host::new(Arc::clone(&host.objects));
        expect_shown(&other, rounds);
        expect_shown(&other, 2);
    }
}

#[test]
fn a_backup_that_bundles_commits_first() {
    let _alone = alone();
    let host = Host::with_snapshots(63);
    let rounds = Arc::new(Rounds::new(&host.objects));
    let repository = host.open(&(Arc::clone(&rounds) as Arc<dyn Objects>), false);
    host.change(63);
    back_up(&repository, host.source());
    let asked = rounds.asked();
    let at = |what: &str| asked.lines().position(|round| round.contains(what)).unwrap();
    // The last that a backup does, in its eleventh round trip.
    assert!(at("delete intents/") <= 10 && at("delete intents/") < at("put bundles/"), "\n{asked}");
}

#[test]
fn an_unchanged_backup_takes_ten_round_trips_and_one_with_new_data_eleven() {
    let _alone = alone();
    for snapshots in [3, 30] {
        let host = Host::with_snapshots(snapshots);
        let back_up = |repository: &Repository| drop(back_up(repository, host.source()));
        host.expect_rounds(10, false, back_up);
        host.change(100);
        host.expect_rounds(11, false, back_up);
        host.expect_rounds(10, false, back_up);
    }
}

#[test]
fn a_backup_reads_the_snapshot_before_it_and_no_other() {
    let _alone = alone();
    for snapshots in [3, 30] {
        let mut host = Host::with_snapshots(snapshots);
        host.cache = None;
        let there = names(&*host.objects, "snapshots/");
        let newest = host.open(&host.objects, false).latest(|_| true).unwrap().0;
        let rounds = Arc::new(Rounds::new(&host.objects));
        let repository = host.open(&(Arc::clone(&rounds) as Arc<dyn Objects>), false);
        let (_, snapshot) = back_up(&repository, host.source());
        assert_eq!(snapshot.parent, Some(newest));
        let asked = rounds.asked();
        let read: Vec<_> = there.into_iter().filter(|name| asked.contains(name)).collect();
        assert_eq!(read, [format!("snapshots/{newest}")], "{asked}");
    }
}

#[test]
fn one_small_file_takes_three_round_trips_where_trees_and_footers_are_cached() {
    let _alone = alone();
    for snapshots in [3, 30] {
        let host = Host::with_snapshots(snapshots);
        let content = format!("state {}", snapshots - 1);
        host.expect_restore(3, &content);
        // All is new to it: behind three, a footer and a group with all trees, and the same of the file.
        let other = Host::new(Arc::clone(&host.objects));
        other.expect_restore(7, &content);
        other.expect_restore(3, &content);
    }
}

#[test]
fn checking_takes_as_many_round_trips_however_many_snapshots_there_are() {
    let _alone = alone();
    for snapshots in [3, 30] {
        let host = Host::with_snapshots(snapshots);
        // Two to open; one each for listings of receipts, snapshots, containers, for runs and for footers;
        // and what waits for the logs, small containers of trees, and snapshots.
        host.expect_rounds(10, false, |repository| {
            let (progress, cancel) = (Progress::default(), Cancel::default());
            let report = check(repository, Reading::Nothing, &progress, &cancel).unwrap();
            assert_eq!(report.findings, []);
            assert_eq!(report.snapshots, snapshots as u64);
        });
    }
}

#[test]
fn long_footers_take_as_many_round_trips_however_many_there_are() {
    const CONTAINER: usize = 5 << 19;
    let _alone = alone();
    let rounds_of = |containers: usize| {
        let host = Host::with_snapshots(0);
        for number in 0..containers {
            let name = format!("file {number}");
            write(host.source().join(name), random(number as u64, CONTAINER));
        }
        let options = backup::Options { container_len: CONTAINER, ..options() };
        let repository = host.open(&host.objects, false);
        try_back_up(&repository, &[host.source()], &options, &Progress::default()).unwrap();
        let new = Host::new(host.objects.clone());
        let (rounds, asked) = new.rounds_of(false, |repository| {
            let (progress, cancel) = (Progress::default(), Cancel::default());
            let report = check(repository, Reading::Nothing, &progress, &cancel).unwrap();
            assert_eq!(report.findings, []);
            assert!(report.containers > containers as u64, "{report:?}");
        });
        (rounds, asked)
    };
    let (few, many) = (rounds_of(2), rounds_of(12));
    // more groups hold the lists of chunks
    assert!(many.0 <= few.0 + 2, "\n{}\n{}", few.1, many.1);
}

#[test]
fn forgetting_and_pruning_take_as_many_round_trips_however_much_goes() {
    let _alone = alone();
    for snapshots in [3, 30] {
        let host = Host::with_snapshots(snapshots);
        let (all, _) = host.open(&host.objects, false).snapshots().unwrap();
        let old: Vec<_> = all.iter().rev().skip(1).map(|(id, _)| *id).collect();
        host.expect_rounds(11, false, |repository| forget(repository, &old).unwrap());
        host.expect_rounds(18, false, |repository| {
            let options = prune::Options::default();
            let (progress, cancel) = (Progress::default(), Cancel::default());
            let report = prune::prune(repository, &options, &progress, &cancel).unwrap();
            assert!(report.deleted_containers >= old.len() as u64, "{report:?}");
        });
    }
}

#[test]
fn a_restore_takes_as_many_round_trips_however_many_backups_left_trees_and_lists_of_chunks() {
    let _alone = alone();
    let counted = [3, 9].map(|backups| {
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        // A tree that is cut in two takes a round trip more, and these are too short for that.
        let chunks = config(4 << 10, 16 << 10, 64 << 10);
        init(Arc::clone(&objects), chunks, Protection::Encrypted).unwrap();
        let host = Host::new(objects);
        for number in 0..backups {
            write(host.source().join(format!("d{number}/long")), random(number, 300_000));
            back_up(&host.open(&host.objects, false), host.source());
        }
        let other = Host::new(Arc::clone(&host.objects));
        other.rounds_of(true, |repository| {
            let (_, snapshot) = repository.latest(|_| true).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let (progress, cancel) = (Progress::default(), Cancel::default());
            let options = restore::Options::default();
            let root = &snapshot.root;
            restore::restore(repository, root, folder.path(), &options, &progress, &cancel)
                .unwrap();
            let long = format!("d{}/long", backups - 1);
            let found = std::fs::read(folder.path().join(long)).unwrap();
            assert!(found == random(backups - 1, 300_000));
        })
    });
    let [(few, _), (many, asked)] = counted;
    assert_eq!(many, few, "\n{asked}");
}

#[test]
fn what_others_did_meanwhile_takes_one_round_trip_more() {
    let _alone = alone();
    for snapshots in [3, 30] {
        let host = Host::with_snapshots(1);
        let other = Host::new(Arc::clone(&host.objects));
        other.expect_snapshots(3, 1);
        for number in 0..snapshots {
            host.change(1 + number);
            back_up(&host.open(&host.objects, false), host.source());
        }
        // Entries, then snapshots: which of these are new is known at once, but not to the first.
        other.expect_snapshots(4, 1 + snapshots);
        other.expect_snapshots(2, 1 + snapshots);
    }
}

#[test]
fn each_command_asks_for_what_can_be_taken_back_and_for_no_snapshot_twice() {
    let _alone = alone();
    let host = Host::with_snapshots(3);
    let rounds = Arc::new(Rounds::new(&host.objects));
    let repository = host.open(&(Arc::clone(&rounds) as Arc<dyn Objects>), false);
    assert_eq!(repository.snapshots().unwrap().0.len(), 3);
    let asked = rounds.asked();
    let mut always = ["config", "list keys/", "list epochs/", "list clients/", "list logs/"]
        .map(str::to_owned)
        .to_vec();
    always.push("list snapshots/".into());
    always.extend(names(&*host.objects, "keys/"));
    always.extend(names(&*host.objects, "logs/").into_iter().last());
    for name in always {
        assert!(asked.contains(&name), "{name}:\n{asked}");
    }
    for name in names(&*host.objects, "snapshots/") {
        assert!(!asked.contains(&name), "{name}:\n{asked}");
    }
}

#[test]
fn reading_a_long_file_in_order_waits_less_often_the_longer_it_goes_on() {
    const LEN: usize = 32 << 20;
    const READ: usize = 128 << 10;
    let _alone = alone();
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    init(Arc::clone(&objects), config(16 << 10, 64 << 10, 256 << 10), Protection::Plain).unwrap();
    let host = Host::new(objects);
    let bytes = random(1, LEN);
    write(host.source().join("file"), &bytes);
    let (id, snapshot) = back_up(&host.open(&host.objects, false), host.source());
    let rounds = Arc::new(Rounds::new(&host.objects));
    let repository = host.open(&(Arc::clone(&rounds) as Arc<dyn Objects>), true);
    let entry = repository.entry_at(id, &snapshot, b"file").unwrap();
    let view = repository.view().unwrap();
    let before = rounds.count();
    for start in (0..LEN).step_by(READ) {
        let read = view.read(&entry, start as u64, READ).unwrap();
        assert!(read == bytes[start..start + READ], "at {start}");
    }
    // Eight times it reads ahead, each time footers and then groups, and the list of chunks once.
    let taken = rounds.count() - before;
    assert!(taken <= 8 * 2 + 8, "{taken} rounds\n{}", rounds.asked());
}

/// In how many rounds a prune of `host` asks for containers.
fn rounds_of_containers(host: &Host) -> usize {
    let rounds = Arc::new(Rounds::new(&host.objects));
    let objects = Arc::clone(&rounds) as Arc<dyn Objects>;
    let repository = host.open(&objects, true);
    let (progress, cancel) = (Progress::default(), Cancel::default());
    let report = prune::prune(&repository, &prune::Options::default(), &progress, &cancel).unwrap();
    assert!(report.merged_containers >= 16, "{report:?}");
    let is_read = |asked: &str| asked.contains("get ") && asked.contains("containers/");
    rounds.asked().lines().filter(|round| round.split(", ").any(is_read)).count()
}

#[test]
fn a_prune_merges_many_small_containers_in_as_many_round_trips_as_few() {
    let _alone = alone();
    let few = rounds_of_containers(&Host::with_snapshots(9));
    assert_eq!(rounds_of_containers(&Host::with_snapshots(40)), few);
}

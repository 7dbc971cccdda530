//! Reading snapshots from far away: in place, as a stream and for a copy, and while containers go.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use onefold_backend::{MemoryObjects, Objects};
use onefold_store::dump::{self, Part};
use onefold_store::prune::{self, Unused};
use onefold_store::tree::Entry;
use onefold_store::{Cancel, Progress, Repository, backup, copy, forget};
use onefold_testkit::{SplitMix64, random};

use crate::common::far::Far;
use crate::common::picture::Picture;
use crate::common::{
    Protection, back_up, config, expect_clean, in_memory, init, names, open, options, restored,
    try_back_up, write,
};

const LEN: usize = 64 << 20;
/// What the kernel asks a mount for at a time.
const READ: usize = 128 << 10;

/// A repository far away with one long file, and the file.
fn with_long_file() -> (Arc<Far>, Entry, Vec<u8>) {
    let source = tempfile::tempdir().unwrap();
    let bytes = random(1, LEN);
    write(source.path().join("file"), &bytes);
    let (objects, repository) = in_memory(config(16 << 10, 64 << 10, 256 << 10));
    let options = backup::Options { container_len: 16 << 20, ..options() };
    let progress = Progress::default();
    let (id, snapshot) = try_back_up(&repository, &[source.path()], &options, &progress).unwrap();
    let entry = repository.entry_at(id, &snapshot, b"file").unwrap();
    (Far::new(objects), entry, bytes)
}

/// How many parts of containers were read.
fn reads(far: &Far) -> usize {
    far.read.lock().unwrap().iter().filter(|(name, _)| name.starts_with("containers/")).count()
}

#[test]
fn reading_a_long_file_in_order_makes_few_large_requests() {
    let (far, entry, bytes) = with_long_file();
    let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
    let view = repository.view().unwrap();
    for start in (0..LEN).step_by(READ) {
        let read = view.read(&entry, start as u64, READ).unwrap();
        assert!(read == bytes[start..start + READ], "at {start}");
    }
    // Most are of four MiB. Two threads stored the file, so it does not lie there quite in order.
    assert!(reads(&far) <= 60, "{} requests", reads(&far));
    let received = far.received();
    assert!(received <= LEN as u64 * 21 / 20, "{received} bytes of {LEN}");
}

#[test]
fn reading_anywhere_brings_one_group_or_two_for_each_read() {
    let (far, entry, bytes) = with_long_file();
    let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
    let view = repository.view().unwrap();
    let mut numbers = SplitMix64::new(2);
    view.read(&entry, 0, 4096).unwrap();
    let (before, received) = (reads(&far), far.received());
    const READS: usize = 100;
    for _ in 0..READS {
        let start = numbers.below(LEN - 4096);
        let read = view.read(&entry, start as u64, 4096).unwrap();
        assert!(read == bytes[start..start + 4096], "at {start}");
    }
    let requests = reads(&far) - before;
    assert!(requests <= READS * 5 / 4 + 15, "{requests} requests");
    // A group has half a MiB here, and a chunk more.
    let received = far.received() - received;
    assert!(received <= (READS as u64 * 5 / 4) * (800 << 10), "{received} bytes");
}

/// The bytes of all files below `entry`, one after the other, as a dump gives them.
fn dumped(repository: &Repository, entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    dump::dump(repository, entry, &Cancel::default(), &mut |part| {
        if let Part::Bytes(part) = part {
            bytes.extend_from_slice(part);
        }
        Ok(())
    })
    .unwrap();
    bytes
}

/// Copies all snapshots of `from` to a new repository, which cuts as `from` does.
fn copied(from: &Repository, protection: Protection) -> (Arc<dyn Objects>, copy::Report) {
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    init(Arc::clone(&objects), from.config().clone(), protection).unwrap();
    let options = copy::Options {
        host: "host".into(),
        user: "user".into(),
        rechunk: false,
        container_len: 16 << 20,
    };
    let snapshots = from.snapshots().unwrap().0;
    let (progress, cancel) = (Progress::default(), Cancel::default());
    let report =
        copy::copy(from, &open(&objects), snapshots, &options, &progress, &cancel).unwrap();
    (objects, report)
}

/// Fails unless all of a long file came about once, by few requests.
fn expect_read_once(far: &Far, most: u64) {
    let received = far.received();
    assert!(received <= most, "{received} bytes of {most}");
    // Requests of a MiB, the short ones of the first windows, and footers.
    assert!(reads(far) <= 96, "{} requests", reads(far));
}

#[test]
fn a_dump_brings_each_group_once_by_few_requests() {
    let (far, entry, bytes) = with_long_file();
    let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
    assert!(dumped(&repository, &entry) == bytes);
    expect_read_once(&far, LEN as u64 * 21 / 20);
}

#[test]
fn a_copy_brings_each_group_once_by_few_requests() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let (far, entry, bytes) = with_long_file();
        let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
        let (objects, report) = copied(&repository, protection);
        assert_eq!(report.copied.len(), 1);
        expect_read_once(&far, LEN as u64 * 21 / 20);
        let copy = open(&objects);
        expect_clean(&copy).unwrap();
        let (id, snapshot) = copy.latest(|_| true).unwrap();
        let path = entry.name.clone();
        assert!(dumped(&copy, &copy.entry_at(id, &snapshot, &path).unwrap()) == bytes);
    }
}

/// Objects in which containers hold what a snapshot needs beside what nobody needs any more.
fn half_used(source: &Path) -> Arc<dyn Objects> {
    let (objects, repository) = in_memory(config(4 << 10, 16 << 10, 64 << 10));
    for number in 0..80 {
        write(source.join(format!("{number}")), random(number, 30_000));
    }
    let (first, _) = back_up(&repository, source);
    for number in (0..80).step_by(2) {
        fs::remove_file(source.join(format!("{number}"))).unwrap();
    }
    back_up(&repository, source);
    forget::forget(&repository, &[first]).unwrap();
    objects
}

/// Puts what is needed elsewhere and deletes all containers of data that were there.
fn prune_all(objects: &Arc<dyn Objects>) {
    let before = names(&**objects, "containers/");
    let repository = open(objects);
    let options = prune::Options { max_unused: Unused::Percent(0.0), ..prune::Options::default() };
    for _ in 0..2 {
        prune::prune(&repository, &options, &Progress::default(), &Cancel::default()).unwrap();
    }
    let after = names(&**objects, "containers/");
    let stay = before.iter().filter(|name| after.contains(name)).count();
    assert!(stay * 4 < before.len(), "{stay} of {} stay", before.len());
}

/// A repository that was opened before a prune took the containers it knows, and what it reads from.
fn opened_before_a_prune(source: &Path) -> (Repository, Arc<Far>) {
    let far = Far::new(half_used(source));
    let repository = Repository::open(Arc::clone(&far) as Arc<dyn Objects>).unwrap();
    repository.load().unwrap();
    prune_all(&(Arc::clone(&far) as Arc<dyn Objects>));
    far.read.lock().unwrap().clear();
    (repository, far)
}

#[test]
fn a_mount_goes_on_when_a_prune_takes_the_containers_that_it_knows() {
    let source = tempfile::tempdir().unwrap();
    let (repository, _) = opened_before_a_prune(source.path());
    let (_, snapshot) = repository.latest(|_| true).unwrap();
    let view = repository.view().unwrap();
    let entries = view.entries(&snapshot.root).unwrap();
    assert_eq!(entries.len(), 40);
    for entry in &*entries {
        let name = String::from_utf8(entry.name.clone()).unwrap();
        let mut found = Vec::new();
        for start in (0..30_000).step_by(10_000) {
            found.extend(view.read(entry, start, 10_000).unwrap());
        }
        assert!(found == fs::read(source.path().join(&name)).unwrap(), "{name}");
    }
}

#[test]
fn a_restore_goes_on_by_another_plan_when_a_prune_takes_the_containers_that_it_knows() {
    let source = tempfile::tempdir().unwrap();
    let (repository, far) = opened_before_a_prune(source.path());
    let (_, snapshot) = repository.latest(|_| true).unwrap();
    let picture = restored(&repository, &snapshot).unwrap();
    picture.expect(&Picture::of(source.path())).unwrap();
    let there = names(&*far, "containers/");
    let read = far.read.lock().unwrap();
    let gone: Vec<_> = read
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("containers/") && !there.contains(name))
        .collect();
    let distinct: HashSet<_> = gone.iter().collect();
    assert!(distinct.len() >= 4, "{distinct:?}");
    assert!(gone.len() <= distinct.len() * 2, "{} requests for {}", gone.len(), distinct.len());
}

#[test]
fn a_dump_and_a_copy_go_on_when_a_prune_takes_the_containers_that_they_know() {
    let source = tempfile::tempdir().unwrap();
    let expected = |entries: &[Entry]| -> Vec<u8> {
        let names = entries.iter().map(|entry| String::from_utf8(entry.name.clone()).unwrap());
        names.flat_map(|name| fs::read(source.path().join(name)).unwrap()).collect()
    };
    let (repository, _) = opened_before_a_prune(source.path());
    let (_, snapshot) = repository.latest(|_| true).unwrap();
    let entries = repository.view().unwrap().entries(&snapshot.root).unwrap();
    assert_eq!(entries.len(), 40);
    assert!(dumped(&repository, &snapshot.root) == expected(&entries));

    let (repository, _) = opened_before_a_prune(source.path());
    let (objects, report) = copied(&repository, Protection::Plain);
    assert_eq!(report.copied.len(), 1);
    let copy = open(&objects);
    expect_clean(&copy).unwrap();
    let (_, snapshot) = copy.latest(|_| true).unwrap();
    restored(&copy, &snapshot).unwrap().expect(&Picture::of(source.path())).unwrap();
}

//! The index that a client keeps: it saves reading, is never trusted, and may go at any time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{MemoryFolder, Objects, Operation};
use onefold_index::Memory;
use onefold_store::prune::{self, Unused};
use onefold_store::{Cancel, IndexPlace, Progress, Repository, forget};
use onefold_testkit::{random, skip};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::common::picture::Picture;
use crate::common::repaired::Damaged;
use crate::common::{
    Protection, back_up, checked, expect_clean, in_memory, open, restored, small_chunks, write,
};

/// The repository in `objects` with its index in `directory`.
fn open_with(objects: &Arc<dyn Objects>, directory: &Path) -> Repository {
    let mut repository = open(objects);
    repository.keep_index(IndexPlace::Directory(directory.to_owned(), Memory::MIN));
    repository
}

/// Where a repository keeps its index below `directory`.
fn kept_of(repository: &Repository, directory: &Path) -> PathBuf {
    directory.join(repository.id().to_string())
}

fn source(seed: u64) -> TempDir {
    let source = tempfile::tempdir().unwrap();
    for number in 0..20 {
        write(source.path().join(format!("{number}")), random(seed + number, 30_000));
    }
    source
}

/// Opens the repository and says how many objects were read to load its index.
fn reads(objects: &Arc<dyn Objects>, place: IndexPlace) -> (u64, Vec<String>) {
    let faults = Faults::none();
    let counted: Arc<dyn Objects> = Arc::new(Faulty::new(Arc::clone(objects), "", &faults));
    let mut repository = open(&counted);
    repository.keep_index(place);
    let before = faults.count(Operation::Get);
    let warnings = repository.load().unwrap().to_vec();
    (faults.count(Operation::Get) - before, warnings)
}

#[test]
fn what_was_read_once_is_not_read_again() {
    let (objects, _) = in_memory(small_chunks());
    let (source, cache) = (source(0), tempfile::tempdir().unwrap());
    let place = || IndexPlace::Directory(cache.path().to_owned(), Memory::MIN);
    // One that keeps its index, one that does not.
    back_up(&open_with(&objects, cache.path()), source.path());
    assert_eq!(reads(&objects, place()).0, 0, "what a backup wrote it knows");
    write(source.path().join("more"), random(99, 50_000));
    back_up(&open(&objects), source.path());
    assert_eq!(reads(&objects, IndexPlace::Memory).0, 2, "two runs");
    assert_eq!(reads(&objects, place()).0, 1, "the new run");
    assert_eq!(reads(&objects, place()).0, 0);

    let repository = open_with(&objects, cache.path());
    let (_, snapshot) = back_up(&repository, source.path());
    assert_eq!(snapshot.summary.new_bytes, 0, "all is known");
    Picture::of(source.path()).expect(&restored(&repository, &snapshot).unwrap()).unwrap();
}

#[test]
fn a_container_without_a_run_is_read_once() {
    let (objects, _) = in_memory(small_chunks());
    let (source, cache) = (source(0), tempfile::tempdir().unwrap());
    back_up(&open(&objects), source.path());
    for info in objects.list("index/").unwrap() {
        objects.delete(&info.name).unwrap();
    }
    let place = || IndexPlace::Directory(cache.path().to_owned(), Memory::MIN);
    assert!(reads(&objects, place()).0 > 0, "footers are read");
    assert_eq!(reads(&objects, place()).0, 0);
}

#[test]
fn what_was_pruned_is_not_known_any_more() {
    let (objects, _) = in_memory(small_chunks());
    let (old, cache) = (source(0), tempfile::tempdir().unwrap());
    let first = back_up(&open_with(&objects, cache.path()), old.path()).0;
    let new = source(1000);
    back_up(&open_with(&objects, cache.path()), new.path());
    forget::forget(&open(&objects), &[first]).unwrap();
    let options = prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
    // A prune by a client that has an index, and one by another of which this one hears nothing.
    for prunes_here in [true, false] {
        let repository = match prunes_here {
            true => open_with(&objects, cache.path()),
            false => open(&objects),
        };
        prune::prune(&repository, &options, &Progress::default(), &Cancel::default()).unwrap();
        drop(repository);
        let repository = open_with(&objects, cache.path());
        let (id, snapshot) = back_up(&repository, old.path());
        assert!(snapshot.summary.new_bytes >= 600_000, "{:?}", snapshot.summary);
        Picture::of(old.path()).expect(&restored(&repository, &snapshot).unwrap()).unwrap();
        drop(repository);
        expect_clean(&open(&objects)).unwrap();
        forget::forget(&open(&objects), &[id]).unwrap();
    }
}

#[test]
fn a_second_process_has_an_index_of_its_own() {
    let (objects, _) = in_memory(small_chunks());
    let (source, cache) = (source(0), tempfile::tempdir().unwrap());
    let first = open_with(&objects, cache.path());
    back_up(&first, source.path());
    let second = open_with(&objects, cache.path());
    assert!(second.load().unwrap().is_empty());
    let (_, snapshot) = back_up(&second, source.path());
    assert_eq!(snapshot.summary.new_bytes, 0);
    let mut names: Vec<_> = kept_of(&first, cache.path())
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["index-1", "index-2"]);
}

#[test]
fn a_damaged_index_is_built_again_and_the_reason_is_told() {
    let (objects, _) = in_memory(small_chunks());
    let (source, cache) = (source(0), tempfile::tempdir().unwrap());
    back_up(&open_with(&objects, cache.path()), source.path());
    let place = || IndexPlace::Directory(cache.path().to_owned(), Memory::MIN);
    let folder = kept_of(&open(&objects), cache.path()).join("index-1");
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        damaged[10] ^= 1;
        for bytes in [&damaged[..], b"", &whole[..whole.len() / 2]] {
            write(&path, bytes);
            let repository = open_with(&objects, cache.path());
            let (_, snapshot) = back_up(&repository, source.path());
            Picture::of(source.path()).expect(&restored(&repository, &snapshot).unwrap()).unwrap();
            drop(repository);
            assert_eq!(reads(&objects, place()).1, [""; 0], "{path:?} was made good");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(reads(&objects, place()).1, [""; 0], "it may be deleted");
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn where_nothing_can_be_kept_the_index_is_in_memory_and_that_is_told() {
    let (objects, _) = in_memory(small_chunks());
    let source = source(0);
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut repository = open_with(&objects, file.path());
    let warning = repository.load().unwrap().join("\n");
    assert!(warning.contains("kept in memory"), "{warning}");
    let (_, snapshot) = back_up(&repository, source.path());
    Picture::of(source.path()).expect(&restored(&repository, &snapshot).unwrap()).unwrap();

    // A disk that fills up, at any call.
    for skip in 0..40 {
        let faults = Faults::none();
        let folder = Faulty::new(MemoryFolder::new(), "folder", &faults);
        repository = open(&objects);
        repository.keep_index(IndexPlace::Folder(Arc::new(folder), Memory::MIN));
        let fault = || Fault::new(Failure::Full).skip(skip).times(u64::MAX);
        faults.add(fault().on(Operation::Write));
        faults.add(fault().on(Operation::Append));
        write(source.path().join("more"), random(5000 + skip, 50_000));
        let (_, snapshot) = back_up(&repository, source.path());
        let is_told = !repository.warnings().is_empty() || repository.index_trouble().is_some();
        assert_eq!(is_told, faults.failed() > 0, "after {skip} calls");
        Picture::of(source.path()).expect(&restored(&repository, &snapshot).unwrap()).unwrap();
    }
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn a_client_whose_power_is_cut_goes_on_with_a_right_index() {
    let source = source(0);
    let run = |objects: &Arc<dyn Objects>, disk: &CrashDisk| {
        let mut repository = open(objects);
        repository.keep_index(IndexPlace::Folder(Arc::new(disk.folder()), Memory::MIN));
        back_up(&repository, source.path()).1
    };
    let whole = CrashDisk::new();
    run(&in_memory(small_chunks()).0, &whole);
    for steps in (0..=whole.operations()).step_by(3) {
        let (objects, _) = in_memory(small_chunks());
        let disk = CrashDisk::new();
        disk.crash_after(steps);
        // The repository is on another disk: the backup goes on with an index in memory.
        let snapshot = run(&objects, &disk);
        for state in disk.durable_states(3, steps) {
            let again = run(&objects, &state);
            assert_eq!(again.summary.new_bytes, 0, "after {steps} steps");
            assert_eq!(again.root.node, snapshot.root.node);
        }
        expect_clean(&open(&objects)).unwrap();
    }
}

/// What a check says of the repository in `objects`, sorted.
fn found(objects: &Arc<dyn Objects>, place: IndexPlace) -> Vec<String> {
    let mut repository = open(objects);
    repository.keep_index(place);
    let mut found: Vec<_> =
        checked(&repository).unwrap().findings.iter().map(ToString::to_string).collect();
    found.sort();
    found
}

#[test]
fn a_check_finds_the_same_with_an_index_on_disk_and_leaves_nothing_there() {
    let (clean, _) = in_memory(small_chunks());
    back_up(&open(&clean), source(0).path());
    for objects in [clean, Damaged::new(Protection::Plain).before] {
        let cache = tempfile::tempdir().unwrap();
        let on_disk = found(&objects, IndexPlace::Directory(cache.path().into(), Memory::MIN));
        assert_eq!(on_disk, found(&objects, IndexPlace::Memory));
        let kept = kept_of(&open(&objects), cache.path());
        let folders = kept.read_dir().unwrap().map(|folder| folder.unwrap().path());
        let files = folders.flat_map(|folder| folder.read_dir().unwrap());
        let left: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(left < 4096, "{left} bytes are left");
    }
}

#[test]
fn a_check_whose_index_has_no_room_finds_the_same() {
    let (objects, _) = in_memory(small_chunks());
    back_up(&open(&objects), source(0).path());
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(found(&objects, IndexPlace::Directory(file.path().into(), Memory::MIN)), [""; 0]);
    let place = tempfile::tempdir().unwrap();
    match mount("tmpfs", place.path(), "tmpfs", MountFlags::empty(), Some(c"size=32k")) {
        Ok(()) => {}
        Err(errno) => return skip(&format!("cannot mount a small tmpfs: {errno}")),
    }
    let directory = place.path().to_owned();
    let run = || found(&objects, IndexPlace::Directory(directory, Memory::MIN));
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    unmount(place.path(), UnmountFlags::DETACH).unwrap();
    assert_eq!(ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), [""; 0]);
}

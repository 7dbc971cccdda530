//! Damage of the index that a client keeps, before and in the middle of what it is used for: a
//! reason to learn it anew from the repository, never one to fail or to delete too much.

use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, MemoryFolder, Objects, Operation};
use onefold_index::Memory;
use onefold_store::prune::{self, Report, Unused};
use onefold_store::{Cancel, IndexPlace, Progress, Repository, Snapshot, StoreError, forget};
use onefold_testkit::{SplitMix64, random};
use tempfile::TempDir;

use crate::common::picture::Picture;
use crate::common::{
    back_up, copy, expect_clean, in_memory, names, open, replace, restored, small_chunks, write,
};

/// A repository with a snapshot, and what only a forgotten one needed; some thousand chunks, so
/// that an index of little memory is on pages.
struct Scene {
    objects: Arc<dyn Objects>,
    source: TempDir,
    kept: Snapshot,
}

impl Scene {
    fn new() -> Self {
        let source = tempfile::tempdir().unwrap();
        for number in 0..40 {
            write(source.path().join(format!("{number}")), random(number, 30_000));
        }
        let (objects, repository) = in_memory(small_chunks());
        let (first, _) = back_up(&repository, source.path());
        for number in 0..20 {
            write(source.path().join(format!("{}", 2 * number)), random(100 + number, 30_000));
        }
        let (_, kept) = back_up(&repository, source.path());
        forget::forget(&repository, &[first]).unwrap();
        Self { objects, source, kept }
    }

    /// A copy of the repository, and a client's index of it.
    fn copy(&self) -> (Arc<dyn Objects>, Arc<dyn Folder>) {
        let objects = copy(&*self.objects);
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        assert!(with_index(&objects, &folder).load().unwrap().is_empty());
        (objects, folder)
    }

    fn expect_whole(&self, objects: &Arc<dyn Objects>, snapshot: &Snapshot) {
        let repository = open(objects);
        expect_clean(&repository).unwrap();
        let picture = restored(&repository, snapshot).unwrap();
        Picture::of(self.source.path()).expect(&picture).unwrap();
    }

    /// That a prune left what is needed and nothing else.
    fn expect_pruned(&self, objects: &Arc<dyn Objects>) {
        self.expect_whole(objects, &self.kept);
        let again = prune_all(&open(objects)).unwrap();
        let left = (again.dead_containers, again.repacked_containers, again.deleted_containers);
        assert_eq!(left, (0, 0, 0));
        assert_eq!(names(&**objects, "marks/"), [""; 0]);
    }
}

fn with_index(objects: &Arc<dyn Objects>, folder: &Arc<dyn Folder>) -> Repository {
    let mut repository = open(objects);
    repository.keep_index(IndexPlace::Folder(Arc::clone(folder), Memory::MIN));
    repository
}

/// A folder of which so many reads, after so many, fail in this way.
fn failing(
    folder: Arc<dyn Folder>,
    failure: Failure,
    skip: u64,
    times: u64,
) -> (Arc<dyn Folder>, Faults) {
    let faults = Faults::none();
    faults.add(Fault::new(failure).on(Operation::Read).skip(skip).times(times));
    (Arc::new(Faulty::new(folder, "folder", &faults)), faults)
}

fn prune_all(repository: &Repository) -> Result<Report, StoreError> {
    let max_unused = Unused::Bytes(0);
    let options =
        prune::Options { max_unused, container_len: 64 << 10, ..prune::Options::default() };
    prune::prune(repository, &options, &Progress::default(), &Cancel::default())
}

/// Numbers from 0 on, close together at first.
fn ever_sparser() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0), |number| Some(number + 1 + number / 3))
}

#[test]
fn a_prune_whose_index_fails_meanwhile_learns_it_anew() {
    let scene = Scene::new();
    // One page, once; all from then on; and none can be read any more.
    let kinds = [(Failure::Damaged, 1), (Failure::Damaged, u64::MAX), (Failure::Io, u64::MAX)];
    for (failure, times) in kinds {
        let mut told = 0;
        for skip in ever_sparser() {
            let (objects, folder) = scene.copy();
            let (folder, faults) = failing(folder, failure, skip, times);
            let report = prune_all(&with_index(&objects, &folder)).unwrap();
            let is_told = !report.warnings.is_empty();
            assert!(faults.failed() > 0 || !is_told, "after {skip}: {report:?}");
            told += u32::from(is_told);
            scene.expect_pruned(&objects);
            if faults.failed() == 0 {
                break;
            }
        }
        assert!(told > 10, "{told} prunes noticed {failure:?}");
    }
}

#[test]
fn a_backup_whose_index_fails_meanwhile_is_whole_and_the_next_knows_all() {
    let scene = Scene::new();
    let mut told = 0;
    for skip in ever_sparser() {
        let (objects, folder) = scene.copy();
        let (damaged, faults) = failing(Arc::clone(&folder), Failure::Damaged, skip, u64::MAX);
        let repository = with_index(&objects, &damaged);
        write(scene.source.path().join("new"), random(1_000 + skip, 50_000));
        let (_, snapshot) = back_up(&repository, scene.source.path());
        let is_told = !repository.warnings().is_empty() || repository.index_trouble().is_some();
        assert!(faults.failed() > 0 || !is_told, "after {skip}");
        told += u32::from(is_told);
        drop(repository);
        scene.expect_whole(&objects, &snapshot);
        let (_, again) = back_up(&with_index(&objects, &folder), scene.source.path());
        assert_eq!(again.summary.new_bytes, 0, "after {skip}");
        if faults.failed() == 0 {
            break;
        }
    }
    assert!(told > 5, "{told} backups noticed");
}

#[test]
fn pages_damaged_between_operations_make_no_prune_and_no_backup_fail() {
    let scene = Scene::new();
    let mut draw = SplitMix64::new(6);
    for _ in 0..30 {
        let (objects, folder) = scene.copy();
        let files = folder.names().unwrap();
        let files: Vec<&String> = files.iter().filter(|name| *name != "journal").collect();
        let mut pages = folder.pages(files[draw.below(files.len())], 4096).unwrap();
        let (page, at) = (draw.below(pages.count() as usize) as u64, draw.below(4096));
        let mut bytes = [0; 4096];
        pages.read(page, &mut bytes).unwrap();
        bytes[at] ^= 1;
        pages.write(page, &bytes).unwrap();
        drop(pages);
        prune_all(&with_index(&objects, &folder)).unwrap();
        scene.expect_pruned(&objects);
        let (_, snapshot) = back_up(&with_index(&objects, &folder), scene.source.path());
        scene.expect_whole(&objects, &snapshot);
    }
}

#[test]
fn no_backup_relies_on_a_container_that_was_cut_since_the_index_knew_it() {
    let scene = Scene::new();
    let expected = Picture::of(scene.source.path());
    for name in names(&*scene.objects, "containers/") {
        let (objects, folder) = scene.copy();
        replace(&*objects, &name, "");
        let (_, next) = back_up(&with_index(&objects, &folder), scene.source.path());
        restored(&open(&objects), &next).unwrap().expect(&expected).unwrap();
    }
}

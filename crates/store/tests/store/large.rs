//! Large files, which all readers read together.

use std::fs::File;
use std::num::NonZero;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_cdc::{Algorithm, Params};
use onefold_store::{Config, Progress, Repository, Snapshot, StoreError, backup};
use onefold_testkit::{random, skip, text};
use tempfile::tempdir;

use crate::common::picture::Picture;
use crate::common::{Issues, in_memory, open, options, restored, small_chunks, try_back_up, write};

const MIB: usize = 1 << 20;

fn threads(threads: usize) -> backup::Options {
    backup::Options { threads: NonZero::new(threads), ..options() }
}

/// Bytes of several kinds, more than readers have buffers for.
fn mixture(mib: usize) -> Vec<u8> {
    let each = mib * MIB / 4;
    [random(1, each), vec![0; each], text(2, each), random(3, each - 12_345)].concat()
}

fn back_up_by(readers: usize, repository: &Repository, source: &Path) -> Snapshot {
    let issues = Issues::default();
    let done = try_back_up(repository, &[source], &threads(readers), &issues.progress());
    assert_eq!(issues.all(), [] as [&str; 0]);
    done.unwrap().1
}

fn open_to_write(path: &Path) -> File {
    #[expect(clippy::disallowed_methods, reason = "a source of backups, no durable byte")]
    File::options().write(true).open(path).unwrap()
}

#[test]
fn any_number_of_readers_cuts_a_large_file_as_one_does() {
    let source = tempdir().unwrap();
    write(source.path().join("large"), mixture(6));
    let picture = Picture::of(source.path());
    for &algorithm in Algorithm::ALL {
        let params = Params::for_mean(algorithm, 4096).unwrap();
        let config = || Config { params, ..small_chunks() };
        let (_, repository) = in_memory(config());
        let alone = back_up_by(1, &repository, source.path());
        for readers in [2, 5] {
            let (objects, repository) = in_memory(config());
            let together = back_up_by(readers, &repository, source.path());
            assert_eq!(together.root, alone.root, "{algorithm}, {readers} readers");
            restored(&open(&objects), &together).unwrap().expect(&picture).unwrap();
        }
    }
}

#[test]
fn long_chunks_are_cut_by_several_readers_as_by_one() {
    let source = tempdir().unwrap();
    write(source.path().join("large"), mixture(24));
    let config = || crate::common::config(100_000, 400_000, 2 * MIB);
    let alone = back_up_by(1, &in_memory(config()).1, source.path());
    let (objects, repository) = in_memory(config());
    let together = back_up_by(3, &repository, source.path());
    assert_eq!(together.root, alone.root);
    restored(&open(&objects), &together).unwrap().expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn the_extents_of_a_large_file_with_holes_are_read_by_several_readers_as_by_one() {
    let source = tempdir().unwrap();
    let path = source.path().join("sparse");
    write(&path, b"");
    let file = open_to_write(&path);
    file.set_len(40 << 20).unwrap();
    for number in 0..50 {
        let extent = random(number, 100_000 + 4096 * number as usize);
        file.write_all_at(&extent, number * 700_001).unwrap();
    }
    file.sync_all().unwrap();
    if file.metadata().unwrap().blocks() * 512 >= 30 << 20 {
        return skip("the file system for temporary files has no holes");
    }
    let alone = back_up_by(1, &in_memory(small_chunks()).1, source.path());
    assert!((8 << 20..20 << 20).contains(&alone.summary.bytes), "{:?}", alone.summary);
    let (objects, repository) = in_memory(small_chunks());
    let together = back_up_by(4, &repository, source.path());
    assert_eq!(together.root, alone.root);
    restored(&open(&objects), &together).unwrap().expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn large_files_beside_one_another_and_small_ones_come_back() {
    let source = tempdir().unwrap();
    for number in 0..6 {
        write(source.path().join(format!("{number}/large")), random(number, 5 * MIB + 1));
        for small in 0..40 {
            let path = source.path().join(format!("{number}/{small}"));
            write(path, text(100 * number + small, 3000));
        }
    }
    let (objects, repository) = in_memory(small_chunks());
    let together = back_up_by(4, &repository, source.path());
    assert_eq!(together.summary.files, 6 * 41);
    restored(&open(&objects), &together).unwrap().expect(&Picture::of(source.path())).unwrap();
}

#[test]
fn a_backup_that_fails_in_the_middle_of_a_large_file_ends() {
    let source = tempdir().unwrap();
    write(source.path().join("large"), random(1, 40 * MIB));
    let (objects, _) = in_memory(small_chunks());
    for (call, readers) in [(0, 2), (3, 3), (9, 5)] {
        let faults = Faults::none();
        faults.add(Fault::new(Failure::Io).named("containers/").skip(call));
        let objects = Arc::new(Faulty::new(Arc::clone(&objects), "memory", &faults));
        let source = source.path().to_owned();
        let (done, is_done) = mpsc::channel();
        let running = thread::spawn(move || {
            let repository = Repository::open(objects)?;
            let options = threads(readers);
            let result = try_back_up(&repository, &[&source], &options, &Progress::default());
            let _ = done.send(());
            result.map(|_| ())
        });
        let waited = is_done.recv_timeout(Duration::from_secs(60));
        assert_ne!(waited, Err(mpsc::RecvTimeoutError::Timeout), "{readers} readers hang");
        let error = running.join().unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Backend(_)), "{error}");
    }
}

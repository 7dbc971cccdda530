//! Copies between repositories: only what is missing crosses, and a crash leaves whole snapshots.

use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Objects, Operation};
use onefold_store::copy::{self, Options};
use onefold_store::{Cancel, Config, Progress, StoreError, forget};
use onefold_testkit::random;
use tempfile::tempdir;

use crate::common::copied::{Copied, made};
use crate::common::picture::Picture;
use crate::common::scene::expect_nothing_stored_twice;
use crate::common::trials::Trial;
use crate::common::{
    Protection, back_up, checked, config, copy as copy_objects, names, open, small_chunks, write,
};

fn cut_otherwise() -> Config {
    config(512, 2048, 8192)
}

#[test]
fn snapshots_cross_between_all_kinds_of_repositories_and_say_what_they_are_of() {
    use Protection::{Encrypted, Plain};
    for (from, to) in
        [(Plain, Plain), (Plain, Encrypted), (Encrypted, Plain), (Encrypted, Encrypted)]
    {
        let scene = Copied::new(from);
        for (config, rechunk) in [(small_chunks(), false), (cut_otherwise(), true)] {
            let target = made(config, to);
            let report = scene.copy_to(&target, 2, rechunk).unwrap();
            assert_eq!((report.copied.len(), report.there.len()), (2, 0));
            assert_eq!(scene.expect_whole(&target), Ok(2));
            let (copies, originals) =
                (open(&target).snapshots().unwrap().0, open(&scene.objects).snapshots().unwrap().0);
            for ((_, copy), (id, original)) in copies.iter().zip(&originals) {
                assert_eq!(copy.parent, Some(*id));
                assert_eq!(
                    (copy.time, &copy.host, &copy.paths, &copy.tags, copy.summary.files),
                    (
                        original.time,
                        &original.host,
                        &original.paths,
                        &original.tags,
                        original.summary.files
                    )
                );
            }
            expect_nothing_stored_twice(&*target, &open(&target)).unwrap();
        }
    }
}

#[test]
fn what_was_copied_is_not_copied_twice_and_only_what_is_new_crosses() {
    for to in [Protection::Plain, Protection::Encrypted] {
        let scene = Copied::new(Protection::Plain);
        let target = made(small_chunks(), to);
        let first = scene.copy_to(&target, 1, false).unwrap();
        assert!(first.new_bytes > 120_000, "{first:?}");
        let second = scene.copy_to(&target, 2, false).unwrap();
        assert_eq!((second.copied.len(), second.there.len()), (1, 1));
        // 50,000 bytes of files are new.
        assert!((50_000..75_000).contains(&second.new_bytes), "{second:?}");
        let before = names(&*target, "");
        let third = scene.copy_to(&target, 2, false).unwrap();
        assert_eq!((third.copied.len(), third.there.len(), third.new_bytes), (0, 2, 0));
        assert_eq!(names(&*target, ""), before);
    }
}

#[test]
fn what_is_cut_anew_meets_what_is_backed_up_there() {
    let source = tempdir().unwrap();
    write(source.path().join("file"), random(1, 500_000));
    let (from, to) =
        (made(small_chunks(), Protection::Encrypted), made(small_chunks(), Protection::Encrypted));
    back_up(&open(&from), source.path());
    back_up(&open(&to), source.path());
    let cross = |to: &Arc<dyn Objects>, rechunk| {
        let (from, to) = (open(&from), open(to));
        let snapshots = from.snapshots().unwrap().0;
        let options =
            Options { host: "h".into(), user: "u".into(), rechunk, container_len: 1 << 20 };
        copy::copy(&from, &to, snapshots, &options, &Progress::default(), &Cancel::default())
            .unwrap()
    };
    let kept = cross(&copy_objects(&*to), false);
    assert!(kept.new_bytes > 490_000, "other secrets cut elsewhere: {kept:?}");
    let anew = cross(&to, true);
    assert!(anew.new_bytes < 5000, "{anew:?}");
}

#[test]
fn a_snapshot_that_is_not_whole_is_not_copied() {
    let scene = Copied::new(Protection::Plain);
    let damaged = copy_objects(&*scene.objects);
    for name in names(&*damaged, "containers/") {
        damaged.delete(&name).unwrap();
    }
    let scene = Copied { objects: damaged, ..scene };
    let target = made(small_chunks(), Protection::Plain);
    let error = scene.copy_to(&target, 2, false).unwrap_err();
    assert!(matches!(error, StoreError::Broken { .. }), "{error}");
    assert_eq!(scene.expect_whole(&target), Ok(0));
    assert!(names(&*target, "intents/").is_empty());
}

#[test]
fn a_copy_cut_anywhere_leaves_whole_snapshots_and_is_finished_by_the_next() {
    let scene = Copied::new(Protection::Plain);
    let count = scene.cut_power_everywhere(3).unwrap();
    println!("a copy: {count}");
    assert!(count.operations > 40 && count.states > count.operations, "{count}");
}

#[test]
fn forgetting_the_originals_harms_no_copy() {
    let scene = Copied::new(Protection::Plain);
    let target = made(small_chunks(), Protection::Plain);
    scene.copy_to(&target, 2, false).unwrap();
    let from = open(&scene.objects);
    let ids: Vec<_> = from.snapshots().unwrap().0.iter().map(|(id, _)| *id).collect();
    forget::forget(&from, &ids).unwrap();
    assert_eq!(scene.expect_whole(&target), Ok(2));
}

#[test]
fn a_copy_that_was_never_told_of_is_told_of_by_the_next() {
    for to in [Protection::Plain, Protection::Encrypted] {
        let scene = Copied::new(Protection::Plain);
        let target = made(small_chunks(), to);
        let copied = scene.copy_to(&target, 1, false).unwrap().copied[0].1;
        // As the copy leaves it that could put neither, or no log entry.
        for untold in [&["receipts/", "logs/"][..], &["logs/"]] {
            for prefix in untold {
                names(&*target, prefix).iter().for_each(|name| target.delete(name).unwrap());
            }
            assert!(!checked(&open(&target)).unwrap().notes.is_empty());
            assert_eq!(scene.copy_to(&target, 1, false).unwrap().there[0].1, copied);
            let report = checked(&open(&target)).unwrap();
            assert_eq!((report.findings, report.notes), (vec![], vec![]));
        }
    }
}

#[test]
fn what_crosses_in_many_batches_arrives_as_it_was() {
    let source = tempdir().unwrap();
    // More than is on the way at once, of bytes and of entries; and some of it twice.
    for number in 0..4 {
        write(source.path().join(format!("long/{number}")), random(number % 3, 3_000_000));
    }
    for number in 0..4500 {
        write(source.path().join(format!("short/{}/{number}", number % 5)), number.to_string());
    }
    let picture = Picture::of(source.path());
    let from = made(config(4 << 10, 16 << 10, 64 << 10), Protection::Encrypted);
    back_up(&open(&from), source.path());
    for rechunk in [false, true] {
        let to = made(config(2 << 10, 8 << 10, 32 << 10), Protection::Encrypted);
        let snapshots = open(&from).snapshots().unwrap().0;
        let options =
            Options { host: "h".into(), user: "u".into(), rechunk, container_len: 2 << 20 };
        let (progress, cancel) = (Progress::default(), Cancel::default());
        copy::copy(&open(&from), &open(&to), snapshots, &options, &progress, &cancel).unwrap();
        let bytes = progress.bytes.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(bytes, progress.total_bytes.load(std::sync::atomic::Ordering::Relaxed));
        let repository = open(&to);
        crate::common::expect_clean(&repository).unwrap();
        expect_nothing_stored_twice(&*to, &repository).unwrap();
        let (copies, _) = repository.snapshots().unwrap();
        crate::common::restored(&repository, &copies[0].1).unwrap().expect(&picture).unwrap();
    }
}

#[test]
fn a_copy_that_cannot_tell_of_a_snapshot_stops_half_way_and_the_next_goes_on() {
    let scene = Copied::new(Protection::Plain);
    for prefix in ["receipts/", "logs/"] {
        let target = made(small_chunks(), Protection::Plain);
        let faults = Faults::none();
        let faulty: Arc<dyn Objects> =
            Arc::new(Faulty::new(Arc::clone(&target), "memory", &faults));
        faults.add(Fault::new(Failure::Io).on(Operation::Put).named(prefix).times(u64::MAX));
        let error = scene.copy_to(&faulty, 2, false).unwrap_err();
        assert!(matches!(error, StoreError::HalfWay { .. }), "{error}");
        assert_eq!(scene.expect_whole(&target), Ok(1));
        let report = scene.copy_to(&target, 2, false).unwrap();
        assert_eq!((report.copied.len(), report.there.len()), (1, 1));
        assert_eq!(scene.expect_whole(&target), Ok(2));
        assert!(checked(&open(&target)).unwrap().notes.is_empty());
    }
}

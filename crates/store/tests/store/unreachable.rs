//! Storage that gives no answer: it ends an operation, and nothing is taken for lost or damaged.

use std::num::NonZero;
use std::sync::Arc;

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{ErrorKind, Objects, Operation};
use onefold_store::check::{self, Reading};
use onefold_store::{
    Cancel, Progress, Repository, Snapshot, StoreError, copy as copying, forget, prune, repair,
    restore,
};
use onefold_testkit::{random, text};
use tempfile::TempDir;

use crate::common::{
    Issues, back_up, chain, copy, expect_clean, in_memory, names, open, small_chunks, write,
};

/// A repository with a snapshot, and what a forgotten one left.
struct Scene {
    _source: TempDir,
    objects: Arc<dyn Objects>,
    snapshot: Snapshot,
}

impl Scene {
    fn new() -> Self {
        let source = tempfile::tempdir().unwrap();
        let root = source.path();
        let (objects, repository) = in_memory(small_chunks());
        write(root.join("old"), random(7, 200_000));
        let (old, _) = back_up(&repository, root);
        std::fs::remove_file(root.join("old")).unwrap();
        for number in 0..20 {
            write(root.join(format!("a/{number}")), text(number, 5000));
        }
        write(root.join("large"), random(1, 400_000));
        let (_, snapshot) = back_up(&repository, root);
        forget::forget(&repository, &[old]).unwrap();
        Self { _source: source, objects, snapshot }
    }

    /// The same objects, and faults that make their calls fail.
    fn faulty(&self) -> (Arc<dyn Objects>, Arc<dyn Objects>, Faults) {
        let (memory, faults) = (copy(&*self.objects), Faults::none());
        let objects = Arc::new(Faulty::new(Arc::clone(&memory), "memory", &faults));
        (memory, objects, faults)
    }
}

type Work = fn(&Scene, &Repository, &Progress) -> Result<(), StoreError>;

const WORKS: [(&str, Work); 5] = [
    ("restore", |scene, repository, progress| {
        let target = tempfile::tempdir().unwrap();
        let options = restore::Options { threads: NonZero::new(2), ..restore::Options::default() };
        let cancel = Cancel::default();
        let root = &scene.snapshot.root;
        restore::restore(repository, root, target.path(), &options, progress, &cancel).map(drop)
    }),
    ("check", |_, repository, progress| {
        let report = check::check(repository, Reading::All, progress, &Cancel::default())?;
        assert_eq!(report.findings, []);
        Ok(())
    }),
    ("prune", |_, repository, progress| {
        let options = prune::Options { container_len: 64 << 10, ..prune::Options::default() };
        prune::prune(repository, &options, progress, &Cancel::default()).map(drop)
    }),
    ("copy", |_, repository, progress| {
        let (_, to) = in_memory(small_chunks());
        let (snapshots, _) = repository.snapshots()?;
        let options = copying::Options {
            host: "host".into(),
            user: "user".into(),
            rechunk: false,
            container_len: 64 << 10,
        };
        let cancel = Cancel::default();
        copying::copy(repository, &to, snapshots, &options, progress, &cancel).map(drop)
    }),
    ("repair", |_, repository, progress| {
        let options =
            repair::Options { host: "host".into(), user: "user".into(), container_len: 64 << 10 };
        let report = repair::repair(repository, &options, progress, &Cancel::default())?;
        assert!(!report.is_loss() && report.check.findings.is_empty(), "{report:?}");
        Ok(())
    }),
];

#[test]
fn an_operation_whose_storage_goes_away_ends_with_that_error_and_takes_nothing_for_lost() {
    let scene = Scene::new();
    for (name, work) in WORKS {
        for call in (0..).step_by(3) {
            let (memory, objects, faults) = scene.faulty();
            let Ok(repository) = Repository::open(objects) else { panic!("{name}") };
            let before = faults.operations();
            faults.add(Fault::new(Failure::Timeout).skip(call).times(u64::MAX));
            let issues = Issues::default();
            let done = work(&scene, &repository, &issues.progress());
            let what = format!("{name}, gone after {call} calls");
            if faults.failed() == 0 {
                done.unwrap_or_else(|error| panic!("{what}: {}", chain(&error)));
                assert!(call > 0 && faults.operations() > before, "{name} asks for something");
                break;
            }
            match done {
                Err(error) => {
                    assert_eq!(error.kind(), Some(ErrorKind::Unreachable), "{what}: {error:?}");
                    assert!(!chain(&error).contains("not whole"), "{what}: {}", chain(&error));
                }
                // What is only taken back at the end may stay.
                Ok(()) => {
                    assert!(faults.failed() < 5, "{what}: {} went unnoticed", faults.failed())
                }
            }
            assert_eq!(issues.all(), [] as [&str; 0], "{what}");
            expect_clean(&open(&memory)).unwrap_or_else(|error| panic!("{what}: {error}"));
            // Nobody goes on asking for one object after the other.
            assert!(faults.failed() < 60, "{what}: {} calls were made in vain", faults.failed());
        }
    }
}

#[test]
fn what_is_refused_is_looked_for_nowhere_else_and_repaired_by_nobody() {
    let scene = Scene::new();
    let (memory, objects, faults) = scene.faulty();
    let before = names(&*memory, "");
    let repository = Repository::open(objects).unwrap();
    repository.load().unwrap();
    let lists = faults.count(Operation::List);
    faults.add(Fault::new(Failure::Io).on(Operation::Get).named("containers/").times(u64::MAX));

    let issues = Issues::default();
    let (_, restore) = WORKS[0];
    restore(&scene, &repository, &issues.progress()).unwrap();
    assert!(issues.say("cannot be read"), "{:?}", issues.all());
    assert!(!issues.say("lost"), "{:?}", issues.all());
    assert_eq!(faults.count(Operation::List), lists, "no other copy is looked for");

    let report = check::check(&repository, Reading::All, &Progress::default(), &Cancel::default());
    assert!(!report.unwrap().findings.is_empty());
    let (_, repair) = WORKS[4];
    let error = repair(&scene, &repository, &Progress::default()).unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::Refused), "{error:?}");
    assert_eq!(names(&*memory, ""), before, "nothing is condemned");
}

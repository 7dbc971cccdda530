//! What others do to a repository in the midst of a backup: forget its snapshot, prune, rotate keys.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use onefold_backend::{MemoryObjects, Objects};
use onefold_seal::ObjectId;
use onefold_store::backup::backup;
use onefold_store::{Cancel, Progress, StoreError, forget, prune, repair};

use crate::common::hooked::Hooked;
use crate::common::{
    Protection, checked, expect_clean, in_memory, init, names, open, options, small_chunks, write,
};

/// Backs `source` up to `objects`, and does `act` whenever an object below `prefix` is about to be
/// put.
fn back_up_while(
    objects: &Arc<dyn Objects>,
    source: &Path,
    prefix: &'static str,
    mut act: impl FnMut() + Send,
) -> Result<ObjectId, StoreError> {
    let (ask, asked) = channel::<Sender<()>>();
    thread::scope(|scope| {
        scope.spawn(move || {
            for done in asked {
                act();
                done.send(()).unwrap();
            }
        });
        let ask = Mutex::new(ask);
        let hooked = Hooked::new(objects, move |name: &str| {
            if name.starts_with(prefix) {
                let (done, is_done) = channel();
                ask.lock().unwrap().send(done).unwrap();
                is_done.recv().unwrap();
            }
        });
        let repository = open(&(Arc::new(hooked) as Arc<dyn Objects>));
        let paths = [source.to_owned()];
        backup(&repository, &paths, &options(), &Progress::default(), &Cancel::default())
            .map(|(id, _)| id)
    })
}

fn forget_all(objects: &Arc<dyn Objects>) {
    let repository = open(objects);
    let all: Vec<_> = repository.snapshots().unwrap().0.into_iter().map(|(id, _)| id).collect();
    if !all.is_empty() {
        forget::forget(&repository, &all).unwrap();
    }
}

#[test]
fn a_backup_whose_snapshot_was_forgotten_meanwhile_fails_and_leaves_nothing_wrong() {
    let source = tempfile::tempdir().unwrap();
    write(source.path().join("file"), "content");
    for prefix in ["receipts/", "logs/"] {
        let (objects, _) = in_memory(small_chunks());
        let act = || forget_all(&objects);
        let error = back_up_while(&objects, source.path(), prefix, act).unwrap_err();
        assert!(matches!(error, StoreError::Forgotten { .. }), "{prefix}: {error}");
        assert_eq!(names(&*objects, "snapshots/"), [] as [&str; 0]);
        assert_eq!(names(&*objects, "receipts/"), [] as [&str; 0], "at {prefix}");
        let report = checked(&open(&objects)).unwrap();
        assert!(report.findings.is_empty(), "at {prefix}: {:?}", report.findings);
    }
}

/// A program that does not look for its snapshot again, or was killed before it could, leaves the
/// receipt.
#[test]
fn a_receipt_of_a_forgotten_snapshot_is_no_loss_and_a_repair_deletes_it() {
    let source = tempfile::tempdir().unwrap();
    write(source.path().join("file"), "content");
    let (objects, repository) = in_memory(small_chunks());
    let (id, _) = crate::common::back_up(&repository, source.path());
    let receipt = format!("receipts/{id}");
    let bytes = objects.get(&receipt).unwrap();
    forget::forget(&repository, &[id]).unwrap();
    objects.put(&receipt, bytes.clone()).unwrap();
    let report = checked(&open(&objects)).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(report.notes.iter().any(|note| note.contains(&receipt)), "{:?}", report.notes);
    let (host, user) = ("host".into(), "user".into());
    let options = repair::Options { host, user, container_len: 1 << 20 };
    let repaired =
        repair::repair(&open(&objects), &options, &Progress::default(), &Cancel::default())
            .unwrap();
    assert_eq!(repaired.deleted_receipts, [id]);
    assert_eq!(names(&*objects, "receipts/"), [] as [&str; 0]);

    // Without a log that says so it was lost.
    let (id, _) = crate::common::back_up(&open(&objects), source.path());
    objects.delete(&format!("snapshots/{id}")).unwrap();
    let report = checked(&open(&objects)).unwrap();
    assert!(!report.findings.is_empty());
}

#[test]
fn a_prune_that_has_not_seen_a_key_epoch_waits_for_the_backups_of_it() {
    let source = tempfile::tempdir().unwrap();
    write(source.path().join("file"), "content");
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository = init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
    crate::common::back_up(&repository, source.path());
    // Opened before the rotation, as a prune that runs for hours is.
    let pruner = open(&objects);
    repository.rotate().unwrap();
    let mut fenced = Vec::new();
    let done = back_up_while(&objects, source.path(), "snapshots/", || {
        let options =
            prune::Options { fence_after: Duration::from_secs(3600), ..prune::Options::default() };
        let report =
            prune::prune(&pruner, &options, &Progress::default(), &Cancel::default()).unwrap();
        fenced.extend(report.fenced);
    });
    assert!(fenced.is_empty(), "the prune fenced {fenced:?}");
    done.unwrap();
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn runs_that_a_prune_replaces_while_they_are_checked_are_no_damage() {
    let source = tempfile::tempdir().unwrap();
    let (objects, _) = in_memory(small_chunks());
    for number in 0..3 {
        write(source.path().join("file"), format!("content {number}"));
        back_up_while(&objects, source.path(), "none", || {}).unwrap();
    }
    let beneath = Arc::clone(&objects);
    let hooked = Hooked::reading(&objects, move |name: &str| {
        if name.starts_with("index/") {
            names(&*beneath, "index/").iter().for_each(|run| beneath.delete(run).unwrap());
        }
    });
    let report = checked(&open(&(Arc::new(hooked) as Arc<dyn Objects>))).unwrap();
    assert_eq!((report.findings, report.runs), (Vec::new(), 0));
    assert_eq!(names(&*objects, "index/"), [] as [&str; 0], "they were read before");
}

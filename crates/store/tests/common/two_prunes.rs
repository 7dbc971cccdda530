//! Two prunes at one time, each of which relies on the places of chunks that the other condemns.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use onefold_backend::{BackendError, MemoryObjects, ObjectInfo, Objects};
use onefold_store::prune::{self, Report, Unused};
use onefold_store::{Cancel, Progress, StoreError};
use onefold_testkit::random;

use super::hang::expect_end;
use super::pass_on::pass_on;
use super::picture::Picture;
use super::{
    Protection, back_up, chain, expect_clean, init, names, open, restored, small_chunks, write,
};

/// Objects of a prune whose listing does not show one index run yet, so that the containers of this
/// run are learnt last and taken for the places of what they hold. The prune waits for the other
/// before it puts its mark, and again before it deletes the first container.
struct Apart {
    objects: Arc<dyn Objects>,
    hidden: String,
    meeting: Arc<Barrier>,
    met: AtomicU32,
}

impl Apart {
    /// Waits for the other prune, the `nth` time that this one does.
    fn meet(&self, nth: u32) {
        if self.met.compare_exchange(nth, nth + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.meeting.wait();
        }
    }
}

impl Objects for Apart {
    pass_on!(get, size);

    fn put(&self, name: &str, bytes: bytes::Bytes) -> Result<(), BackendError> {
        if name.starts_with("marks/") {
            self.meet(0);
        }
        self.objects.put(name, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let mut shown = self.objects.list(prefix)?;
        shown.retain(|info| info.name != self.hidden);
        Ok(shown)
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        if name.starts_with("containers/") {
            self.meet(1);
        }
        self.objects.delete(name)
    }
}

/// Two backups that knew nothing of each other stored every chunk twice. Two prunes begin before
/// either has put its mark, and each condemns the containers that the other keeps. Fails unless
/// both snapshots are whole afterwards.
pub fn prune_apart() -> Result<(), String> {
    let source = super::fast_folder();
    write(source.path().join("file"), random(7, 50_000));
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository = init(Arc::clone(&objects), small_chunks(), Protection::Plain).unwrap();
    let other = open(&objects);
    other.load().unwrap();
    back_up(&repository, source.path());
    let first = names(&*objects, "index/");
    back_up(&other, source.path());
    let both = names(&*objects, "index/");
    assert_eq!((first.len(), both.len()), (1, 2), "the second backup stored all again");
    let meeting = Arc::new(Barrier::new(2));
    let begin = |hidden: String| {
        let (objects, meeting) = (Arc::clone(&objects), Arc::clone(&meeting));
        let objects: Arc<dyn Objects> =
            Arc::new(Apart { objects, hidden, meeting, met: AtomicU32::new(0) });
        thread::spawn(move || expect_end("a prune", move || prune_dead(&objects)))
    };
    let prunes: Vec<_> = both.into_iter().map(begin).collect();
    for prune in prunes {
        let report = prune.join().unwrap().map_err(|error| chain(&error))?;
        assert!(report.dead_containers > 0, "each condemns something");
    }
    let repository = open(&objects);
    expect_clean(&repository)?;
    let picture = Picture::of(source.path());
    let (snapshots, damaged) = repository.snapshots().map_err(|error| chain(&error))?;
    assert_eq!((snapshots.len(), damaged.len()), (2, 0));
    snapshots.iter().try_for_each(|(_, one)| restored(&repository, one)?.expect(&picture))
}

/// Deletes containers of which nothing is needed.
fn prune_dead(objects: &Arc<dyn Objects>) -> Result<Report, StoreError> {
    let options = prune::Options { max_unused: Unused::Unlimited, ..prune::Options::default() };
    prune::prune(&open(objects), &options, &Progress::default(), &Cancel::default())
}

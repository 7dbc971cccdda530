//! How many round trips commands take where each takes long.

mod common;

use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use onefold_backend::{Folder, MemoryFolder, MemoryObjects, Objects};
use onefold_index::Memory;
use onefold_store::{Cancel, IndexPlace, Progress, Repository, restore};
use tempfile::TempDir;

use common::rounds::Rounds;
use common::{Protection, back_up, init, small_chunks, try_open, write};

/// Rounds are counted of a whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// A host that backs up to a repository far away.
struct Host {
    objects: Arc<dyn Objects>,
    source: TempDir,
    memory: Arc<MemoryFolder>,
    index: Arc<MemoryFolder>,
}

impl Host {
    /// A host that has made `snapshots`, each of which stored something.
    fn with_snapshots(snapshots: usize) -> Self {
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
        let source = tempfile::tempdir().unwrap();
        let host = Self { objects, source, memory: Arc::default(), index: Arc::default() };
        for number in 0..snapshots {
            host.change(number);
            back_up(&host.open(&host.objects), host.source());
        }
        host
    }

    fn source(&self) -> &Path {
        self.source.path()
    }

    fn change(&self, number: usize) {
        write(self.source().join("a/b/file"), format!("state {number}"));
        write(self.source().join("other"), "the same always");
    }

    /// Opens the repository as a command does.
    fn open(&self, objects: &Arc<dyn Objects>) -> Repository {
        let mut repository = try_open(Arc::clone(objects)).unwrap();
        let index =
            IndexPlace::Folder(Arc::clone(&self.index) as Arc<dyn Folder>, Memory::default());
        repository.keep_index(index);
        repository.act_as("host".into(), Some(Arc::clone(&self.memory) as Arc<dyn Folder>));
        assert_eq!(repository.recall().unwrap(), []);
        repository
    }

    /// How many round trips `command` takes.
    fn count(&self, what: &str, command: impl FnOnce(&Repository)) -> u64 {
        let rounds = Arc::new(Rounds::new(&self.objects));
        let objects = Arc::clone(&rounds) as Arc<dyn Objects>;
        command(&self.open(&objects));
        println!("{what}: {}\n{}", rounds.count(), rounds.asked());
        rounds.count()
    }
}

#[test]
fn measure() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for snapshots in [3, 12] {
        println!("=== {snapshots}");
        let host = Host::with_snapshots(snapshots);
        host.count("open", |_| ());
        host.count("snapshots", |repository| {
            assert_eq!(repository.snapshots().unwrap().0.len(), snapshots);
        });
        host.count("unchanged", |repository| drop(back_up(repository, host.source())));
        host.change(100);
        host.count("new data", |repository| drop(back_up(repository, host.source())));
        host.count("restore", |repository| {
            let (id, snapshot) = repository.latest(|_| true).unwrap();
            let entry = repository.entry_at(id, &snapshot, b"a/b").unwrap();
            let folder = tempfile::tempdir().unwrap();
            let options = restore::Options { threads: NonZero::new(2), ..Default::default() };
            let (progress, cancel) = (Progress::default(), Cancel::default());
            restore::restore(repository, &entry, folder.path(), &options, &progress, &cancel)
                .unwrap();
        });
    }
}

//! A repository with so many snapshots that they are bundled, of which one was forgotten since, while
//! the power goes in the prune that replaces the bundles.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use onefold_backend::{MemoryFolder, MemoryObjects, Objects};
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Report, Unused};
use onefold_store::{Cancel, Progress, Repository, Snapshot, StoreError, forget};

use tempfile::TempDir;

use super::trials::Trial;
use super::{
    Protection, back_up, chain, copy, expect_clean, init, names, small_chunks, try_back_up,
    try_open, write,
};

static ALONE: Mutex<()> = Mutex::new(());

/// A repository with a snapshot after each of many small changes.
pub struct Many {
    pub objects: Arc<dyn Objects>,
    pub snapshots: Vec<(ObjectId, Snapshot)>,
    source: Arc<TempDir>,
}

impl Many {
    /// Backs up `count` times to a new repository. Nothing is bundled: nothing is remembered of logs.
    pub fn new(count: usize, protection: Protection) -> Self {
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let mut repository = init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        repository.act_as("host".into(), None);
        let source = Arc::new(super::fast_folder());
        let mut many = Self { objects, snapshots: Vec::new(), source };
        many.go_on(&repository, count);
        many
    }

    /// A copy of one that was made before, with bundles that a prune has put.
    pub fn bundled(protection: Protection) -> Self {
        static PLAIN: LazyLock<Many> = LazyLock::new(|| Many::new(70, Protection::Plain).pruned());
        static ENCRYPTED: LazyLock<Many> =
            LazyLock::new(|| Many::new(70, Protection::Encrypted).pruned());
        let many = match protection {
            Protection::Plain => &*PLAIN,
            Protection::Encrypted => &*ENCRYPTED,
        };
        let (snapshots, source) = (many.snapshots.clone(), Arc::clone(&many.source));
        Self { objects: copy(&*many.objects), snapshots, source }
    }

    fn pruned(self) -> Self {
        let report = prune_all(&try_open(Arc::clone(&self.objects)).unwrap()).unwrap();
        assert_eq!((report.put_bundles, report.deleted_bundles), (3, 0), "{report:?}");
        self
    }

    /// Backs up `count` times more.
    pub fn go_on(&mut self, repository: &Repository, count: usize) {
        for _ in 0..count {
            let content = format!("state {}", self.snapshots.len());
            // Others may be made of the same source at a time.
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            write(self.source.path().join("file"), content);
            self.snapshots.push(back_up(repository, self.source.path()));
        }
    }

    pub fn ids(&self) -> Vec<ObjectId> {
        self.snapshots.iter().map(|(id, _)| *id).collect()
    }
}

/// Prunes, and leaves all containers of which anything is needed.
pub fn prune_all(repository: &Repository) -> Result<Report, StoreError> {
    let (fence_after, max_unused) = (Duration::ZERO, Unused::Unlimited);
    let options = prune::Options { fence_after, max_unused, ..prune::Options::default() };
    prune::prune(repository, &options, &Progress::default(), &Cancel::default())
}

/// A backup that bundles, when it has ended, what is in no bundle.
pub struct BundledByBackup {
    before: Many,
}

impl BundledByBackup {
    pub fn new(protection: Protection) -> Self {
        Self { before: Many::new(63, protection) }
    }
}

impl Trial for BundledByBackup {
    /// Whether the backup was acknowledged.
    type Acknowledged = bool;

    fn before(&self) -> &dyn Objects {
        &*self.before.objects
    }

    fn run(&self, objects: Arc<dyn Objects>, acknowledged: &mut bool) -> Result<(), StoreError> {
        let mut repository = try_open(Arc::clone(&objects))?;
        repository.act_as("host".into(), Some(Arc::new(MemoryFolder::new())));
        repository.recall()?;
        let (paths, progress) = ([self.before.source.path()], Progress::default());
        try_back_up(&repository, &paths, &super::options(), &progress)?;
        *acknowledged = true;
        Ok(())
    }

    /// All is clean, no snapshot is missing, and a prune bundles what the backup did not.
    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &bool,
    ) -> Result<(), String> {
        let repository = try_open(Arc::clone(&objects)).map_err(|error| chain(&error))?;
        let expect_shown = || {
            let (shown, damaged) = repository.shown_snapshots().map_err(|error| chain(&error))?;
            let least = 63 + usize::from(*acknowledged);
            let has_all = shown[..63.min(shown.len())] == self.before.snapshots;
            match has_all && shown.len() >= least && damaged.is_empty() {
                true => expect_clean(&repository),
                false => Err(format!("{} snapshots are shown, {damaged:?}", shown.len())),
            }
        };
        expect_shown()?;
        prune_all(&repository).map_err(|error| format!("the next prune: {}", chain(&error)))?;
        expect_shown().map_err(|broken| format!("after a prune: {broken}"))?;
        match (acknowledged, names(&*objects, "bundles/").len()) {
            // The last backup stored nothing, so there are too few runs.
            (true, 2) | (false, 0..=2) => Ok(()),
            (_, count) => Err(format!("{count} bundles after a prune")),
        }
    }
}

/// A prune that replaces bundles.
pub struct Bundled {
    before: Many,
}

impl Bundled {
    pub fn new(protection: Protection) -> Self {
        let before = Many::bundled(protection);
        let repository = try_open(Arc::clone(&before.objects)).unwrap();
        forget::forget(&repository, &[before.snapshots[3].0]).unwrap();
        Self { before }
    }
}

impl Trial for Bundled {
    type Acknowledged = ();

    fn before(&self) -> &dyn Objects {
        &*self.before.objects
    }

    fn run(&self, objects: Arc<dyn Objects>, (): &mut ()) -> Result<(), StoreError> {
        prune_all(&try_open(objects)?).map(drop)
    }

    /// All is clean, the snapshots that were not forgotten are shown and no other, and another prune
    /// leaves one bundle of each kind of object.
    fn expect_promises_kept(&self, objects: Arc<dyn Objects>, (): &()) -> Result<(), String> {
        self.expect_snapshots(&objects)?;
        let repository = try_open(Arc::clone(&objects)).map_err(|error| chain(&error))?;
        prune_all(&repository).map_err(|error| format!("the next prune: {}", chain(&error)))?;
        self.expect_snapshots(&objects).map_err(|broken| format!("after another: {broken}"))?;
        match names(&*objects, "bundles/") {
            bundles if bundles.len() == 3 => Ok(()),
            bundles => Err(format!("the next prune left {bundles:?}")),
        }
    }
}

impl Bundled {
    fn expect_snapshots(&self, objects: &Arc<dyn Objects>) -> Result<(), String> {
        let repository = try_open(Arc::clone(objects)).map_err(|error| chain(&error))?;
        let (shown, damaged) = repository.shown_snapshots().map_err(|error| chain(&error))?;
        let trouble = repository.trouble();
        if !damaged.is_empty() || !trouble.is_empty() {
            return Err(format!("{damaged:?}, {trouble:?}"));
        }
        let mut expected = self.before.snapshots.clone();
        expected.remove(3);
        if shown != expected {
            return Err(format!("{} snapshots are shown", shown.len()));
        }
        expect_clean(&repository)
    }
}

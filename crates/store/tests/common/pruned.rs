//! A repository with two snapshots, of which one is forgotten and what only it needed pruned, while
//! the power goes.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use onefold_backend::{MemoryObjects, Objects};
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Report, Unused};
use onefold_store::{Cancel, Progress, Repository, StoreError, backup, forget};
use onefold_testkit::random;
use tempfile::TempDir;

use super::picture::Picture;
use super::trials::Trial;
use super::{
    Protection, chain, config, copy, expect_clean, expect_no_receipt_alone, init, names, open,
    restored, try_back_up, try_open, write,
};

/// Two snapshots that share a part of their chunks.
pub struct Pruned {
    _source: TempDir,
    before: Arc<dyn Objects>,
    first: ObjectId,
    second: ObjectId,
    pictures: [Picture; 2],
    /// What the repository takes once the first is forgotten and all is pruned.
    least_bytes: u64,
}

/// How far it came.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acknowledged {
    forgotten: bool,
}

impl Pruned {
    pub fn new() -> Self {
        Self::protected(Protection::Plain)
    }

    pub fn protected(protection: Protection) -> Self {
        let source = super::fast_folder();
        let before: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let sizes = config(1024, 4096, 16384);
        let repository = init(Arc::clone(&before), sizes, protection).unwrap();
        make_first_version(source.path());
        let first = back_up(&repository, source.path());
        let first_picture = Picture::of(source.path());
        make_second_version(source.path());
        let second = back_up(&repository, source.path());
        let pictures = [first_picture, Picture::of(source.path())];
        let least_bytes = 0;
        let mut scene = Self { _source: source, before, first, second, pictures, least_bytes };
        let whole = copy(&scene.before);
        scene.forget_and_prune(&whole, &mut Acknowledged::default()).unwrap();
        scene.least_bytes = bytes(&*whole);
        let much = bytes(&*scene.before);
        assert!(scene.least_bytes * 10 < much * 7, "{} of {much} bytes", scene.least_bytes);
        scene
    }

    fn forget_and_prune(
        &self,
        objects: &Arc<dyn Objects>,
        acknowledged: &mut Acknowledged,
    ) -> Result<Report, StoreError> {
        let repository = try_open(Arc::clone(objects))?;
        forget::forget(&repository, &[self.first])?;
        acknowledged.forgotten = true;
        prune_all(&repository, false)
    }

    /// Whether the first snapshot is there.
    fn expect_snapshots(&self, objects: &Arc<dyn Objects>) -> Result<bool, String> {
        let repository = try_open(Arc::clone(objects)).map_err(|error| chain(&error))?;
        let warnings = repository.load().map_err(|error| chain(&error))?;
        if !warnings.is_empty() {
            return Err(format!("opening warns: {warnings:?}"));
        }
        expect_clean(&repository).map_err(|broken| format!("not clean: {broken}"))?;
        let (snapshots, damaged) = repository.snapshots().map_err(|error| chain(&error))?;
        if let Some(error) = damaged.first() {
            return Err(chain(error));
        }
        for (id, snapshot) in &snapshots {
            let picture = &self.pictures[usize::from(*id != self.first)];
            restored(&repository, snapshot)
                .and_then(|restored| restored.expect(picture))
                .map_err(|broken| format!("snapshot {id} restores wrong: {broken}"))?;
        }
        let has = |wanted: ObjectId| snapshots.iter().any(|(id, _)| *id == wanted);
        match has(self.second) {
            true => Ok(has(self.first)),
            false => Err("the snapshot that was to be kept is lost".into()),
        }
    }
}

impl Trial for Pruned {
    type Acknowledged = Acknowledged;

    fn before(&self) -> &dyn Objects {
        &*self.before
    }

    fn run(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &mut Acknowledged,
    ) -> Result<(), StoreError> {
        self.forget_and_prune(&objects, acknowledged).map(drop)
    }

    /// The repository is clean, the second snapshot is whole, the first is whole or gone and gone
    /// for good if that was acknowledged; and another prune gives back all space.
    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &Acknowledged,
    ) -> Result<(), String> {
        expect_no_receipt_alone(&*objects)?;
        let is_there = self.expect_snapshots(&objects)?;
        if is_there && acknowledged.forgotten {
            return Err("a snapshot that was forgotten is back".into());
        }
        self.forget_and_prune(&objects, &mut Acknowledged::default())
            .map_err(|error| format!("the next prune fails: {}", chain(&error)))?;
        if self.expect_snapshots(&objects).map_err(|broken| format!("after another: {broken}"))? {
            return Err("the next forget forgets nothing".into());
        }
        for prefix in ["marks/", "intents/", "receipts/"] {
            let expected = usize::from(prefix == "receipts/");
            if names(&*objects, prefix).len() != expected {
                return Err(format!("{prefix} after another: {:?}", names(&*objects, prefix)));
            }
        }
        let again = prune_all(&open(&objects), true).map_err(|error| chain(&error))?;
        if again.dead_containers + again.repacked_containers + again.merged_containers > 0 {
            return Err(format!("the next prune left something to do: {again:?}"));
        }
        // A prune that copied twice has cut containers elsewhere.
        let bytes = bytes(&*objects);
        if bytes > self.least_bytes + self.least_bytes / 20 {
            return Err(format!("{bytes} bytes are left, of {} needed", self.least_bytes));
        }
        Ok(())
    }
}

fn prune_all(repository: &Repository, dry_run: bool) -> Result<Report, StoreError> {
    let options = prune::Options {
        max_unused: Unused::Bytes(0),
        fence_after: Duration::ZERO,
        dry_run,
        container_len: 64 << 10,
        ..prune::Options::default()
    };
    prune::prune(repository, &options, &Progress::default(), &Cancel::default())
}

fn back_up(repository: &Repository, source: &Path) -> ObjectId {
    let options = backup::Options { threads: NonZero::new(1), ..super::options() };
    let (id, _) = try_back_up(repository, &[source], &options, &Progress::default()).unwrap();
    id
}

/// Bytes of all objects.
fn bytes(objects: &dyn Objects) -> u64 {
    objects.list("").unwrap().iter().map(|info| info.size).sum()
}

fn make_first_version(root: &Path) {
    for number in 0..8 {
        write(root.join(format!("{number}/noise")), random(number, 24_000));
    }
    write(root.join("gone"), random(100, 60_000));
}

/// Of every container of the first version something is needed, and something is not.
fn make_second_version(root: &Path) {
    for number in (0..8).step_by(2) {
        fs::remove_dir_all(root.join(number.to_string())).unwrap();
    }
    fs::remove_file(root.join("gone")).unwrap();
    write(root.join("new"), random(101, 20_000));
}

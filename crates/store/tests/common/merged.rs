//! A repository with many small snapshots, of which one is forgotten and the small containers of the
//! others merged, while the power goes.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use onefold_backend::{MemoryObjects, Objects};
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Report};
use onefold_store::{Cancel, Progress, Repository, StoreError, backup, forget};
use onefold_testkit::random;

use super::picture::Picture;
use super::trials::Trial;
use super::{
    Protection, chain, expect_clean, init, names, open, restored, small_chunks, try_back_up,
    try_open, write,
};

/// One more than the least number of small containers that are merged.
const BACKUPS: u64 = 9;

/// Small snapshots, each of which stored a container of data, one of metadata and a run over both.
pub struct Merged {
    before: Arc<dyn Objects>,
    /// In the order in which they were made; the first is forgotten.
    snapshots: Vec<(ObjectId, Picture)>,
}

/// Whether the forget was acknowledged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acknowledged {
    forgotten: bool,
}

impl Merged {
    pub fn new(protection: Protection) -> Self {
        let source = super::fast_folder();
        let before: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        init(Arc::clone(&before), small_chunks(), protection).unwrap();
        for number in 0..20 {
            write(source.path().join(format!("unchanged-{number}")), random(number, 60));
        }
        let options = backup::Options { threads: NonZero::new(1), ..super::options() };
        let back_up = |number| {
            write(source.path().join("changed"), random(100 + number, 700));
            let (repository, paths) = (open(&before), [source.path()]);
            let done = try_back_up(&repository, &paths, &options, &Progress::default());
            (done.unwrap().0, Picture::of(source.path()))
        };
        let snapshots = (0..BACKUPS).map(back_up).collect();
        assert_eq!(names(&*before, "containers/").len() as u64, 2 * BACKUPS);
        Self { before, snapshots }
    }

    fn forget_and_prune(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &mut Acknowledged,
    ) -> Result<Report, StoreError> {
        let repository = try_open(objects)?;
        forget::forget(&repository, &[self.snapshots[0].0])?;
        acknowledged.forgotten = true;
        prune_all(&repository)
    }

    /// Fails unless all is clean and every snapshot that is there is whole. The first is the only
    /// one that may be missing; whether it is there.
    fn expect_snapshots(&self, objects: &Arc<dyn Objects>) -> Result<bool, String> {
        let repository = try_open(Arc::clone(objects)).map_err(|error| chain(&error))?;
        let warnings = repository.load().map_err(|error| chain(&error))?;
        if !warnings.is_empty() {
            return Err(format!("opening warns: {warnings:?}"));
        }
        expect_clean(&repository).map_err(|broken| format!("not clean: {broken}"))?;
        let (there, damaged) = repository.snapshots().map_err(|error| chain(&error))?;
        if let Some(error) = damaged.first() {
            return Err(chain(error));
        }
        for (wanted, picture) in &self.snapshots[1..] {
            let snapshot = there.iter().find(|(id, _)| id == wanted);
            let (_, snapshot) = snapshot.ok_or(format!("snapshot {wanted} is lost"))?;
            restored(&repository, snapshot)
                .and_then(|restored| restored.expect(picture))
                .map_err(|broken| format!("snapshot {wanted} restores wrong: {broken}"))?;
        }
        Ok(there.iter().any(|(id, _)| *id == self.snapshots[0].0))
    }
}

impl Trial for Merged {
    type Acknowledged = Acknowledged;

    fn before(&self) -> &dyn Objects {
        &*self.before
    }

    fn run(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &mut Acknowledged,
    ) -> Result<(), StoreError> {
        self.forget_and_prune(objects, acknowledged).map(drop)
    }

    /// The repository is clean and whole, the forgotten snapshot stays away once that was
    /// acknowledged, and another prune merges what the first did not. At the latest the third one has
    /// nothing left to do.
    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &Acknowledged,
    ) -> Result<(), String> {
        if self.expect_snapshots(&objects)? && acknowledged.forgotten {
            return Err("a snapshot that was forgotten is back".into());
        }
        self.forget_and_prune(Arc::clone(&objects), &mut Acknowledged::default())
            .map_err(|error| format!("the next prune fails: {}", chain(&error)))?;
        if self.expect_snapshots(&objects).map_err(|broken| format!("after another: {broken}"))? {
            return Err("the next forget forgets nothing".into());
        }
        expect_few_objects(&*objects).map_err(|broken| format!("after another: {broken}"))?;
        // A copy is dead if the index finds its chunks in a container that the crash brought back.
        prune_all(&open(&objects)).map_err(|error| chain(&error))?;
        let again = prune_all(&open(&objects)).map_err(|error| chain(&error))?;
        match again.dead_containers + again.repacked_containers + again.merged_containers {
            0 => Ok(()),
            _ => Err(format!("the prunes after it left something to do: {again:?}")),
        }
    }
}

/// Fails unless the small containers of each content are too few to merge, and their runs as few.
/// If a prune died after it had copied, the next one may need some originals and some copies.
fn expect_few_objects(objects: &dyn Objects) -> Result<(), String> {
    let few = 2 * 7;
    for (prefix, most) in [("containers/", few), ("index/", few), ("marks/", 0), ("intents/", 0)] {
        let names = names(objects, prefix);
        if names.len() > most {
            return Err(format!("{prefix} has more than {most} objects: {names:?}"));
        }
    }
    Ok(())
}

fn prune_all(repository: &Repository) -> Result<Report, StoreError> {
    let options = prune::Options { fence_after: Duration::ZERO, ..prune::Options::default() };
    prune::prune(repository, &options, &Progress::default(), &Cancel::default())
}

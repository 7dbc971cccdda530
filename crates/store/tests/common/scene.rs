//! A repository with one acknowledged snapshot, and a second backup that goes wrong.

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_backend::crash::CrashDisk;
use onefold_backend::{MemoryObjects, Objects};
use onefold_container::{Directory, container_id};
use onefold_seal::ObjectId;
use onefold_store::{Progress, Repository, Snapshot, StoreError, backup};
use onefold_testkit::{random, text};
use tempfile::TempDir;

use super::picture::Picture;
use super::trials::{Trial, Tried, stop_everywhere};
use super::{
    Protection, back_up, chain, config, envelope, expect_clean, init, open, restored, try_back_up,
    try_open, write,
};

/// A source in its second version, and what is left of the backup of the first.
pub struct Scene {
    source: TempDir,
    /// The repository with the first snapshot, all of it durable.
    before: Arc<dyn Objects>,
    first: ObjectId,
    /// What the two versions look like.
    pictures: [Picture; 2],
}

impl Scene {
    pub fn new() -> Self {
        Self::protected(Protection::Plain)
    }

    /// The same with a repository that is encrypted, or not.
    pub fn protected(protection: Protection) -> Self {
        let source = tempfile::tempdir().unwrap();
        make_first_version(source.path());
        let before: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let repository = init(Arc::clone(&before), config(1024, 4096, 16384), protection).unwrap();
        let (first, _) = back_up(&repository, source.path());
        let first_picture = Picture::of(source.path());
        make_second_version(source.path());
        let pictures = [first_picture, Picture::of(source.path())];
        Self { source, before, first, pictures }
    }

    /// One thread of each kind, so that two runs take the same steps.
    fn options() -> backup::Options {
        backup::Options { threads: NonZero::new(1), ..super::options() }
    }

    /// Opens the repository and backs the second version up.
    fn second_backup(&self, objects: Arc<dyn Objects>) -> Result<(ObjectId, Snapshot), StoreError> {
        let repository = try_open(objects)?;
        let source = [self.source.path()];
        try_back_up(&repository, &source, &Self::options(), &Progress::default())
    }

    fn expect_snapshots_restore(&self, repository: &Repository) -> Result<Vec<ObjectId>, String> {
        let (snapshots, damaged) = repository.snapshots().map_err(|error| chain(&error))?;
        if let Some(error) = damaged.first() {
            return Err(chain(error));
        }
        for (id, snapshot) in &snapshots {
            let picture = &self.pictures[usize::from(*id != self.first)];
            restored(repository, snapshot)
                .and_then(|restored| restored.expect(picture))
                .map_err(|broken| format!("snapshot {id} restores wrong: {broken}"))?;
        }
        Ok(snapshots.into_iter().map(|(id, _)| id).collect())
    }
}

impl Trial for Scene {
    /// The snapshot that was acknowledged.
    type Acknowledged = Option<ObjectId>;

    fn before(&self) -> &dyn Objects {
        &*self.before
    }

    /// The second backup.
    fn run(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &mut Option<ObjectId>,
    ) -> Result<(), StoreError> {
        *acknowledged = Some(self.second_backup(objects)?.0);
        Ok(())
    }

    /// Opens what is left of the repository and fails unless all that was promised holds: it is
    /// clean, snapshots that were acknowledged are there, snapshots that are there restore, and
    /// the next backup succeeds without storing again what survived.
    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &Option<ObjectId>,
    ) -> Result<(), String> {
        let repository = try_open(Arc::clone(&objects)).map_err(|error| chain(&error))?;
        let warnings = repository.load().map_err(|error| chain(&error))?;
        if !warnings.is_empty() {
            return Err(format!("opening warns: {warnings:?}"));
        }
        expect_clean(&repository).map_err(|broken| format!("not clean: {broken}"))?;
        let present = self.expect_snapshots_restore(&repository)?;
        if let Some(lost) =
            [Some(self.first), *acknowledged].into_iter().flatten().find(|id| !present.contains(id))
        {
            return Err(format!("snapshot {lost} was acknowledged and is lost"));
        }
        let (id, next) = self
            .second_backup(Arc::clone(&objects))
            .map_err(|error| format!("the next backup fails: {}", chain(&error)))?;
        let after = open(&objects);
        expect_clean(&after).map_err(|broken| format!("not clean after the next: {broken}"))?;
        expect_nothing_stored_twice(&*objects, &after)?;
        restored(&after, &next)?
            .expect(&self.pictures[1])
            .map_err(|broken| format!("the next snapshot {id} restores wrong: {broken}"))
    }
}

/// Fails if two containers hold the same chunk.
pub fn expect_nothing_stored_twice(
    objects: &dyn Objects,
    repository: &Repository,
) -> Result<(), String> {
    let envelope = envelope(objects, repository.id());
    let mut seen = HashSet::new();
    for info in objects.list(onefold_container::PREFIX).unwrap() {
        let id = container_id(&info.name).unwrap();
        let directory = Directory::read(objects, &envelope, id, info.size).unwrap();
        for chunk in directory.chunks {
            if !seen.insert(chunk.fingerprint) {
                return Err(format!("chunk {} is stored twice", chunk.fingerprint));
            }
        }
    }
    Ok(())
}

/// Small files and large ones, equal ones, empty ones, links of both kinds.
fn make_first_version(root: &Path) {
    for (number, len) in [0, 1, 500, 1023, 1024, 3000, 16384, 16385, 40_000].into_iter().enumerate()
    {
        write(root.join(format!("texts/{number}")), text(number as u64, len));
        write(root.join(format!("noise/deep/er/{number}")), random(number as u64, len));
    }
    write(root.join("large"), random(100, 700_000));
    write(root.join("twin-a"), random(101, 50_000));
    write(root.join("twin-b"), random(101, 50_000));
    fs::create_dir_all(root.join("empty/directory")).unwrap();
    symlink("../large", root.join("texts/link")).unwrap();
    fs::hard_link(root.join("twin-a"), root.join("linked")).unwrap();
}

/// A third of the files changed, some gone, some new, one moved.
fn make_second_version(root: &Path) {
    let large = random(100, 700_000);
    let edited = [&large[..300_000], b"in the middle", &large[300_000..], &random(102, 1_200_000)];
    write(root.join("large"), edited.concat());
    write(root.join("texts/5"), text(200, 30_000));
    write(root.join("new/noise"), random(201, 300_000));
    write(root.join("new/empty"), b"");
    fs::remove_dir_all(root.join("empty")).unwrap();
    fs::remove_file(root.join("noise/deep/er/7")).unwrap();
    fs::rename(root.join("noise/deep/er/8"), root.join("moved")).unwrap();
    fs::remove_file(root.join("texts/link")).unwrap();
    symlink("nowhere", root.join("texts/link")).unwrap();
}

/// A backup into a new place is stopped after every operation of making the repository.
pub fn cut_power_while_making_a_repository(cuts: usize, protection: Protection) -> Tried {
    let make = |disk: &CrashDisk| {
        let objects = Arc::new(disk.objects());
        init(objects, config(1024, 4096, 16384), protection).map(|made| made.id())
    };
    let whole = CrashDisk::new();
    make(&whole).map_err(|error| chain(&error))?;
    stop_everywhere(whole.operations(), cuts, |stop, states| {
        let disk = CrashDisk::new();
        disk.crash_after(stop);
        let acknowledged = make(&disk).ok();
        for state in disk.durable_states(cuts, stop) {
            let broken = |what: String| format!("stopped after operation {stop}: {what}");
            match try_open(Arc::new(state.objects())) {
                Ok(repository) => expect_clean(&repository).map_err(broken)?,
                Err(StoreError::NoRepository) if acknowledged.is_none() => {
                    make(&state).map_err(|error| broken(chain(&error)))?;
                    let objects: Arc<dyn Objects> = Arc::new(state.objects());
                    try_open(objects).map_err(|error| broken(chain(&error)))?;
                }
                Err(error) => return Err(broken(chain(&error))),
            }
            states.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })
}

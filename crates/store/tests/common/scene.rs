//! A repository with one acknowledged snapshot, and a second backup that goes wrong.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{MemoryObjects, Objects, Operation};
use onefold_container::{Directory, container_id};
use onefold_seal::ObjectId;
use onefold_store::{Progress, Repository, Snapshot, StoreError, backup};
use onefold_testkit::{random, text};
use tempfile::TempDir;

use super::picture::Picture;
use super::{
    Protection, back_up, chain, config, copy, envelope, expect_clean, init, open, restored,
    try_back_up, try_open, write,
};

/// How much was tried, or the first promise that was broken.
pub type Tried = Result<Count, String>;

/// How much was tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    /// After how many operations the backup was stopped.
    pub operations: u64,
    /// How many cuts were drawn at most after each.
    pub cuts: usize,
    /// How many different states that gave.
    pub states: u64,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, cuts, states } = self;
        write!(f, "{operations} operations × {cuts} cuts tried, {states} different states")
    }
}

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

    /// A disk on which the repository is durable and nothing else happened yet.
    fn disk(&self) -> CrashDisk {
        let disk = CrashDisk::new();
        let objects = disk.objects();
        for info in self.before.list("").unwrap() {
            objects.put(&info.name, self.before.get(&info.name).unwrap()).unwrap();
        }
        disk.durable_states(2, 0).last().unwrap()
    }

    /// Opens the repository and backs the second version up.
    fn second_backup(&self, objects: Arc<dyn Objects>) -> Result<(ObjectId, Snapshot), StoreError> {
        let repository = try_open(objects)?;
        let source = [self.source.path()];
        try_back_up(&repository, &source, &Self::options(), &Progress::default())
    }

    /// Stops the second backup after every operation, draws `cuts` durable states after each and
    /// holds every one of them against what was acknowledged. `prepare` may change the disk.
    pub fn cut_power_everywhere(
        &self,
        cuts: usize,
        prepare: impl Fn(CrashDisk) -> CrashDisk,
    ) -> Tried {
        let base = self.disk();
        let new_disk = || prepare(base.durable_states(2, 0).last().unwrap());
        let whole = new_disk();
        self.second_backup(Arc::new(whole.objects())).map_err(|error| chain(&error))?;
        // Random names share directories or not, so the number of operations varies a little.
        let operations = whole.operations() + 8;
        let mut states = 0;
        for stop in 0..=operations {
            let disk = new_disk();
            disk.crash_after(stop);
            let acknowledged = self.second_backup(Arc::new(disk.objects())).ok();
            let acknowledged = acknowledged.map(|(id, _)| id);
            for (cut, state) in disk.durable_states(cuts, stop).enumerate() {
                self.expect_promises_kept(Arc::new(state.objects()), acknowledged).map_err(
                    |broken| {
                        let step = disk.trace().last().map(ToString::to_string);
                        let step = step.unwrap_or_else(|| "the start".into());
                        format!("stopped after operation {stop} ({step}), state {cut}: {broken}")
                    },
                )?;
                states += 1;
            }
        }
        Ok(Count { operations, cuts, states })
    }

    /// Kills the second backup after every `stride`-th operation, lets another one run on what is
    /// visible, and cuts the power then.
    pub fn kill_and_cut_power_later(&self, stride: usize, cuts: usize) -> Tried {
        let base = self.disk();
        let new_disk = || base.durable_states(2, 0).last().unwrap();
        let whole = new_disk();
        self.second_backup(Arc::new(whole.objects())).map_err(|error| chain(&error))?;
        let mut count = Count { cuts, ..Count::default() };
        for stop in (0..whole.operations()).step_by(stride) {
            let disk = new_disk();
            disk.crash_after(stop);
            let _killed = self.second_backup(Arc::new(disk.objects()));
            disk.crash_after(u64::MAX);
            let later = self.second_backup(Arc::new(disk.objects()));
            let (id, _) = later.map_err(|error| chain(&error))?;
            for state in disk.durable_states(cuts, stop) {
                self.expect_promises_kept(Arc::new(state.objects()), Some(id))
                    .map_err(|broken| format!("killed after operation {stop}: {broken}"))?;
                count.states += 1;
            }
            count.operations += 1;
        }
        Ok(count)
    }

    /// Lets each put of the second backup fail, one after the other, and holds what is left
    /// against what was acknowledged.
    pub fn fail_every_put(&self) -> Tried {
        let mut count = Count { cuts: 1, ..Count::default() };
        for put in 0.. {
            let faults = Faults::none();
            let memory = copy(&self.before);
            let objects = Faulty::new(Arc::clone(&memory), "memory", &faults);
            faults.add(Fault::new(Failure::Io).on(Operation::Put).skip(put));
            let done = self.second_backup(Arc::new(objects));
            let acknowledged = done.ok().map(|(id, _)| id);
            self.expect_promises_kept(memory, acknowledged)
                .map_err(|broken| format!("put {put} failed: {broken}"))?;
            if faults.failed() == 0 {
                break;
            }
            count.operations += 1;
            count.states += 1;
        }
        Ok(count)
    }

    /// Opens what is left of the repository and fails unless all that was promised holds: it is
    /// clean, snapshots that were acknowledged are there, snapshots that are there restore, and
    /// the next backup succeeds without storing again what survived.
    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: Option<ObjectId>,
    ) -> Result<(), String> {
        let repository = try_open(Arc::clone(&objects)).map_err(|error| chain(&error))?;
        let warnings = repository.load().map_err(|error| chain(&error))?;
        if !warnings.is_empty() {
            return Err(format!("opening warns: {warnings:?}"));
        }
        expect_clean(&repository).map_err(|broken| format!("not clean: {broken}"))?;
        let present = self.expect_snapshots_restore(&repository)?;
        if let Some(lost) =
            [Some(self.first), acknowledged].into_iter().flatten().find(|id| !present.contains(id))
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
    let operations = whole.operations();
    let mut states = 0;
    for stop in 0..=operations {
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
            states += 1;
        }
    }
    Ok(Count { operations, cuts, states })
}

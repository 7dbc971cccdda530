//! A client that remembers what it sees, on a disk whose power goes.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_backend::crash::CrashDisk;
use onefold_backend::{Folder, MemoryFolder, Objects};
use onefold_seal::ObjectId;
use onefold_store::{Progress, Repository, StoreError, backup, forget};
use tempfile::TempDir;

use super::trials::{Tried, stop_everywhere};
use super::{Protection, chain, copy, expect_clean, init, names, small_chunks, try_back_up, write};

/// What a repository and the memory of its client were when the client began.
pub struct Remembered {
    source: TempDir,
    disk: CrashDisk,
    first: ObjectId,
}

/// What the client was told before the power went.
#[derive(Debug, Default)]
struct Acknowledged {
    second: Option<ObjectId>,
    forgotten: bool,
}

impl Remembered {
    pub fn new() -> Self {
        let source = super::fast_folder();
        write(source.path().join("file"), "content");
        let disk = CrashDisk::new();
        init(Arc::new(disk.objects()), small_chunks(), Protection::Plain).unwrap();
        let (first, _) = back_up(&open(&disk).unwrap(), &source).unwrap();
        assert_eq!(open(&disk).unwrap().recall().unwrap(), []);
        let disk = disk.durable_states(2, 0).last().unwrap();
        Self { source, disk, first }
    }

    /// Backs up, and forgets the snapshot from before.
    fn go_on(&self, disk: &CrashDisk, told: &mut Acknowledged) -> Result<(), StoreError> {
        let repository = open(disk)?;
        repository.recall()?;
        let (id, _) = back_up(&repository, &self.source)?;
        // Only what is remembered as well is promised to be missed.
        if repository.trouble().is_empty() {
            told.second = Some(id);
        }
        forget::forget(&repository, &[self.first])?;
        told.forgotten = repository.trouble().is_empty();
        Ok(())
    }

    /// Stops after every operation and draws `cuts` durable states after each. In none is there
    /// anything that looks like an attack, and an attack on what the client knew is seen.
    pub fn cut_power_everywhere(&self, cuts: usize) -> Tried {
        let new_disk = || self.disk.durable_states(2, 0).last().unwrap();
        let whole = new_disk();
        self.go_on(&whole, &mut Acknowledged::default()).map_err(|error| chain(&error))?;
        stop_everywhere(whole.operations() + 8, cuts, |stop, states| {
            let disk = new_disk();
            disk.crash_after(stop);
            let mut told = Acknowledged::default();
            let _stopped = self.go_on(&disk, &mut told);
            for state in disk.durable_states(cuts, stop) {
                let step = disk.trace().last().map(ToString::to_string).unwrap_or_default();
                self.expect_promises_kept(&state, &told).map_err(|broken| {
                    format!("stopped after operation {stop} ({step}): {broken}")
                })?;
                states.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    fn expect_promises_kept(&self, disk: &CrashDisk, told: &Acknowledged) -> Result<(), String> {
        let said = |error: StoreError| chain(&error);
        let repository = open(disk).map_err(said)?;
        // As the crash left it, for the attacks below.
        let (objects, memory) = (copy(&disk.objects()), copy_of(disk));
        let findings = repository.recall().map_err(said)?;
        if let Some(finding) = findings.first() {
            return Err(format!("a crash is taken for an attack: {finding}"));
        }
        match &repository.trouble()[..] {
            [] => {}
            [trouble, ..] => return Err(format!("the memory is lost: {trouble}")),
        }
        expect_clean(&repository)?;
        // The repository goes back to before the last thing that the client was told.
        let entries = names(&*objects, "logs/");
        let known = 1 + usize::from(told.second.is_some()) + usize::from(told.forgotten);
        for gone in &entries[known - 1..] {
            objects.delete(gone).unwrap();
        }
        for look in 0..2 {
            let went_back = open_with(Arc::clone(&objects), Arc::clone(&memory)).map_err(said)?;
            if went_back.recall().map_err(said)?.is_empty() {
                return Err(format!("at look {look} nothing is wrong without {told:?} in the log"));
            }
        }
        Ok(())
    }
}

fn open(disk: &CrashDisk) -> Result<Repository, StoreError> {
    open_with(Arc::new(disk.objects()), Arc::new(disk.folder()))
}

fn open_with(objects: Arc<dyn Objects>, memory: Arc<dyn Folder>) -> Result<Repository, StoreError> {
    let mut repository = super::try_open(objects)?;
    repository.act_as("host".into(), Some(memory));
    Ok(repository)
}

/// What a client on this disk remembers, in memory.
fn copy_of(disk: &CrashDisk) -> Arc<dyn Folder> {
    let (from, to) = (disk.folder(), MemoryFolder::new());
    for name in from.names().unwrap() {
        let log = from.log(&name).unwrap();
        let mut bytes = vec![0; log.len() as usize];
        log.read(0, &mut bytes).unwrap();
        to.log(&name).unwrap().append(&bytes).unwrap();
    }
    Arc::new(to)
}

fn back_up(
    repository: &Repository,
    source: &TempDir,
) -> Result<(ObjectId, onefold_store::Snapshot), StoreError> {
    let options = backup::Options { threads: NonZero::new(1), ..super::options() };
    try_back_up(repository, &[source.path()], &options, &Progress::default())
}

//! The disk as a whole: its files, the steps on them, and when it stops.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::fate::{Chance, Fate};
use super::file_system::{FileId, FileSystem};
use super::folder::CrashFolder;
use super::objects::CrashObjects;
use super::owned::{CrashLog, CrashPages, OwnedFile};
use super::seeded::DiskBug;
use crate::{BackendError, Operation};

/// The directory of objects, from the root of the disk.
pub(super) const OBJECTS: &str = "objects";

/// The directory of logs and pages.
pub(super) const LOCAL: &str = "local";

/// The number of disks created so far.
static DISKS: AtomicU64 = AtomicU64::new(0);

/// A simulated disk; clones are the same disk.
///
/// See the [module](super) for what it models.
#[derive(Clone, Debug)]
pub struct CrashDisk(Arc<Mutex<Disk>>);

/// One step on a simulated disk, with its path.
///
/// Objects are below `objects/`, logs and pages below `local/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// A directory was created, or found to exist.
    MakeDirectory(String),
    /// A file was created, or found to exist.
    Create(String),
    /// Bytes were written to a file.
    Write(String),
    /// A file's length was set.
    Resize(String),
    /// A file's bytes were made durable.
    SyncFile(String),
    /// A file got this additional name, unless the name was taken.
    Link(String),
    /// A name was removed, if it existed.
    Unlink(String),
    /// A file got this name instead of its own, and the file that had the name lost it.
    Rename(String),
    /// The names in a directory were made durable.
    SyncDirectory(String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, path) = match self {
            Self::MakeDirectory(path) => ("make directory", path),
            Self::Create(path) => ("create", path),
            Self::Write(path) => ("write", path),
            Self::Resize(path) => ("resize", path),
            Self::SyncFile(path) => ("sync file", path),
            Self::Link(path) => ("link", path),
            Self::Unlink(path) => ("unlink", path),
            Self::Rename(path) => ("rename to", path),
            Self::SyncDirectory(path) => ("sync directory", path),
        };
        write!(f, "{verb} {path}")
    }
}

/// The state that all handles of a disk share.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) files: FileSystem,
    /// Files that are open as a log or pages.
    pub(super) owned: BTreeSet<FileId>,
    steps: Vec<Step>,
    last_step: Option<u64>,
    bug: Option<DiskBug>,
    /// Unique among the disks of this process.
    number: u64,
}

impl Disk {
    /// Records a step, which the caller makes before it lets go of the disk.
    pub(super) fn note(&mut self, step: Step) {
        self.steps.push(step);
    }
}

impl CrashDisk {
    /// An empty disk that does not crash.
    pub fn new() -> Self {
        let mut files = FileSystem::new();
        files.make_directory(OBJECTS);
        files.make_directory(LOCAL);
        files.sync_directory("");
        Self::with_files(files, None)
    }

    fn with_files(files: FileSystem, bug: Option<DiskBug>) -> Self {
        Self(Arc::new(Mutex::new(Disk {
            files,
            owned: BTreeSet::new(),
            steps: Vec::new(),
            last_step: None,
            bug,
            number: DISKS.fetch_add(1, Ordering::Relaxed),
        })))
    }

    /// A number that is unique among the disks of this process.
    pub(super) fn number(&self) -> u64 {
        self.lock().number
    }

    /// The same disk, but with one seeded bug from now on. States drawn from it keep the bug.
    #[cfg(feature = "seeded-bugs")]
    pub fn with_bug(self, bug: DiskBug) -> Self {
        self.lock().bug = Some(bug);
        self
    }

    /// The disk's objects, like a newly opened [`LocalObjects`](crate::LocalObjects).
    pub fn objects(&self) -> CrashObjects {
        CrashObjects::new(self.clone())
    }

    /// Opens a log as [`LocalLog::open`](crate::LocalLog::open) does. `name` has one part.
    pub fn log(&self, name: &str) -> Result<CrashLog, BackendError> {
        OwnedFile::open(self.clone(), name).map(CrashLog::new)
    }

    /// Opens pages as [`LocalPages::open`](crate::LocalPages::open) does. `name` has one part.
    ///
    /// # Panics
    ///
    /// If `page_size` is zero.
    pub fn pages(&self, name: &str, page_size: usize) -> Result<CrashPages, BackendError> {
        assert!(page_size > 0, "a page has at least one byte");
        OwnedFile::open(self.clone(), name).map(|file| CrashPages::new(file, page_size))
    }

    /// The disk's logs and pages, like those of a [`LocalFolder`](crate::LocalFolder).
    pub fn folder(&self) -> CrashFolder {
        CrashFolder::new(self.clone())
    }

    /// Stops the disk after `operations` steps since its creation: every later call on any handle, even a
    /// read, does nothing and fails with [`BackendError::Crashed`].
    ///
    /// A second call with a larger number lets the disk continue with its live content, as after a kill
    /// of the program instead of a power cut.
    pub fn crash_after(&self, operations: u64) {
        self.lock().last_step = Some(operations);
    }

    /// The number of steps since the disk was created.
    pub fn operations(&self) -> u64 {
        self.lock().steps.len() as u64
    }

    /// The steps since the disk was created.
    pub fn trace(&self) -> Vec<Step> {
        self.lock().steps.clone()
    }

    /// Path and bytes of every file as calls see it now, staging files included.
    pub fn files(&self) -> BTreeMap<String, Bytes> {
        let files = self.lock().files.files();
        files.into_iter().map(|(path, bytes)| (path, Bytes::copy_from_slice(&bytes))).collect()
    }

    /// Distinct states in which the disk may be after a power cut now: the state without any unsynced
    /// change, the state with all of them, and up to `cuts` - 2 mixtures drawn with `seed`.
    ///
    /// Each is a new disk that does not crash and whose content is durable.
    pub fn durable_states(
        &self,
        cuts: usize,
        seed: u64,
    ) -> impl Iterator<Item = CrashDisk> + use<> {
        let (files, bug) = {
            let disk = self.lock();
            (disk.files.clone(), disk.bug)
        };
        let mut chance = Chance::new(seed);
        let mixtures = std::iter::repeat_with(move || Fate::Mixed(chance.fork()));
        let mut seen = HashSet::new();
        [Fate::Lost, Fate::Kept]
            .into_iter()
            .chain(mixtures)
            .take(cuts.max(2))
            .map(move |mut fate| files.after_power_cut(&mut fate))
            .filter(move |after| seen.insert(after.files()))
            .map(move |after| Self::with_files(after, bug))
    }

    /// Records a step if the disk still runs; the caller then makes the change.
    pub(super) fn step(
        &self,
        operation: Operation,
        name: &str,
        step: Step,
    ) -> Result<MutexGuard<'_, Disk>, BackendError> {
        let mut disk = self.read(operation, name)?;
        disk.note(step);
        Ok(disk)
    }

    /// The disk, if it still runs.
    pub(super) fn read(
        &self,
        operation: Operation,
        name: &str,
    ) -> Result<MutexGuard<'_, Disk>, BackendError> {
        let disk = self.lock();
        if disk.last_step.is_some_and(|last| disk.steps.len() as u64 >= last) {
            return Err(BackendError::Crashed { name: name.to_owned(), operation });
        }
        Ok(disk)
    }

    pub(super) fn has_bug(&self, bug: DiskBug) -> bool {
        self.lock().bug == Some(bug)
    }

    pub(super) fn release(&self, file: FileId) {
        self.lock().owned.remove(&file);
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        // A test that panics leaves files that are whole: steps change one thing each.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for CrashDisk {
    fn default() -> Self {
        Self::new()
    }
}

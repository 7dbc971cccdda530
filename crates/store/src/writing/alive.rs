//! Which backups of this machine are dead, known by locks on files in a local folder.
//!
//! A backup locks a file of its own before it puts its intent, and notes in it on which machine it
//! runs and which snapshots it is about to make. The operating system releases the lock when the
//! process ends, however it ends; a process that is stopped keeps it. A prune on the same machine
//! that obtains the lock knows that the backup can no longer commit, and need not wait for it.
//!
//! The folder may be on a file system that hosts share and whose locks they do not share. Therefore
//! only a file that this machine wrote counts. Without a file a prune waits as for any other host.
//! Nothing is lost by a mistake: a prune fences a backup before it deletes, so that a live one fails.

use std::collections::HashSet;
use std::fs;
use std::sync::{Arc, Mutex};

use onefold_backend::{BackendError, Folder, Log};
use onefold_seal::ObjectId;

use crate::Repository;
use crate::finding::describe;
use crate::local::slots::patiently;

const PREFIX: &str = "backup-";

/// More than this was not written by a backup.
const MAX_LEN: u64 = 16 << 20;

/// A machine that never prunes keeps about this many files of dead backups, and a prune opens no more
/// at once: each takes a descriptor.
const MAX_DEAD: usize = 64;

/// A file's name, and the file, locked as long as it is open.
type Locked = (String, Box<dyn Log + Sync>);

/// What tells one machine from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Machine {
    /// Drawn by the kernel when it started.
    boot: String,
    /// Drawn when the system was installed.
    machine: String,
}

impl Machine {
    /// This machine. What it does not tell is empty.
    fn here() -> Self {
        let first_line = |path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().next().unwrap_or_default().trim().to_owned()
        };
        let (boot, machine) = ("/proc/sys/kernel/random/boot_id", "/etc/machine-id");
        let mut machine = first_line(machine);
        // What an image has until its first boot is no machine's.
        if machine == "uninitialized" {
            machine.clear();
        }
        Self { boot: first_line(boot), machine }
    }

    /// Whether locks of `other` are locks here: the same kernel holds them, or held them until it was
    /// started again.
    fn is(&self, other: &Self) -> bool {
        let same = |one: &str, other: &str| !one.is_empty() && one == other;
        same(&self.boot, &other.boot) || same(&self.machine, &other.machine)
    }
}

/// A sign of life of an operation that makes snapshots: a locked file.
pub(crate) struct Alive {
    folder: Arc<dyn Folder>,
    name: String,
    state: Mutex<State>,
}

struct State {
    /// Locked as long as it is open.
    log: Box<dyn Log + Sync>,
    /// Intents that were noted and may still exist.
    open: usize,
}

impl Alive {
    /// Locks a file for an operation on `repository`. Without a folder, or if that fails, other
    /// prunes of this machine wait for the operation as prunes elsewhere do.
    pub(crate) fn begin(repository: &Repository) -> Option<Arc<Self>> {
        let folder = Arc::clone(repository.locks.as_ref()?);
        match Self::try_begin(folder) {
            Ok(alive) => Some(Arc::new(alive)),
            Err(error) => {
                note(repository, &error);
                None
            }
        }
    }

    fn try_begin(folder: Arc<dyn Folder>) -> Result<Self, BackendError> {
        if files(&*folder)?.len() > MAX_DEAD {
            dead_files(&*folder)?.0.iter().try_for_each(|(name, _)| folder.remove(name))?;
        }
        let name = format!("{PREFIX}{}", ObjectId::random());
        // A prune may look at the file before it is locked.
        let mut log = patiently(|| folder.log(&name))?;
        let Machine { boot, machine } = Machine::here();
        log.append(format!("{boot}\n{machine}\n").as_bytes())?;
        Ok(Self { folder, name, state: Mutex::new(State { log, open: 0 }) })
    }

    /// Notes that the intent to make `snapshot` is about to be put; whether that could be noted.
    /// Durable on return, for the prunes after a power cut.
    pub(crate) fn enter(&self, repository: &Repository, snapshot: ObjectId) -> bool {
        let mut state = self.state.lock().expect("lock not poisoned");
        let line = format!("{snapshot}\n");
        match state.log.append(line.as_bytes()).and_then(|_| state.log.sync()) {
            Ok(()) => state.open += 1,
            Err(error) => {
                note(repository, &error);
                return false;
            }
        }
        true
    }

    /// Notes that no prune waits for one of the intents any longer.
    pub(crate) fn settle(&self) {
        self.state.lock().expect("lock not poisoned").open -= 1;
    }
}

impl Drop for Alive {
    /// If an intent is left behind, so is the file: the next prune of this machine knows by it that
    /// the operation has ended.
    fn drop(&mut self) {
        if self.state.get_mut().is_ok_and(|state| state.open == 0) {
            // A file that stays is removed by the next prune.
            let _ = self.folder.remove(&self.name);
        }
    }
}

/// The backups of this machine that have ended without taking their intents back.
pub(crate) struct Dead {
    folder: Option<Arc<dyn Folder>>,
    /// Their files, locked.
    files: Vec<Locked>,
    snapshots: HashSet<ObjectId>,
}

impl Dead {
    /// Looks for them; finds none if that fails.
    pub(crate) fn find(repository: &Repository) -> Self {
        let mut dead = Self { folder: None, files: Vec::new(), snapshots: HashSet::new() };
        let Some(folder) = &repository.locks else { return dead };
        match dead_files(&**folder) {
            Ok((files, trouble)) => {
                trouble.iter().for_each(|error| note(repository, error));
                let snapshots = files.iter().flat_map(|(_, log)| snapshots_in(&**log));
                dead.snapshots = snapshots.collect();
                dead.folder = Some(Arc::clone(folder));
                dead.files = files;
            }
            Err(error) => note(repository, &error),
        }
        dead
    }

    /// Whether the backup that was to make `snapshot` is one of them.
    pub(crate) fn has(&self, snapshot: ObjectId) -> bool {
        self.snapshots.contains(&snapshot)
    }

    /// Removes their files, once none of their intents is left.
    pub(crate) fn clear(self, repository: &Repository) {
        let Some(folder) = &self.folder else { return };
        let removed = self.files.iter().try_for_each(|(name, _)| folder.remove(name));
        if let Err(error) = removed {
            note(repository, &error);
        }
    }
}

fn note(repository: &Repository, error: &BackendError) {
    repository.note_trouble(format_args!(
        "whether backups of this machine are alive cannot be told by locks: {}",
        describe(error)
    ));
}

fn files(folder: &dyn Folder) -> Result<Vec<String>, BackendError> {
    let mut names = folder.names()?;
    let is_own =
        |name: &String| name.strip_prefix(PREFIX).is_some_and(|id| id.parse::<ObjectId>().is_ok());
    names.retain(is_own);
    Ok(names)
}

/// The files whose locks can be obtained and that this machine wrote, locked; at most [`MAX_DEAD`]. And
/// why one could not be opened, if so.
fn dead_files(folder: &dyn Folder) -> Result<(Vec<Locked>, Option<BackendError>), BackendError> {
    let (mut dead, mut trouble) = (Vec::new(), None);
    for name in files(folder)? {
        match folder.log(&name) {
            // It was removed since it was listed, or power went as it was made.
            Ok(log) if log.is_empty() => folder.remove(&name)?,
            Ok(log) if is_of_here(&*log) => dead.push((name, log)),
            Ok(_) | Err(BackendError::InUse { .. }) => {}
            // One file that cannot be opened says nothing of the others.
            Err(error) => trouble = Some(error),
        }
        if dead.len() == MAX_DEAD {
            break;
        }
    }
    Ok((dead, trouble))
}

fn is_of_here(log: &(dyn Log + Sync)) -> bool {
    let text = text_of(log);
    let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let (Some(boot), Some(machine)) = (lines.next(), lines.next()) else { return false };
    Machine::here().is(&Machine { boot: boot.to_owned(), machine: machine.to_owned() })
}

fn snapshots_in(log: &(dyn Log + Sync)) -> Vec<ObjectId> {
    text_of(log).lines().skip(2).filter_map(|line| line.parse().ok()).collect()
}

/// What a file says, or nothing if no backup wrote it.
fn text_of(log: &(dyn Log + Sync)) -> String {
    if log.len() > MAX_LEN {
        return String::new();
    }
    let mut bytes = vec![0; log.len() as usize];
    match log.read(0, &mut bytes) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_its_kernel_or_its_system_and_never_by_nothing() {
        let machine = |boot: &str, machine: &str| Machine {
            boot: boot.to_owned(),
            machine: machine.to_owned(),
        };
        let here = machine("a", "b");
        assert!(here.is(&machine("a", "")) && here.is(&machine("c", "b")));
        assert!(!here.is(&machine("b", "a")) && !here.is(&machine("", "")));
        assert!(!machine("", "").is(&machine("", "")));
    }
}

//! The logs and pages of a simulated disk as a folder.

use super::disk::{CrashDisk, LOCAL, Step};
use super::owned::{CrashReader, path_of};
use crate::name::check_part;
use crate::{BackendError, Folder, Log, LogReader, MountId, Operation, Pages};

/// The logs and pages of a [`CrashDisk`].
#[derive(Clone, Debug)]
pub struct CrashFolder {
    disk: CrashDisk,
}

impl CrashFolder {
    pub(super) fn new(disk: CrashDisk) -> Self {
        Self { disk }
    }
}

impl Folder for CrashFolder {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        Ok(Box::new(self.disk.log(name)?))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        Ok(Box::new(CrashReader::open(self.disk.clone(), name)?))
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        Ok(Box::new(self.disk.pages(name, page_size)?))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        let disk = self.disk.read(Operation::List, LOCAL)?;
        let files = disk.files.files().into_keys();
        Ok(files.filter_map(|path| Some(path.strip_prefix(LOCAL)?.get(1..)?.to_owned())).collect())
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        check_part(name)?;
        let step = Step::Unlink(path_of(name));
        self.disk.step(Operation::Delete, name, step)?.files.unlink(&path_of(name));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        check_part(from)?;
        check_part(to)?;
        {
            let path = path_of(from);
            let mut disk = self.disk.read(Operation::Rename, from)?;
            let Some(file) = disk.files.find(&path) else {
                let place = "simulated disk".to_owned();
                return Err(BackendError::NotFound { name: from.to_owned(), place });
            };
            disk.note(Step::Rename(path_of(to)));
            disk.files.rename(&path, file, &path_of(to));
        }
        let step = Step::SyncDirectory(LOCAL.to_owned());
        self.disk.step(Operation::Rename, from, step)?.files.sync_directory(LOCAL);
        Ok(())
    }

    /// Each state that a power cut leaves is a mount of its own.
    fn mount(&self) -> Option<MountId> {
        Some(MountId { boot: *b"a simulated disk", number: self.disk.number() })
    }
}

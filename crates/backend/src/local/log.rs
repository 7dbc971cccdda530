//! A log in a local file.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::itself::Directory;
use super::owned::OwnedFile;
use crate::error::name_and_place;
use crate::{BackendError, Log, LogReader, Operation, Reserved, Syncer};

/// A log in a local file, owned by one handle at a time, in this process or any other.
#[derive(Debug)]
pub struct LocalLog(OwnedFile);

impl LocalLog {
    /// Opens the log at `path`, or creates it, empty; its directory must exist.
    ///
    /// Name and content are durable on return. If another handle owns the log, fails with
    /// [`BackendError::InUse`].
    pub fn open(path: &Path) -> Result<Self, BackendError> {
        OwnedFile::open(path).map(Self)
    }

    /// The log `name` in `directory`, as [`open`](Self::open) opens it.
    pub(super) fn open_in(directory: &Directory, name: &str) -> Result<Self, BackendError> {
        OwnedFile::open_in(directory, name).map(Self)
    }
}

impl Log for LocalLog {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.0.append(bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.0.sync()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.0.shrink(len)
    }

    fn reserve(&mut self, bytes: u64) -> Reserved {
        self.0.reserve(bytes)
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.0.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        self.0.syncer()
    }
}

/// A reader of a log in a local file.
#[derive(Debug)]
pub(super) struct LocalReader {
    file: File,
    path: PathBuf,
    len: u64,
}

impl LocalReader {
    /// Opens the file `name` in `directory`, which no symbolic link stands for.
    pub(super) fn open_in(directory: &Directory, name: &str) -> Result<Self, BackendError> {
        let path = directory.path().join(name);
        let file = directory.file(name, false)?;
        Self { file, path, len: 0 }.measured()
    }

    /// Whether `name` in `directory` still names the file.
    pub(super) fn is_named(&self, directory: &Directory, name: &str) -> Result<bool, BackendError> {
        let named = directory.still_names(name, &self.file);
        named.map_err(|cause| BackendError::from_file(Operation::Open, &self.path, cause))
    }

    /// The same file, as long as it is now.
    fn measured(self) -> Result<Self, BackendError> {
        let metadata = self.file.metadata();
        let metadata = metadata
            .map_err(|cause| BackendError::from_file(Operation::Open, &self.path, cause))?;
        Ok(Self { len: metadata.len(), ..self })
    }

    /// The same file, locked against owners, with its length under the lock: before it an owner may have
    /// changed it. If the file system has no locks, the file is not locked.
    pub(super) fn locked(self) -> Result<Self, BackendError> {
        match self.file.try_lock_shared() {
            Ok(()) => self.measured(),
            Err(TryLockError::WouldBlock) => {
                let (name, place) = name_and_place(&self.path);
                Err(BackendError::InUse { name, place })
            }
            Err(TryLockError::Error(cause)) if cause.kind() == io::ErrorKind::Unsupported => {
                self.measured()
            }
            Err(TryLockError::Error(cause)) => {
                Err(BackendError::from_file(Operation::Open, &self.path, cause))
            }
        }
    }
}

impl LogReader for LocalReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let range = offset..offset.saturating_add(into.len() as u64);
        if range.end > self.len {
            let (name, _) = name_and_place(&self.path);
            return Err(BackendError::OutOfRange { name, range, size: self.len });
        }
        self.file
            .read_exact_at(into, offset)
            .map_err(|cause| BackendError::from_file(Operation::Read, &self.path, cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalFolder;

    #[test]
    fn a_locked_reader_has_what_the_last_owner_left_before_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let folder = LocalFolder::create(&directory.path().join("pool")).unwrap();
        let mut owner = LocalLog::open_in(folder.directory(), "log").unwrap();
        owner.append(b"first").unwrap();
        let reader = || LocalReader::open_in(folder.directory(), "log").unwrap();
        let (before_append, before_cut) = (reader(), reader());
        assert!(matches!(reader().locked(), Err(BackendError::InUse { .. })));
        owner.append(b" and last").unwrap();
        drop(owner);
        let locked = before_append.locked().unwrap();
        let mut found = [0; 14];
        locked.read(0, &mut found).unwrap();
        assert_eq!((locked.len(), &found), (14, b"first and last"));
        drop(locked);
        LocalLog::open_in(folder.directory(), "log").unwrap().truncate(2).unwrap();
        assert_eq!(before_cut.locked().unwrap().len(), 2);
    }
}

//! A log in a local file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::owned::OwnedFile;
use crate::error::name_and_place;
use crate::{BackendError, Log, LogReader, Operation, Syncer};

/// A log in a local file, owned by one handle at a time, in this process or any other.
#[derive(Debug)]
pub struct LocalLog(OwnedFile);

impl LocalLog {
    /// Opens the log at `path`, made empty if there is none; its directory must exist.
    ///
    /// Name and content are durable on return. A log that another handle holds is
    /// [`BackendError::InUse`].
    pub fn open(path: &Path) -> Result<Self, BackendError> {
        OwnedFile::open(path).map(Self)
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

    fn reserve(&mut self, bytes: u64) -> bool {
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

/// A log in a local file, to read.
#[derive(Debug)]
pub(super) struct LocalReader {
    file: File,
    path: PathBuf,
    len: u64,
}

impl LocalReader {
    /// Opens the file at `path`, which no symbolic link stands for.
    pub(super) fn open(path: &Path) -> Result<Self, BackendError> {
        let (file, len) = open_itself(path)
            .map_err(|cause| BackendError::from_file(Operation::Open, path, cause))?;
        Ok(Self { file, path: path.to_owned(), len })
    }
}

/// The file that has the name itself, and its length.
fn open_itself(path: &Path) -> io::Result<(File, u64)> {
    // before it is opened: that of a pipe would wait for who writes to it
    let named = fs::symlink_metadata(path)?;
    if !named.is_file() {
        return Err(io::Error::other("expected a file of its own under this name"));
    }
    let file = File::open(path)?;
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(io::Error::other("it was replaced while it was opened"));
    }
    Ok((file, opened.len()))
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

//! A log in a local file.

use std::path::Path;
use std::sync::Arc;

use super::owned::OwnedFile;
use crate::{BackendError, Log, Syncer};

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

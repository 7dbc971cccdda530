//! Logs and pages on a simulated disk, which take the same steps as local ones.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::disk::{CrashDisk, LOCAL, Step};
use super::file_system::FileId;
use super::seeded::DiskBug;
use crate::name::check_part;
use crate::{BackendError, Log, LogReader, Operation, Pages, Syncer};

/// A file with one owner.
#[derive(Debug)]
pub(super) struct OwnedFile {
    disk: CrashDisk,
    file: FileId,
    name: String,
    len: u64,
}

impl OwnedFile {
    pub(super) fn open(disk: CrashDisk, name: &str) -> Result<Self, BackendError> {
        check_part(name)?;
        let path = path_of(name);
        let file = {
            let mut disk = disk.step(Operation::Open, name, Step::Create(path.clone()))?;
            let file = match disk.files.find(&path) {
                Some(file) => file,
                None => disk.files.create(&path).expect("the name was not found"),
            };
            if !disk.owned.insert(file) {
                let place = "simulated disk".to_owned();
                return Err(BackendError::InUse { name: name.to_owned(), place });
            }
            file
        };
        // From here on dropping the handle releases the file.
        let mut open = Self { disk, file, name: name.to_owned(), len: 0 };
        open.sync_file(Operation::Open)?;
        open.sync_name()?;
        open.len = open.disk.read(Operation::Open, name)?.files.content(file).live().len() as u64;
        Ok(open)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        read(&self.disk, self.file, &self.name, self.len, offset, into)
    }

    fn write(&self, operation: Operation, offset: u64, bytes: &[u8]) -> Result<(), BackendError> {
        if bytes.is_empty() {
            return self.disk.read(operation, &self.name).map(|_| ());
        }
        let mut disk = self.disk.step(operation, &self.name, Step::Write(path_of(&self.name)))?;
        let bytes = Bytes::copy_from_slice(bytes);
        disk.files.content_mut(self.file).write(offset as usize, bytes);
        Ok(())
    }

    fn resize(&mut self, len: u64) -> Result<(), BackendError> {
        let step = Step::Resize(path_of(&self.name));
        let mut disk = self.disk.step(Operation::Resize, &self.name, step)?;
        disk.files.content_mut(self.file).resize(len as usize);
        self.len = len;
        Ok(())
    }

    fn sync_file(&self, operation: Operation) -> Result<(), BackendError> {
        sync_file(&self.disk, self.file, &self.name, operation)
    }

    fn sync_name(&self) -> Result<(), BackendError> {
        let step = Step::SyncDirectory(LOCAL.to_owned());
        self.disk.step(Operation::Open, &self.name, step)?.files.sync_directory(LOCAL);
        Ok(())
    }

    fn inside(&self, range: Range<u64>) -> Result<(), BackendError> {
        inside(&self.name, range, self.len)
    }
}

fn inside(name: &str, range: Range<u64>, size: u64) -> Result<(), BackendError> {
    if range.end <= size {
        return Ok(());
    }
    Err(BackendError::OutOfRange { name: name.to_owned(), range, size })
}

/// Reads from the first `size` bytes of `file`.
fn read(
    disk: &CrashDisk,
    file: FileId,
    name: &str,
    size: u64,
    offset: u64,
    into: &mut [u8],
) -> Result<(), BackendError> {
    let end = offset.saturating_add(into.len() as u64);
    let disk = disk.read(Operation::Read, name)?;
    inside(name, offset..end, size)?;
    let live = disk.files.content(file).live();
    into.copy_from_slice(&live[offset as usize..end as usize]);
    Ok(())
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        self.disk.release(self.file);
    }
}

/// A log on a [`CrashDisk`].
#[derive(Debug)]
pub struct CrashLog(OwnedFile);

impl CrashLog {
    pub(super) fn new(file: OwnedFile) -> Self {
        Self(file)
    }
}

impl Log for CrashLog {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        let offset = self.0.len;
        self.0.write(Operation::Append, offset, bytes)?;
        self.0.len += bytes.len() as u64;
        Ok(offset)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.syncer().sync()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.0.inside(0..len)?;
        self.0.resize(len)?;
        self.0.sync_file(Operation::Resize)
    }

    fn len(&self) -> u64 {
        self.0.len
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.0.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        let OwnedFile { disk, file, name, .. } = &self.0;
        Arc::new(CrashSyncer { disk: disk.clone(), file: *file, name: name.clone() })
    }
}

/// Syncs a log on a [`CrashDisk`] concurrently with its handle.
struct CrashSyncer {
    disk: CrashDisk,
    file: FileId,
    name: String,
}

impl Syncer for CrashSyncer {
    fn sync(&self) -> Result<(), BackendError> {
        if self.disk.has_bug(DiskBug::LogSyncDoesNothing) {
            return Ok(());
        }
        sync_file(&self.disk, self.file, &self.name, Operation::Sync)
    }
}

/// A reader of a log on a [`CrashDisk`].
pub(super) struct CrashReader {
    disk: CrashDisk,
    file: FileId,
    name: String,
    len: u64,
}

impl CrashReader {
    /// Opens the log `name`, which is no step: nothing changes.
    pub(super) fn open(disk: CrashDisk, name: &str) -> Result<Self, BackendError> {
        check_part(name)?;
        let (file, len) = {
            let open = disk.read(Operation::Open, name)?;
            let Some(file) = open.files.find(&path_of(name)) else {
                let place = "simulated disk".to_owned();
                return Err(BackendError::NotFound { name: name.to_owned(), place });
            };
            (file, open.files.content(file).live().len() as u64)
        };
        Ok(Self { disk, file, name: name.to_owned(), len })
    }
}

impl LogReader for CrashReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        read(&self.disk, self.file, &self.name, self.len, offset, into)
    }
}

/// Pages on a [`CrashDisk`].
#[derive(Debug)]
pub struct CrashPages {
    file: OwnedFile,
    page_size: usize,
}

impl CrashPages {
    pub(super) fn new(mut file: OwnedFile, page_size: usize) -> Self {
        file.len -= file.len % page_size as u64;
        Self { file, page_size }
    }

    fn offset_of(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_size as u64)
    }
}

impl Pages for CrashPages {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn count(&self) -> u64 {
        self.file.len / self.page_size as u64
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        assert_eq!(into.len(), self.page_size, "a page is read whole");
        self.file.read(self.offset_of(page), into)
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        assert_eq!(bytes.len(), self.page_size, "a page is written whole");
        let offset = self.offset_of(page);
        self.file.inside(offset..offset.saturating_add(bytes.len() as u64))?;
        self.file.write(Operation::Write, offset, bytes)
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        let len = self.offset_of(count);
        if len < self.file.len {
            self.file.resize(len)?;
            return self.file.sync_file(Operation::Resize);
        }
        // Part of a page may follow the last one; added pages must be zeros.
        self.file.resize(self.file.len)?;
        self.file.resize(len)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        if self.file.disk.has_bug(DiskBug::PagesSyncDoesNothing) {
            return Ok(());
        }
        self.file.sync_file(Operation::Sync)
    }
}

fn sync_file(
    disk: &CrashDisk,
    file: FileId,
    name: &str,
    operation: Operation,
) -> Result<(), BackendError> {
    let mut disk = disk.step(operation, name, Step::SyncFile(path_of(name)))?;
    disk.files.content_mut(file).sync();
    Ok(())
}

pub(super) fn path_of(name: &str) -> String {
    format!("{LOCAL}/{name}")
}

//! Storage in memory, for tests and for temporary data.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use object_store::memory::InMemory;

use crate::name::check_part;
use crate::stored::{Here, Stored};
use crate::{BackendError, Folder, Log, LogReader, MountId, ObjectInfo, Objects, Pages, Syncer};

const PLACE: &str = "memory";

/// Objects in memory. "Durable" here means until the value is dropped.
#[derive(Debug)]
pub struct MemoryObjects(Stored<InMemory>);

impl MemoryObjects {
    /// An empty store.
    pub fn new() -> Self {
        Self(Stored { store: InMemory::new(), place: PLACE.to_owned(), waiter: Here })
    }
}

impl Default for MemoryObjects {
    fn default() -> Self {
        Self::new()
    }
}

impl Objects for MemoryObjects {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.0.put(name, bytes).map(|_| ())
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.0.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.0.get_range(name, range)
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.0.size(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.0.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.0.delete(name)
    }
}

/// A log in memory. Syncing does nothing.
#[derive(Debug, Default)]
pub struct MemoryLog {
    bytes: Vec<u8>,
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Log for MemoryLog {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        let offset = self.len();
        self.bytes.extend_from_slice(bytes);
        Ok(offset)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        inside("log", 0..len, self.len())?;
        self.bytes.truncate(len as usize);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        let end = offset.saturating_add(into.len() as u64);
        inside("log", offset..end, self.len())?;
        into.copy_from_slice(&self.bytes[offset as usize..end as usize]);
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(Nothing)
    }
}

/// Syncs nothing.
struct Nothing;

impl Syncer for Nothing {
    fn sync(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Pages in memory. Syncing does nothing.
#[derive(Debug)]
pub struct MemoryPages {
    page_size: usize,
    bytes: Vec<u8>,
}

impl MemoryPages {
    /// No pages yet, of `page_size` bytes each.
    ///
    /// # Panics
    ///
    /// If `page_size` is zero.
    pub fn new(page_size: usize) -> Self {
        assert!(page_size > 0, "a page has at least one byte");
        Self { page_size, bytes: Vec::new() }
    }

    fn range_of(&self, page: u64) -> Result<Range<usize>, BackendError> {
        let size = self.page_size as u64;
        let range = page.saturating_mul(size)..page.saturating_add(1).saturating_mul(size);
        inside("pages", range.clone(), self.bytes.len() as u64)?;
        Ok(range.start as usize..range.end as usize)
    }
}

impl Pages for MemoryPages {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn count(&self) -> u64 {
        (self.bytes.len() / self.page_size) as u64
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        assert_eq!(into.len(), self.page_size, "a page is read whole");
        into.copy_from_slice(&self.bytes[self.range_of(page)?]);
        Ok(())
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        assert_eq!(bytes.len(), self.page_size, "a page is written whole");
        let range = self.range_of(page)?;
        self.bytes[range].copy_from_slice(bytes);
        Ok(())
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        self.bytes.resize(count as usize * self.page_size, 0);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Logs and pages in memory. A removed file is freed when its last handle is dropped.
#[derive(Debug, Default)]
pub struct MemoryFolder(Mutex<BTreeMap<String, File>>);

#[derive(Debug, Clone)]
enum File {
    Log(Shared<MemoryLog>),
    Pages(Shared<MemoryPages>),
}

/// A log or pages that several handles may have.
#[derive(Debug)]
struct Shared<T>(Arc<RwLock<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    fn new(file: T) -> Self {
        Self(Arc::new(RwLock::new(file)))
    }

    fn read<R>(&self, call: impl FnOnce(&T) -> R) -> R {
        call(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl MemoryFolder {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    fn open(&self, name: &str, make: impl FnOnce() -> File) -> Result<File, BackendError> {
        check_part(name)?;
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(files.entry(name.to_owned()).or_insert_with(make).clone())
    }
}

fn other_kind(name: &str) -> BackendError {
    let reason = "it is taken by a file of another kind";
    BackendError::BadName { name: name.to_owned(), reason }
}

impl Folder for MemoryFolder {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        match self.open(name, || File::Log(Shared::new(MemoryLog::new())))? {
            File::Log(log) => Ok(Box::new(log)),
            File::Pages(_) => Err(other_kind(name)),
        }
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        check_part(name)?;
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match files.get(name) {
            Some(File::Log(log)) => Ok(Box::new(log.clone())),
            Some(File::Pages(_)) => Err(other_kind(name)),
            None => Err(BackendError::NotFound { name: name.to_owned(), place: PLACE.to_owned() }),
        }
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        match self.open(name, || File::Pages(Shared::new(MemoryPages::new(page_size))))? {
            File::Pages(pages) => Ok(Box::new(pages)),
            File::Log(_) => Err(other_kind(name)),
        }
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(files.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        check_part(name)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        check_part(from)?;
        check_part(to)?;
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = files.remove(from) else {
            return Err(BackendError::NotFound { name: from.to_owned(), place: PLACE.to_owned() });
        };
        files.insert(to.to_owned(), file);
        Ok(())
    }

    /// Always the same: memory never loses written bytes.
    fn mount(&self) -> Option<MountId> {
        Some(MountId { boot: *b"memory of a test", number: 0 })
    }
}

impl Log for Shared<MemoryLog> {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        Shared::write(self, |log| log.append(bytes))
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        Shared::write(self, |log| log.truncate(len))
    }

    fn len(&self) -> u64 {
        Shared::read(self, Log::len)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        Shared::read(self, |log| log.read(offset, into))
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(Nothing)
    }
}

impl LogReader for Shared<MemoryLog> {
    fn len(&self) -> u64 {
        Shared::read(self, Log::len)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        Shared::read(self, |log| log.read(offset, into))
    }
}

impl Pages for Shared<MemoryPages> {
    fn page_size(&self) -> usize {
        Shared::read(self, Pages::page_size)
    }

    fn count(&self) -> u64 {
        Shared::read(self, Pages::count)
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        Shared::read(self, |pages| pages.read(page, into))
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        Shared::write(self, |pages| pages.write(page, bytes))
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        Shared::write(self, |pages| pages.set_count(count))
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

fn inside(name: &str, range: Range<u64>, size: u64) -> Result<(), BackendError> {
    if range.end <= size {
        return Ok(());
    }
    Err(BackendError::OutOfRange { name: name.to_owned(), range, size })
}

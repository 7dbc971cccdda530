//! Pages in a local file.

use std::path::Path;

use super::itself::Directory;
use super::owned::OwnedFile;
use crate::{BackendError, Pages};

/// Pages in a local file, owned by one handle at a time, in this process or any other.
#[derive(Debug)]
pub struct LocalPages {
    file: OwnedFile,
    page_size: usize,
}

impl LocalPages {
    /// Opens the pages at `path`, or creates a file without pages; its directory must exist.
    ///
    /// Name and content are durable on return. If another handle owns the pages, fails with
    /// [`BackendError::InUse`]. A partial page at the end, which a crash may leave, is ignored.
    ///
    /// # Panics
    ///
    /// If `page_size` is zero.
    pub fn open(path: &Path, page_size: usize) -> Result<Self, BackendError> {
        OwnedFile::open(path).map(|file| Self::of(file, page_size))
    }

    /// The pages `name` in `directory`, as [`open`](Self::open) opens them.
    pub(super) fn open_in(
        directory: &Directory,
        name: &str,
        page_size: usize,
    ) -> Result<Self, BackendError> {
        OwnedFile::open_in(directory, name).map(|file| Self::of(file, page_size))
    }

    fn of(mut file: OwnedFile, page_size: usize) -> Self {
        assert!(page_size > 0, "a page has at least one byte");
        file.ignore_after(file.len() - file.len() % page_size as u64);
        Self { file, page_size }
    }

    fn offset_of(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_size as u64)
    }
}

impl Pages for LocalPages {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn count(&self) -> u64 {
        self.file.len() / self.page_size as u64
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        assert_eq!(into.len(), self.page_size, "a page is read whole");
        self.file.read(self.offset_of(page), into)
    }

    fn read_many(&self, first: u64, into: &mut [u8]) -> Result<(), BackendError> {
        assert!(into.len().is_multiple_of(self.page_size), "pages are read whole");
        self.file.read(self.offset_of(first), into)
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        assert_eq!(bytes.len(), self.page_size, "a page is written whole");
        self.file.write(self.offset_of(page), bytes)
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        let len = self.offset_of(count);
        if len < self.file.len() { self.file.shrink(len) } else { self.file.grow(len) }
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.file.sync()
    }
}

//! The contract of a file of equal pages.

use crate::BackendError;

/// Local pages of one size, read and written in place; for tables.
///
/// After a crash a page has its content at the last [`sync`](Self::sync). If it was written since, it has
/// the old bytes, the new ones, or a mixture of their sectors. Pages added since may exist or not.
///
/// One handle owns a file of pages at a time. The content at opening is durable.
pub trait Pages: Send {
    /// Bytes in a page; never zero, never changes.
    fn page_size(&self) -> usize;

    /// The number of pages.
    fn count(&self) -> u64;

    /// Fills `into` with the page as last written, synced or not. A page that was never written is zeros.
    ///
    /// For a page at or after [`count`](Self::count), fails with [`BackendError::OutOfRange`].
    ///
    /// # Panics
    ///
    /// If `into` is not one page long.
    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError>;

    /// Fills `into`, a whole number of pages, with the pages from `first` on.
    ///
    /// For pages at or after [`count`](Self::count), fails with [`BackendError::OutOfRange`].
    ///
    /// # Panics
    ///
    /// If `into` ends within a page.
    fn read_many(&self, first: u64, into: &mut [u8]) -> Result<(), BackendError> {
        assert!(into.len().is_multiple_of(self.page_size()), "pages are read whole");
        let pages = into.chunks_exact_mut(self.page_size());
        (first..).zip(pages).try_for_each(|(page, into)| self.read(page, into))
    }

    /// Writes a page. The write is durable only after the next [`sync`](Self::sync), and not atomic: after
    /// an error or a crash the page may be torn.
    ///
    /// For a page at or after [`count`](Self::count), fails with [`BackendError::OutOfRange`].
    ///
    /// # Panics
    ///
    /// If `bytes` is not one page long.
    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError>;

    /// Adds pages of zeros at the end, or removes the last ones.
    ///
    /// Added pages are durable after the next [`sync`](Self::sync). A removal, and all writes before it,
    /// are durable on return; an error of a removal poisons the handle as in `sync`.
    fn set_count(&mut self, count: u64) -> Result<(), BackendError>;

    /// Makes everything written so far durable.
    ///
    /// After an error it is permanently unknown which pages are durable: every later call on this handle
    /// fails with [`BackendError::Poisoned`].
    fn sync(&mut self) -> Result<(), BackendError>;
}

impl<T: Pages + ?Sized> Pages for Box<T> {
    fn page_size(&self) -> usize {
        (**self).page_size()
    }

    fn count(&self) -> u64 {
        (**self).count()
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        (**self).read(page, into)
    }

    fn read_many(&self, first: u64, into: &mut [u8]) -> Result<(), BackendError> {
        (**self).read_many(first, into)
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        (**self).write(page, bytes)
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        (**self).set_count(count)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        (**self).sync()
    }
}

//! The contract of a file of equal pages.

use crate::BackendError;

/// Local pages of one size, read and written in place; a table.
///
/// After a crash a page holds what it held at the last [`sync`](Self::sync), unless it was
/// written since: then it may hold the old bytes, the new ones, or a mixture of their sectors.
/// Pages added since may be there or not.
///
/// One handle owns a file of pages at a time. What a handle finds when it is opened is durable.
pub trait Pages: Send {
    /// Bytes in a page; never zero, never changes.
    fn page_size(&self) -> usize;

    /// How many pages there are.
    fn count(&self) -> u64;

    /// Fills `into` with the page, as last written, synced or not. A page never written is zeros.
    ///
    /// A page at or after [`count`](Self::count) is [`BackendError::OutOfRange`].
    ///
    /// # Panics
    ///
    /// If `into` is not one page long.
    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError>;

    /// Fills `into`, a whole number of pages, with the pages from `first` on.
    ///
    /// Pages at or after [`count`](Self::count) are [`BackendError::OutOfRange`].
    ///
    /// # Panics
    ///
    /// If `into` ends within a page.
    fn read_many(&self, first: u64, into: &mut [u8]) -> Result<(), BackendError> {
        assert!(into.len().is_multiple_of(self.page_size()), "pages are read whole");
        let pages = into.chunks_exact_mut(self.page_size());
        (first..).zip(pages).try_for_each(|(page, into)| self.read(page, into))
    }

    /// Writes a page. Not durable before the next [`sync`](Self::sync), and not atomic: after an
    /// error or a crash the page may be torn.
    ///
    /// A page at or after [`count`](Self::count) is [`BackendError::OutOfRange`].
    ///
    /// # Panics
    ///
    /// If `bytes` is not one page long.
    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError>;

    /// Adds pages of zeros at the end, or removes the last ones.
    ///
    /// Added pages are durable with the next [`sync`](Self::sync). Removal is durable on return,
    /// and with it everything written before; an error there poisons the handle as in `sync`.
    fn set_count(&mut self, count: u64) -> Result<(), BackendError>;

    /// Makes everything written so far durable.
    ///
    /// After an error it is unknown, and stays unknown, what is durable: every later call on
    /// this handle is [`BackendError::Poisoned`].
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

//! The contract of a file that grows at its end.

use std::sync::Arc;

use crate::BackendError;

/// Local bytes that are appended, synced and cut off at the end; a journal.
///
/// After a crash a log holds everything up to its length at the last [`sync`](Self::sync)
/// unchanged. What was appended since may be there, be missing, or be there in part, at any
/// length, with zeros or older bytes in between: records carry their own checksums.
///
/// One handle owns a log at a time. What a handle finds when it is opened is durable.
pub trait Log: Send {
    /// Adds `bytes` at the end and returns the offset of their first byte.
    ///
    /// Not durable before the next [`sync`](Self::sync). After an error the length is as before.
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError>;

    /// Makes everything appended so far durable.
    ///
    /// After an error it is unknown, and stays unknown, what is durable: every later call on
    /// this handle is [`BackendError::Poisoned`].
    fn sync(&mut self) -> Result<(), BackendError>;

    /// Cuts off everything after the first `len` bytes. Durable on return, and with it all that
    /// is left; an error poisons the handle as in [`sync`](Self::sync).
    ///
    /// More than [`len`](Self::len) is [`BackendError::OutOfRange`], and does nothing.
    fn truncate(&mut self, len: u64) -> Result<(), BackendError>;

    /// Asks for room for `bytes` behind the end, so that appends of so many do not meet a full disk.
    ///
    /// Length and bytes stay as they are. The room lasts until appends have used it, one of them
    /// failed, or the end is cut off; none for 0 bytes gives back what is left of it. Otherwise it goes
    /// with the file.
    fn reserve(&mut self, bytes: u64) -> Reserved {
        let _ = bytes;
        Reserved::Never
    }

    /// The length in bytes, appended and not yet synced bytes included.
    fn len(&self) -> u64;

    /// Whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes from `offset` on, synced or not.
    ///
    /// Reading past the end is [`BackendError::OutOfRange`].
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError>;

    /// What syncs this log from beside the handle. The log may stay owned for as long as it lives.
    fn syncer(&self) -> Arc<dyn Syncer>;
}

/// What came of asking for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// It is there.
    Kept,
    /// There is not so much of it now.
    Full,
    /// The place keeps no room.
    Never,
}

/// Syncs a log while others append to it.
pub trait Syncer: Send + Sync {
    /// Makes durable everything that had been appended when this was called; of what is appended
    /// meanwhile any part may be.
    ///
    /// An error is one of [`Log::sync`]: from then on every call on the log is
    /// [`BackendError::Poisoned`].
    fn sync(&self) -> Result<(), BackendError>;
}

/// Reads a log from beside its handle, or while nobody has one.
pub trait LogReader: Send + Sync {
    /// The length in bytes when it was opened, or later.
    fn len(&self) -> u64;

    /// Whether that is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes from `offset` on, synced or not.
    ///
    /// Reading past [`len`](Self::len) is [`BackendError::OutOfRange`].
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError>;
}

impl<T: Log + ?Sized> Log for Box<T> {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        (**self).append(bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        (**self).sync()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        (**self).truncate(len)
    }

    fn reserve(&mut self, bytes: u64) -> Reserved {
        (**self).reserve(bytes)
    }

    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        (**self).read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        (**self).syncer()
    }
}

//! The contract of an append-only file.

use std::sync::Arc;

use crate::BackendError;

/// A local file that is appended to, synced and truncated; for journals.
///
/// After a crash a log has all bytes up to its length at the last [`sync`](Self::sync) unchanged. Bytes
/// appended since may be present, missing, or present in part, at any length, with zeros or older bytes
/// between them. So records need their own checksums.
///
/// One handle owns a log at a time. The content at opening is durable.
pub trait Log: Send {
    /// Adds `bytes` at the end and returns the offset of their first byte.
    ///
    /// The bytes are durable only after the next [`sync`](Self::sync). On error the length does not change.
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError>;

    /// Makes everything appended so far durable.
    ///
    /// After an error it is permanently unknown which bytes are durable: every later call on this handle
    /// fails with [`BackendError::Poisoned`]. Only after one that [may be tried
    /// again](BackendError::may_sync_again) the log is as before.
    fn sync(&mut self) -> Result<(), BackendError>;

    /// Truncates the log to `len` bytes. On return the new length and all remaining bytes are durable. An
    /// error poisons the handle as in [`sync`](Self::sync).
    ///
    /// If `len` exceeds [`len`](Self::len), fails with [`BackendError::OutOfRange`] and changes nothing.
    fn truncate(&mut self, len: u64) -> Result<(), BackendError>;

    /// Preallocates space for `bytes` after the end, so that appends of that many bytes do not meet a full
    /// disk.
    ///
    /// Length and content do not change. The space is reserved until appends have used it, an append fails,
    /// or the log is truncated. A call with 0 bytes releases the rest. Otherwise the space is freed with the
    /// file.
    fn reserve(&mut self, bytes: u64) -> Reserved {
        let _ = bytes;
        Reserved::Never
    }

    /// The length in bytes, including unsynced bytes.
    fn len(&self) -> u64;

    /// Whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes from `offset` on, synced or not.
    ///
    /// Reading past the end fails with [`BackendError::OutOfRange`].
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError>;

    /// A syncer for this log. The log may stay owned while the syncer exists.
    fn syncer(&self) -> Arc<dyn Syncer>;
}

/// The result of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// The space is reserved.
    Kept,
    /// There is not enough space now.
    Full,
    /// The storage does not support reservations.
    Never,
}

/// Syncs a log while its owner appends to it.
pub trait Syncer: Send + Sync {
    /// Makes durable all bytes that were appended before this call. Bytes appended during the call may
    /// become durable in part.
    ///
    /// Errors are those of [`Log::sync`].
    fn sync(&self) -> Result<(), BackendError>;
}

/// Reads a log, with or without an owner.
pub trait LogReader: Send + Sync {
    /// The length in bytes when it was opened, or later.
    fn len(&self) -> u64;

    /// Whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into` with the bytes from `offset` on, synced or not.
    ///
    /// Reading past [`len`](Self::len) fails with [`BackendError::OutOfRange`].
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

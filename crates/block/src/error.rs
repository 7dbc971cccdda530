use std::error::Error;
use std::ops::Range;

/// Why a call of a device failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// There is no space for the write. Earlier writes are not lost.
    #[error("no space left in {object}")]
    NoSpace {
        /// What is full.
        object: String,
    },
    /// The device is read-only.
    #[error("the device is read-only")]
    ReadOnly,
    /// The storage below the device failed, or its bytes are damaged.
    #[error("{object}: {source}")]
    Io {
        /// What failed.
        object: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The call reaches beyond the end of the device.
    #[error("bytes {offset} to {offset}+{len} are out of range, the device has {size}")]
    OutOfRange {
        /// Where the call begins, in bytes.
        offset: u64,
        /// The length of the call in bytes.
        len: u64,
        /// The size of the device in bytes.
        size: u64,
    },
    /// A device cannot have this size.
    #[error("a size of {size} bytes was requested, expected {expected}")]
    BadSize {
        /// The requested size in bytes.
        size: u64,
        /// The condition for sizes.
        expected: &'static str,
    },
    /// The device is shutting down and accepts no more calls.
    #[error("the device is shutting down")]
    ShuttingDown,
    /// The device is served elsewhere by now, or may be: the call may or may not have been executed. A server
    /// ends the connection instead of answering, so that the client finds the device again.
    #[error("the device may be served elsewhere by now")]
    Elsewhere,
    /// The device does not support the operation.
    #[error("this device cannot {operation}")]
    NotSupported {
        /// The requested operation.
        operation: &'static str,
    },
    /// The caller wants zeroes only if they are fast, and they are not.
    #[error("zeroes cannot be written here faster than other bytes")]
    Slow,
}

impl BlockError {
    /// The range of `len` bytes at `offset`, or [`BlockError::OutOfRange`] if it reaches beyond
    /// `size`.
    pub fn check_range(offset: u64, len: u64, size: u64) -> Result<Range<u64>, BlockError> {
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(offset..end),
            _ => Err(BlockError::OutOfRange { offset, len, size }),
        }
    }
}

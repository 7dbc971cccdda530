use std::error::Error;
use std::ops::Range;

/// Why a device did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// There is no room for what was to be written. Nothing that was written before is lost.
    #[error("no space left in {object}")]
    NoSpace {
        /// What is full.
        object: String,
    },
    /// The device cannot be changed.
    #[error("the device is read-only")]
    ReadOnly,
    /// What keeps the bytes failed, or its bytes are damaged.
    #[error("{object}: {source}")]
    Io {
        /// What failed.
        object: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The call reaches beyond the end of the device.
    #[error("bytes {offset} to {offset}+{len} were asked for, the device has {size}")]
    OutOfRange {
        /// Where the call begins, in bytes.
        offset: u64,
        /// How many bytes it is about.
        len: u64,
        /// The size of the device in bytes.
        size: u64,
    },
    /// A device cannot have this size.
    #[error("a size of {size} bytes was asked for, expected {expected}")]
    BadSize {
        /// The size in bytes that was asked for.
        size: u64,
        /// What it must be.
        expected: &'static str,
    },
    /// The device is about to end and takes nothing more.
    #[error("the device is shutting down")]
    ShuttingDown,
    /// The device has no such operation.
    #[error("this device cannot {operation}")]
    NotSupported {
        /// What it was asked for.
        operation: &'static str,
    },
    /// Only a fast way was asked for, and there is none.
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

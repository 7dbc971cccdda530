//! What a block device is to those who serve one, and one in memory.
//!
//! A server of a protocol knows [`BlockDevice`] and nothing of what is behind it; what keeps the
//! bytes implements it and knows nothing of who asks. [`MemoryDevice`] is the plain one: the
//! yardstick of a protocol, and what a better device is compared with. [`MeasuredDevice`] counts and
//! times the calls of another one.

mod device;
mod error;
mod measured;
mod memory;

pub use device::{BlockDevice, BlockSize, Durability, Extent, Zeroes};
pub use error::BlockError;
pub use measured::{
    LATENCIES, Measured, MeasuredDevice, Measurements, OnError, Operation, Refusal,
};
pub use memory::MemoryDevice;

//! The interface of block devices, and a device in memory.
//!
//! A protocol server knows only [`BlockDevice`], not its implementation; an implementation does not know
//! its callers. [`MemoryDevice`] is the simplest device: it is the reference for tests and benchmarks of
//! servers and of other devices. [`MeasuredDevice`] counts and times the calls of another device.

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

/// Runs what the file that readers see first shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

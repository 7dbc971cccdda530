//! Where bytes rest.
//!
//! Three shapes of storage carry everything Onefold keeps:
//!
//! * [`Objects`]: immutable, named, put once; containers, recipes and snapshots,
//! * [`Log`]: a local file that grows at its end; journals,
//! * [`Pages`]: a local file of equal pages written in place; tables.
//!
//! Each has a local, a memory and a simulated implementation. The simulated ones share a
//! [`CrashDisk`](crash::CrashDisk), which knows what a power cut would leave behind;
//! [`Faulty`](fault::Faulty) wraps any of them and makes chosen calls fail.
//!
//! Nothing here knows what the bytes mean. All calls block; none needs an async runtime.

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod crash;
mod error;
pub mod fault;
mod local;
mod log;
mod memory;
mod name;
mod objects;
mod pages;
mod stored;

pub use error::{BackendError, Cause, Operation};
pub use local::{LocalLog, LocalObjects, LocalPages};
pub use log::Log;
pub use memory::{MemoryLog, MemoryObjects, MemoryPages};
pub use objects::{ObjectInfo, Objects};
pub use pages::Pages;

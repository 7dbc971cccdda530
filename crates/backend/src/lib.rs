//! Storage.
//!
//! Three kinds of storage hold all of Onefold's data:
//!
//! * [`Objects`]: immutable, named, put once; for containers, recipes and snapshots,
//! * [`Log`]: a local append-only file, for journals; a [`Syncer`] syncs it on another thread,
//! * [`Pages`]: a local file of equal pages written in place, for tables.
//!
//! A [`Folder`] is a local directory of logs and pages. A [`LogReader`] reads a log without owning it.
//!
//! Each kind has a local, an in-memory and a simulated implementation. The simulated ones share a
//! [`CrashDisk`](crash::CrashDisk), which computes what a power cut would leave.
//! [`Faulty`](fault::Faulty) wraps any of them and makes chosen calls fail. Objects may also be
//! in buckets of S3, Azure and Google, and on other machines by SFTP (feature `remote`). [`Retrying`] retries transient errors. [`AppendOnly`] forbids deletion. A
//! [`LocalCache`] keeps copies that may be lost.
//!
//! Beside them, [`rados`] has mutable objects that change by guarded operations: in memory, and in Ceph
//! (feature `rados`).
//!
//! This crate does not interpret the bytes. All calls block; none needs an async runtime.

mod append_only;
mod body;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod crash;
mod error;
pub mod fault;
mod folder;
mod local;
mod location;
mod log;
mod memory;
mod name;
mod objects;
mod overlay;
mod pages;
pub mod rados;
#[cfg(feature = "remote")]
mod remote;
mod retrying;
mod seeded;
mod stop;
mod stored;
mod usage;

pub use append_only::AppendOnly;
pub use error::{BackendError, Cause, ErrorKind, Operation};
pub use folder::{Folder, MountId};
pub use local::{LocalCache, LocalFolder, LocalLog, LocalObjects, LocalPages, own_place};
pub use location::{BucketLocation, BucketService, Location, SftpLocation};
pub use log::{Log, LogReader, Reserved, Syncer};
pub use memory::{MemoryFolder, MemoryLog, MemoryObjects, MemoryPages};
pub use objects::{ObjectInfo, Objects, OnAnswer, Request, Span};
pub use overlay::Overlay;
pub use pages::Pages;
#[cfg(feature = "remote")]
pub use remote::{RateLimit, RemoteObjects, RemoteOptions, SftpObjects};
pub use retrying::{AnyGone, Clock, OnRetry, Retry, RetryPolicy, Retrying, SystemClock};
pub use stop::Stop;
pub use usage::{Requests, Usage};

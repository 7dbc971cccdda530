//! Volumes over many machines, on Ceph RADOS.
//!
//! A *shard* is a pool of volumes that one gateway at a time writes. [`RadosJournals`] keeps what shards
//! durably know in objects that change by guarded updates, so that a gateway that was superseded is
//! refused by the engine itself.

mod error;
mod folder;
#[doc(hidden)]
pub mod fuzz;
mod journal;
mod lease;
mod pool;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;

pub use error::ClusterError;
pub use folder::{RadosFolder, WAITING};
pub use journal::shards::{JournalSizes, RadosJournals};
pub use lease::{BootClock, Claim, Lease, LeaseClock, LeaseHold, RENEWAL, VALID, WAIT};
pub use pool::{create, find, open};

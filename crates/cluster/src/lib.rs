//! Volumes over many machines, on Ceph RADOS.
//!
//! A *shard* is a pool of volumes that one gateway at a time writes. [`RadosJournals`] keeps what shards
//! durably know in objects that change by guarded updates, so that a gateway that was superseded is
//! refused by the engine itself. [`RadosFolder`] keeps their files the same way.
//!
//! | file or folder | does |
//! | --- | --- |
//! | simulate | what a number of gateways would reach, by discrete events |
//! | pool | making and opening a pool of volumes in a namespace |
//! | journal, folder | what a shard durably knows, and its files |
//! | device | a volume as a gateway's clients see it |
//! | lease | who may answer reads of a shard |
//! | routing | which gateway holds the hints of a fingerprint, and the way there |

mod device;
mod error;
mod folder;
#[doc(hidden)]
pub mod fuzz;
mod journal;
mod lease;
mod pool;
pub mod routing;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;
pub mod simulate;
mod undurable;

pub use device::LeasedDevice;
pub use error::ClusterError;
pub use folder::{RadosFolder, WAITING};
pub use journal::shards::{JournalSizes, RadosJournals};
pub use lease::{BootClock, Claim, Lease, LeaseClock, LeaseHold, RENEWAL, VALID, WAIT, holder};
pub use pool::{create, find, open};

//! Volumes over many machines, on Ceph RADOS.
//!
//! A *shard* is a volume with its snapshots and clones, which one gateway at a time writes. A [`Gateway`] has
//! any number of them, by one lease. [`RadosJournals`] keeps what shards
//! durably know in objects that change by guarded updates, so that a gateway that was superseded is
//! refused by the engine itself. [`RadosFolder`] keeps their files the same way.
//!
//! | file or folder | does |
//! | --- | --- |
//! | simulate | what a number of gateways would reach, by discrete events |
//! | pooled | the pooled index as a shard uses it: its own hints, and those of other gateways |
//! | peers | how gateways talk to one another |
//! | hints | which page lies where: the hints of this gateway's ranges, and their dumps |
//! | gateway | the domain, leases of gateways, who has which shard, names of volumes |
//! | journal, folder | what a shard durably knows, and its files |
//! | containers | containers that shards share, and who uses each |
//! | shard | one shard of many, which shares its containers; its objects; a volume that becomes one of another |
//! | clock | the clock by which leases end |
//! | routing | which gateway holds the hints of a fingerprint, and the way there |

mod clock;
pub mod containers;
mod error;
mod folder;
#[doc(hidden)]
pub mod fuzz;
mod gateway;
pub mod hints;
mod journal;
pub mod peers;
pub mod pooled;
pub mod routing;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;
mod shard;
pub mod simulate;

pub use clock::{BootClock, LeaseClock};
pub use error::ClusterError;
pub use folder::{RadosFolder, WAITING};
pub use gateway::{
    About, Audience, Care, Changing, Count, Damage, Domain, Gateway, GatewayEvent, GatewayLease,
    GatewayRecord, LeasedDevice, LookedOver, NameRecord, Names, OpenShard, Place, RENEWAL, Reached,
    Running, ScrubCycle, ScrubStep, Scrubbing, SeenShard, Settings, ShardRecord, Shards, Stored,
    Tenure, VALID, WAIT, gateways, wall_clock,
};
pub use journal::shards::{JournalSizes, RadosJournals};
pub use shard::{SharedShard, create_shard, detach, detach_while, open_shard, repair_shard};

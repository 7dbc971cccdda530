//! Deduplicated volumes: block devices whose pages are kept once each.
//!
//! A [`Pool`] is a folder with any number of volumes that share their pages. A [`Volume`] is a
//! [`BlockDevice`](onefold_block::BlockDevice): what a write brings is split into pages, each page
//! is fingerprinted and looked up; a known one is referred to once more, a new one is compressed
//! and appended to a container. After StreamDedup (ACM TRETS, 2026), section 4, made durable.
//!
//! | floor | does |
//! | --- | --- |
//! | transfer | volumes as streams, and what changed between two |
//! | upkeep | maintenance, checks, scrubs, repair, upgrades |
//! | pool | making and opening a pool, its volumes, its statistics |
//! | device | a volume as a block device |
//! | space | compactions, maps of deleted volumes, room for writes that wait |
//! | engine | writes, reads, erases, commits, checkpoints |
//! | recovery | the state as records, and found again from records |
//! | state | maps, pages and their references, queued records |
//! | journal | what a pool durably knows, and its one writer |
//! | containers | files of pages |
//! | sharing | containers that shards of a cluster share |
//! | sync | locks: blocks, pages, turns |
//! | limits | names and sizes of volumes |
//! | error | what can go wrong |
//! | ids | names and numbers |
//!
//! A module uses its own floor and those below (ARCHITECTURE.md, "Floors").
//!
//! The table of fingerprints is advisory: it may be dropped at any time. What a read needs is in
//! maps and containers.

#[cfg(feature = "conformance")]
pub mod conformance;
mod containers;
mod device;
mod engine;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod ids;
mod journal;
mod limits;
mod nodes;
mod pool;
mod recovery;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;
mod sharing;
mod space;
mod state;
mod sync;
mod transfer;
mod upkeep;

pub use containers::footer::pages_of_footer;
pub use device::Volume;
#[doc(hidden)]
pub use engine::hook::Between;
pub use engine::options::{IndexLayout, Options};
pub use error::{ContainerFileError, StreamError, VolumeError};
pub use ids::{SharedName, Version, VolumeId, Writer};
pub use journal::frame::Frame;
pub use journal::journals::{Journals, kept_name};
pub use journal::metadata::{Checkpoint, Known, MAX_BATCH, Metadata, Shard, Take, Taken};
pub use onefold_container::Codec;
pub use pool::details::VolumeDetails;
pub use pool::head::Hash;
pub use pool::open::Pool;
pub use pool::sharing::{SharedPage, Use};
pub use pool::statistics::Statistics;
pub use pool::volumes::VolumeInfo;
pub use sharing::{
    PageHint, RegisteredAs, SharedLog, SharedLook, SharedRoom, SharedState, Sharing,
};
pub use transfer::stream::StreamHead;
pub use transfer::volumes::Transferred;
pub use upkeep::check::Checked;
pub use upkeep::filling::Filling;
pub use upkeep::maintain::Maintained;
pub use upkeep::noting::Noting;
pub use upkeep::repair::Repaired;
pub use upkeep::scrub::{BadPage, Scrubbed, Unanswered};
pub use upkeep::upgrade::Upgraded;
pub use upkeep::whole::{ScrubbedContainer, scrub_shared};

//! Deduplicated volumes: block devices whose pages are kept once each.
//!
//! A [`Pool`] is a folder with any number of volumes that share their pages. A [`Volume`] is a
//! [`BlockDevice`](onefold_block::BlockDevice): what a write brings is split into pages, each page
//! is fingerprinted and looked up; a known one is referred to once more, a new one is compressed
//! and appended to a container. After StreamDedup (ACM TRETS, 2026), section 4, made durable.
//!
//! | file | what it is |
//! | --- | --- |
//! | pool.rs | making and opening a pool, its volumes |
//! | volume.rs | a volume as a block device |
//! | engine.rs | how pages are put, and when they are durable |
//! | new_pages.rs | new pages, compressed one behind the other |
//! | append.rs | the container that takes new pages |
//! | pages.rs | pages in containers, and references to them |
//! | files.rs | their files, of which not all are open |
//! | map.rs | which page a block is |
//! | dying.rs | maps that no volume has any more |
//! | sparse.rs | things by number, where most numbers have none |
//! | metadata.rs | what a pool durably knows, behind one call |
//! | journals.rs, mark.rs | that in a folder, by who has the pool |
//! | acknowledged.rs, noting.rs | how far it was acknowledged, so that damage at its end is noticed |
//! | record.rs, frame.rs | the bytes of it |
//! | ahead.rs | room for them on a disk that is full |
//! | checkpoint.rs, replay.rs, recovery.rs | what is left after a crash, and how it is found |
//! | repair.rs, find_head.rs | what an operator can have restored of a damaged pool |
//! | compact.rs, maintain.rs | giving back space, and when |
//! | check.rs, scrub.rs | whether all of it fits together, and can be read |
//! | walk.rs, bits.rs | all of the maps, some at a time, and sets of pages |
//! | stream.rs, transfer.rs | volumes as streams, and what changed between two |
//! | details.rs | what one volume has of its own |
//! | stripes.rs, turns.rs | who changes which block, and who has the pool's lock next |
//!
//! The table of fingerprints is advisory: it may be dropped at any time. What a read needs is in
//! maps and containers.

mod containers;
mod device;
mod engine;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod ids;
mod journal;
mod pool;
mod recovery;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;
mod space;
mod state;
mod sync;
mod transfer;
mod upkeep;

pub use device::Volume;
pub use error::{ContainerFileError, VolumeError};
pub use ids::VolumeId;
pub use journal::journals::Journals;
pub use journal::metadata::{Checkpoint, Known, MAX_BATCH, Metadata, Shard, Take, Taken, Writer};
pub use onefold_container::Codec;
pub use pool::details::VolumeDetails;
#[doc(hidden)]
pub use pool::open::Between;
pub use pool::open::{Hash, Options, Pool, Statistics, VolumeInfo};
pub use transfer::stream::{StreamError, StreamHead};
pub use transfer::volumes::Transferred;
pub use upkeep::check::Checked;
pub use upkeep::maintain::Maintained;
pub use upkeep::noting::Noting;
pub use upkeep::repair::Repaired;
pub use upkeep::scrub::{BadPage, Scrubbed};

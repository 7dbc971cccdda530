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

mod acknowledged;
mod ahead;
mod append;
mod bits;
mod check;
mod checkpoint;
mod claims;
mod compact;
mod details;
mod dying;
mod engine;
mod error;
mod files;
mod find_head;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod handle;
mod journals;
mod located;
mod look_up;
mod maintain;
mod map;
mod mark;
mod metadata;
mod new_pages;
mod noting;
mod pages;
mod pool;
mod record;
mod recovery;
mod repair;
mod replay;
mod room;
mod scrub;
#[cfg_attr(not(feature = "seeded-bugs"), doc(hidden))]
pub mod seeded;
mod sparse;
mod stream;
mod stripes;
mod transfer;
mod turns;
mod volume;
mod walk;

pub use check::Checked;
pub use details::VolumeDetails;
pub use error::{ContainerFileError, VolumeError};
pub use handle::VolumeId;
pub use journals::Journals;
pub use maintain::Maintained;
pub use metadata::{Checkpoint, Known, MAX_BATCH, Metadata, Shard, Take, Taken, Writer};
pub use noting::Noting;
pub use onefold_container::Codec;
#[doc(hidden)]
pub use pool::Between;
pub use pool::{Hash, Options, Pool, Statistics, VolumeInfo};
pub use repair::Repaired;
pub use scrub::{BadPage, Scrubbed};
pub use stream::{StreamError, StreamHead};
pub use transfer::Transferred;
pub use volume::Volume;

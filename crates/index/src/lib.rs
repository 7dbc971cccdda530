//! The index: fingerprint → hint of where the chunk lies.
//!
//! The index is advisory. A positive answer is a [`Hint`]: it says where the bytes were when it
//! was learnt, and whoever relies on it checks the bytes. All of it can be dropped and learnt
//! again from what it indexes; that costs time, never data.
//!
//! [`Index`] is what backups look chunks up in and *claim* new ones from: paged, in a local folder,
//! within memory that is configured. [`Run`] is the index at rest in a repository: an immutable,
//! sorted, checked object that says which objects it covers, so that whoever opens the index knows
//! which objects to read again themselves.
//!
//! | file | what it is |
//! | --- | --- |
//! | index.rs | how the parts work together |
//! | lists.rs | on disk: the chunks of each object, in the order in which the objects came |
//! | segment.rs | on disk: sorted tables that say which page of the lists has a fingerprint |
//! | journal.rs | on disk: which of all that holds |
//! | page.rs | pages that show damage |
//! | filter.rs | in memory: what a segment surely has not |
//! | recent.rs | in memory: pages of lists that were read lately |
//! | claims.rs | in memory: who owes what, and where lists are wrong |
//!
//! For volumes, whose pages come by the million a second, there is a [`Table`] in memory alone
//! (table/).
//!
//! The index does not know what containers are: they are objects whose chunks have slots.

mod claims;
mod error;
mod filter;
mod index;
mod journal;
mod lists;
mod memory;
mod page;
mod place;
mod recent;
mod run;
mod segment;
mod table;

pub use error::IndexError;
pub use index::{Index, IndexShape, KnownObject};
pub use lists::Listed;
pub use memory::Memory;
pub use place::{Claim, Hint, Place};
pub use run::{MAX_RUN_ENTRIES, PREFIX, Run, run_id, run_name};
pub use table::{
    ChainedTable, CompactTable, Inserted, MAX_HANDLE, Table, TableCounters, TableError, prefetch,
};

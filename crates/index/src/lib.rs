//! The index: fingerprint → hint of where the chunk lies.
//!
//! The index is advisory. A positive answer is a [`Hint`]: the location of the chunk when it was learnt.
//! The caller must verify the bytes before relying on it. The whole index can be dropped and rebuilt from
//! the objects; that costs time, never data.
//!
//! Backups look up chunks in an [`Index`] and *claim* new ones in it. It is paged, in a local folder, within
//! a configured amount of memory. A [`Run`] is a part of the index in the repository: an immutable, sorted,
//! checked object. It names the objects that it covers, so that a client knows which other objects it must
//! read itself.
//!
//! | file | content |
//! | --- | --- |
//! | index.rs | the cooperation of the parts |
//! | lists.rs | on disk: the chunks of each object, in the order in which the objects were added |
//! | segment.rs | on disk: sorted tables from fingerprints to pages of the lists |
//! | journal.rs | on disk: which parts of the other files are valid |
//! | page.rs | checksummed pages |
//! | filter.rs | in memory: filters of the segments |
//! | recent.rs | in memory: recently read pages of lists |
//! | claims.rs | in memory: claimed chunks, and corrections of the lists |
//!
//! Volumes look up millions of pages per second, in a [`Table`] entirely in memory (table/).
//!
//! The index does not know containers: to it they are objects whose chunks have slots.

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
    ChainedTable, CompactTable, HookTable, Inserted, MAX_HANDLE, Table, TableCounters, TableError,
    prefetch,
};

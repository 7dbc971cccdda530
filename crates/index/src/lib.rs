//! The index: fingerprint → hint of where the chunk lies.
//!
//! The index is advisory. A positive answer is a [`Hint`]: it says where the bytes were when it
//! was learnt, and whoever relies on it checks the bytes. All of it can be dropped and learnt
//! again from what it indexes; that costs time, never data.
//!
//! [`Index`] is the table in memory that backups look chunks up in and *claim* new ones from.
//! [`Run`] is its form at rest: an immutable, sorted, checked object that says which objects it
//! covers, so that whoever opens the index knows which objects to read again themselves.
//!
//! The index does not know what a location means: it is generic over [`Location`].

mod error;
mod run;
mod table;

pub use error::IndexError;
pub use run::{MAX_RUN_ENTRIES, PREFIX, Run, run_id, run_name};
pub use table::{Claim, Hint, Index};

use onefold_seal::wire::{Reader, WireError};

/// Where a chunk lies, in a form that a run can hold.
pub trait Location: Copy + Send + Sync {
    /// Appends the location's bytes.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Takes a location's bytes from `reader`.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

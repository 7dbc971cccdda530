//! Reading many chunks by one plan, and trees entry by entry.

pub(crate) mod bring;
pub(crate) mod entries;
pub(crate) mod fetch;
pub(crate) mod read_ahead;
pub(crate) mod scratch;
pub(crate) mod together;
pub(crate) mod trees_ahead;
pub(crate) mod walk;
pub(crate) mod windows;

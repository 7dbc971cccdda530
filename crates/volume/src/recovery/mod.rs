//! The state of a pool as the records of a checkpoint, and found again from records.

pub(crate) mod image;
pub(crate) mod mend;
pub(crate) mod paged;
pub(crate) mod recover;
pub(crate) mod replay;

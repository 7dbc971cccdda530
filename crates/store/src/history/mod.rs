//! What the logs say, compared with what a client has seen of them; and snapshots as they are read.

mod chain;
pub(crate) mod compare;
pub(crate) mod fence;
pub(crate) mod log;
pub(crate) mod look;
pub(crate) mod memory;
pub(crate) mod snapshots;

pub(crate) mod compare;
pub(crate) mod fence;
pub(crate) mod log;
pub(crate) mod look;
pub(crate) mod memory;
pub(crate) mod snapshots;

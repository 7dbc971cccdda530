//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod campaign;
pub(crate) mod dataset;
pub(crate) mod paper;
pub(crate) mod rivals;
pub(crate) mod trace;

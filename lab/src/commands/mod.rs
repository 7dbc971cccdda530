//! The commands, one file each.

pub(crate) mod dataset;
pub(crate) mod paper;
pub(crate) mod trace;

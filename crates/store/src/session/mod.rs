//! Opening a repository; its index, its snapshots, and what is at their paths.

pub(crate) mod index;
pub(crate) mod open;
pub(crate) mod paths;
pub(crate) mod snapshots;

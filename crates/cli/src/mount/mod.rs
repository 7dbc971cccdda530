//! Snapshots as a read-only file system.
//!
//! [`shelf`] arranges the snapshots in directories, [`inodes`] numbers the items that the kernel looked
//! up, [`files`] answers the kernel.

pub(crate) mod files;
mod inodes;
pub(crate) mod shelf;

//! Snapshots as a file system to look into.
//!
//! [`shelf`] arranges the snapshots in directories, [`inodes`] numbers what the kernel asked for,
//! [`files`] answers the kernel.

pub(crate) mod files;
mod inodes;
pub(crate) mod shelf;

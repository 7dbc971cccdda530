//! The commands, one file each: arguments, what is done with them, how the result is shown.

pub(crate) mod absent;
pub(crate) mod algorithms;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod chunk;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod completion;
pub(crate) mod copy;
#[cfg(feature = "gpu")]
pub(crate) mod devices;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod find;
pub(crate) mod forget;
pub(crate) mod import;
pub(crate) mod incremental;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod ls;
pub(crate) mod manual;
#[cfg(target_os = "linux")]
pub(crate) mod mount;
pub(crate) mod moved;
pub(crate) mod prune;
pub(crate) mod restore;
mod restore_device;
pub(crate) mod serve;
#[cfg(feature = "cluster")]
mod serve_cluster;
#[cfg(feature = "cluster")]
mod serve_scrubs;
#[cfg(feature = "cluster")]
mod serve_upkeep;
pub(crate) mod snapshots;
pub(crate) mod stats;
pub(crate) mod volume;
mod volume_clone;
#[cfg(feature = "cluster")]
mod volume_move;
mod volume_stream;

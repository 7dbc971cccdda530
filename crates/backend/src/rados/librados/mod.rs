//! Ceph itself, by its client library `librados.so.2`, which is loaded when the program runs.
//!
//! A program is built without Ceph and runs without it; only a cluster needs the Debian package
//! `librados2` of Ceph 16.2 or newer.

mod cluster;
mod error;
mod functions;
mod operation;
mod pool;

pub use cluster::{CephOptions, CephSpace, RadosCluster, wait_for_connections};
pub use error::CephError;
pub use pool::CephPool;

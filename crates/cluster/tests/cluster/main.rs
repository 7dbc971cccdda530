//! What gateways, shards and what they share promise, checked from outside: tests that share a process.
//!
//! Those that need one for themselves are beside this folder: they switch errors on, measure memory, or start
//! a cluster of Ceph.

#[path = "../common/mod.rs"]
mod common;
/// That of the pools.
#[path = "../../../volume/tests/common/retried.rs"]
mod retried;

mod care;
mod containers;
mod crashes;
mod folder;
mod gateways;
mod histories;
mod journal;
mod names;
mod peers;
mod places;
mod pools;
mod racing;
mod repair;
mod sharing;
mod storms;
mod stuck;

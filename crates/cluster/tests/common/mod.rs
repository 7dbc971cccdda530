//! What the tests of clusters share: gateways, shards and clocks of one process, and scenes played with them.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod care;
pub(crate) mod domain;
pub(crate) mod handover;
pub(crate) mod history;
pub(crate) mod partitions;
pub(crate) mod racing;
pub(crate) mod scenes;
pub(crate) mod shards;
pub(crate) mod sharing;
pub(crate) mod turns;
pub(crate) mod world;

//! What the tests of pools share: crash simulators, and models.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod crash;
pub(crate) mod dying;
pub(crate) mod lost;
mod registers;
pub(crate) mod retried;
pub(crate) mod shards;
pub(crate) mod takeover;

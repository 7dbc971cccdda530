//! Pools: opening them, their volumes, and what they tell.

pub(crate) mod control;
pub(crate) mod details;
pub(crate) mod head;
pub(crate) mod open;
pub(crate) mod sharing;
pub(crate) mod statistics;
pub(crate) mod volumes;

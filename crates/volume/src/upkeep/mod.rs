//! Upkeep of an open pool (maintenance, checks, scrubs), repair of one that cannot be opened, and upgrades
//! to another version of the format.

pub(crate) mod check;
mod counts;
pub(crate) mod filling;
pub(crate) mod find_head;
pub(crate) mod maintain;
pub(crate) mod noting;
mod recount;
pub(crate) mod repair;
pub(crate) mod repair_shared;
pub(crate) mod scrub;
pub(crate) mod upgrade;
pub(crate) mod whole;

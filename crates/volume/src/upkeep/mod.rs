//! Upkeep of an open pool (maintenance, checks, scrubs), and repair of one that cannot be opened.

pub(crate) mod check;
pub(crate) mod find_head;
pub(crate) mod maintain;
pub(crate) mod noting;
pub(crate) mod repair;
pub(crate) mod scrub;
pub(crate) mod walk;

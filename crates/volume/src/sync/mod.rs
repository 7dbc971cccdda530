//! Locks: who changes which block, who stores which page, and who has its turn next.

pub(crate) mod claims;
pub(crate) mod maintenance;
pub(crate) mod stripes;
pub(crate) mod turns;

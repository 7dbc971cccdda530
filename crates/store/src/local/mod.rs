//! What a client keeps on its own machine, and answers that came early.

pub(crate) mod cache;
pub(crate) mod early;
pub(crate) mod known;
pub(crate) mod slots;

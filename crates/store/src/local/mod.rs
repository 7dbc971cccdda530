pub(crate) mod cache;
pub(crate) mod early;
pub(crate) mod known;
pub(crate) mod slots;

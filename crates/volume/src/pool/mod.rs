pub(crate) mod details;
pub(crate) mod open;

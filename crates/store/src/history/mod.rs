pub(crate) mod fence;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod seen;

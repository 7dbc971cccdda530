pub(crate) mod compare;
pub(crate) mod fence;
pub(crate) mod log;
pub(crate) mod memory;

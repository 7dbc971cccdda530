pub(crate) mod bits;
pub(crate) mod map;
pub(crate) mod pages;
pub(crate) mod sparse;

//! Where chunks lie, and reading one.

pub(crate) mod bits;
pub(crate) mod groups;
pub(crate) mod loaded;
pub(crate) mod place;
pub(crate) mod reader;

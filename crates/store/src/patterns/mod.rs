//! Patterns of paths, as users write them.

pub(crate) mod globs;
pub(crate) mod select;

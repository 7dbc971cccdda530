//! Volumes as streams.

pub(crate) mod stream;
pub(crate) mod volumes;

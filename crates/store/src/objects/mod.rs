//! Small objects: their names and encodings, one kind a file.

pub(crate) mod bundle;
pub(crate) mod client;
pub(crate) mod config;
pub(crate) mod entry;
pub(crate) mod intent;
pub(crate) mod key;
pub(crate) mod mark;
pub(crate) mod read;
pub(crate) mod receipt;
pub(crate) mod seen;
pub(crate) mod snapshot;

pub(crate) mod config;
pub(crate) mod intent;
pub(crate) mod mark;
pub(crate) mod read;
pub(crate) mod receipt;
pub(crate) mod snapshot;

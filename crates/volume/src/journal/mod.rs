//! What a pool durably knows, besides the bytes of its pages: batches of records, and the one writer that
//! may add them.

pub(crate) mod acknowledged;
pub(crate) mod ahead;
pub(crate) mod frame;
pub(crate) mod journals;
pub(crate) mod mark;
pub(crate) mod metadata;
pub(crate) mod record;

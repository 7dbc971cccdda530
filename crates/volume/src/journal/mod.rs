pub(crate) mod acknowledged;
pub(crate) mod ahead;
pub(crate) mod frame;
pub(crate) mod journals;
pub(crate) mod mark;
pub(crate) mod metadata;
pub(crate) mod record;

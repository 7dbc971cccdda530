pub(crate) mod compact;
pub(crate) mod dying;

pub(crate) mod recover;
pub(crate) mod replay;

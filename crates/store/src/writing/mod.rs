pub(crate) mod alive;
pub(crate) mod commit;
pub(crate) mod copier;
pub(crate) mod graft;
pub(crate) mod press;

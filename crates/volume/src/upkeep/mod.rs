pub(crate) mod check;
pub(crate) mod find_head;
pub(crate) mod maintain;
pub(crate) mod noting;
pub(crate) mod repair;
pub(crate) mod scrub;
pub(crate) mod walk;

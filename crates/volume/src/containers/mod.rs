pub(crate) mod append;
pub(crate) mod files;
pub(crate) mod located;
pub(crate) mod new_pages;

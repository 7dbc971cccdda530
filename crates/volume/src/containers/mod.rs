//! Containers: the files that hold pages, the one that takes new pages, what is known of those that
//! were used lately, and reads of many pages at a time.

pub(crate) mod append;
pub(crate) mod directories;
pub(crate) mod entry;
pub(crate) mod files;
pub(crate) mod footer;
pub(crate) mod foreign;
pub(crate) mod located;
pub(crate) mod new_pages;

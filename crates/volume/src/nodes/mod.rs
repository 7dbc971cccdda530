//! Nodes: blocks of 512 numbers, of which a pool's paged maps and page tables consist.

pub(crate) mod files;
pub(crate) mod format;
pub(crate) mod table;

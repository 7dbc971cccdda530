//! Block volumes that are served, as they grow: memory and time to open, and beside qcow2.

mod content;
mod fill;
pub(crate) mod memory;
mod memory_plot;
pub(crate) mod qcow2;
mod served;

//! Block volumes that are served, as they grow: memory and time to open.

mod content;
mod fill;
pub(crate) mod memory;
mod memory_plot;
mod served;

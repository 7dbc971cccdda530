//! For research: what papers propose and no repository uses.
//!
//! [`TwoStage`] finds candidates first and selects cut-points second. [`MemoryHints`] are hints for
//! [`Rapid`](crate::Rapid) that live in memory and forget nothing. `parallel_cuts` gives an account
//! of what `cut_points_parallel` took; both are of the feature `threads`.

mod memory;
pub(crate) mod two_stage;

#[cfg(feature = "threads")]
pub use crate::parallel::{ParallelCuts, parallel_cuts};
pub use memory::{MemoryHints, MemoryPlace};
pub use two_stage::{Candidates, TwoStage};

//! The instrument with which chunkers are measured.
//!
//! A [`Dataset`] lies in memory. [`measure`] lets contenders cut it in interleaved rounds, after
//! those that should agree were found to, and keeps each sample. [`Metrics`] tell what the
//! cut-points are worth, [`read_all`] how fast they could be had at best, and a [`Record`] keeps
//! all of it with what is needed to doubt it.

pub mod compare;
mod counters;
mod dataset;
mod distribution;
pub mod equal_mean;
#[cfg(feature = "gpu")]
pub mod gpu;
mod limit;
mod memory;
mod metrics;
mod offload;
mod pin;
pub mod recommend;
mod record;
pub mod report;
mod rounds;
pub mod run;
mod source;
mod survey;
pub mod trace;
mod watch;

pub use counters::{Counters, Counts};
pub use dataset::{Dataset, files_below};
pub use distribution::{Bin, Distribution, Quantiles};
pub use limit::{read_all, read_kernel};
pub use metrics::{Findings, Metrics, Tally, Zeros};
pub use offload::Offload;
pub use pin::{Pin, last_cpus};
pub use record::{Commit, DatasetRecord, Header, Machine, Record, command_line};
pub use rounds::{
    Contender, FEWEST_ROUNDS, Outcome, Sample, Summary, measure, measure_while, noise,
};
pub use source::{Piece, Source, Unreadable};
pub use survey::{Survey, survey};
pub use watch::Watch;

//! The instrument with which chunkers are measured.
//!
//! A [`Dataset`] lies in memory. [`measure`] lets contenders cut it in interleaved rounds, after
//! those that should agree were found to, and keeps each sample. [`Metrics`] tell what the
//! cut-points are worth, [`read_all`] how fast they could be had at best, and a [`Record`] keeps
//! all of it with what is needed to doubt it.

pub mod build;
mod dataset;
pub mod equal_mean;
mod limit;
mod metrics;
mod rapid;
mod record;
mod rounds;

pub use dataset::Dataset;
pub use limit::{read_all, read_kernel};
pub use metrics::{Metrics, Tally};
pub use rapid::{CriterionResult, RapidPlan, RapidResult, Times, measure_rapid, name};
pub use record::{Commit, DatasetRecord, Header, Machine, Record, command_line};
pub use rounds::{Contender, FEWEST_ROUNDS, Outcome, Sample, Summary, measure, noise};

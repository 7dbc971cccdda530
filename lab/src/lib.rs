//! The laboratory: what measures Onefold, and is not linked into it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`build`] | datasets as recipes |
//! | [`paper`] | what papers claim, beside what is measured here |
//! | [`trace`] | traces of block devices, replayed to volumes and, by [`nbd`], to servers |
//! | [`rapid`] | RapidCDC's gain on data that come again |
//!
//! Rounds, metrics and records are those of [`onefold_bench`].

pub mod build;
pub mod nbd;
pub mod paper;
pub mod rapid;
pub mod trace;

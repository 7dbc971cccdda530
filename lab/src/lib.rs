//! The laboratory: what measures Onefold, and is not linked into it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`build`] | datasets as recipes |
//! | [`paper`] | what papers claim, beside what is measured here |
//! | [`trace`] | traces of block devices, replayed to volumes and, by [`nbd`], to servers |
//! | [`rapid`] | RapidCDC's gain on data that come again |
//! | [`engine`] | a pool of volumes without NBD, beside fingerprints and compression alone |
//! | [`index`] | the index as it grows beyond its memory, and what it misses then |
//! | [`table`] | the tables of fingerprints in memory |
//! | [`peers`] | look-ups of hints between two gateways |
//!
//! Rounds, metrics and records are those of [`onefold_bench`]. The binary measures whole programs besides.

mod argument;
pub mod build;
pub mod engine;
pub mod index;
mod mounted;
pub mod nbd;
pub mod paper;
pub mod peers;
pub mod rapid;
pub mod table;
pub mod trace;

pub use argument::Argument;
pub use mounted::mounted;

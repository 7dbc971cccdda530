//! Content-defined chunking: bytes to cut-points.
//!
//! A *cut-point* is the offset just after the last byte of a chunk. A [`Chunker`] finds the
//! cut-points of a buffer, a [`Stream`] those of a reader; both depend only on the bytes and the
//! [`Params`], never on read sizes or on the [`Kernel`] that does the work.
//!
//! ```
//! use onefold_cdc::{Algorithm, Chunker, Params};
//!
//! let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, 8192)?)?;
//! let data = vec![7; 100_000];
//! let mut start = 0;
//! for end in chunker.cut_points(&data) {
//!     let chunk = &data[start..end];
//!     assert!(chunk.len() <= chunker.sizes().max());
//!     start = end;
//! }
//! assert_eq!(start, data.len());
//! # Ok::<(), onefold_cdc::ParamError>(())
//! ```
//!
//! `cut_points_parallel`, of the feature `threads`, cuts one input by several threads, at the same
//! cut-points. [`Rapid`] jumps
//! over chunks that followed others before; which of its cut-points are those of the algorithm, its
//! [`Criterion`] says.
//!
//! Each algorithm has a file that states its rule and the scalar code that defines it. What they
//! share: the length p of a chunk satisfies min ≤ p ≤ max; a chunk in which nothing qualifies
//! before max ends at max; where the data ends, the rest is the last chunk and may be shorter
//! than min.
//!
//! [`Cuts`] yields the cut-points of a reader without its chunks, and so can do without a maximum:
//! [`ChunkSizes::unbounded`]. [`GearScan`] takes pieces instead of a reader. A [`Preset`] cuts
//! where another tool does. [`Divisors`] are what BFBC learns from a sample. A [`Secret`] keys what
//! has something to key; [`Algorithm::GearAes`] is the one that keeps it. [`Scheme::params`]
//! completes what a user chose.

#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "nothing calls vector code where there are no vectors")
)]

mod ae;
mod algorithm;
mod bfbc;
mod boundary;
mod buzhash;
mod choice;
mod chunker;
mod crc;
mod cuts;
mod descriptor;
mod divisors;
mod error;
mod fastcdc;
mod fixed;
mod gear;
mod gear16;
mod gear32;
mod gear_aes;
mod gear_scan;
mod kernel;
mod maxp;
mod mii;
mod mincdc;
#[cfg(feature = "threads")]
mod parallel;
mod params;
mod pci;
mod polynomial;
mod preset;
mod rabin;
mod ram;
mod rapid;
pub mod research;
mod rolling;
mod rule;
mod scanned;
mod scheme;
mod secret;
mod seqcdc;
mod simd;
mod splitmix;
mod stream;
mod stretch;
mod tables;
mod tttd;
mod walk;

pub use algorithm::Algorithm;
pub use boundary::{BoundaryTest, Lookahead};
pub use choice::Choice;
pub use chunker::{Chunker, cut_points};
pub use cuts::Cuts;
pub use divisors::Divisors;
pub use error::ParamError;
pub use gear_scan::GearScan;
pub use kernel::Kernel;
#[cfg(feature = "threads")]
pub use parallel::cut_points_parallel;
pub use params::{ChunkSizes, MAX_CHUNK, Parameter, Params};
pub use preset::Preset;
pub use rapid::{
    Criterion, Hints, MAX_NEXT, NextChunk, NextChunks, Rapid, RapidChunk, RapidCounters, RapidInput,
};
pub use scheme::Scheme;
pub use secret::Secret;
pub use stream::Stream;
pub use stretch::decided_cuts;
pub use tables::{LeastHash, Tables, WindowHash, WindowTest};

/// Runs what the file that readers see first shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

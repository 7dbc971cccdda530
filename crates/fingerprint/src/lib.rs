//! Fingerprints of chunks, many at a time.
//!
//! A [`Fingerprint`] is the identity of a chunk: equal fingerprints mean equal bytes as far as
//! the [`FingerprintAlgorithm`] can be trusted. A [`Fingerprinter`] is an algorithm with its key.
//!
//! ```
//! use onefold_fingerprint::Fingerprinter;
//!
//! let fingerprinter = Fingerprinter::default();
//! let mut fingerprints = Vec::new();
//! fingerprinter.fingerprint_many(&[b"one", b"two"], &mut fingerprints);
//! assert_eq!(fingerprints[1], fingerprinter.fingerprint(b"two"));
//! ```

mod algorithm;
mod error;
mod fingerprint;
mod fingerprinter;
mod lanes;

pub use algorithm::FingerprintAlgorithm;
pub use error::FingerprintError;
pub use fingerprint::{Fingerprint, Shortened};
pub use fingerprinter::Fingerprinter;

/// Runs what the file that readers see first shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

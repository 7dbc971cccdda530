//! Onefold's chunkers and fingerprints for C, as `onefold_cdc.h` declares them.
//!
//! Handles are opaque and made and freed in pairs. Every function that can fail returns a
//! [`onefold_status`], and [`onefold_last_error`] says why. A panic, which
//! is an error in Onefold, ends as `ONEFOLD_BROKEN` and never crosses into C.

#![allow(non_camel_case_types, reason = "names in C")]

mod chunker;
mod cut_points;
mod error;
mod fingerprints;
mod pointers;
mod stream;

pub use chunker::*;
pub use cut_points::*;
pub use error::{onefold_last_error, onefold_status};
pub use fingerprints::*;
pub use stream::*;

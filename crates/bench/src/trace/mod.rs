//! Traces of block devices: read, and made up.
//!
//! | file | what it is |
//! | --- | --- |
//! | format.rs | a line of a trace, and files of them |
//! | content.rs | the bytes that stand for a digest |
//! | shape.rs | traces that are made up, in the shape of real ones |
//!
//! The format is that of the FIU I/O deduplication traces (SNIA IOTTA), which StreamDedup
//! (ACM TRETS, 2026) replays in its section 5.4. They have digests in the place of content.

mod content;
mod format;
mod shape;

pub use content::{Digest, fill, mix};
pub use format::{Kind, MAX_LINE, Operation, PageSize, Reader, SECTOR};
pub use shape::{Generator, Plan, Shape};

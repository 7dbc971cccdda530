//! Traces of block devices: read, made up, replayed.
//!
//! | file | what it is |
//! | --- | --- |
//! | format.rs | a line of a trace, and files of them |
//! | content.rs | the bytes that stand for a digest |
//! | shape.rs | traces that are made up, in the shape of real ones |
//! | survey.rs | what is known of a trace before it is replayed |
//! | replay.rs | doing what a trace says, by the clock |
//! | latency.rs | how long operations took |
//! | target.rs | what a trace is replayed to |
//!
//! The format is that of the FIU I/O deduplication traces (SNIA IOTTA), which StreamDedup
//! (ACM TRETS, 2026) replays in its section 5.4. They have digests in the place of content.

mod content;
mod format;
mod latency;
mod replay;
mod shape;
mod survey;
mod target;

pub use content::{Digest, fill};
pub use format::{Kind, MAX_LINE, Operation, PageSize, Reader, SECTOR};
pub use latency::{Latencies, Latency};
pub use replay::{Pace, Replayed, Wishes, initialise, replay};
pub use shape::{Generator, Plan, Shape};
pub use survey::Survey;
pub use target::{Device, Target};

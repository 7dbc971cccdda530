//! Traces of block devices, replayed. [`onefold_bench::trace`] reads them and makes them up.
//!
//! | file | what it is |
//! | --- | --- |
//! | survey.rs | what is known of a trace before it is replayed |
//! | replay.rs | doing what a trace says, by the clock |
//! | latency.rs | how long operations took |
//! | target.rs | what a trace is replayed to |

mod latency;
mod replay;
mod survey;
mod target;

pub use latency::{Latencies, Latency};
pub use onefold_bench::trace::{
    Digest, Generator, Kind, MAX_LINE, Operation, PageSize, Plan, Reader, SECTOR, Shape, fill,
};
pub use replay::{Pace, Replayed, Wishes, initialise, replay};
pub use survey::Survey;
pub use target::{Device, Target};

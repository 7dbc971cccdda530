//! What the CPU itself counts while a chunker works: instructions, branches, misses.

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub use linux::Counters;
#[cfg(not(target_os = "linux"))]
pub use other::Counters;

/// Events of one run in this process, without the kernel; `None` where this CPU, or the machine
/// that simulates it, does not count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions that were completed.
    pub instructions: u64,
    /// Branches among them.
    pub branches: Option<u64>,
    /// Branches that were predicted wrongly.
    pub branch_misses: Option<u64>,
    /// Reads that the first cache did not have.
    pub l1d_read_misses: Option<u64>,
    /// Accesses that no cache had.
    pub cache_misses: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_testkit::skip;
    use std::hint::black_box;

    /// A machine without counters, as many virtual ones are, gives an error that says so.
    #[test]
    fn twice_the_work_is_twice_the_instructions_or_there_is_a_reason() {
        let mut counters = match Counters::open() {
            Ok(counters) => counters,
            Err(reason) => {
                let reason = format!("{reason:#}");
                assert!(reason.starts_with("the kernel "), "{reason}");
                return;
            }
        };
        let mut work = |rounds: u64| {
            counters.count(|| {
                for i in 0..rounds {
                    black_box(i);
                }
            })
        };
        let (Ok(once), Ok(twice)) = (work(1_000_000), work(2_000_000)) else {
            return skip("others use the CPU's counters");
        };
        assert!(once.instructions >= 1_000_000, "{once:?}");
        let ratio = twice.instructions as f64 / once.instructions as f64;
        assert!((ratio - 2.0).abs() < 0.05, "{once:?} {twice:?}");
        assert!(once.branches.is_none_or(|branches| branches >= 1_000_000), "{once:?}");
    }
}

//! What the CPU itself counts while a chunker works: instructions, branches, misses.

use anyhow::{Context, Result, ensure};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter, Group, ReadFormat};
use serde::{Deserialize, Serialize};

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

/// The CPU's counters for the thread that opened them.
pub struct Counters {
    group: Group,
    instructions: Counter,
    branches: Option<Counter>,
    branch_misses: Option<Counter>,
    l1d_read_misses: Option<Counter>,
    cache_misses: Option<Counter>,
}

const L1D_READ_MISSES: Cache =
    Cache { which: CacheId::L1D, operation: CacheOp::READ, result: CacheResult::MISS };

impl Counters {
    /// An error says why this machine counts nothing for us.
    pub fn open() -> Result<Self> {
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let mut group = Group::builder()
            .read_format(ReadFormat::GROUP | times)
            .build_group()
            .context("the kernel lets nobody count")?;
        let instructions = add(&mut group, Hardware::INSTRUCTIONS)
            .context("the kernel offers no counter of instructions")?;
        let branches = add(&mut group, Hardware::BRANCH_INSTRUCTIONS).ok();
        let branch_misses = add(&mut group, Hardware::BRANCH_MISSES).ok();
        let l1d_read_misses = add(&mut group, L1D_READ_MISSES).ok();
        let cache_misses = add(&mut group, Hardware::CACHE_MISSES).ok();
        Ok(Self { group, instructions, branches, branch_misses, l1d_read_misses, cache_misses })
    }

    /// Counts what happens while `work` runs on this thread; an error if the counters had to be
    /// shared with others meanwhile.
    pub fn count(&mut self, work: impl FnOnce()) -> Result<Counts> {
        self.group.reset()?;
        self.group.enable()?;
        work();
        self.group.disable()?;
        let data = self.group.read()?;
        let running = data.time_running();
        ensure!(
            running > Some(Default::default()) && running == data.time_enabled(),
            "others used the CPU's counters meanwhile"
        );
        let count = |counter: &Option<Counter>| Some(data.get(counter.as_ref()?)?.value());
        Ok(Counts {
            instructions: data.get(&self.instructions).context("no count")?.value(),
            branches: count(&self.branches),
            branch_misses: count(&self.branch_misses),
            l1d_read_misses: count(&self.l1d_read_misses),
            cache_misses: count(&self.cache_misses),
        })
    }
}

fn add(group: &mut Group, event: impl Event) -> std::io::Result<Counter> {
    group.add(Builder::new(event).exclude_kernel(true).exclude_hv(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_testkit::skip;
    use std::hint::black_box;

    /// Or the machine has no counters, as many virtual ones, and then the user is told so.
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

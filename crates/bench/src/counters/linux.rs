//! The counters that Linux lends.

use anyhow::{Context, Result, ensure};
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter, Group, ReadFormat};

use super::Counts;

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

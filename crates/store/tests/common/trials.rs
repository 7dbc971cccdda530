//! Operations that are stopped, killed or made to fail wherever that is possible.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_backend::Objects;
use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Fault, Faults, Faulty};
use onefold_store::StoreError;
use onefold_testkit::first_found;

use super::{chain, copy};

/// How much was tried, or the first promise that was broken.
pub type Tried = Result<Count, String>;

/// How much was tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    /// After how many operations it was stopped.
    pub operations: u64,
    /// How many cuts were drawn at most after each.
    pub cuts: usize,
    /// How many different states that gave.
    pub states: u64,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, cuts, states } = self;
        write!(f, "{operations} operations × {cuts} cuts tried, {states} different states")
    }
}

/// Stops something after each of `operations`, on all cores. `try_stop` stops it once, counts the states that it
/// looked at, at most `cuts`, and fails with the first promise that was broken.
pub fn stop_everywhere(
    operations: u64,
    cuts: usize,
    try_stop: impl Fn(u64, &AtomicU64) -> Result<(), String> + Sync,
) -> Tried {
    let states = AtomicU64::new(0);
    match first_found(0..operations + 1, |stop| try_stop(stop, &states).err()) {
        Some((_, broken)) => Err(broken),
        None => Ok(Count { operations, cuts, states: states.into_inner() }),
    }
}

/// Something that is done to a repository, and what must hold however it ends.
pub trait Trial: Sync {
    /// What was acknowledged by the time it ended.
    type Acknowledged: Default;

    /// The repository, to which it was not done yet.
    fn before(&self) -> &dyn Objects;

    /// Does it, and keeps `acknowledged` up to date.
    fn run(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &mut Self::Acknowledged,
    ) -> Result<(), StoreError>;

    /// Fails unless all holds that was promised.
    fn expect_promises_kept(
        &self,
        objects: Arc<dyn Objects>,
        acknowledged: &Self::Acknowledged,
    ) -> Result<(), String>;

    /// A disk on which the repository is durable and nothing else happened yet.
    fn disk(&self) -> CrashDisk {
        let disk = CrashDisk::new();
        let objects = disk.objects();
        for info in self.before().list("").unwrap() {
            objects.put(&info.name, self.before().get(&info.name).unwrap()).unwrap();
        }
        disk.durable_states(2, 0).last().unwrap()
    }

    /// Does it on a disk, whatever comes of it.
    fn try_on(&self, disk: &CrashDisk) -> (Self::Acknowledged, Result<(), StoreError>) {
        let mut acknowledged = Self::Acknowledged::default();
        let result = self.run(Arc::new(disk.objects()), &mut acknowledged);
        (acknowledged, result)
    }

    /// Stops it after every operation and draws `cuts` durable states after each.
    fn cut_power_everywhere(&self, cuts: usize) -> Tried {
        self.cut_power_of(cuts, |disk| disk)
    }

    /// The same on disks that `prepare` has changed.
    fn cut_power_of(&self, cuts: usize, prepare: impl Fn(CrashDisk) -> CrashDisk + Sync) -> Tried {
        let base = self.disk();
        let new_disk = || prepare(base.durable_states(2, 0).last().unwrap());
        let whole = new_disk();
        self.try_on(&whole).1.map_err(|error| chain(&error))?;
        // Random names share directories or not, so the number of operations varies a little.
        stop_everywhere(whole.operations() + 8, cuts, |stop, states| {
            let disk = new_disk();
            disk.crash_after(stop);
            let (acknowledged, _stopped) = self.try_on(&disk);
            for (cut, state) in disk.durable_states(cuts, stop).enumerate() {
                let kept = self.expect_promises_kept(Arc::new(state.objects()), &acknowledged);
                kept.map_err(|broken| {
                    let step = disk.trace().last().map(ToString::to_string);
                    let step = step.unwrap_or_else(|| "the start".into());
                    format!("stopped after operation {stop} ({step}), state {cut}: {broken}")
                })?;
                states.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    /// Kills it after every `stride`-th operation, lets another one run on what is visible, and cuts
    /// the power then.
    fn kill_and_cut_power_later(&self, stride: usize, cuts: usize) -> Tried {
        let base = self.disk();
        let new_disk = || base.durable_states(2, 0).last().unwrap();
        let whole = new_disk();
        self.try_on(&whole).1.map_err(|error| chain(&error))?;
        let mut count = Count { cuts, ..Count::default() };
        for stop in (0..whole.operations()).step_by(stride) {
            let disk = new_disk();
            disk.crash_after(stop);
            let _killed = self.try_on(&disk);
            disk.crash_after(u64::MAX);
            let (acknowledged, done) = self.try_on(&disk);
            done.map_err(|error| chain(&error))?;
            for state in disk.durable_states(cuts, stop) {
                self.expect_promises_kept(Arc::new(state.objects()), &acknowledged)
                    .map_err(|broken| format!("killed after operation {stop}: {broken}"))?;
                count.states += 1;
            }
            count.operations += 1;
        }
        Ok(count)
    }

    /// Lets each call that `fault` counts fail, one after the other.
    fn fail_every(&self, fault: &Fault) -> Tried {
        let ended = first_found(0..u64::MAX, |call| {
            let faults = Faults::none();
            let memory = copy(self.before());
            let objects = Faulty::new(Arc::clone(&memory), "memory", &faults);
            faults.add(fault.clone().skip(call));
            let mut acknowledged = Self::Acknowledged::default();
            let result = self.run(Arc::new(objects), &mut acknowledged);
            if let Err(broken) = self.expect_promises_kept(memory, &acknowledged) {
                return Some(Err(format!("call {call} failed: {broken}")));
            }
            let is_through = faults.failed() == 0;
            is_through.then(|| result.map_err(|error| chain(&error)))
        });
        let (calls, result) = ended.expect("a run has an end");
        result.map(|()| Count { operations: calls, cuts: 1, states: calls })
    }
}

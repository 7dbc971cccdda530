//! A thread that stays where it is.

use std::thread;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Does `work` on a thread of its own that keeps to `cores` CPUs, as do threads that it starts.
///
/// `work` is told why, if it cannot be kept there.
pub(crate) fn on_pinned_thread<T: Send>(
    cores: usize,
    work: impl FnOnce(Result<()>) -> T + Send,
) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| work(pin(cores)));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Keeps this thread to the last `cores` CPUs that it may use: the first ones have interrupts to
/// serve.
fn pin(cores: usize) -> Result<()> {
    let place = || format!("cannot keep to {cores} CPUs");
    let allowed = sched_getaffinity(None).with_context(place)?;
    let mut kept = CpuSet::new();
    let all = (0..CpuSet::MAX_CPU).rev().filter(|&cpu| allowed.is_set(cpu));
    all.take(cores).for_each(|cpu| kept.set(cpu));
    sched_setaffinity(None, &kept).with_context(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_worker_is_kept_to_its_cpus() {
        let before = sched_getaffinity(None).unwrap().count();
        let within = on_pinned_thread(1, |pinned| {
            pinned.unwrap();
            sched_getaffinity(None).unwrap().count()
        });
        assert_eq!((within, sched_getaffinity(None).unwrap().count()), (1, before));
    }
}

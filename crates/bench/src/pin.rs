//! A thread that stays where it is.

use std::marker::PhantomData;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the thread that made it to some CPUs, as well as threads that it starts, until it is
/// dropped.
pub(crate) struct Pin {
    before: CpuSet,
    /// Another thread could not undo it.
    of_this_thread: PhantomData<*const ()>,
}

impl Pin {
    /// To the last `cores` CPUs that this thread may use: the first ones have interrupts to serve.
    pub(crate) fn to(cores: usize) -> Result<Self> {
        let place = || format!("cannot keep to {cores} CPUs");
        let before = sched_getaffinity(None).with_context(place)?;
        let mut kept = CpuSet::new();
        let allowed = (0..CpuSet::MAX_CPU).rev().filter(|&cpu| before.is_set(cpu));
        allowed.take(cores).for_each(|cpu| kept.set(cpu));
        sched_setaffinity(None, &kept).with_context(place)?;
        Ok(Self { before, of_this_thread: PhantomData })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // CPUs that were taken from this process meanwhile are no reason to stop
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_those_it_starts_are_kept_until_the_end() {
        let count = || sched_getaffinity(None).unwrap().count();
        let before = count();
        let pin = Pin::to(1).unwrap();
        assert_eq!((count(), std::thread::spawn(count).join().unwrap()), (1, 1));
        drop(pin);
        assert_eq!(count(), before);
    }
}

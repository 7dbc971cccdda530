//! A thread that stays where it is.

use anyhow::Result;

/// Keeps the thread that made it to some CPUs, as well as threads that it starts, until it is
/// dropped.
pub struct Pin {
    _kept: system::Kept,
}

impl Pin {
    /// To the last `cores` CPUs that this thread may use: the first ones have interrupts to serve.
    pub fn to(cores: usize) -> Result<Self> {
        Self::to_these(&last_cpus(cores)?)
    }

    /// To this one, which need not be one that the thread was kept to.
    pub fn to_cpu(cpu: usize) -> Result<Self> {
        Self::to_these(&[cpu])
    }

    fn to_these(cpus: &[usize]) -> Result<Self> {
        Ok(Self { _kept: system::Kept::to(cpus)? })
    }
}

pub use system::last_cpus;

#[cfg(target_os = "linux")]
mod system {
    use std::marker::PhantomData;

    use anyhow::{Context, Result};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) struct Kept {
        before: CpuSet,
        /// Another thread could not undo it.
        of_this_thread: PhantomData<*const ()>,
    }

    impl Kept {
        pub(super) fn to(cpus: &[usize]) -> Result<Self> {
            let place = || format!("cannot keep to CPUs {cpus:?}");
            let before = sched_getaffinity(None).with_context(place)?;
            let mut kept = CpuSet::new();
            cpus.iter().for_each(|cpu| kept.set(*cpu));
            sched_setaffinity(None, &kept).with_context(place)?;
            Ok(Self { before, of_this_thread: PhantomData })
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            // CPUs that were taken from this process meanwhile are no reason to stop
            let _ = sched_setaffinity(None, &self.before);
        }
    }

    /// The last `count` CPUs that this thread may use, or all if they are fewer; the last one first.
    pub fn last_cpus(count: usize) -> Result<Vec<usize>> {
        let allowed = sched_getaffinity(None).context("cannot ask for the CPUs of this thread")?;
        Ok((0..CpuSet::MAX_CPU).rev().filter(|&cpu| allowed.is_set(cpu)).take(count).collect())
    }
}

/// Elsewhere the system moves threads as it likes.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::thread;

    use anyhow::Result;

    pub(super) struct Kept;

    impl Kept {
        pub(super) fn to(_: &[usize]) -> Result<Self> {
            Ok(Self)
        }
    }

    /// The last `count` CPUs, or all if they are fewer; the last one first.
    pub fn last_cpus(count: usize) -> Result<Vec<usize>> {
        let cpus = thread::available_parallelism()?.get();
        Ok((0..cpus).rev().take(count).collect())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::sched_getaffinity;

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

    #[test]
    fn a_thread_of_one_that_is_kept_to_a_cpu_may_be_kept_to_another() {
        let cpus = last_cpus(2).unwrap();
        let _pin = Pin::to(1).unwrap();
        assert_eq!(last_cpus(2).unwrap(), cpus[..1]);
        for cpu in cpus {
            let kept = std::thread::spawn(move || {
                let _pin = Pin::to_cpu(cpu).unwrap();
                last_cpus(2).unwrap()
            });
            assert_eq!(kept.join().unwrap(), [cpu]);
        }
    }
}

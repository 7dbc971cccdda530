//! A lock of which whoever takes it again and again lets the others have it in between.
//!
//! A thread that gives a mutex back and takes it again at once gets it nearly always: those who wait
//! for it have to be woken first. So what is done in steps would be one long step for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;

pub(crate) struct Turns<T> {
    inner: Mutex<T>,
    /// How many had to wait for it, and how many of them do no longer.
    came: AtomicU64,
    went: AtomicU64,
}

impl<T> Turns<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { inner: Mutex::new(value), came: AtomicU64::new(0), went: AtomicU64::new(0) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = match self.inner.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(error)) => Err(error),
            Err(TryLockError::WouldBlock) => {
                self.came.fetch_add(1, Ordering::Relaxed);
                let guard = self.inner.lock();
                self.went.fetch_add(1, Ordering::Relaxed);
                guard
            }
        };
        guard.expect("nobody panics with it")
    }

    /// Returns once as many have had the lock as have had to wait for it by now, so that nobody who
    /// waits now waits for the next step as well. Who calls does not have it.
    pub(crate) fn let_others(&self) {
        let came = self.came.load(Ordering::Relaxed);
        while self.went.load(Ordering::Relaxed) < came {
            // they have to be woken, which takes some ten microseconds
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_has_it_before_the_next_step() {
        const WAITING: u64 = 3;
        let lock = Turns::new(0);
        for round in 1..=200 {
            thread::scope(|scope| {
                let step = lock.lock();
                let came = lock.came.load(Ordering::Relaxed);
                for _ in 0..WAITING {
                    scope.spawn(|| *lock.lock() += 1);
                }
                while lock.came.load(Ordering::Relaxed) < came + WAITING {
                    thread::yield_now();
                }
                drop(step);
                lock.let_others();
                assert_eq!(*lock.lock(), round * WAITING);
            });
        }
    }

    #[test]
    fn nobody_is_waited_for_who_does_not_wait() {
        let lock = Turns::new(0);
        for _ in 0..10 {
            *lock.lock() += 1;
            lock.let_others();
        }
        assert_eq!((*lock.lock(), lock.came.load(Ordering::Relaxed)), (10, 0));
    }
}

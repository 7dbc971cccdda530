//! Several things at a time.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Does both at once, on two threads, and gives what comes of each.
pub(crate) fn both<A: Send, B>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B,
) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (joined(one), other)
    })
}

/// What comes of a thread, whose panic goes on here.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn neither_waits_for_the_other_to_end() {
        let meet = Barrier::new(2);
        let meeting = |value| {
            meet.wait();
            value
        };
        assert_eq!(both(|| meeting(1), || meeting(2)), (1, 2));
    }
}

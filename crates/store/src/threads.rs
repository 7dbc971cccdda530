//! Threads that share work.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

/// How many threads can compute at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does `work` for each of `items`, on `threads` threads.
pub(crate) fn each<T: Sync>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> ControlFlow<()> + Sync,
) -> ControlFlow<()> {
    let next = AtomicUsize::new(0);
    let run = || loop {
        let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else {
            return ControlFlow::Continue(());
        };
        work(item)?;
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        let flow = run();
        others.into_iter().fold(flow, |flow, thread| match joined(thread) {
            ControlFlow::Continue(()) => flow,
            ControlFlow::Break(()) => ControlFlow::Break(()),
        })
    })
}

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

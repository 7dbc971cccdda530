//! Threads that share work.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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
        others.into_iter().fold(flow, |flow, thread| match thread.join() {
            Ok(ControlFlow::Continue(())) => flow,
            Ok(ControlFlow::Break(())) => ControlFlow::Break(()),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

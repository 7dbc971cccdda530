//! Threads that run one at a time, in an order that a seed decides, and their late updates.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use onefold_backend::rados::FatedRados;
use onefold_testkit::SplitMix64;

/// Whose turn it is.
pub(crate) struct Turns {
    inner: Mutex<Inner>,
    /// One for each thread.
    changed: Vec<Condvar>,
}

struct Inner {
    numbers: SplitMix64,
    /// A thread goes on alone for so many steps on average: some races need short turns, others long ones.
    patience: u64,
    /// Which threads wait for their turn.
    is_waiting: Vec<bool>,
    /// How many have not begun yet.
    missing: usize,
    current: Option<usize>,
}

impl Turns {
    pub(crate) fn new(seed: u64, threads: usize) -> Self {
        let (numbers, patience) = (SplitMix64::new(seed), 2 + seed % 9);
        let is_waiting = vec![false; threads];
        let inner = Inner { numbers, patience, is_waiting, missing: threads, current: None };
        Self { inner: Mutex::new(inner), changed: (0..threads).map(|_| Condvar::new()).collect() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all threads have begun and it is this one's turn.
    fn begin(&self, thread: usize) -> Turn<'_> {
        self.inner().missing -= 1;
        self.pass(thread);
        Turn { turns: self, thread }
    }

    /// A number below `bound`. The caller must have the turn.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.inner().numbers.next_u64() % bound
    }

    /// Lets others run before this thread goes on.
    pub(crate) fn pass(&self, thread: usize) {
        let mut inner = self.inner();
        let is_current = inner.current == Some(thread);
        if is_current && !inner.numbers.next_u64().is_multiple_of(inner.patience) {
            return;
        }
        inner.is_waiting[thread] = true;
        self.choose(&mut inner);
        while inner.current != Some(thread) {
            inner = self.changed[thread].wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.is_waiting[thread] = false;
    }

    /// Delivers one of the updates that clients sent and that are late, if there are any; whether it was applied.
    /// The caller must have the turn, or be the only thread.
    pub(crate) fn deliver_one(&self, clients: &[Arc<FatedRados>]) -> Option<bool> {
        let late: Vec<_> = clients.iter().filter(|client| client.undelivered() > 0).collect();
        if late.is_empty() {
            return None;
        }
        let client = late[self.below(late.len() as u64) as usize];
        // whoever sent it waits no more
        let at = self.below(client.undelivered() as u64);
        Some(client.deliver(at as usize).is_ok())
    }

    /// Runs `each` on so many threads as take turns, with its number.
    pub(crate) fn run(&self, each: impl Fn(usize) + Sync) {
        let each = |thread: usize| {
            let _turn = self.begin(thread);
            each(thread);
        };
        thread::scope(|scope| {
            let each = &each;
            let threads: Vec<_> =
                (0..self.changed.len()).map(|number| scope.spawn(move || each(number))).collect();
            for thread in threads {
                if let Err(panicked) = thread.join() {
                    std::panic::resume_unwind(panicked);
                }
            }
        });
    }

    fn choose(&self, inner: &mut Inner) {
        let waiting: Vec<usize> =
            (0..inner.is_waiting.len()).filter(|thread| inner.is_waiting[*thread]).collect();
        if inner.missing > 0 || waiting.is_empty() {
            return;
        }
        let next = waiting[(inner.numbers.next_u64() % waiting.len() as u64) as usize];
        inner.current = Some(next);
        self.changed[next].notify_one();
    }
}

/// A thread that runs. When it is dropped, also by a panic, others go on.
struct Turn<'a> {
    turns: &'a Turns,
    thread: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut inner = self.turns.inner();
        assert_eq!(inner.current, Some(self.thread), "it has the turn");
        inner.current = None;
        self.turns.choose(&mut inner);
    }
}

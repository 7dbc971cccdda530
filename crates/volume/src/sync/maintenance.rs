//! The lock that checkpoints and compactions share, and for which writes wait.

use std::sync::{Condvar, Mutex, MutexGuard};

/// A lock for which writes wait until [`end`](Self::end).
#[derive(Default)]
pub(crate) struct Maintenance {
    state: Mutex<Taken>,
    changed: Condvar,
}

#[derive(Default)]
struct Taken {
    is_taken: bool,
    /// Whether writes do not wait any more.
    is_ending: bool,
}

/// The lock, until this is dropped.
pub(crate) struct Maintaining<'a>(&'a Maintenance);

impl Maintenance {
    pub(crate) fn lock(&self) -> Maintaining<'_> {
        let waited = self.changed.wait_while(self.state(), |state| state.is_taken);
        waited.expect("nobody panics with it").is_taken = true;
        Maintaining(self)
    }

    /// The lock for a write, unless writes do not wait any more.
    pub(crate) fn lock_for_write(&self) -> Option<Maintaining<'_>> {
        let is_waiting = |state: &mut Taken| state.is_taken && !state.is_ending;
        let waited = self.changed.wait_while(self.state(), is_waiting);
        let mut state = waited.expect("nobody panics with it");
        if state.is_ending {
            return None;
        }
        state.is_taken = true;
        Some(Maintaining(self))
    }

    /// The lock, unless another thread has it.
    pub(crate) fn try_lock(&self) -> Option<Maintaining<'_>> {
        let was_taken = std::mem::replace(&mut self.state().is_taken, true);
        (!was_taken).then_some(Maintaining(self))
    }

    /// Lets no write wait any more: one that has no room is refused.
    pub(crate) fn end(&self) {
        self.state().is_ending = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, Taken> {
        self.state.lock().expect("nobody panics with it")
    }
}

impl Drop for Maintaining<'_> {
    fn drop(&mut self) {
        self.0.state().is_taken = false;
        self.0.changed.notify_one();
    }
}

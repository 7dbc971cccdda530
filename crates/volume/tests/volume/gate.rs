//! A gate that calls pass in a test, and wait at while it is closed.

use std::sync::{Condvar, Mutex};

/// Open until it is closed. Who waits is let through in turn.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    /// How many came.
    came: u64,
    /// How many of these may go on although it is closed.
    may_go: u64,
}

/// Opens a gate at its end, also where something panics: a scope waits for who waits there.
#[must_use]
pub(crate) struct Closed<'a>(&'a Gate);

impl Gate {
    pub(crate) fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.came += 1;
        let nth = state.came;
        self.changed.notify_all();
        let stays = |state: &mut State| state.is_closed && state.may_go < nth;
        drop(self.changed.wait_while(state, stays).unwrap());
    }

    /// Has those wait who come from now on.
    pub(crate) fn close(&self) -> Closed<'_> {
        let mut state = self.state.lock().unwrap();
        (state.is_closed, state.may_go) = (true, state.came);
        Closed(self)
    }

    /// Lets the next one through, who may be waiting or come later.
    pub(crate) fn let_one_through(&self) {
        self.state.lock().unwrap().may_go += 1;
        self.changed.notify_all();
    }

    /// Waits until one waits who is not let through.
    pub(crate) fn wait_for_one(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.came <= state.may_go).unwrap());
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().is_closed = false;
        self.0.changed.notify_all();
    }
}

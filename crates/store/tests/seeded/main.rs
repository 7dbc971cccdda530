//! Errors made on purpose, each of which must be caught by what finds none otherwise; and a clock that jumps.
//!
//! They are switched on for the whole process, so the tests take turns.

#[path = "../common/mod.rs"]
mod common;

mod backup;
mod clients;
mod clock;
mod memory;
mod press;
mod prune;
mod repair;

use std::sync::{Mutex, MutexGuard, PoisonError};

use onefold_store::{clock as wall, seeded};

/// A test's turn. When it ends, no error is on and the clock is right.
struct Turn {
    _alone: MutexGuard<'static, ()>,
}

impl Turn {
    fn take() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        Self { _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        seeded::activate(None);
        seeded::shorten_words(false);
        wall::set_ahead(0);
    }
}

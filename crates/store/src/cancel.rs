//! How an operation is asked to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::StoreError;

/// A request to stop, shared by whoever may ask and whoever must listen.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// Asks the operation to stop soon, keeping what is done.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails if someone asked.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.is_cancelled() {
            true => Err(StoreError::Interrupted),
            false => Ok(()),
        }
    }
}

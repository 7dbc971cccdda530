//! Ending all parts of a backup together.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Cancel, StoreError};

/// Whether the parts of a backup should go on.
pub(super) struct Stop<'a> {
    pub(super) user: &'a Cancel,
    pub(super) failed: AtomicBool,
}

impl Stop<'_> {
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.user.check()?;
        match self.failed.load(Ordering::Relaxed) {
            true => Err(StoreError::Stopped),
            false => Ok(()),
        }
    }

    /// Does `work`, and tells the other parts if it fails or panics.
    pub(super) fn watch<T>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let alarm = Alarm(&self.failed);
        let result = work();
        if result.is_ok() {
            std::mem::forget(alarm);
        }
        result
    }
}

/// Goes off when it is dropped.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

//! The end of what goes on beside a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends what others do until it is over, also where something panics: a scope waits for them.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

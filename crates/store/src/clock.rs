//! The clock of the wall, which tests may set.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// By how many seconds the clock is ahead of the real one.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// This moment, as far as the clock knows.
pub(crate) fn now() -> SystemTime {
    let now = SystemTime::now();
    if !cfg!(feature = "seeded-bugs") {
        return now;
    }
    let ahead = AHEAD.load(Ordering::SeqCst);
    let by = Duration::from_secs(ahead.unsigned_abs());
    if ahead < 0 { now - by } else { now + by }
}

/// Sets the clock of the whole process to so many seconds ahead of the real one.
#[cfg(feature = "seeded-bugs")]
pub fn set_ahead(seconds: i64) {
    AHEAD.store(seconds, Ordering::SeqCst);
}

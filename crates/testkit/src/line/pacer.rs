//! Bandwidth that connections share: each sender waits for its turn on the line.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Idle time that the line may make up for, because sleeps end late.
const CREDIT: Duration = Duration::from_millis(5);

/// One direction of a line.
#[derive(Debug)]
pub(super) struct Pacer {
    bytes_per_second: Option<u64>,
    /// When the line has sent all bytes that it accepted.
    free_at: Mutex<Instant>,
}

impl Pacer {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        assert_ne!(bytes_per_second, Some(0), "a line without bandwidth sends nothing");
        Self { bytes_per_second, free_at: Mutex::new(Instant::now()) }
    }

    /// Waits until the line has sent `len` bytes more.
    ///
    /// A caller asks for what it sends next, so no connection holds more than one piece of the line
    /// and all have equal shares.
    pub(super) fn pass(&self, len: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let sent_at = self.reserve(Duration::from_secs_f64(len as f64 / rate as f64));
        thread::sleep(sent_at.saturating_duration_since(Instant::now()));
    }

    fn reserve(&self, time: Duration) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        *free_at = earliest.max(*free_at) + time;
        *free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_share_the_rate() {
        let pacer = Pacer::new(Some(10_000_000));
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| pacer.pass(50_000)));
            }
        });
        // 2 MB at 10 MB/s, less the credit.
        let taken = start.elapsed();
        assert!(taken >= Duration::from_millis(194), "{taken:?}");
    }

    #[test]
    fn an_idle_line_saves_up_no_more_than_the_credit() {
        let pacer = Pacer::new(Some(1_000_000));
        thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        pacer.pass(50_000);
        assert!(start.elapsed() >= Duration::from_millis(44), "{:?}", start.elapsed());
    }

    #[test]
    fn a_line_without_a_limit_waits_for_nothing() {
        // Any limit would hold it back for years.
        Pacer::new(None).pass(usize::MAX);
    }
}

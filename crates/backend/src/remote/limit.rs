//! Bandwidth limits, which delay pieces of bodies.

use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After a pause this much of the unused time may be used later, so that timers that are a little late
/// do not lower the rate.
const CREDIT: Duration = Duration::from_millis(100);

/// The longest piece of a body. A limit makes pieces shorter, so that all bodies make progress.
const MAX_PIECE: u64 = 64 << 10;
const MIN_PIECE: u64 = 1 << 10;

/// How many pieces pass in a second under a limit, at least.
const PIECES_PER_SECOND: u64 = 16;

/// A bound on the bytes that pass in a second: a token bucket. Clones share it.
#[derive(Clone, Debug)]
pub struct RateLimit(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    bytes_per_second: NonZero<u64>,
    /// When all bytes that were reserved will have passed.
    free: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// A limit in bytes a second.
    pub fn new(bytes_per_second: NonZero<u64>) -> Self {
        Self(Arc::new(Bucket { bytes_per_second, free: Mutex::default() }))
    }

    /// The length in bytes of the pieces that a body is cut into.
    pub(super) fn piece(&self) -> usize {
        let piece = self.0.bytes_per_second.get() / PIECES_PER_SECOND;
        piece.clamp(MIN_PIECE, MAX_PIECE) as usize
    }

    /// Reserves bandwidth for `bytes` at `now`, and returns when they may pass.
    pub(super) fn reserve(&self, bytes: usize, now: Instant) -> Instant {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        let start = free.map_or(now, |free| free.max(earliest));
        let takes = bytes as f64 / self.0.bytes_per_second.get() as f64;
        *free.insert(start + Duration::from_secs_f64(takes))
    }
}

/// The length in bytes of the pieces of a body under `limit`.
pub(super) fn piece(limit: Option<&RateLimit>) -> usize {
    limit.map_or(MAX_PIECE as usize, RateLimit::piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes_per_second: u64) -> RateLimit {
        RateLimit::new(NonZero::new(bytes_per_second).unwrap())
    }

    #[test]
    fn bytes_take_their_time_whoever_reserves_it() {
        let (limit, start) = (limit(1_000), Instant::now());
        let other = limit.clone();
        assert_eq!(limit.reserve(500, start), start + Duration::from_millis(500));
        assert_eq!(other.reserve(250, start), start + Duration::from_millis(750));
        assert_eq!(limit.reserve(0, start), start + Duration::from_millis(750));
    }

    #[test]
    fn a_pause_saves_up_a_tenth_of_a_second() {
        let (limit, start) = (limit(1_000), Instant::now());
        limit.reserve(1_000, start);
        let later = start + Duration::from_secs(60);
        assert_eq!(limit.reserve(100, later), later);
        assert_eq!(limit.reserve(100, later), later + Duration::from_millis(100));
    }

    #[test]
    fn a_clock_that_ticks_late_lowers_no_rate() {
        let (limit, start) = (limit(1_000_000), Instant::now());
        let mut now = start;
        for _ in 0..1_000 {
            let until = limit.reserve(1_000, now);
            // Waits end up to 7 ms late.
            now = now.max(until + Duration::from_millis(if until > now { 7 } else { 0 }));
        }
        let took = now - start;
        assert!(
            took >= Duration::from_millis(990) && took < Duration::from_millis(1_110),
            "{took:?}"
        );
    }

    #[test]
    fn pieces_are_short_under_low_limits() {
        for (rate, expected) in [(1, 1 << 10), (1 << 20, 64 << 10), (100 << 10, 6_400)] {
            assert_eq!(limit(rate).piece(), expected, "{rate}");
        }
        assert_eq!(piece(None), 64 << 10);
    }
}

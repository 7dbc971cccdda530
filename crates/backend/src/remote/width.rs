//! The number of requests in flight.
//!
//! More requests help until the connection or the service is busy; beyond that they only queue. So their
//! number grows while that increases throughput, and is halved when the service reports overload.

use std::num::NonZero;
use std::time::Duration;

const FIRST: usize = 8;
const MOST: usize = 64;

/// The minimum number of requests with short answers in flight.
const SHORT: usize = 32;

/// A larger number is kept if it raised the throughput at least by this factor.
const GAIN: f64 = 1.1;

/// Bytes that are added to each answer, for the cost of its request.
const REQUEST_COST: u64 = 1 << 10;

/// The number of requests, and its throughput.
#[derive(Debug)]
pub(super) struct Width {
    now: usize,
    is_fixed: bool,
    /// The number before the last growth, and its throughput in bytes per second.
    before: Option<(usize, f64)>,
    /// Whether growing did not help.
    is_settled: bool,
    /// Since the number was set: answers and their bytes.
    answers: usize,
    bytes: u64,
    since: Option<Duration>,
}

impl Width {
    /// `fixed` requests in flight, or as many as turn out to help.
    pub(super) fn new(fixed: Option<NonZero<usize>>) -> Self {
        Self {
            now: fixed.map_or(FIRST, NonZero::get),
            is_fixed: fixed.is_some(),
            before: None,
            is_settled: false,
            answers: 0,
            bytes: 0,
            since: None,
        }
    }

    pub(super) fn get(&self) -> usize {
        self.now
    }

    /// The number of requests in flight with answers too short to fill the connection.
    pub(super) fn of_short(&self) -> usize {
        if self.is_fixed { self.now } else { self.now.max(SHORT) }
    }

    /// Restarts the measurement at `time`, because there were not always enough requests.
    pub(super) fn begin(&mut self, time: Duration) {
        (self.answers, self.bytes, self.since) = (0, 0, Some(time));
    }

    /// Records an answer of `bytes` bytes that arrived at `time`.
    pub(super) fn answered(&mut self, bytes: u64, time: Duration) {
        self.answers += 1;
        self.bytes += bytes + REQUEST_COST;
        // The first answers after a change are to requests made before it.
        if self.is_fixed || self.is_settled || self.answers < 3 * self.now {
            return;
        }
        let Some(since) = self.since else { return self.begin(time) };
        let rate = self.bytes as f64 / (time - since).as_secs_f64().max(1e-6);
        match self.before {
            Some((before, old)) if rate < GAIN * old => {
                self.now = before;
                self.is_settled = true;
            }
            _ if self.now == MOST => self.is_settled = true,
            _ => {
                self.before = Some((self.now, rate));
                self.now = (2 * self.now).min(MOST);
            }
        }
        self.begin(time);
    }

    /// Records that the service was overloaded, or silent for too long.
    pub(super) fn overloaded(&mut self, time: Duration) {
        if !self.is_fixed {
            self.now = (self.now / 2).max(1);
            self.is_settled = false;
            self.before = None;
        }
        self.begin(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of `size` bytes from a service that answers `at_once` requests in `trip`; gives the
    /// width that is reached.
    fn settle(width: &mut Width, size: u64, at_once: usize, trip: Duration) -> usize {
        let mut time = Duration::ZERO;
        width.begin(time);
        for _ in 0..200 {
            let together = width.get().min(at_once);
            time += trip;
            (0..together).for_each(|_| width.answered(size, time));
        }
        width.get()
    }

    #[test]
    fn the_width_grows_while_that_brings_more() {
        let trip = Duration::from_millis(40);
        for (at_once, expected) in [(1, 8), (8, 8), (16, 16), (33, 64), (1000, 64)] {
            let reached = settle(&mut Width::new(None), 1 << 20, at_once, trip);
            assert!(reached <= expected && 2 * reached >= at_once.min(64), "{at_once}: {reached}");
        }
    }

    #[test]
    fn a_fixed_width_stays() {
        let mut width = Width::new(NonZero::new(5));
        assert_eq!(settle(&mut width, 100, 1000, Duration::from_millis(10)), 5);
        width.overloaded(Duration::from_secs(100));
        assert_eq!(width.get(), 5);
    }

    #[test]
    fn an_overloaded_service_gets_half_as_many_and_never_none() {
        let mut width = Width::new(None);
        for expected in [4, 2, 1, 1] {
            width.overloaded(Duration::ZERO);
            assert_eq!(width.get(), expected);
        }
        assert!(settle(&mut width, 1 << 20, 1000, Duration::from_millis(40)) > 8, "it grows again");
    }
}

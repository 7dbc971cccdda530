//! Servers that work off what comes, first come, first served.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queue::Time;

/// Equal servers with one queue.
///
/// Jobs must be handed over in the order of their times. Since none overtakes another, it is known
/// at once when a job will be done.
pub(super) struct Station {
    /// When each server has done what was handed over until now.
    free: BinaryHeap<Reverse<Time>>,
    servers: u32,
    busy: Time,
}

impl Station {
    /// With so many servers, at least one.
    pub(super) fn new(servers: u32) -> Self {
        Self { free: (0..servers).map(|_| Reverse(0)).collect(), servers, busy: 0 }
    }

    /// When a job that comes `now` and takes so much `time` of one server is done.
    pub(super) fn serve(&mut self, now: Time, time: Time) -> Time {
        if time == 0 {
            return now;
        }
        self.busy += time;
        let mut first = self.free.peek_mut().expect("a server");
        first.0 = first.0.max(now) + time;
        first.0
    }

    /// Forgets how busy it was.
    pub(super) fn count_anew(&mut self) {
        self.busy = 0;
    }

    /// What was handed over since counting began, as a part of what its servers can do in `time`, at
    /// most 1.
    pub(super) fn share(&self, time: Time) -> f64 {
        (self.busy as f64 / (time as f64 * f64::from(self.servers))).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_for_the_first_server_that_is_free() {
        let mut station = Station::new(2);
        let ends = [(0, 10), (0, 4), (1, 4), (9, 1), (9, 1), (50, 5)];
        let ends = ends.map(|(now, time)| station.serve(now, time));
        assert_eq!(ends, [10, 4, 8, 10, 11, 55]);
        assert_eq!(station.share(50), 0.25);
        station.count_anew();
        assert_eq!(station.share(50), 0.0);
    }

    #[test]
    fn what_takes_no_time_waits_for_nothing() {
        let mut station = Station::new(1);
        station.serve(0, 100);
        assert_eq!(station.serve(1, 0), 1);
    }
}

//! How long operations took, in little memory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Each power of two of nanoseconds has so many steps: times are kept to a 32nd, 3 %.
const STEPS: u64 = 32;

/// Times of operations, counted by how long they were. What is as long as an hour counts as that.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// By [`step`].
    counts: Vec<u64>,
    sum: Duration,
    longest: Duration,
}

/// The times of one kind of operation, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many there were.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// Half of them took no longer, give or take 3 %.
    pub p50_us: f64,
    /// 99 of a hundred took no longer, give or take 3 %.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latencies {
    /// Counts an operation.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let step = step(nanoseconds.min(3_600_000_000_000));
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += 1;
        self.sum += time;
        self.longest = self.longest.max(time);
    }

    /// Counts what another one counted.
    pub fn join(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// What they are together; zeros if there are none.
    pub fn latency(&self) -> Latency {
        let count: u64 = self.counts.iter().sum();
        if count == 0 {
            return Latency::default();
        }
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        Latency {
            count,
            mean_us: microseconds(self.sum) / count as f64,
            p50_us: self.quantile(count.div_ceil(2)),
            p99_us: self.quantile((count * 99).div_ceil(100)),
            max_us: microseconds(self.longest),
        }
    }

    /// The time of the `place`th shortest, from 1, in microseconds.
    fn quantile(&self, place: u64) -> f64 {
        let mut before = 0;
        let found = self.counts.iter().position(|count| {
            before += count;
            before >= place
        });
        found.map_or(0.0, |step| middle(step) / 1e3)
    }
}

/// Times below [`STEPS`] have a step each; from then on each power of two has as many.
fn step(nanoseconds: u64) -> usize {
    let Some(power) = nanoseconds.checked_ilog2().filter(|_| nanoseconds >= STEPS) else {
        return nanoseconds as usize;
    };
    let shift = power - STEPS.ilog2();
    (u64::from(shift) * STEPS + (nanoseconds >> shift)) as usize
}

/// The middle of the times that have this step, in nanoseconds.
fn middle(step: usize) -> f64 {
    let step = step as u64;
    let shift = (step / STEPS).saturating_sub(1);
    let first = (step - shift * STEPS) << shift;
    first as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_as_fine_as_is_promised() {
        let mut last = 0;
        for nanoseconds in (0..100_000).chain((17..41).map(|power| (1 << power) - 1)) {
            let off = (middle(step(nanoseconds)) - nanoseconds as f64).abs();
            assert!(off <= nanoseconds as f64 / STEPS as f64, "{nanoseconds} is off by {off}");
            if nanoseconds < 100_000 {
                assert!((last..=last + 1).contains(&step(nanoseconds)), "{nanoseconds}");
                last = step(nanoseconds);
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let (mut even, mut odd) = (Latencies::default(), Latencies::default());
        for microseconds in 1..=1000 {
            let counted = if microseconds % 2 == 0 { &mut even } else { &mut odd };
            counted.add(Duration::from_micros(microseconds));
        }
        odd.join(&even);
        let Latency { count, mean_us, p50_us, p99_us, max_us } = odd.latency();
        assert_eq!((count, max_us), (1000, 1000.0));
        assert!((mean_us - 500.5).abs() < 1e-6, "{mean_us}");
        assert!((p50_us / 500.0 - 1.0).abs() < 0.04, "{p50_us}");
        assert!((p99_us / 990.0 - 1.0).abs() < 0.04, "{p99_us}");
    }

    #[test]
    fn no_times_are_zeros_and_endless_ones_do_no_harm() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.latency(), Latency::default());
        latencies.add(Duration::from_secs(1 << 40));
        assert_eq!(latencies.latency().count, 1);
        assert!(latencies.counts.len() < 2000);
    }
}

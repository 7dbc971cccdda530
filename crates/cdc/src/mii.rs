//! MII, minimal incremental interval: C. Zhang et al., "MII: A Novel Content Defined Chunking
//! Algorithm for Finding Incremental Data in Data Synchronization", IEEE Access 7, 2019.
//!
//! **Rule.** The chunk ends with the first byte, from min on, that ends w bytes of the chunk of
//! which each is larger than the one before.
//! **First legal position.** w, or min if that is more.
//! **Ties.** Equal bytes end an interval.
//! **Tail.** The rest.
//! **Interval.** w from 1 to 16, the one whose mean on random data is next to avg, the shorter of
//! two. Let R(k) = C(256, k) / 256^k be the chance that k bytes rise; a first interval of w bytes
//! then takes M(w) = 1 / Σ (R(jw) − R(jw + 1)) bytes in the mean, over j from 0 on, by the theorem
//! on runs (L. Carlitz, R. Scoville, Duke Math. J. 40, 1973; I. Gessel, 1977): the inverse of that
//! series with x^k at R(k) generates the chances that n bytes have no such interval. M is 8.0, 31,
//! 149, 888 and 6,232 for w from 3 to 7. With min above w the mean is min − w + M(w). "A Thorough
//! Investigation" (2024) gives w + 1 / R(w), which it measures to be 13 % short.
//! **Mean.** As far from avg as the growth of M with every byte of w makes it.
//! **Runs.** Cut at max, unless w = 1.
//! **Resynchronisation.** Whether a position may be a cut-point depends on w bytes: as Gear's.
//! **Departures.** Min and max, which the paper does not have.

use crate::boundary::Boundary;
use crate::rule::Rule;
use crate::walk::{Past, Step};
use crate::{ChunkSizes, Params};

const MAX_INTERVAL: usize = 16;

pub(crate) struct Mii {
    sizes: ChunkSizes,
    interval: usize,
    /// Bytes at the start of a chunk that are in no interval that counts.
    skip: usize,
}

impl Mii {
    pub(crate) fn new(params: &Params) -> Self {
        let sizes = params.sizes;
        let interval = interval(sizes);
        Self { sizes, interval, skip: sizes.min().saturating_sub(interval) }
    }

    /// Bytes that tell whether a chunk may end with them.
    pub(crate) fn window(&self) -> usize {
        self.interval
    }
}

impl Boundary for Mii {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let interval = cut.checked_sub(self.interval).map(|start| &reach[start..cut]);
        interval.is_some_and(|interval| interval.is_sorted_by(|a, b| a < b))
    }
}

impl Rule for Mii {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let mut risen = 0;
        let mut previous = 0;
        for (i, &byte) in reach[self.skip..].iter().enumerate() {
            risen = if byte > previous { risen + 1 } else { 1 };
            previous = byte;
            if risen >= self.interval {
                return Some(self.skip + i + 1);
            }
        }
        self.sizes.forced(reach)
    }
}

impl Step for Mii {
    type State = usize;

    fn step(&self, risen: &mut usize, len: u64, byte: u8, past: &Past) -> Option<usize> {
        if len <= self.skip as u64 {
            return None;
        }
        *risen = if *risen > 0 && byte > past.ago(1) { *risen + 1 } else { 1 };
        (*risen >= self.interval).then_some(0)
    }
}

/// The interval whose mean is next to avg.
fn interval(sizes: ChunkSizes) -> usize {
    let distance = |interval: usize| {
        let wait = sizes.min().saturating_sub(interval) as f64;
        (wait + mean_of_interval(interval) - sizes.avg() as f64).abs()
    };
    let shorter = |a, b| if distance(b) < distance(a) { b } else { a };
    (1..=MAX_INTERVAL).fold(1, shorter)
}

/// M(w), by operations that IEEE 754 rounds alike everywhere.
fn mean_of_interval(interval: usize) -> f64 {
    if interval == 1 {
        return 1.0;
    }
    let mut rise = 1.0;
    let mut series = 0.0;
    for k in 0..256 {
        match k % interval {
            0 => series += rise,
            1 => series -= rise,
            _ => {}
        }
        rise *= (256 - k) as f64 / (256.0 * (k + 1) as f64);
    }
    1.0 / series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_what_the_investigation_measured() {
        for (interval, measured) in [(6, 887.0), (7, 6238.0)] {
            let mean = mean_of_interval(interval);
            assert!((mean / measured - 1.0).abs() < 0.002, "{interval}: {mean}");
        }
    }
}

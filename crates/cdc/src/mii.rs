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

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::simd::VectorRule;
use crate::simd::vector::{AHEAD, ByteVector, first_lane, prefetch, prefetch_jump};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "mii",
    summary: "a few bytes of which each is larger than the one before; no hash",
    takes: &[],
    sizes: ChunkSizes::around,
    decided_by: |params| DecidedBy::Window(interval(params.sizes)),
    kernels: Kernels::vectors::<Mii>(),
    boundary: Some(boundary::of::<Mii>),
    walk: Some(walk::by::<Mii>),
    streams: None,
};

const MAX_INTERVAL: usize = 16;

pub(crate) struct Mii {
    sizes: ChunkSizes,
    interval: usize,
    /// Bytes at the start of a chunk that are in no interval that counts.
    skip: usize,
}

impl FromParams for Mii {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let sizes = params.sizes;
        let interval = interval(sizes);
        Ok(Self { sizes, interval, skip: sizes.min().saturating_sub(interval) })
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
        self.next_cut_from(reach, self.skip + 1, 1)
    }
}

impl Mii {
    /// The cut-point, where `at` is the next byte to compare, behind `risen` bytes that rise.
    fn next_cut_from(&self, reach: &[u8], at: usize, mut risen: usize) -> Option<usize> {
        if risen >= self.interval {
            return Some(at);
        }
        for (i, pair) in reach[at - 1..].windows(2).enumerate() {
            risen = if pair[1] > pair[0] { risen + 1 } else { 1 };
            if risen >= self.interval {
                return Some(at + i + 1);
            }
        }
        self.sizes.forced(reach)
    }
}

impl VectorRule for Mii {
    /// The rule, a vector of comparisons at a time, whose masks are as good as bytes that rise: of
    /// w − 1 in a row each is the end of one, of two, of four, and so on.
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let (mut at, mut risen) = (self.skip + 1, 1);
        if self.interval > 1 {
            let shifts = shifts_to_last_of(self.interval - 1, 1 << I::MASK_SHIFT);
            while reach.len() - at >= I::LANES {
                let from = reach.as_ptr().wrapping_add(at);
                prefetch(from, AHEAD);
                // SAFETY: a vector from `at` on lies inside `reach`, by the condition of the loop,
                // and so does the byte before it: `at` is at least 1.
                let (previous, bytes) = unsafe { (isa.load(from.sub(1)), isa.load(from)) };
                let rises = isa.gt(bytes, previous);
                let mut ends = rises;
                let mut i = 0;
                while i < shifts.len() {
                    ends &= ends << shifts[i];
                    i += 1;
                }
                let first = (rises.trailing_ones() >> I::MASK_SHIFT) as usize;
                if ends != 0 || risen + first >= self.interval {
                    let cut = if risen + first >= self.interval {
                        at + self.interval - risen
                    } else {
                        at + first_lane::<I>(ends) + 1
                    };
                    prefetch_jump(data, cut, cut + self.skip);
                    return Some(cut);
                }
                // no vector is full of rises: it is no shorter than the longest interval
                let unused = u64::BITS - ((I::LANES as u32) << I::MASK_SHIFT);
                let last = (rises << unused).leading_ones() >> I::MASK_SHIFT;
                risen = 1 + last as usize;
                at += I::LANES;
            }
        }
        self.next_cut_from(reach, at, risen)
    }
}

/// By how much to shift a mask again and again, each time keeping what is set in both, to be left
/// with the last of every `run` ones in a row, where each takes `bits` bits.
#[inline(always)]
fn shifts_to_last_of(run: usize, bits: usize) -> [usize; 4] {
    let mut shifts = [0; 4];
    let (mut ones, mut i) = (1, 0);
    while ones < run {
        let more = ones.min(run - ones);
        shifts[i] = more * bits;
        ones += more;
        i += 1;
    }
    shifts
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

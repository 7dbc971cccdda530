//! AE, asymmetric extremum: Y. Zhang et al., "AE: An Asymmetric Extremum Content Defined Chunking
//! Algorithm for Fast and Bandwidth-Efficient Data Deduplication", INFOCOM 2015.
//!
//! **Rule.** The extreme byte is the first that exceeds all bytes before it in the chunk and that
//! none of the w bytes behind it (the horizon) exceeds; the chunk ends with the horizon. If it is
//! at position e, p = e + w + 1. AE-min is AE-max of the complemented bytes.
//! **First legal position.** w + 1, or min if that is more: then the first min − (w + 1) bytes
//! are not looked at.
//! **Ties.** The first of equal bytes is the extreme.
//! **Tail.** The rest, if it ends inside the horizon.
//! **Horizon.** From avg, by table II of "A Thorough Investigation of Content-Defined Chunking
//! Algorithms" (2024) up to 1024, w = avg − 256 from 2048 on (in a long chunk the extreme is the
//! first byte 255, one in 256), linear in between, in proportion below 512. The mean is avg as
//! long as min ≤ w + 1 and max does not cut often.
//! **Runs.** Equal bytes give chunks of w + 1 bytes; a rising ramp defers the cut to max.
//! **Resynchronisation.** Slow, and slower the longer the chunks. Where w is long the extreme is
//! the first 255, so two cuttings meet when no 255 lies between the starts of two of their
//! chunks. Until then the distance of the starts takes a random walk in steps with a deviation of
//! σ = 256·√2 bytes, between 0 and avg, where they meet: from anywhere avg² / 6σ² = (avg / 887)²
//! chunks in the mean, and a few to strike. The chance that k chunks are not enough falls as
//! e^(−k (804 / avg)²), since the walk's slowest mode decays by π²σ² / 2avg².
//! **Departures.** Min and max, which the paper does not have; and its w = avg / (e − 1), which
//! misses the mean.

use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::simd::VectorRule;
use crate::simd::extremum::{Extreme, Largest, Smallest, block, extremes_of, prefetch_block};
use crate::simd::scan::first_equal;
use crate::simd::vector::{ByteVector, misalignment};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Lookahead, ParamError, Params};

pub(crate) static MAX: Descriptor =
    descriptor::<0x00>("ae-max", "largest byte followed by a horizon of none larger; no hash");

pub(crate) static MIN: Descriptor =
    descriptor::<0xff>("ae-min", "smallest byte followed by a horizon of none smaller; no hash");

const fn descriptor<const FLIP: u8>(name: &'static str, summary: &'static str) -> Descriptor
where
    Ae<FLIP>: VectorRule,
{
    Descriptor {
        name,
        summary,
        takes: &[],
        sizes: ChunkSizes::around,
        decided_by: |params| {
            let before = horizon_for_mean(params.sizes.avg()) + 1;
            DecidedBy::More { before, lookahead: Lookahead::None }
        },
        kernels: Kernels::vectors::<Ae<FLIP>>(),
        boundary: None,
        walk: Some(walk::by::<Ae<FLIP>>),
        streams: None,
    }
}

/// `FLIP` is what a byte is xored with before it is compared: 0x00 finds the largest, 0xff the
/// smallest.
pub(crate) struct Ae<const FLIP: u8> {
    sizes: ChunkSizes,
    horizon: usize,
    /// Bytes at the start of a chunk that no extreme is sought in.
    skip: usize,
}

impl<const FLIP: u8> FromParams for Ae<FLIP> {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let horizon = horizon_for_mean(params.sizes.avg());
        let skip = params.sizes.min().saturating_sub(horizon + 1);
        Ok(Self { sizes: params.sizes, horizon, skip })
    }
}

impl<const FLIP: u8> Rule for Ae<FLIP> {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let mut extreme = self.skip;
        loop {
            let rank = reach[extreme] ^ FLIP;
            let behind = &reach[extreme + 1..];
            let horizon = &behind[..behind.len().min(self.horizon)];
            match (0..horizon.len()).find(|&i| horizon[i] ^ FLIP > rank) {
                Some(i) => extreme += i + 1,
                None if horizon.len() == self.horizon => return Some(extreme + self.horizon + 1),
                None => return self.sizes.forced(reach),
            }
        }
    }
}

impl VectorRule for Ae<0x00> {
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        self.next_cut_by::<I, Largest>(isa, data)
    }
}

impl VectorRule for Ae<0xff> {
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        self.next_cut_by::<I, Smallest>(isa, data)
    }
}

impl<const FLIP: u8> Ae<FLIP> {
    /// The rule, a block of the horizon at a time.
    ///
    /// Where all of a block lies within the horizon of the extreme and has a byte beyond it, the
    /// new extreme is the first of the block's most extreme bytes: each byte that was beyond all
    /// before it has the next such byte in its own horizon. An extreme that none can be beyond
    /// decides the cut-point at once, and its horizon is not read.
    #[inline(always)]
    fn next_cut_by<I: ByteVector, E: Extreme>(&self, isa: I, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let mut extreme = self.skip;
        let mut rank = reach[extreme];
        let mut ranks = isa.splat(rank);
        let mut end = reach.len().min(extreme + 1 + self.horizon);
        let mut at = extreme + 1;
        let block = block::<I>() * I::LANES;
        while at < end && rank != E::MOST {
            let from = reach.as_ptr().wrapping_add(at);
            let misaligned = misalignment::<I>(from);
            let left = end - at;
            // A vector that touches two lines is followed by one that overlaps it and does not:
            // no byte that was seen is beyond the extreme.
            let (len, seen, extremes) = if left >= block && misaligned == 0 {
                prefetch_block(from, block);
                // SAFETY: a block is left, and `end` lies inside `reach`.
                (block, block, unsafe { extremes_of::<I, E>(isa, from, block / I::LANES) })
            } else if left >= I::LANES {
                // SAFETY: a vector is left, and `end` lies inside `reach`.
                (I::LANES, I::LANES - misaligned, unsafe { isa.load(from) })
            } else {
                (1, 1, isa.splat(reach[at]))
            };
            if E::beyond(isa, extremes, ranks) != 0 {
                rank = E::of_all(isa, extremes);
                ranks = isa.splat(rank);
                extreme = at + first_equal(isa, &reach[at..at + len], rank).unwrap_or(0);
                end = reach.len().min(extreme + 1 + self.horizon);
            }
            at += seen;
        }
        let cut = extreme + 1 + self.horizon;
        if cut <= reach.len() { Some(cut) } else { self.sizes.forced(reach) }
    }
}

/// What a chunk without a maximum size remembers.
#[derive(Default)]
pub(crate) struct Extremum {
    byte: u8,
    /// The length of the chunk up to the extreme byte; 0 if there is none yet.
    len: u64,
}

impl<const FLIP: u8> Step for Ae<FLIP> {
    type State = Extremum;

    fn step(&self, extreme: &mut Extremum, len: u64, byte: u8, _: &Past) -> Option<usize> {
        if len <= self.skip as u64 {
            return None;
        }
        if extreme.len == 0 || byte ^ FLIP > extreme.byte ^ FLIP {
            *extreme = Extremum { byte, len };
        }
        (len == extreme.len + self.horizon as u64).then_some(0)
    }
}

/// The horizon w that gives a mean of `avg` bytes on random data.
fn horizon_for_mean(avg: usize) -> usize {
    const MEASURED: [(usize, usize); 5] =
        [(0, 0), (512, 348), (770, 563), (1024, 793), (2048, 1792)];
    for pair in MEASURED.windows(2) {
        let ((avg0, w0), (avg1, w1)) = (pair[0], pair[1]);
        if avg <= avg1 {
            return (w0 + (avg - avg0) * (w1 - w0) / (avg1 - avg0)).max(1);
        }
    }
    avg - 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_takes_the_measured_values_and_never_falls() {
        for (avg, w) in [(512, 348), (770, 563), (1024, 793), (2048, 1792), (8192, 7936)] {
            assert_eq!(horizon_for_mean(avg), w);
        }
        for avg in 1..5000 {
            let w = horizon_for_mean(avg);
            assert!(1 <= w && w <= horizon_for_mean(avg + 1), "{avg}");
        }
    }
}

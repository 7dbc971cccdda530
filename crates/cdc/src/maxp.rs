//! MAXP, the local maximum: N. Bjørner, A. Blass, Y. Gurevich, "Content-dependent chunking for
//! differential compression, the local maximum approach", JCSS 76, 2010; named so in B. Anand et
//! al., "Redundancy in Network Traffic: Findings and Implications", SIGMETRICS 2009.
//!
//! **Rule.** The chunk ends with the first byte that is larger than each of the h bytes before it
//! and each of the h bytes behind it, and whose position p is at least min.
//! **First legal position.** h + 1, since all h bytes before it lie in the chunk, or min if that is
//! more. The former forbids nothing: of two such bytes within h of each other neither is larger.
//! **Lookahead.** h bytes behind the cut-point, which lie at or before max: p ≤ max − h, or p = max
//! by force.
//! **Ties.** A byte equal to one within h is no maximum, and neither is the other.
//! **Tail.** The rest, if no maximum has h bytes behind it.
//! **Horizon.** From avg, by the density of such bytes in random data: P(h) = Σ (m / 256)^2h / 256
//! over the values m of the byte, so the mean is 1 / P(h); that is 2h + 1 for a short horizon and
//! 256 · e^(h / 128) for a long one. h is the largest with 1 / P(h) ≤ avg; if min exceeds h + 1, so
//! that maxima are passed over, the largest with 1 / P(h) ≤ avg − min + 1; and never so long that
//! max leaves no room for it on both sides.
//! **Runs.** No byte of a run or a rising ramp is a maximum: cut at max, unless h = 0.
//! **Resynchronisation.** Whether a byte is a maximum depends on 2h + 1 bytes, whatever the chunk.
//! With min ≤ h + 1 and no cut at max, cuttings meet at the first maximum behind an edit; otherwise
//! as Gear's do.
//! **Departures.** Min and max, which the paper does not have; and the implementation in DedupBench
//! lets a byte before the maximum be equal to it.

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::simd::VectorRule;
use crate::simd::extremum::{Extreme, Largest, extreme, prefetch_block};
use crate::simd::vector::{AHEAD, ByteVector, last_lane, misalignment, prefetch, prefetch_jump};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Lookahead, ParamError, Params, params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "maxp",
    summary: "byte larger than all within a horizon on both sides; no hash",
    takes: &[],
    sizes: ChunkSizes::around,
    decided_by: |params| decided_by(horizon(params.sizes)),
    kernels: Kernels::vectors::<Maxp>(),
    boundary: Some(boundary::of::<Maxp>),
    walk: Some(walk::by::<Maxp>),
    streams: None,
};

/// Bytes that a candidate is compared with at once, if it can be exceeded: a multiple of every
/// vector, and few, so that most blocks lie within the horizon wherever the candidate is.
const BLOCK: usize = 128;

pub(crate) struct Maxp {
    sizes: ChunkSizes,
    horizon: usize,
}

fn decided_by(horizon: usize) -> DecidedBy {
    let lookahead = if horizon == 0 { Lookahead::None } else { Lookahead::Bytes(horizon) };
    DecidedBy::More { before: horizon + 1, lookahead }
}

impl FromParams for Maxp {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        Ok(Self { sizes: params.sizes, horizon: horizon(params.sizes) })
    }
}

impl Maxp {
    fn first(&self) -> usize {
        self.sizes.min().max(self.horizon + 1)
    }
}

impl Boundary for Maxp {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        if cut < self.first() || cut + self.horizon > reach.len() {
            return false;
        }
        let byte = reach[cut - 1];
        let is_less = |&other: &u8| other < byte;
        reach[cut - 1 - self.horizon..cut - 1].iter().all(is_less)
            && reach[cut..cut + self.horizon].iter().all(is_less)
    }
}

impl Rule for Maxp {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let mut at = self.first() - 1;
        while at + self.horizon < reach.len() {
            let byte = reach[at];
            let behind = &reach[at + 1..=at + self.horizon];
            if let Some(i) = behind.iter().position(|&other| other >= byte) {
                // nothing up to there is a maximum: it is followed by one at least as large
                at += i + 1;
            } else if reach[at - self.horizon..at].iter().all(|&other| other < byte) {
                return Some(at + 1);
            } else {
                // nor is anything within the horizon, which this byte exceeds
                at += self.horizon + 1;
            }
        }
        self.sizes.forced(reach)
    }
}

impl VectorRule for Maxp {
    /// The rule, a block of the bytes behind the candidate at a time.
    ///
    /// A block with a byte that is not below the candidate has one candidate at most, the last of
    /// its largest bytes: those before it are followed by it, and those behind it are smaller.
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        if self.horizon < I::LANES {
            return self.next_cut(data);
        }
        let reach = self.sizes.reach(data)?;
        // bytes between the candidate and `next` are smaller than it
        let (mut at, mut next) = self.first_candidate(isa, reach, self.first() - 1);
        let most = isa.splat(Largest::MOST);
        while at + self.horizon < reach.len() {
            if reach[at] == Largest::MOST {
                // Only such a byte can take its place, and it always does: no need to ask which
                // is the largest, nor to branch, in data where they are frequent.
                while next + I::LANES <= reach.len().min(at + 1 + self.horizon) {
                    let from = reach.as_ptr().wrapping_add(next);
                    prefetch(from, AHEAD);
                    // SAFETY: the vector lies inside `reach`, by the condition of the loop.
                    let found = isa.eq(unsafe { isa.load(from) }, most);
                    let last = next + last_lane::<I>(found | 1);
                    at = if found == 0 { at } else { last };
                    // what overlaps the vector before has no such byte behind `at`
                    next += I::LANES - misalignment::<I>(from);
                }
                if at + self.horizon >= reach.len() {
                    break;
                }
                next = next.max(at + 1);
            }
            // Nothing but the choice at the end waits for the candidate, which nothing foretells:
            // no branch on it.
            let mut byte = reach[at];
            while next + BLOCK <= reach.len().min(at + 1 + self.horizon) {
                let from = reach.as_ptr().wrapping_add(next);
                prefetch_block(from, BLOCK);
                // SAFETY: the block lies inside `reach`, by the condition of the loop.
                let (largest, last) = unsafe { last_largest(isa, from, BLOCK) };
                at = if largest >= byte { next + last } else { at };
                byte = byte.max(largest);
                next += BLOCK;
            }
            if at + self.horizon >= reach.len() {
                break;
            }
            let end = at + 1 + self.horizon;
            let left = end - next;
            if left >= I::LANES {
                let from = reach.as_ptr().wrapping_add(next);
                // SAFETY: less than a block is left, and `end` lies inside `reach`.
                let (largest, last) = unsafe { last_largest(isa, from, left) };
                at = if largest >= byte { next + last } else { at };
                next = end;
            } else if left > 0 {
                let start = end - I::LANES;
                // SAFETY: the horizon is at least a vector, so this one begins behind `at`.
                let (largest, last) =
                    unsafe { last_largest(isa, reach.as_ptr().add(start), I::LANES) };
                at = if largest >= byte { start + last } else { at };
                next = end;
            } else {
                let before = &reach[at - self.horizon..at];
                if extreme::<I, Largest>(isa, before) < reach[at] {
                    prefetch_jump(data, at + 1, at + self.first());
                    return Some(at + 1);
                }
                // nothing within the horizon is a maximum, since this byte is larger
                (at, next) = self.first_candidate(isa, reach, at + self.horizon + 1);
            }
        }
        self.sizes.forced(reach)
    }
}

impl Maxp {
    /// A candidate from `from` on, such that none is before it, and the end of what was seen.
    #[inline(always)]
    fn first_candidate<I: ByteVector>(&self, isa: I, reach: &[u8], from: usize) -> (usize, usize) {
        if self.horizon < BLOCK || reach.len().saturating_sub(from) < BLOCK {
            return (from, from + 1);
        }
        let start = reach.as_ptr().wrapping_add(from);
        prefetch_block(start, BLOCK);
        // SAFETY: so much lies behind `from`, by the condition.
        let (_, last) = unsafe { last_largest(isa, start, BLOCK) };
        (from + last, from + BLOCK)
    }
}

/// The largest of `len` bytes, and the index of the last that is as large. They are a vector to a
/// block.
///
/// Without a branch on where that is.
///
/// # Safety
///
/// `len` bytes can be read from `from` on.
#[inline(always)]
unsafe fn last_largest<I: ByteVector>(isa: I, from: *const u8, len: usize) -> (u8, usize) {
    // the last vectors of a shorter block are one and the same
    let mut largest = isa.splat(0);
    let mut at = 0;
    while at < BLOCK {
        // SAFETY: the vector ends with the `len` bytes at most.
        largest = isa.max(largest, unsafe { isa.load(from.add(at.min(len - I::LANES))) });
        at += I::LANES;
    }
    let byte = isa.largest(largest);
    let largest = isa.splat(byte);
    let mut last = 0;
    let mut at = 0;
    while at < BLOCK {
        let place = at.min(len - I::LANES);
        // SAFETY: as before.
        let equal = isa.eq(unsafe { isa.load(from.add(place)) }, largest);
        last = if equal == 0 { last } else { place + last_lane::<I>(equal | 1) };
        at += I::LANES;
    }
    (byte, last)
}

/// What a chunk without a maximum size remembers.
pub(crate) struct Recent {
    /// For each value, the length of the input up to its last byte; 0 if there is none.
    last: [u64; 256],
    /// Length of the input up to the last byte.
    len: u64,
    /// A byte larger than the h before it and all behind it: its value and `len` there.
    candidate: Option<(u8, u64)>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { last: [0; 256], len: 0, candidate: None }
    }
}

impl Step for Maxp {
    type State = Recent;

    fn step(&self, recent: &mut Recent, len: u64, byte: u8, _: &Past) -> Option<usize> {
        let horizon = self.horizon as u64;
        recent.len += 1;
        let largest = recent.last[usize::from(byte)..].iter().max().copied().unwrap_or(0);
        let is_legal = len > horizon && len >= self.sizes.min() as u64;
        if is_legal && largest + horizon < recent.len {
            recent.candidate = Some((byte, recent.len));
        }
        if recent.candidate.is_some_and(|(value, at)| at < recent.len && value <= byte) {
            recent.candidate = None;
        }
        recent.last[usize::from(byte)] = recent.len;
        recent.candidate.filter(|(_, at)| at + horizon == recent.len)?;
        recent.candidate = None;
        Some(self.horizon)
    }
}

/// The horizon for `sizes`.
fn horizon(sizes: ChunkSizes) -> usize {
    let room = (sizes.max() - 1) / 2;
    let whole = horizon_for_mean(sizes.avg());
    let horizon = if whole + 1 >= sizes.min() { whole } else { horizon_for_mean(sizes.spread()) };
    horizon.min(room)
}

/// The largest horizon h with 1 / P(h) ≤ `mean`.
fn horizon_for_mean(mean: usize) -> usize {
    // P is less than 1 / (h + 1): maxima are further apart than h
    let (mut low, mut high) = (0, mean);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if density(middle) * mean as f64 >= 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// P(h).
fn density(horizon: usize) -> f64 {
    if horizon == 0 {
        return 1.0;
    }
    (1..256_u16).map(|m| params::power(f64::from(m) / 256.0, 2 * horizon) / 256.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_horizon_is_the_largest_that_keeps_the_mean() {
        for mean in (1..2000).chain([4096, 8192, 65536, 1 << 24]) {
            let horizon = horizon_for_mean(mean);
            assert!(density(horizon) * mean as f64 >= 1.0, "{mean}");
            assert!(density(horizon + 1) * (mean as f64) < 1.0, "{mean}");
        }
    }

    #[test]
    fn the_density_is_as_stated_where_it_is_simple() {
        assert_eq!(density(0), 1.0);
        // the larger of three bytes with the others below: (1 / 256) Σ (m / 256)²
        let three = (0..256_u32).map(|m| f64::from(m * m)).sum::<f64>() / 256.0_f64.powi(3);
        assert!((density(1) - three).abs() < 1e-12);
        assert!((1.0 / density(1000) / (256.0 * (1000.0_f64 / 128.0).exp()) - 1.0).abs() < 0.05);
    }
}

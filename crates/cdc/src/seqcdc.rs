//! SeqCDC: S. Udayashankar, A. Baba, S. Al-Kiswany, "SeqCDC: Hashless Content-Defined Chunking for
//! Data Deduplication", Middleware 2024, by their implementation in DedupBench.
//!
//! **Rule.** Bytes are compared with the one before them, from position min on (the byte behind the
//! first min bytes) up. A larger byte makes the sequence one longer; a smaller one ends it and
//! counts as opposed; an equal one does nothing. Where the sequence has L rises the chunk ends
//! *before* the byte that made the last. Where T bytes were opposed since the chunk began or the
//! last jump, the next J bytes are skipped; the byte behind them is compared with the last skipped.
//! The decreasing form is the increasing one of the complemented bytes.
//! **First legal position.** min + L − 1.
//! **Ties.** Equal bytes neither lengthen nor end a sequence.
//! **Tail.** The rest.
//! **L, T, J.** The authors use L = 5, T = 50 and J = 256 for a mean of 8 KiB. Here L is the largest
//! up to 5 whose sequences come, without jumps, within avg − min bytes, with a T that makes for
//! about nine segments a chunk; J makes up the rest of the mean. The bytes compared and the jumps
//! in a chunk of random data, which that takes, are computed exactly from L, T and the distribution
//! of bytes; a test does it again.
//! **Runs.** Cut at max.
//! **Resynchronisation.** Jumps start where sequences were sought, so that cuttings which start
//! apart see different parts of the data; they meet when both see the same sequence.
//! **Departures.** J from the mean; max, where the authors' minimum of avg / 2 and maximum of 2 avg
//! are what [`Params::for_mean`] gives.

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::simd::VectorRule;
use crate::simd::vector::{AHEAD, ByteVector, bit_a_lane, prefetch, prefetch_jump};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Lookahead, ParamError, Params};

pub(crate) static INC: Descriptor = descriptor::<0x00>(
    "seqcdc-inc",
    "rising bytes, skipping ahead where bytes fall; no hash, does not read all",
);

pub(crate) static DEC: Descriptor = descriptor::<0xff>(
    "seqcdc-dec",
    "falling bytes, skipping ahead where bytes rise; no hash, does not read all",
);

const fn descriptor<const FLIP: u8>(name: &'static str, summary: &'static str) -> Descriptor {
    Descriptor {
        name,
        summary,
        takes: &[],
        sizes: |avg| ChunkSizes::new((avg / 2).max(1), avg, avg.saturating_mul(2)),
        decided_by: |_| DecidedBy::More { before: 1, lookahead: Lookahead::Bytes(1) },
        kernels: Kernels::vectors::<SeqCdc<FLIP>>(),
        boundary: Some(boundary::of::<SeqCdc<FLIP>>),
        walk: Some(walk::by::<SeqCdc<FLIP>>),
        streams: None,
    }
}

/// L, T, and for random data the bytes compared and the jumps in a chunk.
const SEQUENCES: [(u32, u32, f64, f64); 5] = [
    (5, 50, 879.301_032_7, 8.293_586_5),
    (4, 8, 152.720_487_8, 9.203_518_1),
    (3, 2, 34.761_743_4, 8.981_036_4),
    (2, 1, 9.070_866_1, 5.023_622_0),
    (1, 1, 2.007_843_1, 1.0),
];

/// `FLIP` is what a byte is xored with before it is compared: 0x00 seeks rising sequences, 0xff
/// falling ones.
pub(crate) struct SeqCdc<const FLIP: u8> {
    sizes: ChunkSizes,
    rises: u32,
    trigger: u32,
    jump: usize,
}

impl<const FLIP: u8> FromParams for SeqCdc<FLIP> {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let sizes = params.sizes;
        let wait = (sizes.spread()) as f64;
        let (rises, trigger, compared, jumps) = SEQUENCES
            .into_iter()
            .find(|&(_, _, compared, _)| compared <= wait)
            .unwrap_or(SEQUENCES[SEQUENCES.len() - 1]);
        // rounded down; a length is one less than min and the bytes compared and skipped
        let jump = ((wait - compared) / jumps).max(0.0) as usize;
        Ok(Self { sizes, rises, trigger, jump })
    }
}

impl<const FLIP: u8> Boundary for SeqCdc<FLIP> {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        if cut >= reach.len() {
            return false;
        }
        // back from the byte behind the cut-point, over what may be the sequence
        let pairs = reach[self.sizes.min() - 1..=cut].windows(2).rev();
        let mut risen = 0;
        for (i, pair) in pairs.enumerate() {
            let (previous, byte) = (pair[0] ^ FLIP, pair[1] ^ FLIP);
            if byte > previous {
                risen += 1;
                if risen == self.rises {
                    return true;
                }
            } else if byte < previous || i == 0 {
                return false;
            }
        }
        false
    }
}

impl<const FLIP: u8> Rule for SeqCdc<FLIP> {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        self.next_cut_from(reach, self.sizes.min(), 0, 0, &mut 0)
    }

    fn jumped(&self, reach: &[u8]) -> usize {
        let mut jumped = 0;
        self.next_cut_from(reach, self.sizes.min(), 0, 0, &mut jumped);
        jumped
    }
}

impl<const FLIP: u8> SeqCdc<FLIP> {
    /// The cut-point, where `at` is the next byte to compare, after `risen` rises of a sequence
    /// and `opposed` bytes; adds the bytes that are passed over to `jumped`.
    fn next_cut_from(
        &self,
        reach: &[u8],
        mut at: usize,
        mut risen: u32,
        mut opposed: u32,
        jumped: &mut usize,
    ) -> Option<usize> {
        while at < reach.len() {
            let (previous, byte) = (reach[at - 1] ^ FLIP, reach[at] ^ FLIP);
            if byte > previous {
                risen += 1;
                if risen == self.rises {
                    return Some(at);
                }
            } else if byte < previous {
                risen = 0;
                opposed += 1;
                if opposed == self.trigger {
                    opposed = 0;
                    let left = reach.len() - at - 1;
                    // the last one is compared with
                    *jumped += if self.jump < left { self.jump.saturating_sub(1) } else { left };
                    at = at.saturating_add(self.jump);
                }
            }
            at += 1;
        }
        self.sizes.forced(reach)
    }
}

impl<const FLIP: u8> VectorRule for SeqCdc<FLIP> {
    /// The rule, a vector of comparisons at a time, each a bit.
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let (mut risen, mut opposed) = (0, 0);
        let mut at = self.sizes.min();
        while at < reach.len() && reach.len() - at >= I::LANES {
            let from = reach.as_ptr().wrapping_add(at);
            prefetch(from, AHEAD);
            // SAFETY: a vector from `at` on lies inside `reach`, by the condition of the loop, and
            // so does the byte before it: min is at least 1.
            let (previous, bytes) = unsafe { (isa.load(from.sub(1)), isa.load(from)) };
            let (higher, lower) = (isa.gt(bytes, previous), isa.gt(previous, bytes));
            let (rises, falls) = if FLIP == 0 { (higher, lower) } else { (lower, higher) };
            let steps = Steps::new(bit_a_lane::<I>(rises), bit_a_lane::<I>(falls), I::LANES as u32);

            let end = steps.end_of_sequence(risen, self.rises);
            let falls = steps.falls.count_ones();
            if opposed + falls >= self.trigger {
                let last = nth_bit(steps.falls, self.trigger - opposed - 1);
                if end >= last {
                    let jump = at + steps.place_of(last) + 1;
                    at = jump.saturating_add(self.jump);
                    prefetch_jump(data, jump, at.min(data.len()));
                    (risen, opposed) = (0, 0);
                    continue;
                }
            }
            if end < u64::BITS {
                let cut = at + steps.place_of(end);
                prefetch_jump(data, cut, cut + self.sizes.min());
                return Some(cut);
            }
            risen = steps.risen_at_end(risen);
            opposed += falls;
            at += I::LANES;
        }
        self.next_cut_from(reach, at, risen, opposed, &mut 0)
    }
}

/// What comes of comparing the bytes of a vector with those before them, equal ones left out: bit
/// i of `rises` or of `falls` is set for the i-th of `count` that differ.
#[derive(Clone, Copy)]
struct Steps {
    rises: u64,
    falls: u64,
    count: u32,
    /// A bit for each byte of the vector that equals the one before it.
    equal: u64,
}

impl Steps {
    #[inline(always)]
    fn new(rises: u64, falls: u64, lanes: u32) -> Self {
        let all = u64::MAX >> (u64::BITS - lanes);
        let equal = all & !(rises | falls);
        if equal == all {
            return Self { rises: 0, falls: 0, count: 0, equal };
        }
        let (mut rises, mut falls, mut left) = (rises, falls, equal);
        // from the last on, so that the places of those before it stay
        while left != 0 {
            let place = left.ilog2();
            let before = (1 << place) - 1;
            rises = rises & before | rises >> 1 & !before;
            falls = falls & before | falls >> 1 & !before;
            left &= before;
        }
        Self { rises, falls, count: lanes - equal.count_ones(), equal }
    }

    /// The step that makes `needed` rises in a row, of which `risen` came before the first step,
    /// or 64 if none does.
    #[inline(always)]
    fn end_of_sequence(self, risen: u32, needed: u32) -> u32 {
        if risen + self.rises.trailing_ones() >= needed {
            return needed - 1 - risen;
        }
        let mut starts = self.rises;
        let mut i = 1;
        while i < needed {
            starts &= self.rises >> i;
            i += 1;
        }
        if starts == 0 { u64::BITS } else { starts.trailing_zeros() + needed - 1 }
    }

    /// Rises since the last fall, of which `risen` came before the first step.
    #[inline(always)]
    fn risen_at_end(self, risen: u32) -> u32 {
        match self.falls.checked_ilog2() {
            Some(last) => self.count - 1 - last,
            None => risen + self.count,
        }
    }

    /// The place in the vector of a step.
    #[inline(always)]
    fn place_of(self, step: u32) -> usize {
        let (mut place, mut left) = (step, self.equal);
        while left != 0 && left.trailing_zeros() <= place {
            place += 1;
            left &= left - 1;
        }
        place as usize
    }
}

/// The place of the bit of `bits` that has `n` bits before it; there are more than `n`.
#[inline(always)]
fn nth_bit(mut bits: u64, mut n: u32) -> u32 {
    let (mut place, mut half) = (0, u64::BITS / 2);
    while half > 0 {
        let below = (bits & ((1 << half) - 1)).count_ones();
        if n >= below {
            n -= below;
            bits >>= half;
            place += half;
        }
        half /= 2;
    }
    place
}

/// What a chunk without a maximum size remembers.
#[derive(Default)]
pub(crate) struct Sequence {
    risen: u32,
    opposed: u32,
    /// Bytes still to skip.
    skip: usize,
}

impl<const FLIP: u8> Step for SeqCdc<FLIP> {
    type State = Sequence;

    fn step(&self, state: &mut Sequence, len: u64, byte: u8, past: &Past) -> Option<usize> {
        if len <= self.sizes.min() as u64 {
            return None;
        }
        if state.skip > 0 {
            state.skip -= 1;
            return None;
        }
        let (previous, byte) = (past.ago(1) ^ FLIP, byte ^ FLIP);
        if byte > previous {
            state.risen += 1;
            if state.risen == self.rises {
                *state = Sequence::default();
                return Some(1);
            }
        } else if byte < previous {
            state.risen = 0;
            state.opposed += 1;
            if state.opposed == self.trigger {
                state.opposed = 0;
                state.skip = self.jump;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes compared and the jumps in a chunk of random data, by the chances to get on from
    /// each byte, number of rises and number of opposed bytes.
    fn expected(rises: usize, trigger: usize) -> (f64, f64) {
        let sum_below = |values: &[f64], byte: usize| values[..byte].iter().sum::<f64>();
        let sum_above = |values: &[f64], byte: usize| values[byte + 1..].iter().sum::<f64>();
        // of the state with no rise after one more opposed byte: chance to end, bytes compared
        let (mut ends, mut compares) = (vec![0.0; 256], vec![0.0; 256]);
        for _ in 0..trigger {
            let (mut higher_ends, mut higher_compares) = (vec![1.0; 256], vec![0.0; 256]);
            for _ in 0..rises {
                let on = |byte: usize, higher: &[f64], lower: &[f64], now: f64| {
                    let sum = sum_above(higher, byte) + sum_below(lower, byte);
                    (now + sum / 256.0) * 256.0 / 255.0
                };
                let state = |higher: &[f64], lower: &[f64], now: f64| -> Vec<f64> {
                    (0..256).map(|byte| on(byte, higher, lower, now)).collect()
                };
                higher_ends = state(&higher_ends, &ends, 0.0);
                higher_compares = state(&higher_compares, &compares, 1.0);
            }
            (ends, compares) = (higher_ends, higher_compares);
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / 256.0;
        let end = mean(&ends);
        (mean(&compares) / end, (1.0 - end) / end)
    }

    #[test]
    fn the_constants_are_those_of_random_data() {
        for (rises, trigger, compared, jumps) in SEQUENCES {
            let (exact_compared, exact_jumps) = expected(rises as usize, trigger as usize);
            assert!((compared - exact_compared).abs() < 1e-6, "{rises}: {exact_compared}");
            assert!((jumps - exact_jumps).abs() < 1e-6, "{rises}: {exact_jumps}");
        }
    }
}

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

use crate::rule::Rule;
use crate::walk::{Past, Step};
use crate::{ChunkSizes, Params};

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

impl<const FLIP: u8> SeqCdc<FLIP> {
    pub(crate) fn new(params: &Params) -> Self {
        let sizes = params.sizes;
        let wait = (sizes.spread()) as f64;
        let (rises, trigger, compared, jumps) = SEQUENCES
            .into_iter()
            .find(|&(_, _, compared, _)| compared <= wait)
            .unwrap_or(SEQUENCES[SEQUENCES.len() - 1]);
        // rounded down; a length is one less than min and the bytes compared and skipped
        let jump = ((wait - compared) / jumps).max(0.0) as usize;
        Self { sizes, rises, trigger, jump }
    }
}

impl<const FLIP: u8> Rule for SeqCdc<FLIP> {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let (mut risen, mut opposed) = (0, 0);
        let mut at = self.sizes.min();
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
                    at = at.saturating_add(self.jump);
                }
            }
            at += 1;
        }
        self.sizes.forced(reach)
    }
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

//! BFBC, bytes-frequency-based chunking: A. S. M. Saeed, L. E. George, "Data Deduplication System
//! Based on Content-Defined Chunking Using Bytes Pair Frequency Occurrence", Symmetry 12, 2020; and
//! BFBC* of "A Thorough Investigation of Content-Defined Chunking Algorithms", 2024.
//!
//! **Rule.** The chunk ends with the first byte, from min on, that makes a divisor with the byte
//! before it in the chunk. The two algorithms differ in how the divisors are found: see
//! [`Divisors`].
//! **First legal position.** 2, or min if that is more.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Mean.** If a pair is a divisor with probability q, min − 1 + 1 / q, as far as neighbouring
//! pairs are independent.
//! **Runs.** A run of a byte is cut at min throughout if the byte twice is a divisor, and at max
//! otherwise.
//! **Resynchronisation.** As Gear's, with 2 in the place of 64, on data like the sample.
//! **Departures.** Without a sample the divisors are drawn by the seed or secret, as many as cut random data
//! at avg: a two-byte hash, not the paper's algorithm, and on data with frequent pairs far from avg.

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::simd::VectorRule;
use crate::simd::pairs::Buckets;
use crate::simd::vector::{AHEAD, ByteVector, first_lane, lane_bits, prefetch, prefetch_jump};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Divisors, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "bfbc",
    summary: "pairs of bytes from a set, which can be trained on a sample; no hash",
    takes: &[Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |_| DecidedBy::Window(2),
    kernels: Kernels::vectors::<Bfbc>(),
    boundary: Some(boundary::of::<Bfbc>),
    walk: Some(walk::by::<Bfbc>),
    streams: None,
};

/// How many of the 2^16 pairs may pass the buckets: two in 64 random bytes.
const FEW: usize = 2048;

pub(crate) struct Bfbc {
    sizes: ChunkSizes,
    divisors: Divisors,
    /// What every divisor and few other pairs pass, if the divisors are few.
    buckets: Option<Buckets>,
}

impl FromParams for Bfbc {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let &Params { sizes, divisors, .. } = params;
        let divisors = divisors.unwrap_or_else(|| Divisors::drawn(Numbers::of(params), sizes));
        let buckets = Buckets::new(divisors.pairs(), FEW);
        Ok(Self { sizes, divisors, buckets })
    }
}

impl Bfbc {
    fn first(&self) -> usize {
        self.sizes.min().max(2)
    }
}

impl Boundary for Bfbc {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        cut >= self.first() && self.divisors.contains([reach[cut - 2], reach[cut - 1]])
    }
}

impl Rule for Bfbc {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        self.next_cut_from(reach, self.first() - 1)
    }
}

impl Bfbc {
    /// The cut-point, where `at` is the second byte of the next pair.
    fn next_cut_from(&self, reach: &[u8], at: usize) -> Option<usize> {
        let pairs = reach.get(at - 1..).unwrap_or(&[]).windows(2);
        let found = pairs.enumerate().find(|(_, pair)| self.divisors.contains([pair[0], pair[1]]));
        match found {
            Some((i, _)) => Some(at + i + 1),
            None => self.sizes.forced(reach),
        }
    }
}

impl VectorRule for Bfbc {
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let mut at = self.first() - 1;
        if let Some(buckets) = &self.buckets {
            let tables = buckets.tables(isa);
            while at < reach.len() && reach.len() - at >= I::LANES {
                let from = reach.as_ptr().wrapping_add(at);
                prefetch(from, AHEAD);
                // SAFETY: a vector from `at` on lies inside `reach`, by the condition of the loop,
                // and so does the byte before it: `at` is at least 1.
                let (firsts, seconds) = unsafe { (isa.load(from.sub(1)), isa.load(from)) };
                let mut passing = tables.passing(firsts, seconds);
                while passing != 0 {
                    let lane = first_lane::<I>(passing);
                    let second = at + lane;
                    if self.divisors.contains([reach[second - 1], reach[second]]) {
                        let cut = second + 1;
                        prefetch_jump(data, cut, cut + self.sizes.min());
                        return Some(cut);
                    }
                    passing &= !lane_bits::<I>(lane);
                }
                at += I::LANES;
            }
        }
        self.next_cut_from(reach, at)
    }
}

impl Step for Bfbc {
    type State = ();

    fn step(&self, (): &mut (), len: u64, byte: u8, past: &Past) -> Option<usize> {
        let qualifies = len >= self.first() as u64 && self.divisors.contains([past.ago(1), byte]);
        qualifies.then_some(0)
    }
}

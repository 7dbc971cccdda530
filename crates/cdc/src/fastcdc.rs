//! FastCDC: W. Xia et al., "FastCDC: a Fast and Efficient Content-Defined Chunking Approach for
//! Data Deduplication", USENIX ATC 2016; normalised chunking after their TPDS 2020 paper.
//!
//! **Rule.** Gear's hash and Gear's T. With level L, p is the first position from min on where
//! h < T / 2^L before avg, or h < T · 2^L (at most 2^64) from avg on. Level 0 is Gear.
//! **First legal position.** min.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Mean.** With n = 2^L the mean exceeds min by n(1 − e^(−1/n)) + e^(−1/n)/n times avg − min:
//! 1.09 at level 1, 1.08 at level 2, 1.05 at level 3.
//! **Resynchronisation.** A chunk that ends before avg (at level 2 with a probability of
//! 1 − e^(−1/4) = 0.22) ends as Gear's does. Any other ends at the first position behind avg that
//! qualifies under the large threshold, which a chunk that starts d bytes later shares unless it
//! lies within d: with bounds of avg / 4 and 4 avg, and even d up to avg / 2, that is 0.35. So
//! cuttings meet with about 0.2 + 0.78 · 0.35, or 0.45, a chunk (0.43 on random data).
//! **Departures.** The paper compares masked bits with zero, L bits more before avg and L fewer
//! from it on; a threshold on the hash asks the same of its top bits, with the same factor 2^L in
//! probability, for any mean. The paper spreads its mask so that the window has 48 bytes; here the
//! top bits see all 64. The hash is warm at min, which the paper's is not: its cut-points just
//! behind min differ from these.

use crate::gear::{self, Table};
use crate::rule::Rule;
use crate::walk::{Past, Step};
use crate::{ChunkSizes, ParamError, Params};

const MAX_LEVEL: u8 = 3;

pub(crate) struct FastCdc {
    sizes: ChunkSizes,
    table: Table,
    /// Before avg.
    small_limit: u64,
    /// From avg on.
    large_limit: u64,
}

impl FastCdc {
    pub(crate) fn new(params: &Params) -> Result<Self, ParamError> {
        let &Params { sizes, level, seed, .. } = params;
        if level > MAX_LEVEL {
            return Err(ParamError::Level { level });
        }
        let threshold = gear::threshold(sizes);
        Ok(Self {
            sizes,
            table: Table::new(seed),
            small_limit: gear::highest_below(threshold >> level),
            large_limit: gear::highest_below(threshold << level),
        })
    }
}

impl Rule for FastCdc {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let before = self.sizes.min() - 1;
        let normal = (self.sizes.avg() - 1).min(reach.len());

        let hash = self.table.warm(&reach[..before]);
        let hash = match self.table.scan(hash, &reach[before..normal], self.small_limit) {
            Ok(scanned) => return Some(before + scanned),
            Err(hash) => hash,
        };
        match self.table.scan(hash, &reach[normal..], self.large_limit) {
            Ok(scanned) => Some(normal + scanned),
            Err(_) => self.sizes.forced(reach),
        }
    }
}

impl Step for FastCdc {
    type State = u64;

    fn step(&self, hash: &mut u64, len: u64, byte: u8, _: &Past) -> Option<usize> {
        *hash = self.table.push(*hash, byte);
        let is_small = len < self.sizes.avg() as u64;
        let limit = if is_small { self.small_limit } else { self.large_limit };
        (len >= self.sizes.min() as u64 && *hash <= limit).then_some(0)
    }
}

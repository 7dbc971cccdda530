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

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::gear::{self, Table};
use crate::research::two_stage::{self, Mark, Marks};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::tables::{WindowHash, WindowTest};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Lookahead, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "fastcdc",
    summary: "Gear with cut-points drawn towards the average size",
    takes: &[Parameter::Level, Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |_| DecidedBy::More { before: gear::WINDOW, lookahead: Lookahead::None },
    kernels: Kernels::scalar::<FastCdc>(),
    boundary: Some(boundary::of::<FastCdc>),
    walk: Some(walk::by::<FastCdc>),
    streams: Some((Selection::Normalised, two_stage::mark::<FastCdc>)),
};

const MAX_LEVEL: u8 = 3;

pub(crate) struct FastCdc {
    sizes: ChunkSizes,
    table: Table,
    /// Before avg.
    small_limit: u64,
    /// From avg on.
    large_limit: u64,
}

impl FromParams for FastCdc {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let &Params { sizes, level, .. } = params;
        if level > MAX_LEVEL {
            return Err(ParamError::Level { level });
        }
        let threshold = gear::threshold(sizes);
        Ok(Self {
            sizes,
            table: Table::new(Numbers::of(params)),
            small_limit: gear::highest_below(threshold >> level),
            large_limit: gear::highest_below(threshold << level),
        })
    }
}

impl Boundary for FastCdc {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let is_small = cut < self.sizes.avg();
        let limit = if is_small { self.small_limit } else { self.large_limit };
        self.table.at_end_of(&reach[..cut]) <= limit
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

impl FastCdc {
    /// What a device searches by.
    pub(crate) fn window_test(&self) -> WindowTest {
        let &Self { large_limit: limit, small_limit: strict, .. } = self;
        let table = self.table.0.to_vec();
        WindowTest { hash: WindowHash::Gear, window: gear::WINDOW, table, limit, strict }
    }
}

impl Mark for FastCdc {
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        let strict = |hash| hash <= self.small_limit;
        marks.of_two(&self.table.0, data, |hash| hash <= self.large_limit, strict);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;
    use crate::splitmix::SplitMix64;
    use crate::walk;

    /// Mean and deviation of 40,000 chunks of random data.
    fn measure(rule: FastCdc) -> (f64, f64) {
        const CHUNKS: usize = 40_000;
        let mut numbers = SplitMix64::new(1);
        let mut walk = walk::walker(rule);
        let (mut len, mut lens) = (0, Vec::with_capacity(CHUNKS));
        while lens.len() < CHUNKS {
            let mut bytes = &numbers.next().to_le_bytes()[..];
            while !bytes.is_empty() {
                let (walked, cut) = walk.walk(bytes);
                len += walked;
                bytes = &bytes[walked..];
                if cut.is_some() {
                    lens.push(len as f64);
                    len = 0;
                }
            }
        }
        let mean = lens.iter().sum::<f64>() / lens.len() as f64;
        let squares = lens.iter().map(|len| (len - mean) * (len - mean)).sum::<f64>();
        (mean, (squares / lens.len() as f64).sqrt())
    }

    /// Appendix B of "A Thorough Investigation" has two columns whose masks are those of the
    /// nearest power of two while the normal point is the target: 993 bytes come of 770 so, where
    /// thresholds made for 770 give 839.
    #[test]
    fn masks_of_another_mean_than_the_normal_point_give_what_the_investigation_reports() {
        let reported = [
            (770, 1024, [(993.0, 613.0), (913.0, 349.0), (852.0, 203.0)]),
            (5482, 4096, [(5045.0, 3134.0), (5391.0, 2140.0), (5479.0, 1432.0)]),
        ];
        for (normal, power_of_two, rows) in reported {
            for (level, (mean, deviation)) in (1..).zip(rows) {
                let sizes = ChunkSizes::unbounded(1, normal).unwrap();
                let params = Params { level, ..Params::new(Algorithm::FastCdc, sizes) };
                let threshold = (1 << 64) / power_of_two;
                let found = measure(FastCdc {
                    small_limit: gear::highest_below(threshold >> level),
                    large_limit: gear::highest_below(threshold << level),
                    ..FastCdc::from_params(&params).unwrap()
                });
                assert!((found.0 / mean - 1.0_f64).abs() < 0.01, "{normal} {level}: {found:?}");
                assert!(
                    (found.1 / deviation - 1.0_f64).abs() < 0.03,
                    "{normal} {level}: {found:?}"
                );
            }
        }
    }
}

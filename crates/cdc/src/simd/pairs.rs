//! Which pairs of bytes may be in a set: buckets of similar pairs, of each of which the four half
//! bytes are known. A byte of a table has a bit for each of eight buckets, so that four shuffles
//! ask them all, as Teddy does for strings in Hyperscan (W. Qiu, 2014).

use super::vector::ByteVector;

/// Vectors of eight buckets each.
const GROUPS: usize = 2;

/// Sets of pairs, to which every pair belongs that agrees with some of theirs in each half byte.
pub(crate) struct Buckets {
    /// By value of the lower and of the upper half of the first and of the second byte: bits of
    /// the buckets that have it.
    halves: [[[u8; 16]; 4]; GROUPS],
}

impl Buckets {
    /// Buckets with all of `pairs`, unless more than `most` belong to them then, where a pair that
    /// belongs to two counts twice.
    pub(crate) fn new(pairs: impl Iterator<Item = [u8; 2]>, most: usize) -> Option<Self> {
        let mut buckets = [Bucket::default(); 8 * GROUPS];
        let mut passing = 0;
        for pair in pairs {
            let growth = |bucket: &Bucket| bucket.with(pair).len() - bucket.len();
            let (least, bucket) = buckets
                .iter_mut()
                .map(|bucket| (growth(bucket), bucket))
                .min_by_key(|&(growth, _)| growth)?;
            *bucket = bucket.with(pair);
            passing += least;
            if passing > most {
                return None;
            }
        }
        let mut halves = [[[0; 16]; 4]; GROUPS];
        for (i, bucket) in buckets.iter().enumerate() {
            for (table, values) in halves[i / 8].iter_mut().zip(bucket.halves) {
                for (value, entry) in table.iter_mut().enumerate() {
                    *entry |= u8::from(values >> value & 1 == 1) << (i % 8);
                }
            }
        }
        Some(Self { halves })
    }

    /// The tables in vectors.
    #[inline(always)]
    pub(crate) fn tables<I: ByteVector>(&self, isa: I) -> Tables<I> {
        let mut halves = [[isa.splat(0); 4]; GROUPS];
        let mut i = 0;
        while i < 4 * GROUPS {
            halves[i / 4][i % 4] = isa.table(self.halves[i / 4][i % 4]);
            i += 1;
        }
        Tables { isa, halves }
    }
}

/// Values of half bytes, a bit for each.
#[derive(Clone, Copy, Default)]
struct Bucket {
    halves: [u16; 4],
}

impl Bucket {
    fn with(mut self, [first, second]: [u8; 2]) -> Self {
        let halves = [first & 15, first >> 4, second & 15, second >> 4];
        for (values, half) in self.halves.iter_mut().zip(halves) {
            *values |= 1 << half;
        }
        self
    }

    /// Pairs that belong to it.
    fn len(&self) -> usize {
        self.halves.iter().map(|values| values.count_ones() as usize).product()
    }
}

pub(crate) struct Tables<I: ByteVector> {
    isa: I,
    halves: [[I::V; 4]; GROUPS],
}

impl<I: ByteVector> Tables<I> {
    /// The lanes whose pair passes.
    #[inline(always)]
    pub(crate) fn passing(&self, firsts: I::V, seconds: I::V) -> u64 {
        let isa = self.isa;
        let half = isa.splat(0x0f);
        let halves = [
            isa.and(firsts, half),
            isa.and(isa.down_u16::<4>(firsts), half),
            isa.and(seconds, half),
            isa.and(isa.down_u16::<4>(seconds), half),
        ];
        let none = isa.splat(0);
        let mut any = none;
        let mut group = 0;
        while group < GROUPS {
            let tables = &self.halves[group];
            let mut all = isa.look_up(tables[0], halves[0]);
            let mut i = 1;
            while i < 4 {
                all = isa.and(all, isa.look_up(tables[i], halves[i]));
                i += 1;
            }
            any = isa.or(any, all);
            group += 1;
        }
        isa.gt(any, none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`Tables::passing`] asks, one pair at a time.
    fn passes(buckets: &Buckets, [first, second]: [u8; 2]) -> bool {
        let halves = [first & 15, first >> 4, second & 15, second >> 4].map(usize::from);
        buckets.halves.iter().any(|tables| {
            (0..8).any(|bit| {
                tables.iter().zip(halves).all(|(table, half)| table[half] >> bit & 1 == 1)
            })
        })
    }

    fn all_pairs() -> impl Iterator<Item = [u8; 2]> {
        (0..=u16::MAX).map(u16::to_be_bytes)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no unsafe code, and takes hours there")]
    fn every_pair_of_the_set_passes_and_no_more_than_allowed() {
        for step in [1, 3, 97, 511, 1009, 4001, 30_011] {
            let set: Vec<_> = all_pairs().step_by(step).collect();
            for most in [16, 100, 2048, 10_000, 1 << 16] {
                let Some(buckets) = Buckets::new(set.iter().copied(), most) else {
                    assert!(set.len() > 8 * GROUPS, "{step}");
                    continue;
                };
                assert!(set.iter().all(|&pair| passes(&buckets, pair)), "{step}");
                let passing = all_pairs().filter(|&pair| passes(&buckets, pair)).count();
                assert!(passing <= most, "{step}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no unsafe code, and takes hours there")]
    fn as_many_pairs_as_buckets_are_told_from_all_others() {
        let set: Vec<_> = all_pairs().skip(77).step_by(4099).collect();
        assert_eq!(set.len(), 8 * GROUPS);
        let buckets = Buckets::new(set.iter().copied(), set.len()).unwrap();
        let passing: Vec<_> = all_pairs().filter(|&pair| passes(&buckets, pair)).collect();
        assert_eq!(passing, set);
    }
}

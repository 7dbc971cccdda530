//! The chunker of casync 2 (L. Poettering, LGPL 2.1 or later) and desync 1.0.4 (F. Olbricht, BSD
//! 3-Clause), which agree but for three things.
//!
//! **Rule.** h is the exclusive or of the 32-bit table entries of the last 48 bytes, each rotated
//! left by the number of bytes behind it. With d = ⌊avg / (1.33237515 − 1.42888852·10^−7 avg)⌋,
//! in double precision, p is the first position where h mod d = d − 1.
//! **First legal position.** In casync the larger of min and 48; in desync min + 1.
//! **Ties.** None.
//! **Tail.** The rest.
//! **Discriminator.** casync raises d to min and lowers it to max, desync leaves it. At a min and max
//! of a quarter and four times avg d lies between them, up to an avg of 7.2 MiB.
//! **Sizes.** casync takes any; with a max below 48 its chunks are longer than max, and that is
//! refused here. desync wants a min of at least 48. Refused for both is an avg for which the formula
//! gives no 32-bit number.

use super::casync_table::TABLE;
use super::in_proportion;
use crate::boundary::{self, Boundary};
use crate::buzhash::CyclicPolynomial;
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rolling::{self, EveryPosition, Search, WindowRule};
use crate::rule::Rule;
use crate::{ChunkSizes, Lookahead, ParamError, Params, Preset};

pub(super) static CASYNC: Descriptor = descriptor::<false>("casync", "buzhash as casync 2");

pub(super) static DESYNC: Descriptor = descriptor::<true>("desync", "buzhash as desync 1");

const fn descriptor<const DESYNC: bool>(name: &'static str, summary: &'static str) -> Descriptor {
    Descriptor {
        name,
        summary,
        takes: &[],
        sizes: |avg| in_proportion([16 << 10, 64 << 10, 256 << 10], avg, 1),
        decided_by: |_| DecidedBy::More { before: WINDOW, lookahead: Lookahead::None },
        kernels: Kernels::interleaved::<Casync<DESYNC>>(),
        boundary: Some(boundary::of::<Casync<DESYNC>>),
        walk: None,
        streams: None,
    }
}

const WINDOW: usize = 48;

/// casync's form, or desync's.
struct Casync<const DESYNC: bool> {
    /// With the first legal position for a minimum.
    sizes: ChunkSizes,
    hash: CyclicPolynomial,
    discriminator: u32,
    /// ⌈2^64 / discriminator⌉ modulo 2^64.
    reciprocal: u64,
}

impl<const DESYNC: bool> FromParams for Casync<DESYNC> {
    /// Refuses parameters that the tool cannot have.
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let preset = if DESYNC { Preset::Desync } else { Preset::Casync };
        let refused = |expected| preset.refused(expected);
        let &Params { sizes, window, .. } = params;
        let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
        if DESYNC && min < WINDOW {
            return Err(refused("a minimum of at least 48 bytes"));
        }
        if max < WINDOW {
            return Err(refused("a maximum of at least 48 bytes"));
        }
        if window != WINDOW || !sizes.is_bounded() {
            return Err(refused("a window of 48 bytes and a maximum"));
        }
        let raw = discriminator(avg).ok_or(refused("an average of at most 9,309,387 bytes"))?;
        let discriminator = if DESYNC { raw } else { (raw as usize).clamp(min, max) as u32 };
        // where min is max, all chunks of desync are of that length
        let first = if DESYNC { (min + 1).min(max) } else { min.max(WINDOW) };
        let Ok(sizes) = ChunkSizes::new(first, avg.max(first), max) else {
            unreachable!("the first legal position is at most max")
        };
        let hash = CyclicPolynomial::from_table(WINDOW, TABLE);
        Ok(Self { sizes, hash, discriminator, reciprocal: reciprocal(discriminator) })
    }
}

impl<const DESYNC: bool> Casync<DESYNC> {
    fn stops(&self, hash: u32) -> bool {
        hash % self.discriminator == self.discriminator - 1
    }
}

/// ⌈2^64 / d⌉ modulo 2^64.
fn reciprocal(d: u32) -> u64 {
    (u64::MAX / u64::from(d)).wrapping_add(1)
}

/// Whether the d of `reciprocal` divides `hash` + 1, without a division: D. Lemire, O. Kaser,
/// N. Kurz, "Faster Remainder by Direct Computation", 2019. Exact up to a `hash` + 1 of 2^32, since
/// that times what the reciprocal is too large by is less than 2^64.
fn divides_next(reciprocal: u64, hash: u32) -> bool {
    (u64::from(hash) + 1).wrapping_mul(reciprocal) <= reciprocal.wrapping_sub(1)
}

/// The divisor of the rule, if it is a number of 32 bits.
fn discriminator(avg: usize) -> Option<u32> {
    let avg = avg as f64;
    let raw = avg / (-1.428_888_52e-7 * avg + 1.332_375_15);
    (0.0..4_294_967_296.0).contains(&raw).then_some(raw as u32)
}

impl<const DESYNC: bool> Boundary for Casync<DESYNC> {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        cut >= self.sizes.min() && self.stops(rolling::at_end_of(&self.hash, &reach[..cut]))
    }
}

impl<const DESYNC: bool> Rule for Casync<DESYNC> {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.next_cut_by(&EveryPosition, data)
    }
}

impl<const DESYNC: bool> WindowRule for Casync<DESYNC> {
    type Hash = CyclicPolynomial;

    fn hash(&self) -> &CyclicPolynomial {
        &self.hash
    }

    fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    fn is_candidate(&self, hash: u32) -> bool {
        divides_next(self.reciprocal, hash)
    }

    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        search
            .first_position(self, reach, |_, hash| self.stops(hash))
            .or_else(|| self.sizes.forced(reach))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_tells_what_the_remainder_tells() {
        let steps = (0..1000_u32).map(|i| i.wrapping_mul(0x9e37_79b9));
        let divisors = (1..200).chain(steps.clone()).chain([u32::MAX, u32::MAX - 1, 1 << 31]);
        for d in divisors.filter(|&d| d > 0) {
            let around = |n: u32| [n.wrapping_sub(2), n.wrapping_sub(1), n, n.wrapping_add(1)];
            let multiples = [1, 2, 3, u32::MAX / d / 2, u32::MAX / d].map(|k| k.wrapping_mul(d));
            let near = multiples.into_iter().chain([0, u32::MAX, 1 << 31]).flat_map(around);
            for hash in near.chain(steps.clone().step_by(37)) {
                let expected = hash % d == d - 1;
                assert_eq!(divides_next(reciprocal(d), hash), expected, "{hash} by {d}");
            }
        }
    }
}

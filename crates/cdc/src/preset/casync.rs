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
use crate::boundary::Boundary;
use crate::buzhash::CyclicPolynomial;
use crate::rolling;
use crate::rule::Rule;
use crate::{ChunkSizes, Params};

const WINDOW: usize = 48;

pub(super) struct Casync {
    /// With the first legal position for a minimum.
    sizes: ChunkSizes,
    hash: CyclicPolynomial,
    discriminator: u32,
}

impl Casync {
    /// casync's form; refuses, with what is expected, parameters that it cannot have.
    pub(super) fn as_casync(params: &Params) -> Result<Self, &'static str> {
        let sizes = params.sizes;
        if sizes.max() < WINDOW {
            return Err("a maximum of at least 48 bytes");
        }
        let within = |raw: u32| (raw as usize).clamp(sizes.min(), sizes.max()) as u32;
        Self::new(params, sizes.min().max(WINDOW), within)
    }

    /// desync's form; refuses, with what is expected, parameters that it cannot have.
    pub(super) fn as_desync(params: &Params) -> Result<Self, &'static str> {
        let sizes = params.sizes;
        if sizes.min() < WINDOW {
            return Err("a minimum of at least 48 bytes");
        }
        // where min is max, all chunks are of that length
        Self::new(params, (sizes.min() + 1).min(sizes.max()), |raw| raw)
    }

    fn new(
        params: &Params,
        first: usize,
        adjust: impl FnOnce(u32) -> u32,
    ) -> Result<Self, &'static str> {
        let &Params { sizes, window, .. } = params;
        if window != WINDOW || !sizes.is_bounded() {
            return Err("a window of 48 bytes and a maximum");
        }
        let raw = discriminator(sizes.avg()).ok_or("an average of at most 9,309,387 bytes")?;
        let Ok(sizes) = ChunkSizes::new(first, sizes.avg().max(first), sizes.max()) else {
            unreachable!("the first legal position is at most max")
        };
        let hash = CyclicPolynomial::from_table(WINDOW, TABLE);
        Ok(Self { sizes, hash, discriminator: adjust(raw) })
    }

    fn stops(&self, hash: u32) -> bool {
        hash % self.discriminator == self.discriminator - 1
    }
}

/// The divisor of the rule, if it is a number of 32 bits.
fn discriminator(avg: usize) -> Option<u32> {
    let avg = avg as f64;
    let raw = avg / (-1.428_888_52e-7 * avg + 1.332_375_15);
    (0.0..4_294_967_296.0).contains(&raw).then_some(raw as u32)
}

impl Boundary for Casync {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        cut >= self.sizes.min() && self.stops(rolling::at_end_of(&self.hash, &reach[..cut]))
    }
}

impl Rule for Casync {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        rolling::first_position(&self.hash, reach, self.sizes.min(), |_, hash| self.stops(hash))
            .or_else(|| self.sizes.forced(reach))
    }
}

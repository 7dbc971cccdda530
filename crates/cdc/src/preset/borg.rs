//! borg 1's chunker "buzhash" (the Borg Collective, BSD 3-Clause).
//!
//! **Rule.** The hash of a window is the exclusive or of the 32-bit table entries of its bytes, each
//! rotated left by the number of bytes behind it; every entry of the table is xored with the
//! repository's seed. p is the first position from min on where the lowest log2 avg bits of the hash
//! of the w bytes *behind* p are all 0, and at least one byte more follows them before max and the
//! end of the input.
//! **First legal position.** min, decided by the w bytes that follow it.
//! **Ties.** None.
//! **Tail.** The rest. A position with at most w bytes behind it is no cut-point.
//! **Sizes.** min is 2^CHUNK_MIN_EXP, avg 2^HASH_MASK_BITS, max 2^CHUNK_MAX_EXP, w HASH_WINDOW_SIZE.
//! Chunks of random data are min + avg long in the mean, not avg.
//! **Seed.** The key's chunk_seed as 32 bits without sign; 0 where the repository is not encrypted.
//! Where w is a multiple of 64 it cancels out.
//! **Departures.** The tool's library takes an avg below min or above max, which its command refuses,
//! as does this.

use super::borg_table::TABLE;
use crate::boundary::Boundary;
use crate::buzhash::CyclicPolynomial;
use crate::rolling::{self, Rolling};
use crate::rule::Rule;
use crate::{ChunkSizes, Params};

/// The longest chunk that the tool has room for.
const LONGEST: usize = 16 << 20;

pub(super) struct Borg {
    max: usize,
    /// Bounds of the ends of the windows that decide.
    ends: ChunkSizes,
    hash: CyclicPolynomial,
    mask: u32,
}

impl Borg {
    /// Refuses, with what is expected, parameters that the tool would not take.
    pub(super) fn new(params: &Params) -> Result<Self, &'static str> {
        let &Params { sizes, window, seed, .. } = params;
        let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
        if [min, avg, max].iter().any(|size| !size.is_power_of_two()) || max > LONGEST {
            return Err("powers of two for sizes, up to 16 MiB");
        }
        let ends = first_end(min, window, max)
            .and_then(|first| ChunkSizes::new(first, first.max(avg.min(max - 1)), max - 1).ok())
            .ok_or("a window, min and one byte more that fit into max")?;
        let seed = u32::try_from(seed).map_err(|_| "a seed of 32 bits")?;
        let hash = CyclicPolynomial::from_table(window, TABLE.map(|entry| entry ^ seed));
        Ok(Self { max, ends, hash, mask: (avg - 1) as u32 })
    }
}

/// Where the window behind the first legal position ends, if a byte can follow it.
fn first_end(min: usize, window: usize, max: usize) -> Option<usize> {
    let end = min.checked_add(window)?;
    (window > 0 && end < max).then_some(end)
}

impl Boundary for Borg {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let end = cut + self.hash.window();
        end < reach.len() && rolling::at_end_of(&self.hash, &reach[..end]) & self.mask == 0
    }
}

impl Rule for Borg {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        // all that a window may cover: a byte follows it
        let reach = self.ends.reach(&data[..data.len().saturating_sub(1)])?;
        rolling::first_position(&self.hash, self.ends, reach, |_, hash| hash & self.mask == 0)
            .map(|end| end - self.hash.window())
            .or_else(|| (data.len() >= self.max).then_some(self.max))
    }
}

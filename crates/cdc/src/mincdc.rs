//! MinCDC: O. Peters, crate `mincdc` 0.1.0, 2025 (its `MinCdcHash4`).
//!
//! **Rule.** p is the position from max(min, 4) to max that minimises the hash of the four bytes
//! before it; hash(v) = v · 0x915f77f5 + 0x34636463 mod 2^32 of the little-endian number v. With a
//! secret the factor is the lower half of its first number (secret.rs), made odd, and the addend is
//! the upper half.
//! **First legal position.** max(min, 4).
//! **Ties.** The first of equal hashes. The multiplier is odd, so equal hashes are equal bytes.
//! **Lookahead.** Every cut-point depends on all bytes up to max.
//! **Tail.** At the end of the input the choice is among the positions up to the end, so that the
//! last bytes can make two chunks; a rest of at most max(min, 4) bytes is one chunk.
//! **Mean.** Every position is as likely as any other, so lengths are uniform from min to max and
//! avg must be half of min + max (to within one byte). Where max > 2 min the mean is a little more:
//! after a short chunk the next one meets positions that have lost to a minimum already. On
//! random data that is 2.4 % for max = 3 min and 15 % for min = 1.
//! **Runs.** Equal bytes give chunks of max(min, 4) bytes.
//! **Resynchronisation.** Two cuttings whose chunks start d apart meet if the minimum over both
//! ranges lies in the part they share: with probability (r − d) / (r + d), r = max − min + 1 > d.
//! Over evenly distributed d that is 2 ln 2 − 1, about 0.39 for one pair of chunks; every chunk is
//! one of several pairs, and on random data cuttings meet with 0.75 a chunk.
//! **Departures.** None without a secret: cut-points equal the crate's.

use zeroize::Zeroize;

use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::simd::VectorRule;
use crate::simd::minimum::{self, Hash};
use crate::simd::vector::{ByteVector, prefetch_jump};
use crate::tables::LeastHash;
use crate::{ChunkSizes, Lookahead, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "mincdc",
    summary: "smallest four-byte hash between the size bounds; fast, even sizes",
    takes: &[Parameter::Secret],
    sizes: |avg| {
        let half = avg / 2;
        ChunkSizes::new(half.max(1), avg, avg.saturating_add(half))
    },
    decided_by: |_| DecidedBy::More { before: WINDOW, lookahead: Lookahead::ToMax },
    kernels: Kernels::vectors::<MinCdc>(),
    boundary: None,
    walk: None,
    streams: None,
};

/// Bytes that a hash covers.
pub(crate) const WINDOW: usize = 4;

pub(crate) struct MinCdc {
    sizes: ChunkSizes,
    hash: Hash,
}

impl Drop for MinCdc {
    fn drop(&mut self) {
        self.hash.factor.zeroize();
        self.hash.addend.zeroize();
    }
}

impl FromParams for MinCdc {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let sizes = params.sizes;
        if !sizes.is_bounded() {
            return Err(ParamError::NeedsMax { algorithm: params.algorithm });
        }
        let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
        if (2 * avg).abs_diff(min + max) > 2 {
            return Err(ParamError::MinCdcMean { min, avg, max });
        }
        Ok(Self { sizes, hash: hash(params) })
    }
}

impl MinCdc {
    /// What the next chunk can cover and its first position, or the cut-point if there is no
    /// choice.
    #[inline(always)]
    fn choice<'a>(&self, data: &'a [u8]) -> Result<(usize, &'a [u8]), usize> {
        let reach = &data[..data.len().min(self.sizes.max())];
        let first = self.sizes.min().max(WINDOW);
        if reach.len() <= first {
            return Err(reach.len());
        }
        Ok((first, &reach[first - WINDOW..]))
    }
}

impl MinCdc {
    /// What a device searches by.
    pub(crate) fn least_hash(&self) -> LeastHash {
        let first = self.sizes.min().max(WINDOW);
        LeastHash { first, factor: self.hash.factor, addend: self.hash.addend }
    }
}

impl Rule for MinCdc {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        (data.len() >= self.sizes.max()).then(|| self.last_cut(data))
    }

    fn last_cut(&self, data: &[u8]) -> usize {
        match self.choice(data) {
            Ok((first, bytes)) => first + first_least(bytes, self.hash),
            Err(cut) => cut,
        }
    }
}

impl VectorRule for MinCdc {
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        if data.len() >= self.sizes.max() { Some(self.last_cut_on(isa, data)) } else { None }
    }

    #[inline(always)]
    fn last_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> usize {
        match self.choice(data) {
            Ok((first, bytes)) => {
                let cut = first + minimum::first_least(isa, bytes, self.hash);
                // what the next search jumps over was not asked for
                prefetch_jump(data, first - WINDOW + bytes.len(), cut + first - WINDOW);
                cut
            }
            Err(cut) => cut,
        }
    }
}

fn hash(params: &Params) -> Hash {
    match params.secret {
        None => Hash { factor: 0x915f_77f5, addend: 0x3463_6463 },
        Some(_) => {
            let number = Numbers::of(params).next();
            Hash { factor: number as u32 | 1, addend: (number >> 32) as u32 }
        }
    }
}

/// Index of the four bytes with the least hash in `bytes`, the first if several have it.
fn first_least(bytes: &[u8], hash: Hash) -> usize {
    let (mut least, mut at) = (u32::MAX, 0);
    for (i, four) in bytes.windows(WINDOW).enumerate() {
        let hash = hash.of(u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        if hash < least {
            (least, at) = (hash, i);
        }
    }
    at
}

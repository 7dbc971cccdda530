//! FastCDC as the crate fastcdc 5.0.0 has it (N. Fiedler, MIT).
//!
//! **Rule.** The hash is Gear's in 64 bits, over a table of the first halves of MD5 digests: entry b
//! is that of 64 bytes b. It starts at 0 behind the first min bytes. The chunk ends *before* the
//! first byte from there on whose hash has no bit in common with the mask: the mask of
//! log2 avg + level bits before avg, of log2 avg − level bits from it on, the logarithm rounded. The
//! masks are those of destor and restic-FastCDC.
//! **First legal position.** min, decided by one byte.
//! **Tail.** A rest of at most min bytes is a chunk.
//! **2020.** Every entry of the table is xored with the seed. Bytes are tested in pairs, and where the
//! bytes left are odd in number and fewer than max the last has no partner and is not tested. Sizes
//! must be even.

use super::in_proportion;
use super::md5::first_half_of_md5;
use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::gear;
use crate::rule::Rule;
use crate::{ChunkSizes, Lookahead, ParamError, Parameter, Params, Preset};

pub(super) static V2016: Descriptor =
    descriptor::<false>("fastcdc-2016", "FastCDC as v2016 of the crate fastcdc");

pub(super) static V2020: Descriptor = descriptor::<true>(
    "fastcdc-2020",
    "FastCDC as v2020 of the crate fastcdc and the remote-execution API",
);

const fn descriptor<const IN_PAIRS: bool>(name: &'static str, summary: &'static str) -> Descriptor {
    Descriptor {
        name,
        summary,
        takes: if IN_PAIRS { &[Parameter::Level, Parameter::Seed] } else { &[Parameter::Level] },
        // what is even suits both forms
        sizes: |avg| in_proportion([4 << 10, 16 << 10, (64 << 10) - 2], avg, 2),
        decided_by: |_| {
            // the byte that qualifies, which begins the next chunk, and its partner
            let lookahead = Lookahead::Bytes(if IN_PAIRS { 2 } else { 1 });
            DecidedBy::More { before: 0, lookahead }
        },
        kernels: Kernels::scalar::<FastCdc<IN_PAIRS>>(),
        boundary: Some(boundary::of::<FastCdc<IN_PAIRS>>),
        walk: None,
        streams: None,
    }
}

/// The form of 2020 tests bytes in pairs, that of 2016 does not.
struct FastCdc<const IN_PAIRS: bool> {
    sizes: ChunkSizes,
    table: Box<[u64; 256]>,
    /// Before avg.
    small_mask: u64,
    /// From avg on.
    large_mask: u64,
}

impl<const IN_PAIRS: bool> FromParams for FastCdc<IN_PAIRS> {
    /// Refuses parameters that the crate would not take.
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let preset = if IN_PAIRS { Preset::FastCdc2020 } else { Preset::FastCdc2016 };
        let refused = |expected| Err(preset.refused(expected));
        let &Params { sizes, level, .. } = params;
        let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
        if IN_PAIRS && [min, avg, max].iter().any(|size| size % 2 == 1) {
            return refused("even sizes");
        }
        let level = usize::from(level);
        if level > 3 {
            return refused("a level from 0 to 3");
        }
        let fits = (64..=1 << 20).contains(&min)
            && (256..=4 << 20).contains(&avg)
            && (1024..=16 << 20).contains(&max);
        if !fits {
            return refused(
                "a minimum of 64 bytes to 1 MiB, an average of 256 bytes to 4 MiB \
                 and a maximum of 1 to 16,384 KiB",
            );
        }
        let bits = rounded_log2(avg);
        let seed = if IN_PAIRS { params.seed } else { 0 };
        let entry = |byte: usize| first_half_of_md5(&[byte as u8; 64]) ^ seed;
        Ok(Self {
            sizes,
            table: Box::new(std::array::from_fn(entry)),
            small_mask: MASKS[bits + level - 5],
            large_mask: MASKS[bits - level - 5],
        })
    }
}

impl<const IN_PAIRS: bool> FastCdc<IN_PAIRS> {
    /// The first byte of `reach` that qualifies.
    fn first(&self, reach: &[u8]) -> Option<usize> {
        let min = self.sizes.min();
        let normal = self.sizes.avg().clamp(min, reach.len().max(min));
        let (small, large) = reach.get(min..)?.split_at_checked(normal - min)?;
        let Self { small_mask, large_mask, .. } = *self;
        match gear::scan(&self.table, 0, small, |hash| hash & small_mask == 0) {
            Ok(scanned) => Some(min + scanned - 1),
            Err(hash) => gear::scan(&self.table, hash, large, |hash| hash & large_mask == 0)
                .ok()
                .map(|scanned| normal + scanned - 1),
        }
    }

    /// `data` as far as it is tested if nothing follows it.
    fn reach<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        let len = data.len().min(self.sizes.max());
        &data[..if IN_PAIRS { len - len % 2 } else { len }]
    }
}

impl<const IN_PAIRS: bool> Boundary for FastCdc<IN_PAIRS> {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        // the hash is older bytes' no more after 64
        let window = reach.get(self.sizes.min().max((cut + 1).saturating_sub(64))..=cut);
        window.is_some_and(|window| {
            let mask = if cut < self.sizes.avg() { self.small_mask } else { self.large_mask };
            let push =
                |hash: u64, &byte: &u8| (hash << 1).wrapping_add(self.table[usize::from(byte)]);
            window.iter().fold(0, push) & mask == 0
        })
    }
}

impl<const IN_PAIRS: bool> Rule for FastCdc<IN_PAIRS> {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        // a byte that has no partner yet may get one
        let cut = self.first(self.reach(data));
        cut.or_else(|| (data.len() >= self.sizes.max()).then_some(self.sizes.max()))
    }

    fn last_cut(&self, data: &[u8]) -> usize {
        self.first(self.reach(data)).unwrap_or(data.len().min(self.sizes.max()))
    }
}

/// The logarithm to base 2, rounded: up if the square of `size` reaches an odd power of two.
fn rounded_log2(size: usize) -> usize {
    let below = size.ilog2();
    let is_nearer_above = (size as u128).pow(2) >> (2 * below + 1) != 0;
    below as usize + usize::from(is_nearer_above)
}

/// The masks of 5 to 25 bits.
const MASKS: [u64; 21] = [
    0x0000_0000_0180_4110,
    0x0000_0000_0180_3110,
    0x0000_0000_1803_5100,
    0x0000_0018_0003_5300,
    0x0000_0190_0035_3000,
    0x0000_5900_0353_0000,
    0x0000_d900_0353_0000,
    0x0000_d901_0353_0000,
    0x0000_d903_0353_0000,
    0x0000_d903_1353_0000,
    0x0000_d90f_0353_0000,
    0x0000_d903_0353_7000,
    0x0000_d907_0353_7000,
    0x0000_d907_0753_7000,
    0x0000_d917_0753_7000,
    0x0000_d917_4753_7000,
    0x0000_d917_6753_7000,
    0x0000_d937_6753_7000,
    0x0000_d937_7753_7000,
    0x0000_d937_7757_7000,
    0x0000_db37_7757_7000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_bits_that_they_are_for() {
        for (bits, mask) in (5..).zip(MASKS).filter(|&(bits, _)| bits != 5) {
            assert_eq!(mask.count_ones(), bits, "{mask:x}");
        }
    }

    #[test]
    fn logarithms_are_rounded() {
        for size in (1..100_000).chain([1 << 20, (1 << 22) - 1]) {
            assert_eq!(rounded_log2(size), (size as f64).log2().round() as usize, "{size}");
        }
    }
}

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
use super::in_proportion;
use crate::boundary::{self, Boundary};
use crate::buzhash::CyclicPolynomial;
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rolling::{self, EveryPosition, Rolling, Search, WindowRule};
use crate::rule::Rule;
use crate::{ChunkSizes, Lookahead, ParamError, Parameter, Params, Preset};

pub(super) static DESCRIPTOR: Descriptor = Descriptor {
    name: "borg",
    summary: "buzhash as borg 1, by the repository's seed",
    takes: &[Parameter::Window, Parameter::Seed],
    sizes: |avg| in_proportion([512 << 10, 2 << 20, 8 << 20], avg, 1),
    decided_by: |params| {
        // the window behind it, and one more
        DecidedBy::More { before: 0, lookahead: Lookahead::Bytes(params.window + 1) }
    },
    kernels: Kernels::interleaved::<Borg>(),
    boundary: Some(boundary::of::<Borg>),
    walk: None,
    streams: None,
};

/// The longest chunk that the tool has room for.
const LONGEST: usize = 16 << 20;

struct Borg {
    max: usize,
    /// Bounds of the ends of the windows that decide.
    ends: ChunkSizes,
    hash: CyclicPolynomial,
    mask: u32,
}

impl FromParams for Borg {
    /// Refuses parameters that the tool would not take.
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let refused = |expected| Preset::Borg.refused(expected);
        let &Params { sizes, window, seed, .. } = params;
        let (min, avg, max) = (sizes.min(), sizes.avg(), sizes.max());
        if [min, avg, max].iter().any(|size| !size.is_power_of_two()) || max > LONGEST {
            return Err(refused("powers of two for sizes, up to 16 MiB"));
        }
        let seed = u32::try_from(seed).map_err(|_| refused("a seed of 32 bits"))?;
        Self::with_mask(min, max, (avg - 1) as u32, window, seed)
            .ok_or(refused("a window, min and one byte more that fit into max"))
    }
}

impl Borg {
    /// `None` if the window behind the first legal position and one byte more do not fit into max.
    fn with_mask(min: usize, max: usize, mask: u32, window: usize, seed: u32) -> Option<Self> {
        let first = min.checked_add(window).filter(|&first| window > 0 && first < max)?;
        let ends = ChunkSizes::new(first, first, max - 1).ok()?;
        let hash = CyclicPolynomial::from_table(window, TABLE.map(|entry| entry ^ seed));
        Some(Self { max, ends, hash, mask })
    }
}

impl Boundary for Borg {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let end = cut + self.hash.window();
        end < reach.len() && rolling::at_end_of(&self.hash, &reach[..end]) & self.mask == 0
    }
}

impl Rule for Borg {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.next_cut_by(&EveryPosition, data)
    }
}

/// Positions are the ends of the windows that decide.
impl WindowRule for Borg {
    type Hash = CyclicPolynomial;

    fn hash(&self) -> &CyclicPolynomial {
        &self.hash
    }

    fn sizes(&self) -> ChunkSizes {
        self.ends
    }

    fn is_candidate(&self, hash: u32) -> bool {
        hash & self.mask == 0
    }

    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize> {
        // all that a window may cover: a byte follows it
        let reach = self.ends.reach(&data[..data.len().saturating_sub(1)])?;
        search
            .first_position(self, reach, |_, hash| self.is_candidate(hash))
            .map(|end| end - self.hash.window())
            .or_else(|| (data.len() >= self.max).then_some(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use sha2::{Digest, Sha256};

    const VECTORS: &str = include_str!("../../../../vectors/presets.json");

    fn vectors() -> Value {
        serde_json::from_str(VECTORS).unwrap()
    }

    fn number(value: &Value) -> usize {
        value.as_u64().unwrap() as usize
    }

    fn numbers(value: &Value) -> impl Iterator<Item = usize> {
        value.as_array().unwrap().iter().map(number)
    }

    fn chunks<'a>(rule: &Borg, mut data: &'a [u8]) -> Vec<&'a [u8]> {
        let mut chunks = Vec::new();
        while !data.is_empty() {
            let (chunk, rest) = data.split_at(rule.last_cut(data));
            chunks.push(chunk);
            data = rest;
        }
        chunks
    }

    #[test]
    fn what_only_the_library_takes_is_cut_as_published() {
        for case in vectors()["borg_beyond"].as_array().unwrap() {
            let value = |key: &str| number(&case[key]);
            let mask = value("avg") as u32 - 1;
            let rule = Borg::with_mask(
                value("min"),
                value("max"),
                mask,
                value("window"),
                value("seed") as u32,
            );
            let data = b"foobarboobaz".repeat(3);
            let lens: Vec<usize> = chunks(&rule.unwrap(), &data).iter().map(|c| c.len()).collect();
            assert_eq!(lens, numbers(&case["lengths"]).collect::<Vec<_>>(), "{case}");
        }
    }

    /// The low bytes of a congruential generator, as borg's test has it.
    fn congruential(len: usize) -> Vec<u8> {
        let next = |x: &u32| Some(x.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff);
        std::iter::successors(Some(1), next).skip(1).map(|x| x as u8).take(len).collect()
    }

    #[test]
    fn a_grid_of_parameters_has_the_published_digest() {
        let grid = &vectors()["borg_grid"];
        let data = congruential(number(&grid["input"]["len"]));
        let mut runs = Sha256::new();
        for window in numbers(&grid["windows"]) {
            for min in numbers(&grid["min_bits"]) {
                for max in numbers(&grid["max_bits"]) {
                    for mask in numbers(&grid["mask_bits"]) {
                        for seed in numbers(&grid["seeds"]) {
                            let mask = (1 << mask) - 1;
                            let rule =
                                Borg::with_mask(1 << min, 1 << max, mask, window, seed as u32);
                            let mut run = Sha256::new();
                            for chunk in chunks(&rule.unwrap(), &data) {
                                run.update(Sha256::digest(chunk));
                            }
                            runs.update(run.finalize());
                        }
                    }
                }
            }
        }
        let digest: String = runs.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, grid["sha256"]);
    }
}

//! Gear with 16-bit hashes, ours: made so that every instruction set with a byte shuffle hashes
//! many positions at once.
//!
//! **Rule.** h = 2h + t(b) mod 2^16, which depends on the last 16 bytes, with t(b) = low\[b mod 16\]
//! xor high\[⌊b / 16⌋\]. p is the first position from min on where h < T and h of 16 bytes earlier
//! is below U, with T = ⌈2^16 / n⌉, U = ⌊2^32 / nT⌋, at most 2^16, and n = avg − min + 1. The entries
//! of low, then those of high, are the upper 16 bits of the first 32 numbers of the seed or secret
//! (secret.rs).
//! **Why two tests.** 16 bits alone allow no n above 2^16 and few below. The second, on the 16 bytes
//! in front of the first's, makes every n exact to one in U and is asked of one position in 2^16 / T
//! only. Where n divides 2^16, U is 2^16 and it passes always.
//! **Why two short tables.** Both take four shuffles, where 256 entries take 16 and more. That
//! h depends on 16 bytes only lets short streams be hashed side by side (simd/gear.rs).
//! **First legal position.** min. The hashes start empty with the chunk if min < 32, as if bytes of
//! entry 0 had come before. Each position is accepted with probability 1 / n, which puts the mean
//! at avg but for the cut at max.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Runs.** 16 equal bytes b give h = −t(b): a run is cut at min throughout if that passes both
//! tests, and at max throughout otherwise.
//! **Resynchronisation.** As Gear's, with 32 in the place of 64.

use zeroize::Zeroize;

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::simd::VectorRule;
use crate::simd::gear::{HalfTables, first_at_most};
use crate::simd::vector::{ByteVector, prefetch_jump};
use crate::tables::{WindowHash, WindowTest};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "gear16",
    summary: "Gear hash of 16 bytes, in 16 bits; made for vector instructions",
    takes: &[Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |_| DecidedBy::Window(2 * WINDOW),
    kernels: Kernels::vectors::<Gear16>(),
    boundary: Some(boundary::of::<Gear16>),
    walk: Some(walk::by::<Gear16>),
    streams: None,
};

/// Bytes that a hash depends on; each test takes two of them.
pub(crate) const WINDOW: usize = 16;

pub(crate) struct Gear16 {
    sizes: ChunkSizes,
    tables: Tables,
    /// T − 1.
    limit: u16,
    /// U − 1.
    earlier_limit: u16,
}

impl FromParams for Gear16 {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let spread = params.sizes.spread() as u64;
        let threshold = (1_u64 << 16).div_ceil(spread);
        let earlier = ((1 << 32) / (spread * threshold)).min(1 << 16);
        Ok(Self {
            sizes: params.sizes,
            tables: Tables::new(Numbers::of(params)),
            limit: (threshold - 1) as u16,
            earlier_limit: (earlier - 1) as u16,
        })
    }
}

impl Boundary for Gear16 {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let earlier = &reach[..cut.saturating_sub(WINDOW)];
        self.tables.hash_at_end_of(&reach[..cut]) <= self.limit
            && self.tables.hash_at_end_of(earlier) <= self.earlier_limit
    }
}

impl Rule for Gear16 {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let before = self.sizes.min() - 1;
        let mut hash = self.tables.hash_at_end_of(&reach[..before]);
        for (i, &byte) in reach[before..].iter().enumerate() {
            hash = self.tables.push(hash, byte);
            if hash <= self.limit {
                let p = before + i + 1;
                let earlier = &reach[..p.saturating_sub(WINDOW)];
                if self.tables.hash_at_end_of(earlier) <= self.earlier_limit {
                    return Some(p);
                }
            }
        }
        self.sizes.forced(reach)
    }
}

impl Gear16 {
    /// What a device searches by.
    pub(crate) fn window_test(&self) -> WindowTest {
        WindowTest {
            hash: WindowHash::Gear16,
            window: 2 * WINDOW,
            table: (0..=255).map(|byte| self.tables.push(0, byte).into()).collect(),
            limit: self.limit.into(),
            strict: self.earlier_limit.into(),
        }
    }
}

impl VectorRule for Gear16 {
    #[inline(always)]
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let tables = HalfTables { low: &self.tables.low, high: &self.tables.high };
        let mut p = self.sizes.min() - 1;
        while let Some(i) = first_at_most(isa, tables, reach, p, self.limit) {
            p = i + 1;
            let earlier = &reach[..p.saturating_sub(WINDOW)];
            if self.tables.hash_at_end_of(earlier) <= self.earlier_limit {
                prefetch_jump(data, p, p + self.sizes.min());
                return Some(p);
            }
        }
        self.sizes.forced(reach)
    }
}

impl Step for Gear16 {
    /// The hash here and the one of 16 bytes earlier.
    type State = (u16, u16);

    fn step(&self, state: &mut Self::State, len: u64, byte: u8, past: &Past) -> Option<usize> {
        let (hash, earlier) = state;
        *hash = self.tables.push(*hash, byte);
        if len > WINDOW as u64 {
            *earlier = self.tables.push(*earlier, past.ago(WINDOW));
        }
        let qualifies = *hash <= self.limit && *earlier <= self.earlier_limit;
        (len >= self.sizes.min() as u64 && qualifies).then_some(0)
    }
}

/// One random number for each value of half a byte.
struct Tables {
    low: [u16; 16],
    high: [u16; 16],
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.low.zeroize();
        self.high.zeroize();
    }
}

impl Tables {
    fn new(mut numbers: Numbers) -> Self {
        let mut table = || std::array::from_fn(|_| (numbers.next() >> 48) as u16);
        Self { low: table(), high: table() }
    }

    fn push(&self, hash: u16, byte: u8) -> u16 {
        let entry = self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)];
        (hash << 1).wrapping_add(entry)
    }

    /// The hash of the last 16 of `bytes`, or of all if they are fewer.
    fn hash_at_end_of(&self, bytes: &[u8]) -> u16 {
        let window = &bytes[bytes.len().saturating_sub(WINDOW)..];
        window.iter().fold(0, |hash, &byte| self.push(hash, byte))
    }
}

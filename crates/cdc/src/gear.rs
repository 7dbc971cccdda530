//! Gear: W. Xia et al., "Ddelta: A deduplication-inspired fast delta compression approach",
//! Performance Evaluation 79, 2014.
//!
//! **Rule.** h = 2h + table\[b\] mod 2^64 for each byte b, so that h depends on the last 64 bytes;
//! p is the first position from min on where h < T, with T = ⌊2^64 / (avg − min + 1)⌋. The table
//! is the first 256 numbers of the seed or secret (secret.rs).
//! **First legal position.** min. Each position is accepted with probability 1 / (avg − min + 1),
//! which puts the mean at avg exactly, less what the cut at max takes away: a share
//! e^−((max − min) / (avg − min)) of (avg − min).
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Runs.** 64 equal bytes b give h = −table\[b\], so a run is cut at min throughout if that is
//! below T, and at max throughout otherwise. With seed 0 it is the latter for every byte from
//! avg − min = 112 on.
//! **Resynchronisation.** With min ≥ 64 whether a position may be a cut-point depends on 64 bytes
//! alone. One that has no other within min bytes before it, nor a cut at max there, is a
//! cut-point from wherever the chunk started: a share of about e^−(min / (avg − min)) of them.
//! So k candidates after an edit the cut-points still differ with probability at most
//! (1 − e^−(min / (avg − min)))^k.
//! **Departures.** The paper tests the top bits against zero, which allows means of a power of two
//! only; a threshold asks the same of the same bits and allows any. The hash is warm at min (it
//! has seen the 64 bytes before, or all of the chunk if min is less) where the paper hashes every
//! chunk from its first byte; with min ≥ 64 the results are the same and min bytes fewer are read.

use crate::boundary::Boundary;
use crate::rolling::Rolling;
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::simd::vector::{AHEAD, prefetch};
use crate::two_stage::{Mark, Marks};
use crate::walk::{Past, Step};
use crate::{ChunkSizes, Params};

/// Bytes that a hash depends on: each is shifted out after 64 more.
pub(crate) const WINDOW: usize = 64;

/// Bytes that a loop is unrolled for: threes, and no more than are in a line.
const STEP: usize = 24;

pub(crate) struct Gear {
    sizes: ChunkSizes,
    table: Table,
    limit: u64,
}

impl Gear {
    pub(crate) fn new(params: &Params) -> Self {
        Self {
            sizes: params.sizes,
            table: Table::new(Numbers::of(params)),
            limit: highest_below(threshold(params.sizes)),
        }
    }
}

impl Boundary for Gear {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        self.table.at_end_of(&reach[..cut]) <= self.limit
    }
}

impl Rule for Gear {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let before = self.sizes.min() - 1;
        let hash = self.table.warm(&reach[..before]);
        match self.table.scan(hash, &reach[before..], self.limit) {
            Ok(scanned) => Some(before + scanned),
            Err(_) => self.sizes.forced(reach),
        }
    }
}

impl Step for Gear {
    type State = u64;

    fn step(&self, hash: &mut u64, len: u64, byte: u8, _: &Past) -> Option<usize> {
        *hash = self.table.push(*hash, byte);
        (len >= self.sizes.min() as u64 && *hash <= self.limit).then_some(0)
    }
}

impl Mark for Gear {
    fn window(&self) -> usize {
        WINDOW
    }

    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(&self.table.0, data, |hash| hash <= self.limit);
    }
}

/// T: hashes below it are cut-points. 2^64, where every hash is, takes 65 bits.
pub(crate) fn threshold(sizes: ChunkSizes) -> u128 {
    (1 << 64) / sizes.spread() as u128
}

/// The largest hash below `threshold`, which is at least 1; thresholds above 2^64 act as 2^64.
pub(crate) fn highest_below(threshold: u128) -> u64 {
    u64::try_from(threshold - 1).unwrap_or(u64::MAX)
}

/// One random number for each value of a byte.
pub(crate) struct Table(pub(crate) [u64; 256]);

impl Table {
    pub(crate) fn new(mut numbers: Numbers) -> Self {
        Self(std::array::from_fn(|_| numbers.next()))
    }

    /// The numbers with their lower halves 0.
    pub(crate) fn upper_halves(self) -> Self {
        Self(self.0.map(|number| number >> 32 << 32))
    }

    /// The hash of the last 64 of `bytes`, or of all if they are fewer.
    pub(crate) fn at_end_of(&self, bytes: &[u8]) -> u64 {
        let window = &bytes[bytes.len().saturating_sub(WINDOW)..];
        window.iter().fold(0, |hash, &byte| self.push(hash, byte))
    }

    /// The hash that the byte after `bytes` is added to, if that byte makes the window full.
    pub(crate) fn warm(&self, bytes: &[u8]) -> u64 {
        let recent = &bytes[bytes.len().saturating_sub(WINDOW - 1)..];
        let (triples, rest) = recent.as_chunks();
        let hash = triples.iter().fold(0, |hash, &triple| push_three(&self.0, hash, triple)[2]);
        rest.iter().fold(hash, |hash, &byte| self.push(hash, byte))
    }

    /// How many of `bytes` it takes until the hash is at most `limit`, or the hash after all.
    pub(crate) fn scan(&self, hash: u64, bytes: &[u8], limit: u64) -> Result<usize, u64> {
        scan(&self.0, hash, bytes, |hash| hash <= limit)
    }

    pub(crate) fn push(&self, hash: u64, byte: u8) -> u64 {
        (hash << 1).wrapping_add(self.0[usize::from(byte)])
    }
}

/// Gear's hash by these numbers. What leaves the window is shifted out.
impl Rolling for [u64; 256] {
    type Print = u64;

    fn window(&self) -> usize {
        WINDOW
    }

    fn push(&self, hash: u64, byte: u8) -> u64 {
        (hash << 1).wrapping_add(self[usize::from(byte)])
    }

    fn roll(&self, hash: u64, entering: u8, _: u8) -> u64 {
        self.push(hash, entering)
    }
}

/// How many of `bytes` it takes until the hash `stops`, or the hash after all, with the numbers of
/// `table`.
///
/// Where the bytes are skipped that follow a cut-point, the hardware does not see that the search
/// goes on behind them: memory is asked for every line ahead of time.
#[inline(always)]
pub(crate) fn scan(
    table: &[u64; 256],
    mut hash: u64,
    bytes: &[u8],
    stops: impl Fn(u64) -> bool,
) -> Result<usize, u64> {
    let mut scanned = 0;
    let (steps, rest) = bytes.as_chunks::<STEP>();
    for step in steps {
        prefetch(step.as_ptr(), AHEAD);
        let mut i = 0;
        while i < STEP {
            let [first, second, third] =
                push_three(table, hash, [step[i], step[i + 1], step[i + 2]]);
            if stops(first) {
                return Ok(scanned + i + 1);
            }
            if stops(second) {
                return Ok(scanned + i + 2);
            }
            if stops(third) {
                return Ok(scanned + i + 3);
            }
            hash = third;
            i += 3;
        }
        scanned += STEP;
    }
    for &byte in rest {
        hash = (hash << 1).wrapping_add(table[usize::from(byte)]);
        scanned += 1;
        if stops(hash) {
            return Ok(scanned);
        }
    }
    Err(hash)
}

/// The hashes after each of three bytes.
///
/// All follow from `hash` and none from another, so that a step of three takes the time of a shift
/// and an addition, where each byte would take it alone.
#[inline(always)]
fn push_three(table: &[u64; 256], hash: u64, bytes: [u8; 3]) -> [u64; 3] {
    let a = table[usize::from(bytes[0])];
    let b = table[usize::from(bytes[1])];
    let c = table[usize::from(bytes[2])];
    let ab = apart((a << 1).wrapping_add(b));
    let abc = apart((ab << 1).wrapping_add(c));
    [(hash << 1).wrapping_add(a), (hash << 2).wrapping_add(ab), (hash << 3).wrapping_add(abc)]
}

/// `sum`, which the compiler may not take apart: it would add the terms to the hash one after
/// another, and make the next hash wait for each.
#[inline(always)]
fn apart(sum: u64) -> u64 {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    let sum = {
        let mut sum = sum;
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {sum} */", sum = inout(reg) sum,
                options(pure, nomem, nostack, preserves_flags));
        }
        sum
    };
    sum
}

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

use zeroize::Zeroize;

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::research::two_stage::{self, Mark, Marks};
use crate::rolling::Rolling;
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::simd::vector::prefetch;
use crate::tables::{WindowHash, WindowTest};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "gear",
    summary: "Gear hash of the last 64 bytes",
    takes: &[Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |_| DecidedBy::Window(WINDOW),
    kernels: Kernels::scalar::<Gear>(),
    boundary: Some(boundary::of::<Gear>),
    walk: Some(walk::by::<Gear>),
    streams: Some((Selection::First, two_stage::mark::<Gear>)),
};

/// Bytes that a hash depends on: each is shifted out after 64 more.
pub(crate) const WINDOW: usize = 64;

/// Bytes that are tested together, see [`first_of_five`].
const GROUP: usize = 5;

/// Bytes that the loop is unrolled for: groups, and no more than are in a line of memory.
const STEP: usize = 12 * GROUP;

/// How far ahead memory is asked for lines. It answers within a tenth of the time that a search
/// takes to get so far, and lines that wait longer cost a few cycles each.
const AHEAD: usize = 4 << 10;

pub(crate) struct Gear {
    sizes: ChunkSizes,
    table: Table,
    limit: u64,
}

impl FromParams for Gear {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        Ok(Self {
            sizes: params.sizes,
            table: Table::new(Numbers::of(params)),
            limit: highest_below(threshold(params.sizes)),
        })
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

impl Gear {
    /// What a device searches by.
    pub(crate) fn window_test(&self) -> WindowTest {
        let table = self.table.0.to_vec();
        WindowTest {
            hash: WindowHash::Gear,
            window: WINDOW,
            table,
            limit: self.limit,
            strict: self.limit,
        }
    }
}

impl Mark for Gear {
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

impl Drop for Table {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

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

    /// See [`warm`].
    pub(crate) fn warm(&self, bytes: &[u8]) -> u64 {
        warm(&self.0, bytes)
    }

    /// How many of `bytes` it takes until the hash is at most `limit`, or the hash after all.
    pub(crate) fn scan(&self, hash: u64, bytes: &[u8], limit: u64) -> Result<usize, u64> {
        scan(&self.0, hash, bytes, |hash| hash <= limit)
    }

    pub(crate) fn push(&self, hash: u64, byte: u8) -> u64 {
        self.0.push(hash, byte)
    }
}

/// Gear's hash by these numbers. What leaves the window is shifted out.
impl Rolling for [u64; 256] {
    type Print = u64;

    fn window(&self) -> usize {
        WINDOW
    }

    #[inline(always)]
    fn push(&self, hash: u64, byte: u8) -> u64 {
        shift_add::<1>(hash, self[usize::from(byte)])
    }

    fn roll(&self, hash: u64, entering: u8, _: u8) -> u64 {
        self.push(hash, entering)
    }
}

/// The hash that the byte after `bytes` is added to, if that byte makes the window full.
pub(crate) fn warm(table: &[u64; 256], bytes: &[u8]) -> u64 {
    let recent = &bytes[bytes.len().saturating_sub(WINDOW - 1)..];
    let (triples, rest) = recent.as_chunks();
    let hash = triples.iter().fold(0, |hash, &[a, b, c]| {
        let [a, b, c] = [a, b, c].map(|byte| table[usize::from(byte)]);
        // the hash waits for one addition
        shift_add::<3>(hash, shift_add::<1>(shift_add::<1>(a, b), c))
    });
    rest.iter().fold(hash, |hash, &byte| table.push(hash, byte))
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
        let groups = step.as_chunks::<GROUP>().0;
        // written out, as the compiler does not
        macro_rules! each {
            ($($i:literal)*) => {$(
                match first_of_five(table, hash, &groups[$i], &stops) {
                    Ok(taken) => return Ok(scanned + $i * GROUP + taken),
                    Err(after) => hash = after,
                }
            )*};
        }
        each!(0 1 2 3 4 5 6 7 8 9 10 11);
        scanned += STEP;
    }
    let (groups, rest) = rest.as_chunks::<GROUP>();
    for group in groups {
        match first_of_five(table, hash, group, &stops) {
            Ok(taken) => return Ok(scanned + taken),
            Err(after) => hash = after,
        }
        scanned += GROUP;
    }
    for &byte in rest {
        hash = table.push(hash, byte);
        scanned += 1;
        if stops(hash) {
            return Ok(scanned);
        }
    }
    Err(hash)
}

/// How many of five bytes it takes until the hash `stops`, or the hash after all.
///
/// A byte takes two loads, an addition and a test, and waits for the byte before it. The last two
/// are added up beforehand, so that five wait four times: that costs an addition and gains more.
/// With every two added up the additions are the limit.
#[inline(always)]
fn first_of_five(
    table: &[u64; 256],
    hash: u64,
    bytes: &[u8; GROUP],
    stops: &impl Fn(u64) -> bool,
) -> Result<usize, u64> {
    let hash = table.push(hash, bytes[0]);
    if stops(hash) {
        return Ok(1);
    }
    let hash = table.push(hash, bytes[1]);
    if stops(hash) {
        return Ok(2);
    }
    let hash = table.push(hash, bytes[2]);
    if stops(hash) {
        return Ok(3);
    }
    let fourth = table[usize::from(bytes[3])];
    if stops(shift_add::<1>(hash, fourth)) {
        return Ok(4);
    }
    let last_two = table.push(fourth, bytes[4]);
    let hash = shift_add::<2>(hash, last_two);
    if stops(hash) {
        return Ok(5);
    }
    Err(hash)
}

/// 2^`BITS` times `sum`, and `number`, modulo 2^64. `BITS` is 1 to 3.
///
/// By one instruction: the compiler takes two on x86-64, and on either architecture would add terms
/// in another order, each to the sum that the next hash waits for.
#[inline(always)]
fn shift_add<const BITS: u32>(sum: u64, number: u64) -> u64 {
    const { assert!(1 <= BITS && BITS <= 3, "what the instructions can shift by") };
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let result: u64;
        // SAFETY: arithmetic in registers.
        unsafe {
            std::arch::asm!(
                "lea {result}, [{number} + {times} * {sum}]",
                result = lateout(reg) result,
                number = in(reg) number,
                sum = in(reg) sum,
                times = const 1 << BITS,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        result
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let result: u64;
        // SAFETY: arithmetic in registers.
        unsafe {
            std::arch::asm!(
                "add {result}, {number}, {sum}, lsl #{bits}",
                result = lateout(reg) result,
                number = in(reg) number,
                sum = in(reg) sum,
                bits = const BITS,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        result
    }
    #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
    (sum << BITS).wrapping_add(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::SplitMix64;

    #[test]
    fn a_sum_is_shifted_and_added_to() {
        let mut numbers = SplitMix64::new(1);
        for _ in 0..1000 {
            let (sum, number) = (numbers.next(), numbers.next());
            assert_eq!(shift_add::<1>(sum, number), (sum << 1).wrapping_add(number));
            assert_eq!(shift_add::<2>(sum, number), (sum << 2).wrapping_add(number));
            assert_eq!(shift_add::<3>(sum, number), (sum << 3).wrapping_add(number));
        }
    }

    /// At every place of a group and a step, from every length, first and last.
    #[test]
    fn a_search_stops_where_the_first_hash_does_that_is_worked_out_byte_by_byte() {
        let mut numbers = SplitMix64::new(1);
        let table: [u64; 256] = std::array::from_fn(|_| numbers.next());
        let bytes: Vec<u8> = (0..3 * STEP + 7).map(|_| numbers.next() as u8).collect();
        for len in 0..=bytes.len() {
            let bytes = &bytes[..len];
            let start = numbers.next();
            let hashes: Vec<u64> = bytes
                .iter()
                .scan(start, |hash, &byte| {
                    *hash = (*hash << 1).wrapping_add(table[usize::from(byte)]);
                    Some(*hash)
                })
                .collect();
            let last = hashes.last().copied().unwrap_or(start);
            assert_eq!(scan(&table, start, bytes, |_| false), Err(last));
            for (i, &wanted) in hashes.iter().enumerate() {
                assert_eq!(scan(&table, start, bytes, |hash| hash == wanted), Ok(i + 1));
            }
        }
    }

    #[test]
    fn a_warm_hash_is_that_of_the_last_63_bytes() {
        let mut numbers = SplitMix64::new(1);
        let table: [u64; 256] = std::array::from_fn(|_| numbers.next());
        let bytes: Vec<u8> = (0..200).map(|i| (i * i) as u8).collect();
        for len in 0..bytes.len() {
            let recent = &bytes[len.saturating_sub(63)..len];
            let one_by_one = recent
                .iter()
                .fold(0_u64, |hash, &byte| (hash << 1).wrapping_add(table[usize::from(byte)]));
            assert_eq!(warm(&table, &bytes[..len]), one_by_one);
        }
    }
}

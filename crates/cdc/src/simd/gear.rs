//! Gear with 16-bit hashes, a byte of each of many streams at a time.
//!
//! A block is cut into streams of 16 bytes, as many as a vector has 16-bit numbers. Transposed, it
//! has the first byte of every stream, then the second of every stream and so on, so that a hash is
//! what its definition says, a doubling and a sum, with no shift from lane to lane. Each stream
//! starts empty; what is missing is the hash at the end of the stream before it, doubled with each
//! byte.

use super::vector::{AHEAD, ByteVector, LINE, first_lane, lane_bits, prefetch};

/// Bytes that a hash depends on, and bytes in a stream.
const WINDOW: usize = 16;

/// Vectors in a block.
const ROWS: usize = 8;

/// Bytes in a block at most.
const MOST: usize = 512;

/// The array of an expression of each number below [`ROWS`]: no loop, whose arrays would be in
/// memory and not in registers.
macro_rules! each {
    ($i:ident => $each:expr) => {
        each!($i => $each, 0 1 2 3 4 5 6 7)
    };
    ($i:ident => $each:expr, $($number:literal)*) => {
        [$({
            const $i: usize = $number;
            $each
        }),*]
    };
}

/// A number for each value of a byte: that of its low half xor that of its high half.
#[derive(Clone, Copy)]
pub(crate) struct HalfTables<'a> {
    pub(crate) low: &'a [u16; 16],
    pub(crate) high: &'a [u16; 16],
}

impl HalfTables<'_> {
    #[inline(always)]
    fn push(self, hash: u16, byte: u8) -> u16 {
        let entry = self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)];
        (hash << 1).wrapping_add(entry)
    }

    /// The hash that the byte at `at` is added to. It is empty before the first of `bytes`.
    #[inline(always)]
    fn before(self, bytes: &[u8], at: usize) -> u16 {
        let mut hash = 0;
        let mut i = at.saturating_sub(WINDOW);
        while i < at {
            hash = self.push(hash, bytes[i]);
            i += 1;
        }
        hash
    }

    /// Index of the first of `bytes` from `from` up to `to` with which the hash is at most `limit`.
    #[inline(always)]
    fn first_at_most(self, bytes: &[u8], from: usize, to: usize, limit: u16) -> Option<usize> {
        let mut hash = self.before(bytes, from);
        let mut i = from;
        while i < to {
            hash = self.push(hash, bytes[i]);
            if hash <= limit {
                return Some(i);
            }
            i += 1;
        }
        None
    }
}

/// Index of the first of `bytes` from `start` on with which the hash is at most `limit`. The hash
/// is empty before the first of `bytes`.
#[inline(always)]
pub(crate) fn first_at_most<I: ByteVector>(
    isa: I,
    tables: HalfTables<'_>,
    bytes: &[u8],
    start: usize,
    limit: u16,
) -> Option<usize> {
    const { assert!(ROWS * I::LANES <= MOST) };
    let block = ROWS * I::LANES;
    let entries = Entries::new(isa, tables);
    let limits = isa.splat_u16(limit);
    let mut before = isa.splat_u16(tables.before(bytes, start));
    let mut at = start;
    while bytes.len() - at >= block {
        let from = bytes.as_ptr().wrapping_add(at);
        // SAFETY: a block from `at` on lies inside `bytes`, by the condition of the loop.
        let hashes = unsafe { hashes(isa, entries, from) };
        if let Some(stream) = first_stream(isa, least(isa, hashes, &mut before), limits) {
            let from = at + stream * WINDOW;
            return tables.first_at_most(bytes, from, from + WINDOW, limit);
        }
        at += block;
    }

    if at == bytes.len() {
        return None;
    }
    let mut rest = [0; MOST];
    rest[..bytes.len() - at].copy_from_slice(&bytes[at..]);
    // SAFETY: a block is no longer than the array.
    let hashes = unsafe { hashes(isa, entries, rest.as_ptr()) };
    let stream = first_stream(isa, least(isa, hashes, &mut before), limits)?;
    let from = (at + stream * WINDOW).min(bytes.len());
    tables.first_at_most(bytes, from, (from + WINDOW).min(bytes.len()), limit)
}

/// The hashes with the first, second… byte of the streams of the block from `from` on, as if each
/// stream started empty. The streams are in the order of their rows, a row's in every 16 lanes.
///
/// # Safety
///
/// The block can be read.
#[inline(always)]
unsafe fn hashes<I: ByteVector>(isa: I, entries: Entries<I>, from: *const u8) -> [[I::V; 2]; ROWS] {
    // SAFETY: the rows are the block.
    let rows = each!(ROW => unsafe { isa.load(from.add(ROW * I::LANES)) });
    let columns = transposed(isa, rows);
    let mut hash = isa.splat(0);
    each!(PAIR => {
        // one line at a time: the CPU can wait for so many only
        if (PAIR * I::LANES).is_multiple_of(LINE) {
            prefetch(from, AHEAD + PAIR * I::LANES);
        }
        let [first, second] = entries.of(columns[PAIR]);
        let after_first = isa.add_u16(isa.add_u16(hash, hash), first);
        hash = isa.add_u16(isa.add_u16(after_first, after_first), second);
        [after_first, hash]
    })
}

/// In every 16 lanes, the first byte of each row and then the second of each, the third and the
/// fourth, and so on.
#[inline(always)]
fn transposed<I: ByteVector>(isa: I, rows: [I::V; ROWS]) -> [I::V; ROWS] {
    const { assert!(ROWS == 1 << 3) };
    zipped(isa, zipped(isa, zipped(isa, rows)))
}

/// The rows with the highest bit of a row's number made the lowest of a lane's, and the highest of
/// a lane's the lowest of a row's.
#[inline(always)]
fn zipped<I: ByteVector>(isa: I, rows: [I::V; ROWS]) -> [I::V; ROWS] {
    each!(ROW => {
        let (a, b) = (rows[ROW / 2], rows[ROW / 2 + ROWS / 2]);
        if ROW.is_multiple_of(2) { isa.zip_first(a, b) } else { isa.zip_last(a, b) }
    })
}

/// The least hash of each stream, by those as if it had started empty. The last number of `before`
/// is the hash at the end of the block before this one, and then at the end of this one.
#[inline(always)]
fn least<I: ByteVector>(isa: I, hashes: [[I::V; 2]; ROWS], before: &mut I::V) -> I::V {
    // the stream before is in the 16 lanes before, or, for the first 16, a row earlier in the last
    let ends = hashes[ROWS - 1][1];
    let row_before = isa.back_2_in_16(*before, ends);
    let mut missing = isa.back_16(row_before, ends);
    *before = ends;

    let mut least = isa.splat(255);
    each!(PAIR => {
        let [first, second] = hashes[PAIR];
        missing = isa.add_u16(missing, missing);
        least = isa.min_u16(least, isa.add_u16(first, missing));
        missing = isa.add_u16(missing, missing);
        least = isa.min_u16(least, isa.add_u16(second, missing));
    });
    least
}

/// The first stream whose number is not above that of `limits`.
#[inline(always)]
fn first_stream<I: ByteVector>(isa: I, numbers: I::V, limits: I::V) -> Option<usize> {
    let mut lanes = isa.le_u16(numbers, limits);
    if lanes == 0 {
        return None;
    }
    let in_row = I::LANES / WINDOW;
    let mut first = usize::MAX;
    while lanes != 0 {
        let lane = first_lane::<I>(lanes);
        first = first.min(lane % WINDOW / 2 * in_row + lane / WINDOW);
        lanes &= !lane_bits::<I>(lane);
    }
    Some(first)
}

/// The tables a byte of the entries at a time, for shuffles.
#[derive(Clone, Copy)]
struct Entries<I: ByteVector> {
    isa: I,
    low: [I::V; 2],
    high: [I::V; 2],
    half: I::V,
}

impl<I: ByteVector> Entries<I> {
    #[inline(always)]
    fn new(isa: I, tables: HalfTables<'_>) -> Self {
        Self {
            isa,
            low: bytes_of(isa, tables.low),
            high: bytes_of(isa, tables.high),
            half: isa.splat(0x0f),
        }
    }

    /// In every 16 lanes, the entries of the first 8 bytes and those of the last 8.
    #[inline(always)]
    fn of(self, v: I::V) -> [I::V; 2] {
        let isa = self.isa;
        let low = isa.and(v, self.half);
        let high = isa.and(isa.down_u16::<4>(v), self.half);
        let lower = isa.xor(isa.look_up(self.low[0], low), isa.look_up(self.high[0], high));
        let upper = isa.xor(isa.look_up(self.low[1], low), isa.look_up(self.high[1], high));
        [isa.zip_first(lower, upper), isa.zip_last(lower, upper)]
    }
}

/// The lower bytes of `entries`, and the upper ones.
#[inline(always)]
fn bytes_of<I: ByteVector>(isa: I, entries: &[u16; 16]) -> [I::V; 2] {
    let (mut lower, mut upper) = ([0; 16], [0; 16]);
    let mut i = 0;
    while i < 16 {
        [lower[i], upper[i]] = entries[i].to_le_bytes();
        i += 1;
    }
    [isa.table(lower), isa.table(upper)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::SplitMix64;

    /// By the definition: every hash from the first byte on.
    fn first_by_definition(
        tables: HalfTables<'_>,
        bytes: &[u8],
        start: usize,
        limit: u16,
    ) -> Option<usize> {
        let mut hash = 0;
        for (i, &byte) in bytes.iter().enumerate() {
            hash = tables.push(hash, byte);
            if i >= start && hash <= limit {
                return Some(i);
            }
        }
        None
    }

    fn check<I: ByteVector>(isa: Option<I>) {
        struct First<'a>(HalfTables<'a>, &'a [u8], usize, u16);
        impl crate::simd::vector::Task for First<'_> {
            type Output = Option<usize>;
            #[inline(always)]
            fn run<I: ByteVector>(self, isa: I) -> Option<usize> {
                first_at_most(isa, self.0, self.1, self.2, self.3)
            }
        }

        let Some(isa) = isa else { return };
        let mut numbers = SplitMix64::new(7);
        let mut table = || std::array::from_fn(|_| numbers.next() as u16);
        let (low, high) = (table(), table());
        let tables = HalfTables { low: &low, high: &high };
        // In Miri each of them takes seconds: two blocks and the rest of a third, or more.
        let lens = if cfg!(miri) { 515..516 } else { 0..3 * MOST };
        let bytes: Vec<u8> = (0..lens.end).map(|_| numbers.next() as u8).collect();
        // of 2^16 hashes: none, about one a stream, a block, four blocks; all
        let limits = [0, 4000, 127, 31, u16::MAX];
        let limits = if cfg!(miri) { &limits[..2] } else { &limits[..] };
        for &limit in limits {
            for len in lens.clone() {
                let starts = [17, 0, 1, 15, 16, 31, 300, len];
                let starts = if cfg!(miri) { &starts[..1] } else { &starts[..] };
                for &start in starts.iter().filter(|&&start| start <= len) {
                    let bytes = &bytes[lens.end - len..];
                    let expected = first_by_definition(tables, bytes, start, limit);
                    let found = isa.run(First(tables, bytes, start, limit));
                    assert_eq!(found, expected, "{limit}, {len} bytes from {start}");
                }
            }
        }
    }

    #[test]
    fn finds_the_first_by_definition_for_every_length() {
        #[cfg(target_arch = "x86_64")]
        {
            use crate::simd::sse::{Sse, Sse41, Ssse3};
            check(Sse::<Ssse3>::new());
            check(Sse::<Sse41>::new());
            check(crate::simd::avx2::Avx2::new());
            check(crate::simd::avx512::Avx512::new());
        }
        #[cfg(target_arch = "aarch64")]
        check(crate::simd::neon::Neon::new());
    }
}

//! Gear with 16-bit hashes by doubling: the hash of 2 bytes from those of 1, that of 4 from those
//! of 2, then of 8 and of 16, at every place of a vector at once.

use super::vector::{AHEAD, ByteVector, first_lane, lane_bits, prefetch};

/// Bytes that a hash depends on.
const WINDOW: usize = 16;

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
    // what the first hash depends on
    let mut at = start.saturating_sub(WINDOW - 1);
    let entries = Entries::new(isa, tables);
    let limits = isa.splat_u16(limit);
    let mut past = Past::empty(isa);
    while bytes.len() - at >= I::LANES {
        let from = bytes.as_ptr().wrapping_add(at);
        prefetch(from, AHEAD);
        // SAFETY: a vector from `at` on lies inside `bytes`, by the condition of the loop.
        let (even, odd) = entries.of(unsafe { isa.load(from) });
        let (even, odd) = past.hashes(isa, even, odd);
        if isa.le_u16(isa.min_u16(even, odd), limits) != 0 {
            // each number has the lanes of two bytes: of one the first counts, of one the second
            let first = even_lanes::<I>();
            let mut found = isa.le_u16(even, limits) & first | isa.le_u16(odd, limits) & !first;
            while found != 0 {
                let lane = first_lane::<I>(found);
                if at + lane >= start {
                    return Some(at + lane);
                }
                found &= !lane_bits::<I>(lane);
            }
        }
        at += I::LANES;
    }

    let mut hash = 0;
    let mut i = at.saturating_sub(WINDOW);
    while i < bytes.len() {
        hash = tables.push(hash, bytes[i]);
        if i >= at && i >= start && hash <= limit {
            return Some(i);
        }
        i += 1;
    }
    None
}

/// The bits of a mask that belong to the first, third… lane.
#[inline(always)]
const fn even_lanes<I: ByteVector>() -> u64 {
    match I::MASK_SHIFT {
        0 => 0x5555_5555_5555_5555,
        1 => 0x3333_3333_3333_3333,
        _ => 0x0f0f_0f0f_0f0f_0f0f,
    }
}

/// The tables a byte of the entries at a time, for shuffles.
#[derive(Clone, Copy)]
struct Entries<I: ByteVector> {
    isa: I,
    low: [I::V; 2],
    high: [I::V; 2],
    half: I::V,
    first: I::V,
    second: I::V,
}

impl<I: ByteVector> Entries<I> {
    #[inline(always)]
    fn new(isa: I, tables: HalfTables<'_>) -> Self {
        Self {
            isa,
            low: bytes_of(isa, tables.low),
            high: bytes_of(isa, tables.high),
            half: isa.splat(0x0f),
            first: isa.splat_u16(0x00ff),
            second: isa.splat_u16(0xff00),
        }
    }

    /// The entries of the first, third… byte of `v`, and those of the others.
    #[inline(always)]
    fn of(self, v: I::V) -> (I::V, I::V) {
        let isa = self.isa;
        let low = isa.and(v, self.half);
        let high = isa.and(isa.down_u16::<4>(v), self.half);
        let lower = isa.xor(isa.look_up(self.low[0], low), isa.look_up(self.high[0], high));
        let upper = isa.xor(isa.look_up(self.low[1], low), isa.look_up(self.high[1], high));
        let even = isa.or(isa.and(lower, self.first), isa.up_u16::<8>(upper));
        let odd = isa.or(isa.down_u16::<8>(lower), isa.and(upper, self.second));
        (even, odd)
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

/// What the vector before left for the next: its entries and its hashes of 2, 4 and 8 bytes, of
/// even and of odd places.
struct Past<I: ByteVector> {
    entries: I::V,
    of_2: [I::V; 2],
    of_4: [I::V; 2],
    of_8: [I::V; 2],
}

impl<I: ByteVector> Past<I> {
    #[inline(always)]
    fn empty(isa: I) -> Self {
        let zero = isa.splat(0);
        Self { entries: zero, of_2: [zero; 2], of_4: [zero; 2], of_8: [zero; 2] }
    }

    /// The hashes of 16 bytes at even and at odd places, from the entries there.
    #[inline(always)]
    fn hashes(&mut self, isa: I, even: I::V, odd: I::V) -> (I::V, I::V) {
        let of_2 = [
            isa.add_u16(even, isa.up_u16::<1>(isa.back_2(self.entries, odd))),
            isa.add_u16(odd, isa.up_u16::<1>(even)),
        ];
        self.entries = odd;

        // two places before are one number before, and so on
        let mut of_4 = of_2;
        let mut i = 0;
        while i < 2 {
            let before = isa.back_2(self.of_2[i], of_2[i]);
            of_4[i] = isa.add_u16(of_2[i], isa.up_u16::<2>(before));
            i += 1;
        }
        self.of_2 = of_2;

        let mut of_8 = of_4;
        i = 0;
        while i < 2 {
            let before = isa.back_4(self.of_4[i], of_4[i]);
            of_8[i] = isa.add_u16(of_4[i], isa.up_u16::<4>(before));
            i += 1;
        }
        self.of_4 = of_4;

        let mut of_16 = of_8;
        i = 0;
        while i < 2 {
            let before = isa.back_8(self.of_8[i], of_8[i]);
            of_16[i] = isa.add_u16(of_8[i], isa.up_u16::<8>(before));
            i += 1;
        }
        self.of_8 = of_8;
        (of_16[0], of_16[1])
    }
}

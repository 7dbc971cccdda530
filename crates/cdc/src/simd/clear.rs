//! Bits that are clear in a window, at every place of a vector at once: in 1 byte, in 2, 4, 8 and 16
//! by doubling, and in the window by adding up those of its parts.

use super::vector::{AHEAD, ByteVector, first_lane, prefetch};

/// Bytes that a window has at most.
pub(crate) const MOST_BYTES: usize = 63;

/// Bits that can be told from more.
pub(crate) const MOST_CLEAR: u8 = 254;

/// Where the first `window` of `bytes` in a row end that have at most `limit` bits clear. Windows
/// have 1 to [`MOST_BYTES`], limits are up to [`MOST_CLEAR`].
#[inline(always)]
pub(crate) fn first_window<I: ByteVector>(
    isa: I,
    bytes: &[u8],
    window: usize,
    limit: u8,
) -> Option<usize> {
    debug_assert!((1..=MOST_BYTES).contains(&window) && limit <= MOST_CLEAR);
    let limits = isa.splat(limit);
    let mut counts = Counts::before_the_first(isa, window);
    let mut at = 0;
    while bytes.len() - at >= I::LANES {
        let from = bytes.as_ptr().wrapping_add(at);
        prefetch(from, AHEAD);
        // SAFETY: a vector from `at` on lies inside `bytes`, by the condition of the loop.
        let found = isa.ge(limits, counts.next(isa, unsafe { isa.load(from) }));
        if found != 0 {
            return Some(at + first_lane::<I>(found) + 1);
        }
        at += I::LANES;
    }

    // the first window that ends behind `at`
    let start = (at + 1).saturating_sub(window);
    let mut clear = 0;
    let mut end = start;
    while end < bytes.len() {
        clear += bytes[end].count_zeros();
        end += 1;
        if end >= start + window {
            if clear <= u32::from(limit) {
                return Some(end);
            }
            clear -= bytes[end - window].count_zeros();
        }
    }
    None
}

/// Bytes of the longest window that doubling counts.
const LONGEST: usize = 16;

/// Parts of a window: of 1, 2, 4 and 8 bytes, and those of 16.
const PARTS: usize = 4 + MOST_BYTES / LONGEST;

/// The counts of the vector before. They stop at 255.
struct Counts<I: ByteVector> {
    window: usize,
    of_1: I::V,
    of_2: I::V,
    of_4: I::V,
    of_8: I::V,
    /// Those of the parts of the window before each part, the shortest first.
    parts: [I::V; PARTS],
}

impl<I: ByteVector> Counts<I> {
    /// No window that begins before the first byte is within a limit.
    #[inline(always)]
    fn before_the_first(isa: I, window: usize) -> Self {
        let (none, many) = (isa.splat(0), isa.splat(255));
        let mut parts = [many; PARTS];
        // before the shortest part there is nothing
        let shortest = (window.trailing_zeros() as usize).min(4);
        let mut i = 0;
        while i <= shortest {
            parts[i] = none;
            i += 1;
        }
        Self { window, of_1: many, of_2: many, of_4: many, of_8: many, parts }
    }

    /// The bits clear in the windows that end in `v`, the next vector.
    #[inline(always)]
    fn next(&mut self, isa: I, v: I::V) -> I::V {
        let half = isa.splat(0x0f);
        let clear = isa.table([4, 3, 3, 2, 3, 2, 2, 1, 3, 2, 2, 1, 2, 1, 1, 0]);
        let low = isa.look_up(clear, isa.and(v, half));
        let high = isa.look_up(clear, isa.and(isa.down_u16::<4>(v), half));

        let of_1 = isa.add_to_255(low, high);
        let of_2 = isa.add_to_255(of_1, isa.back_1(self.of_1, of_1));
        let of_4 = isa.add_to_255(of_2, isa.back_2(self.of_2, of_2));
        let of_8 = isa.add_to_255(of_4, isa.back_4(self.of_4, of_4));
        let of_16 = isa.add_to_255(of_8, isa.back_8(self.of_8, of_8));
        (self.of_1, self.of_2, self.of_4, self.of_8) = (of_1, of_2, of_4, of_8);

        let mut sum = isa.splat(0);
        if self.window & 1 != 0 {
            sum = of_1;
        }
        if self.window & 2 != 0 {
            let shorter = isa.back_2(self.parts[1], sum);
            self.parts[1] = sum;
            sum = isa.add_to_255(of_2, shorter);
        }
        if self.window & 4 != 0 {
            let shorter = isa.back_4(self.parts[2], sum);
            self.parts[2] = sum;
            sum = isa.add_to_255(of_4, shorter);
        }
        if self.window & 8 != 0 {
            let shorter = isa.back_8(self.parts[3], sum);
            self.parts[3] = sum;
            sum = isa.add_to_255(of_8, shorter);
        }
        let mut i = 0;
        while i < self.window / LONGEST {
            let shorter = isa.back_16(self.parts[4 + i], sum);
            self.parts[4 + i] = sum;
            sum = isa.add_to_255(of_16, shorter);
            i += 1;
        }
        sum
    }
}

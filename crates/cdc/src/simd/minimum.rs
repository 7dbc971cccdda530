//! The least hash of four bytes: a vector of them for each offset of the four within a number.

use super::vector::{AHEAD, ByteVector, LINE, first_lane, prefetch};

/// hash(v) = v · `factor` + `addend` modulo 2^32 of the little-endian number v of four bytes.
#[derive(Clone, Copy)]
pub(crate) struct Hash {
    pub(crate) factor: u32,
    pub(crate) addend: u32,
}

impl Hash {
    #[inline(always)]
    pub(crate) fn of(self, v: u32) -> u32 {
        v.wrapping_mul(self.factor).wrapping_add(self.addend)
    }
}

/// Index of the four bytes with the least hash in `bytes`, the first if several have it, and 0 if
/// there are no four.
#[inline(always)]
pub(crate) fn first_least<I: ByteVector>(isa: I, bytes: &[u8], hash: Hash) -> usize {
    let positions = bytes.len().saturating_sub(3);
    if positions < I::LANES {
        return first_least_of_few(bytes, hash);
    }

    // Each number of `least` is the least hash that was at its place in a block, and that of `at`
    // the number of the first block where it was. A block is every position in a vector: the
    // first of all, then those that are aligned, and the last of all.
    let start = bytes.as_ptr();
    let last = positions - I::LANES;
    let aligned = I::LANES - start as usize % I::LANES;
    let factor = isa.splat_u32(hash.factor);
    let hashes = Hashes { isa, factor, addend: isa.splat_u32(hash.addend) };
    // SAFETY: there are as many positions as in a block, and three bytes behind the last.
    let mut least = unsafe { hashes.least_of_block(start) };
    let mut at = isa.splat_u32(0);
    let mut number = at;
    let one = isa.splat_u32(1);
    let mut base = aligned;
    if base < last {
        // SAFETY: a vector at or before the last position is inside.
        let mut vector = unsafe { isa.load(start.add(base)) };
        // the vector behind the block must be inside as well
        while base + 2 * I::LANES <= bytes.len() {
            // SAFETY: by the condition of the loop.
            let next = unsafe { isa.load(start.add(base + I::LANES)) };
            if (base - aligned).is_multiple_of(LINE) {
                prefetch(start.wrapping_add(base), AHEAD);
            }
            number = isa.add_u32(number, one);
            // SAFETY: there and behind is where the two were read.
            let sliding = unsafe { isa.sliding(start.add(base), vector, next) };
            let lowest = hashes.least_of(sliding);
            (least, at) = isa.lower_u32(least, at, lowest, number);
            vector = next;
            base += I::LANES;
        }
    }
    // blocks with no vector behind them
    while base < last {
        number = isa.add_u32(number, one);
        // SAFETY: the block begins before the last one, which ends with the last position.
        let lowest = unsafe { hashes.least_of_block(start.add(base)) };
        (least, at) = isa.lower_u32(least, at, lowest, number);
        base += I::LANES;
    }
    number = isa.add_u32(number, one);
    // SAFETY: the block ends with the last position, behind which are three bytes.
    let lowest = unsafe { hashes.least_of_block(start.add(last)) };
    (least, at) = isa.lower_u32(least, at, lowest, number);

    // The first block with the least hash holds the first position with it.
    let (least, at) = (isa.to_u32s(least), isa.to_u32s(at));
    let mut lowest = (u32::MAX, u32::MAX);
    for i in 0..I::LANES / 4 {
        lowest = lowest.min((least[i], at[i]));
    }
    let (least, number) = lowest;
    let base = match number as usize {
        0 => 0,
        number => last.min(aligned + (number - 1) * I::LANES),
    };
    // SAFETY: no block begins behind the last, which ends with the last position.
    base + unsafe { hashes.find_in_block(start.add(base), isa.splat_u32(least)) }
}

fn first_least_of_few(bytes: &[u8], hash: Hash) -> usize {
    let (mut least, mut at) = (u32::MAX, 0);
    for (i, four) in bytes.windows(4).enumerate() {
        let hash = hash.of(u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        if hash < least {
            (least, at) = (hash, i);
        }
    }
    at
}

#[derive(Clone, Copy)]
struct Hashes<I: ByteVector> {
    isa: I,
    factor: I::V,
    addend: I::V,
}

impl<I: ByteVector> Hashes<I> {
    /// The hash of each number in `fours`.
    #[inline(always)]
    fn of(self, fours: I::V) -> I::V {
        self.isa.add_u32(self.isa.mul_u32(fours, self.factor), self.addend)
    }

    /// The least hash of each four neighbours among the positions that `sliding` vectors show.
    #[inline(always)]
    fn least_of(self, sliding: [I::V; 4]) -> I::V {
        let [a, b, c, d] = sliding;
        let low = self.isa.min_u32(self.of(a), self.of(b));
        let high = self.isa.min_u32(self.of(c), self.of(d));
        self.isa.min_u32(low, high)
    }

    /// The same for `I::LANES` positions from `from` on.
    ///
    /// # Safety
    ///
    /// `I::LANES + 3` bytes can be read there.
    #[inline(always)]
    unsafe fn least_of_block(self, from: *const u8) -> I::V {
        // SAFETY: the last of these vectors ends three bytes behind the first.
        let sliding = unsafe {
            [
                self.isa.load(from),
                self.isa.load(from.add(1)),
                self.isa.load(from.add(2)),
                self.isa.load(from.add(3)),
            ]
        };
        self.least_of(sliding)
    }

    /// The first of `I::LANES` positions from `from` on where the hash is `sought`.
    ///
    /// # Safety
    ///
    /// `I::LANES + 3` bytes can be read there.
    #[inline(always)]
    unsafe fn find_in_block(self, from: *const u8, sought: I::V) -> usize {
        let mut first = I::LANES;
        for offset in 0..4 {
            // SAFETY: the vector ends at most three bytes behind the block.
            let fours = unsafe { self.isa.load(from.add(offset)) };
            let found = self.isa.eq_u32(self.of(fours), sought);
            if found != 0 {
                first = first.min(first_lane::<I>(found) + offset);
            }
        }
        debug_assert!(first < I::LANES, "the least hash is in its block");
        first
    }
}

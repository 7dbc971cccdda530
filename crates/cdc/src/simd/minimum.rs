//! The least hash of four bytes: a vector of them for each offset of the four within a number.

use super::vector::{AHEAD, ByteVector, LINE, prefetch};

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
    // the number of the first block where it was. A block is every position in a vector.
    let hashes =
        Hashes { isa, factor: isa.splat_u32(hash.factor), addend: isa.splat_u32(hash.addend) };
    let mut least = isa.splat_u32(u32::MAX);
    let mut at = isa.splat_u32(0);
    let mut number = isa.splat_u32(0);
    let one = isa.splat_u32(1);
    let blocks = positions / I::LANES;
    for block in 0..blocks {
        let from = bytes.as_ptr().wrapping_add(block * I::LANES);
        // SAFETY: the block ends at or before the last position, behind which are three bytes.
        let lowest = unsafe { hashes.least_of_block(from) };
        if block * I::LANES % LINE == 0 {
            prefetch(from, AHEAD);
        }
        (least, at) = isa.lower_u32(least, at, lowest, number);
        number = isa.add_u32(number, one);
    }
    let last = positions - I::LANES;
    // SAFETY: the block ends with the last position, behind which are three bytes.
    let lowest = unsafe { hashes.least_of_block(bytes.as_ptr().add(last)) };
    (least, at) = isa.lower_u32(least, at, lowest, number);

    // The first block with the least hash holds the first position with it.
    let (least, at) = (isa.to_u32s(least), isa.to_u32s(at));
    let mut lowest = (u32::MAX, u32::MAX);
    for i in 0..I::LANES / 4 {
        lowest = lowest.min((least[i], at[i]));
    }
    let (least, block) = lowest;
    let base = (block as usize * I::LANES).min(last);
    // SAFETY: no block begins behind the last, which ends with the last position.
    base + unsafe { hashes.find_in_block(bytes.as_ptr().add(base), isa.splat_u32(least)) }
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
    /// The hashes of the fours that begin in the first, fifth… byte from `from` on.
    ///
    /// # Safety
    ///
    /// `I::LANES` bytes can be read there.
    #[inline(always)]
    unsafe fn every_fourth(self, from: *const u8) -> I::V {
        // SAFETY: a vector is `I::LANES` bytes.
        let fours = unsafe { self.isa.load(from) };
        self.isa.add_u32(self.isa.mul_u32(fours, self.factor), self.addend)
    }

    /// The least hash of each four neighbours among `I::LANES` positions from `from` on.
    ///
    /// # Safety
    ///
    /// `I::LANES + 3` bytes can be read there.
    #[inline(always)]
    unsafe fn least_of_block(self, from: *const u8) -> I::V {
        // SAFETY: the last of these vectors ends three bytes behind the first.
        let [a, b, c, d] = unsafe {
            [
                self.every_fourth(from),
                self.every_fourth(from.add(1)),
                self.every_fourth(from.add(2)),
                self.every_fourth(from.add(3)),
            ]
        };
        let low = self.isa.min_u32(a, b);
        let high = self.isa.min_u32(c, d);
        self.isa.min_u32(low, high)
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
            let hashes = unsafe { self.every_fourth(from.add(offset)) };
            let found = self.isa.eq_u32(hashes, sought);
            if found != 0 {
                first = first.min(super::vector::first_lane::<I>(found) + offset);
            }
        }
        debug_assert!(first < I::LANES, "the least hash is in its block");
        first
    }
}

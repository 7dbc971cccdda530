//! The tree-based search for an extreme byte of VectorCDC (FAST 2025): vectors are reduced to one
//! by pairs, and that one to a byte.

use super::vector::{AHEAD, ByteVector, LINE, prefetch};

/// An order of bytes: what "extreme" means.
pub(crate) trait Extreme: Copy + Send + Sync + 'static {
    /// What every byte is at least as extreme as.
    const LEAST: u8;
    /// What no byte is more extreme than.
    const MOST: u8;

    /// The more extreme byte.
    fn of(a: u8, b: u8) -> u8;
    /// The more extreme byte of each lane.
    fn of_each<I: ByteVector>(isa: I, a: I::V, b: I::V) -> I::V;
    /// The most extreme byte of all lanes.
    fn of_all<I: ByteVector>(isa: I, v: I::V) -> u8;
    /// The lanes where `a` is more extreme than `b`.
    fn beyond<I: ByteVector>(isa: I, a: I::V, b: I::V) -> u64;
}

/// The largest byte is the extreme one.
#[derive(Clone, Copy)]
pub(crate) struct Largest;

impl Extreme for Largest {
    const LEAST: u8 = 0x00;
    const MOST: u8 = 0xff;

    #[inline(always)]
    fn of(a: u8, b: u8) -> u8 {
        a.max(b)
    }

    #[inline(always)]
    fn of_each<I: ByteVector>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.max(a, b)
    }

    #[inline(always)]
    fn of_all<I: ByteVector>(isa: I, v: I::V) -> u8 {
        isa.largest(v)
    }

    #[inline(always)]
    fn beyond<I: ByteVector>(isa: I, a: I::V, b: I::V) -> u64 {
        isa.gt(a, b)
    }
}

/// The smallest byte is the extreme one.
#[derive(Clone, Copy)]
pub(crate) struct Smallest;

impl Extreme for Smallest {
    const LEAST: u8 = 0xff;
    const MOST: u8 = 0x00;

    #[inline(always)]
    fn of(a: u8, b: u8) -> u8 {
        a.min(b)
    }

    #[inline(always)]
    fn of_each<I: ByteVector>(isa: I, a: I::V, b: I::V) -> I::V {
        isa.min(a, b)
    }

    #[inline(always)]
    fn of_all<I: ByteVector>(isa: I, v: I::V) -> u8 {
        isa.smallest(v)
    }

    #[inline(always)]
    fn beyond<I: ByteVector>(isa: I, a: I::V, b: I::V) -> u64 {
        isa.gt(b, a)
    }
}

/// Vectors in a block: enough loads in flight, few enough registers for every instruction set.
pub(crate) const BLOCK: usize = 4;

/// The most extreme bytes of the lanes of `BLOCK` vectors.
///
/// # Safety
///
/// `BLOCK * I::LANES` bytes can be read from `from` on.
#[inline(always)]
pub(crate) unsafe fn extremes_of_block<I: ByteVector, E: Extreme>(isa: I, from: *const u8) -> I::V {
    // SAFETY: four vectors are a block, and that much can be read.
    let [a, b, c, d] = unsafe {
        [
            isa.load(from),
            isa.load(from.add(I::LANES)),
            isa.load(from.add(2 * I::LANES)),
            isa.load(from.add(3 * I::LANES)),
        ]
    };
    let low = E::of_each(isa, a, b);
    let high = E::of_each(isa, c, d);
    E::of_each(isa, low, high)
}

/// Asks memory for the block that lies [`AHEAD`] of the one at `from`.
#[inline(always)]
pub(crate) fn prefetch_block<I: ByteVector>(from: *const u8) {
    let mut line = 0;
    while line < BLOCK * I::LANES {
        prefetch(from, AHEAD + line);
        line += LINE;
    }
}

/// The most extreme byte of `bytes`; `E::LEAST` if there are none.
///
/// Stops at a byte that none can exceed.
#[inline(always)]
pub(crate) fn extreme<I: ByteVector, E: Extreme>(isa: I, bytes: &[u8]) -> u8 {
    let (start, len) = (bytes.as_ptr(), bytes.len());
    if len < I::LANES {
        let mut extreme = E::LEAST;
        for &byte in bytes {
            extreme = E::of(extreme, byte);
        }
        return extreme;
    }

    let most = isa.splat(E::MOST);
    let mut extremes = isa.splat(E::LEAST);
    let mut at = 0;
    while len - at >= BLOCK * I::LANES {
        // SAFETY: a block from `at` on lies inside `bytes`, by the condition of the loop.
        let block = unsafe { extremes_of_block::<I, E>(isa, start.add(at)) };
        prefetch_block::<I>(start.wrapping_add(at));
        extremes = E::of_each(isa, extremes, block);
        if isa.eq(block, most) != 0 {
            return E::MOST;
        }
        at += BLOCK * I::LANES;
    }
    while len - at >= I::LANES {
        // SAFETY: a vector from `at` on lies inside `bytes`, by the condition of the loop.
        extremes = E::of_each(isa, extremes, unsafe { isa.load(start.add(at)) });
        at += I::LANES;
    }
    // SAFETY: `bytes` are at least one vector. The last one overlaps what was seen: no harm.
    extremes = E::of_each(isa, extremes, unsafe { isa.load(start.add(len - I::LANES)) });
    E::of_all(isa, extremes)
}

//! The tree-based search for an extreme byte of VectorCDC (FAST 2025): vectors are reduced to one
//! by pairs, and that one to a byte.

use super::vector::{AHEAD, ByteVector, LINE, misalignment, prefetch};

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

/// The most extreme bytes of the lanes of `vectors`, of which there is one or more.
///
/// # Safety
///
/// `vectors * I::LANES` bytes can be read from `from` on.
#[inline(always)]
pub(crate) unsafe fn extremes_of<I: ByteVector, E: Extreme>(
    isa: I,
    from: *const u8,
    vectors: usize,
) -> I::V {
    // SAFETY: that much can be read.
    let mut extremes = unsafe { isa.load(from) };
    let mut i = 1;
    while i < vectors {
        // SAFETY: that much can be read.
        let vector = unsafe { isa.load(from.add(i * I::LANES)) };
        extremes = E::of_each(isa, extremes, vector);
        i += 1;
    }
    extremes
}

/// Asks memory for what lies [`AHEAD`] of `len` bytes at `from`.
#[inline(always)]
pub(crate) fn prefetch_block(from: *const u8, len: usize) {
    let mut line = 0;
    while line < len {
        prefetch(from, AHEAD + line);
        line += LINE;
    }
}

/// Vectors that are asked for a byte at once: few, as the search often ends with the first, and
/// two lines at most, which was the fastest.
#[inline(always)]
pub(crate) const fn block<I: ByteVector>() -> usize {
    if 4 * I::LANES <= 2 * LINE { 4 } else { 2 }
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
    // SAFETY: `bytes` are at least one vector. The next one overlaps it and touches one line only.
    let mut extremes = unsafe { isa.load(start) };
    let mut at = I::LANES - misalignment::<I>(start);
    while len - at >= block::<I>() * I::LANES {
        prefetch_block(start.wrapping_add(at), block::<I>() * I::LANES);
        // SAFETY: a block from `at` on lies inside `bytes`, by the condition of the loop.
        let among = unsafe { extremes_of::<I, E>(isa, start.add(at), block::<I>()) };
        extremes = E::of_each(isa, extremes, among);
        if isa.eq(among, most) != 0 {
            return E::MOST;
        }
        at += block::<I>() * I::LANES;
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

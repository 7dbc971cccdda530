//! The packed range scan of VectorCDC (FAST 2025): the first byte that reaches a bound, a vector
//! at a time.

use super::vector::{AHEAD, ByteVector, first_lane, misalignment, prefetch};

/// Index of the first of `bytes` that is not below `bound`.
#[inline(always)]
pub(crate) fn first_not_below<I: ByteVector>(isa: I, bytes: &[u8], bound: u8) -> Option<usize> {
    let (start, len) = (bytes.as_ptr(), bytes.len());
    if len < I::LANES {
        let mut at = 0;
        while at < len {
            if bytes[at] >= bound {
                return Some(at);
            }
            at += 1;
        }
        return None;
    }

    let bounds = isa.splat(bound);
    let mut at = 0;
    while len - at >= I::LANES {
        let from = start.wrapping_add(at);
        // SAFETY: a vector from `at` on lies inside `bytes`, by the condition of the loop.
        let found = isa.ge(unsafe { isa.load(from) }, bounds);
        prefetch(from, AHEAD);
        if found != 0 {
            return Some(at + first_lane::<I>(found));
        }
        // all but the first touch one line only
        at += I::LANES - misalignment::<I>(from);
    }
    // SAFETY: `bytes` are at least one vector. The last one overlaps bytes that are below.
    let found = isa.ge(unsafe { isa.load(start.add(len - I::LANES)) }, bounds);
    (found != 0).then(|| len - I::LANES + first_lane::<I>(found))
}

/// Index of the first of `bytes` that equals `byte`, if one does.
#[inline(always)]
pub(crate) fn first_equal<I: ByteVector>(isa: I, bytes: &[u8], byte: u8) -> Option<usize> {
    let (start, len) = (bytes.as_ptr(), bytes.len());
    let sought = isa.splat(byte);
    let mut at = 0;
    while len - at >= I::LANES {
        // SAFETY: a vector from `at` on lies inside `bytes`, by the condition of the loop.
        let found = isa.eq(unsafe { isa.load(start.add(at)) }, sought);
        if found != 0 {
            return Some(at + first_lane::<I>(found));
        }
        at += I::LANES;
    }
    while at < len {
        if bytes[at] == byte {
            return Some(at);
        }
        at += 1;
    }
    None
}

//! All cut-points of an input.

use std::num::NonZero;
use std::ptr;

use onefold_cdc::cut_points_parallel;

use crate::chunker::onefold_chunker;
use crate::error::{Failure, done, onefold_status};
use crate::pointers::{elements, free, hand_over, handle};

/// The ends of all chunks of an input, in bytes.
pub struct onefold_cut_points(Box<[u64]>);

/// Finds all cut-points of `data`, a whole input, by up to `threads` threads. The last is `len`.
///
/// Makes `out`, which onefold_cut_points_free frees. The cut-points do not depend on `threads`.
///
/// # Safety
/// `chunker` is a chunker, `data` has `len` bytes, `out` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_cut(
    chunker: *const onefold_chunker,
    data: *const u8,
    len: usize,
    threads: usize,
    out: *mut *mut onefold_cut_points,
) -> onefold_status {
    done(|| {
        let threads = NonZero::new(threads)
            .ok_or_else(|| Failure::argument("0 threads, expected at least 1"))?;
        // SAFETY: by the contract of this function.
        let (chunker, data) =
            unsafe { (&handle(chunker, "chunker")?.chunker, elements(data, len, "data")?) };
        let ends: Box<[u64]> = match threads.get() {
            1 => chunker.cut_points(data).map(|end| end as u64).collect(),
            _ => {
                let ends = cut_points_parallel(chunker, data, threads);
                ends.into_iter().map(|end| end as u64).collect()
            }
        };
        // SAFETY: as above.
        unsafe { hand_over(out, onefold_cut_points(ends)) }
    })
}

/// How many cut-points there are; 0 for NULL.
///
/// # Safety
/// `cut_points` is NULL or of onefold_cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_cut_points_len(cut_points: *const onefold_cut_points) -> usize {
    // SAFETY: by the contract of this function.
    unsafe { cut_points.as_ref() }.map_or(0, |ends| ends.0.len())
}

/// The cut-points in ascending order, or NULL for NULL. Valid until they are freed.
///
/// # Safety
/// `cut_points` is NULL or of onefold_cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_cut_points_data(
    cut_points: *const onefold_cut_points,
) -> *const u64 {
    // SAFETY: by the contract of this function.
    unsafe { cut_points.as_ref() }.map_or(ptr::null(), |ends| ends.0.as_ptr())
}

/// Frees cut-points; NULL is nothing.
///
/// # Safety
/// `cut_points` is NULL or of onefold_cut, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_cut_points_free(cut_points: *mut onefold_cut_points) {
    // SAFETY: by the contract of this function.
    unsafe { free(cut_points) };
}

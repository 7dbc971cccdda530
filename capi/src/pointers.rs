//! Pointers from C, checked as far as they can be.

use std::ffi::{CStr, c_char};
use std::slice;

use crate::error::Failure;

/// The text at `pointer`, or `default` if it is NULL.
///
/// # Safety
/// `pointer` is NULL or leads to a text that ends with NUL and stays as it is during the call.
pub(crate) unsafe fn text<'a>(
    pointer: *const c_char,
    default: &'a str,
    what: &str,
) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Ok(default);
    }
    // SAFETY: by the contract of this function.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// The `len` elements at `data`, which may be NULL if there are none.
///
/// # Safety
/// `data` leads to `len` elements that stay as they are during the call.
pub(crate) unsafe fn elements<'a, T>(
    data: *const T,
    len: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Failure::argument(format!("{what} is NULL, expected {len} of them")));
    }
    if len > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::argument(format!("{what}: {len} of them do not fit into memory")));
    }
    // SAFETY: by the contract of this function; NULL and impossible lengths were refused.
    Ok(unsafe { slice::from_raw_parts(data, len) })
}

/// What `handle` stands for.
///
/// # Safety
/// `handle` is NULL or was made by this library, and is not freed during the call.
pub(crate) unsafe fn handle<'a, T>(handle: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: by the contract of this function.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// Where a result goes.
///
/// # Safety
/// `out` is NULL or leads to room for a `T` that nothing else uses during the call.
pub(crate) unsafe fn write<T>(out: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::argument(format!("{what} is NULL, expected room for the result")));
    }
    // SAFETY: by the contract of this function. What was there is not dropped: it may be anything.
    unsafe { out.write(value) };
    Ok(())
}

/// Makes a handle of `value`. If there is no room for it, nothing is kept.
///
/// # Safety
/// As of [`write`].
pub(crate) unsafe fn hand_over<T>(out: *mut *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::argument("out is NULL, expected room for the result"));
    }
    // SAFETY: by the contract of this function.
    unsafe { write(out, Box::into_raw(Box::new(value)), "out") }
}

/// Frees what `handle` stands for; NULL is nothing.
///
/// # Safety
/// `handle` is NULL or was made from a `Box` by this library, and is not used again.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: by the contract of this function. A panic while it is dropped ends the program.
        drop(unsafe { Box::from_raw(handle) });
    }
}

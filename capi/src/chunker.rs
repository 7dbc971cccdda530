//! Chunkers.

use std::ffi::{CString, c_char};
use std::ptr;

use onefold_cdc::{Choice, Chunker, Divisors, Kernel, Scheme, Secret};

use crate::error::onefold_status::{ONEFOLD_END, ONEFOLD_OK};
use crate::error::{Failure, done, guarded, onefold_status};
use crate::pointers::{elements, free, hand_over, handle, text, write};

/// A chunker. Threads may share it; it keeps no state between calls.
pub struct onefold_chunker {
    pub(crate) chunker: Chunker,
    algorithm: CString,
    kernel: CString,
}

/// What a chunker is made of. Begin with onefold_options_default and change what you want.
#[repr(C)]
pub struct onefold_options {
    /// The size of this structure, as the caller knows it.
    size: usize,
    /// The name of an algorithm or preset. NULL for "mincdc".
    algorithm: *const c_char,
    /// The shortest chunk but for the last, in bytes. 0 for what suits the algorithm.
    min: usize,
    /// The mean that is aimed at, in bytes. 0 for 16 KiB, or the preset's own.
    avg: usize,
    /// The longest chunk, in bytes. 0 for what suits the algorithm.
    max: usize,
    /// Bytes in the window of a rolling hash. 0 for the algorithm's own.
    window: usize,
    /// FastCDC's level, 0 to 3. -1 for the algorithm's own.
    level: i32,
    /// Whether `seed` counts; otherwise it is the algorithm's own.
    has_seed: bool,
    /// Picks the hash. Of the preset restic it is the polynomial.
    seed: u64,
    /// 32 random bytes that key the algorithm, or NULL.
    secret: *const u8,
    /// The pairs of bytes that bfbc cuts at, in a row, or NULL.
    divisors: *const u8,
    /// Bytes of the divisors.
    divisors_len: usize,
    /// The name of a kernel. NULL for the fastest.
    kernel: *const c_char,
}

/// Bounds and mean of chunk lengths, in bytes.
#[repr(C)]
pub struct onefold_sizes {
    min: usize,
    avg: usize,
    max: usize,
}

/// Options of which all is as suits the algorithm mincdc.
#[unsafe(no_mangle)]
pub extern "C" fn onefold_options_default() -> onefold_options {
    onefold_options {
        size: size_of::<onefold_options>(),
        algorithm: ptr::null(),
        min: 0,
        avg: 0,
        max: 0,
        window: 0,
        level: -1,
        has_seed: false,
        seed: 0,
        secret: ptr::null(),
        divisors: ptr::null(),
        divisors_len: 0,
        kernel: ptr::null(),
    }
}

/// Makes a chunker, which onefold_chunker_free frees. NULL options are the default.
///
/// Refuses names that are not known, sizes and parameters that the algorithm cannot have, and a kernel
/// that cannot run here.
///
/// # Safety
/// All pointers in `options` are NULL or lead to what their fields promise; `out` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_chunker_new(
    options: *const onefold_options,
    out: *mut *mut onefold_chunker,
) -> onefold_status {
    done(|| {
        let defaults = onefold_options_default();
        // SAFETY: by the contract of this function.
        let options = unsafe { options.as_ref() }.unwrap_or(&defaults);
        if options.size != size_of::<onefold_options>() {
            return Err(Failure::argument(format!(
                "options of {} bytes, expected {}: begin with onefold_options_default()",
                options.size,
                size_of::<onefold_options>()
            )));
        }
        // SAFETY: as above.
        let made = unsafe { make(options) }?;
        // SAFETY: as above.
        unsafe { hand_over(out, made) }
    })
}

/// # Safety
/// As of [`onefold_chunker_new`].
unsafe fn make(options: &onefold_options) -> Result<onefold_chunker, Failure> {
    // SAFETY: by the contract of this function.
    let (algorithm, kernel) = unsafe {
        (text(options.algorithm, "mincdc", "algorithm")?, text(options.kernel, "auto", "kernel")?)
    };
    let scheme: Scheme = algorithm.parse().map_err(Failure::refused)?;
    let kernel: Kernel = kernel.parse().map_err(Failure::refused)?;
    let chosen = |number: usize| (number != 0).then_some(number);
    let level = match options.level {
        -1 => None,
        level => Some(u8::try_from(level).map_err(|_| {
            Failure::argument(format!("level {level}, expected 0 to 3, or -1 for the default"))
        })?),
    };
    let secret = match options.secret.is_null() {
        true => None,
        // SAFETY: by the contract of this function it has 32 bytes.
        false => Some(Secret::new(unsafe { options.secret.cast::<[u8; 32]>().read() })),
    };
    let choice = Choice {
        min: chosen(options.min),
        avg: chosen(options.avg),
        max: chosen(options.max),
        window: chosen(options.window),
        level,
        seed: options.has_seed.then_some(options.seed),
        secret,
    };
    let mut params = scheme.params(&choice).map_err(Failure::refused)?;
    // SAFETY: by the contract of this function.
    let divisors = unsafe { elements(options.divisors, options.divisors_len, "divisors") }?;
    if !divisors.is_empty() {
        let (pairs, rest) = divisors.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Failure::argument("divisors of an odd number of bytes, expected pairs"));
        }
        params.divisors =
            Some(Divisors::from_pairs(pairs.iter().copied()).map_err(Failure::refused)?);
    }
    let chunker = Chunker::with_kernel(&params, kernel).map_err(Failure::refused)?;
    let algorithm = c_text(scheme.name());
    let kernel = c_text(chunker.kernel().name());
    Ok(onefold_chunker { chunker, algorithm, kernel })
}

/// Frees a chunker; NULL is nothing. Streams made of it stay.
///
/// # Safety
/// `chunker` is NULL or of onefold_chunker_new, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_chunker_free(chunker: *mut onefold_chunker) {
    // SAFETY: by the contract of this function.
    unsafe { free(chunker) };
}

/// The bounds and the mean of chunk lengths.
///
/// # Safety
/// `chunker` is a chunker; `out` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_chunker_sizes(
    chunker: *const onefold_chunker,
    out: *mut onefold_sizes,
) -> onefold_status {
    done(|| {
        // SAFETY: by the contract of this function.
        let sizes = unsafe { handle(chunker, "chunker") }?.chunker.sizes();
        let sizes = onefold_sizes { min: sizes.min(), avg: sizes.avg(), max: sizes.max() };
        // SAFETY: as above.
        unsafe { write(out, sizes, "out") }
    })
}

/// The name of the algorithm or preset, or NULL for no chunker. Valid as long as the chunker.
///
/// # Safety
/// `chunker` is NULL or a chunker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_chunker_algorithm(
    chunker: *const onefold_chunker,
) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { chunker.as_ref() }.map_or(ptr::null(), |chunker| chunker.algorithm.as_ptr())
}

/// The name of the kernel at work, or NULL for no chunker. Valid as long as the chunker.
///
/// # Safety
/// `chunker` is NULL or a chunker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_chunker_kernel(chunker: *const onefold_chunker) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { chunker.as_ref() }.map_or(ptr::null(), |chunker| chunker.kernel.as_ptr())
}

/// Finds where the next chunk of `data` ends, which begins at a cut-point and may go on.
///
/// Puts the chunk's length into `cut`. ONEFOLD_END if it depends on bytes after `data`; then `len` is
/// below the maximum. A length once found stays the same however much data follows.
///
/// # Safety
/// `chunker` is a chunker, `data` has `len` bytes, `cut` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_next_cut(
    chunker: *const onefold_chunker,
    data: *const u8,
    len: usize,
    cut: *mut usize,
) -> onefold_status {
    // SAFETY: by the contract of this function.
    unsafe { find(chunker, data, len, cut, Chunker::next_cut) }
}

/// Finds where the next chunk of `data` ends, which begins at a cut-point and ends the input.
///
/// Puts the chunk's length into `cut`. ONEFOLD_END only if `len` is 0.
///
/// # Safety
/// `chunker` is a chunker, `data` has `len` bytes, `cut` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_last_cut(
    chunker: *const onefold_chunker,
    data: *const u8,
    len: usize,
    cut: *mut usize,
) -> onefold_status {
    // SAFETY: by the contract of this function.
    unsafe { find(chunker, data, len, cut, Chunker::last_cut) }
}

/// # Safety
/// As of [`onefold_next_cut`].
unsafe fn find(
    chunker: *const onefold_chunker,
    data: *const u8,
    len: usize,
    cut: *mut usize,
    find: fn(&Chunker, &[u8]) -> Option<usize>,
) -> onefold_status {
    guarded(|| {
        // SAFETY: by the contract of this function.
        let (chunker, data) =
            unsafe { (handle(chunker, "chunker")?, elements(data, len, "data")?) };
        match find(&chunker.chunker, data) {
            // SAFETY: as above.
            Some(found) => unsafe { write(cut, found, "cut") }.map(|()| ONEFOLD_OK),
            None => Ok(ONEFOLD_END),
        }
    })
}

/// The name of the algorithm or preset with this number, counted from 0, or NULL after the last.
#[unsafe(no_mangle)]
pub extern "C" fn onefold_algorithm(number: usize) -> *const c_char {
    static NAMES: std::sync::OnceLock<Vec<CString>> = std::sync::OnceLock::new();
    let names = NAMES.get_or_init(|| Scheme::all().map(|scheme| c_text(scheme.name())).collect());
    names.get(number).map_or(ptr::null(), |name| name.as_ptr())
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn onefold_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

fn c_text(name: &str) -> CString {
    CString::new(name).expect("names have no NUL")
}

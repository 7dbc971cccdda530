//! Fingerprints of chunks.

use std::ffi::c_char;

use onefold_fingerprint::{Fingerprint, FingerprintAlgorithm, Fingerprinter};

use crate::error::{Failure, done, onefold_status};
use crate::pointers::{elements, free, hand_over, handle, text, write};

/// Bytes of a fingerprint; a shorter digest is padded with zeros.
pub const ONEFOLD_FINGERPRINT_LEN: usize = 32;

/// A hash function that names chunks, with its key. Threads may share it.
pub struct onefold_fingerprinter(Fingerprinter);

/// Makes a fingerprinter, which onefold_fingerprinter_free frees.
///
/// `algorithm` is blake3 (as is NULL), blake3-keyed, sha256, sha3-256 or sha1. `key` has 32 bytes for
/// blake3-keyed, and is NULL for the others.
///
/// # Safety
/// `algorithm` is NULL or a text, `key` is NULL or has 32 bytes, `out` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_fingerprinter_new(
    algorithm: *const c_char,
    key: *const u8,
    out: *mut *mut onefold_fingerprinter,
) -> onefold_status {
    done(|| {
        // SAFETY: by the contract of this function.
        let name = unsafe { text(algorithm, "blake3", "algorithm") }?;
        let algorithm: FingerprintAlgorithm = name.parse().map_err(Failure::refused)?;
        let is_keyed = algorithm == FingerprintAlgorithm::Blake3Keyed;
        if is_keyed == key.is_null() {
            let what = if is_keyed { "a key of 32 bytes" } else { "no key; blake3-keyed does" };
            return Err(Failure::argument(format!("{algorithm} takes {what}")));
        }
        let fingerprinter = match algorithm {
            FingerprintAlgorithm::Blake3 => Fingerprinter::blake3(),
            FingerprintAlgorithm::Blake3Keyed => {
                // SAFETY: by the contract of this function it has 32 bytes.
                Fingerprinter::blake3_keyed(unsafe { key.cast::<[u8; 32]>().read() })
            }
            FingerprintAlgorithm::Sha256 => Fingerprinter::sha256(),
            FingerprintAlgorithm::Sha3 => Fingerprinter::sha3(),
            FingerprintAlgorithm::Sha1 => Fingerprinter::sha1(),
            other => return Err(Failure::argument(format!("{other} is not known here"))),
        };
        // SAFETY: as above.
        unsafe { hand_over(out, onefold_fingerprinter(fingerprinter)) }
    })
}

/// Frees a fingerprinter; NULL is nothing.
///
/// # Safety
/// `fingerprinter` is NULL or of onefold_fingerprinter_new, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_fingerprinter_free(fingerprinter: *mut onefold_fingerprinter) {
    // SAFETY: by the contract of this function.
    unsafe { free(fingerprinter) };
}

/// Puts the fingerprint of a chunk into `out`: 32 bytes.
///
/// # Safety
/// `fingerprinter` is one, `data` has `len` bytes, `out` has room for 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_fingerprint(
    fingerprinter: *const onefold_fingerprinter,
    data: *const u8,
    len: usize,
    out: *mut u8,
) -> onefold_status {
    done(|| {
        // SAFETY: by the contract of this function.
        let (fingerprinter, data) =
            unsafe { (&handle(fingerprinter, "fingerprinter")?.0, elements(data, len, "data")?) };
        // SAFETY: as above.
        unsafe { write(out.cast(), *fingerprinter.fingerprint(data).as_bytes(), "out") }
    })
}

/// Puts the fingerprints of many chunks into `out`, 32 bytes each, in their order. Short chunks are
/// hashed together, several times as fast as one at a time.
///
/// # Safety
/// `fingerprinter` is one; `chunks` and `lens` have `count` elements, and each chunk as many bytes as its
/// length says; `out` has room for 32 * `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_fingerprint_many(
    fingerprinter: *const onefold_fingerprinter,
    chunks: *const *const u8,
    lens: *const usize,
    count: usize,
    out: *mut u8,
) -> onefold_status {
    done(|| {
        // SAFETY: by the contract of this function.
        let (fingerprinter, chunks, lens) = unsafe {
            (
                &handle(fingerprinter, "fingerprinter")?.0,
                elements(chunks, count, "chunks")?,
                elements(lens, count, "lens")?,
            )
        };
        let chunks = chunks.iter().zip(lens);
        // SAFETY: as above.
        let chunks = chunks.map(|(&data, &len)| unsafe { elements(data, len, "a chunk") });
        let chunks: Vec<&[u8]> = chunks.collect::<Result<_, _>>()?;
        // SAFETY: as above.
        unsafe { put(fingerprinter, &chunks, out) }
    })
}

/// Puts the fingerprints of the chunks of `data` that end at the `count` cut-points `ends` into `out`,
/// 32 bytes each.
///
/// # Safety
/// `fingerprinter` is one, `data` has `len` bytes, `ends` has `count` elements, `out` has room for 32 *
/// `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_fingerprint_chunks(
    fingerprinter: *const onefold_fingerprinter,
    data: *const u8,
    len: usize,
    ends: *const u64,
    count: usize,
    out: *mut u8,
) -> onefold_status {
    done(|| {
        // SAFETY: by the contract of this function.
        let (fingerprinter, data, ends) = unsafe {
            (
                &handle(fingerprinter, "fingerprinter")?.0,
                elements(data, len, "data")?,
                elements(ends, count, "ends")?,
            )
        };
        let mut chunks = Vec::with_capacity(count);
        let mut start = 0;
        for (number, &end) in ends.iter().enumerate() {
            let end = usize::try_from(end).unwrap_or(usize::MAX);
            let chunk = data.get(start..end).ok_or_else(|| {
                Failure::argument(format!(
                    "cut-point {number} is {end}, expected one from {start} to {len}"
                ))
            })?;
            chunks.push(chunk);
            start = end;
        }
        // SAFETY: as above.
        unsafe { put(fingerprinter, &chunks, out) }
    })
}

/// # Safety
/// `out` has room for a fingerprint of each chunk.
unsafe fn put(
    fingerprinter: &Fingerprinter,
    chunks: &[&[u8]],
    out: *mut u8,
) -> Result<(), Failure> {
    if chunks.is_empty() {
        return Ok(());
    }
    if out.is_null() {
        return Err(Failure::argument("out is NULL, expected room for the fingerprints"));
    }
    let mut all = Vec::with_capacity(chunks.len());
    fingerprinter.fingerprint_many(chunks, &mut all);
    for (number, one) in all.iter().enumerate() {
        let bytes: &[u8; Fingerprint::LEN] = one.as_bytes();
        // SAFETY: by the contract of this function.
        unsafe {
            out.add(number * Fingerprint::LEN).cast::<[u8; Fingerprint::LEN]>().write(*bytes)
        };
    }
    Ok(())
}

const _: () = assert!(ONEFOLD_FINGERPRINT_LEN == Fingerprint::LEN);

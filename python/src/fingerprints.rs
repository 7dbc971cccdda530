//! Fingerprints.

use onefold_fingerprint::{FingerprintAlgorithm, Fingerprinter};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Bytes;
use crate::errors::{detached, refused};
use crate::numbers::{CutPoints, Fingerprints};

/// The fingerprinter that a user names.
pub(crate) fn fingerprinter(
    algorithm: &str,
    key: Option<&Bound<'_, PyAny>>,
) -> PyResult<Fingerprinter> {
    let algorithm: FingerprintAlgorithm = algorithm.parse().map_err(refused)?;
    let wrong_key = |what: &str| Err(PyValueError::new_err(format!("{algorithm} takes {what}")));
    match (algorithm, key) {
        (FingerprintAlgorithm::Blake3Keyed, Some(key)) => {
            let key = Bytes::of(key)?;
            match key.as_slice().try_into() {
                Ok(key) => Ok(Fingerprinter::blake3_keyed(key)),
                Err(_) => wrong_key("a key of 32 bytes"),
            }
        }
        (FingerprintAlgorithm::Blake3Keyed, None) => wrong_key("a key of 32 bytes"),
        (_, Some(_)) => wrong_key("no key; blake3-keyed does"),
        (FingerprintAlgorithm::Blake3, None) => Ok(Fingerprinter::blake3()),
        (FingerprintAlgorithm::Sha256, None) => Ok(Fingerprinter::sha256()),
        (FingerprintAlgorithm::Sha3, None) => Ok(Fingerprinter::sha3()),
        (FingerprintAlgorithm::Sha1, None) => Ok(Fingerprinter::sha1()),
        _ => Err(PyValueError::new_err(format!("{algorithm} is not known here"))),
    }
}

/// The fingerprint of one chunk: 32 bytes, and 20 for SHA-1.
///
/// `algorithm` is blake3, blake3-keyed (which takes a `key` of 32 bytes), sha256, sha3-256 or sha1.
/// Raises ValueError for another one, or a key of another length.
#[pyfunction]
#[pyo3(signature = (buffer, *, algorithm = "blake3", key = None))]
pub(crate) fn fingerprint<'py>(
    buffer: &Bound<'py, PyAny>,
    algorithm: &str,
    key: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let fingerprinter = fingerprinter(algorithm, key)?;
    let bytes = Bytes::of(buffer)?;
    let py = buffer.py();
    let fingerprint = detached(py, || fingerprinter.fingerprint(bytes.as_slice()))?;
    let width = fingerprinter.algorithm().digest_len();
    Ok(PyBytes::new(py, &fingerprint.as_bytes()[..width]))
}

/// The fingerprints of many chunks, in their order. Short chunks are hashed together, several
/// times as fast as one at a time.
#[pyfunction]
#[pyo3(signature = (buffers, *, algorithm = "blake3", key = None))]
pub(crate) fn fingerprint_many(
    buffers: &Bound<'_, PyAny>,
    algorithm: &str,
    key: Option<&Bound<'_, PyAny>>,
) -> PyResult<Fingerprints> {
    let fingerprinter = fingerprinter(algorithm, key)?;
    let mut held = Vec::new();
    for buffer in buffers.try_iter()? {
        held.push(Bytes::of(&buffer?)?);
    }
    detached(buffers.py(), || {
        let chunks: Vec<&[u8]> = held.iter().map(Bytes::as_slice).collect();
        many(&fingerprinter, &chunks)
    })
}

/// The fingerprints of the chunks of `buffer` that end at `cut_points`.
///
/// Raises ValueError for a cut-point before the one that it follows, or after the end of `buffer`.
#[pyfunction]
#[pyo3(signature = (buffer, cut_points, *, algorithm = "blake3", key = None))]
pub(crate) fn fingerprint_chunks(
    buffer: &Bound<'_, PyAny>,
    cut_points: &Bound<'_, PyAny>,
    algorithm: &str,
    key: Option<&Bound<'_, PyAny>>,
) -> PyResult<Fingerprints> {
    let fingerprinter = fingerprinter(algorithm, key)?;
    let bytes = Bytes::of(buffer)?;
    let bytes = bytes.as_slice();
    let copied: Vec<u64>;
    let ends = match cut_points.cast::<CutPoints>() {
        Ok(own) => own.get().as_slice(),
        Err(_) => {
            copied = cut_points.extract()?;
            &copied
        }
    };
    let mut chunks = Vec::with_capacity(ends.len());
    let mut start = 0;
    for (number, &end) in ends.iter().enumerate() {
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let chunk = bytes.get(start..end).ok_or_else(|| {
            PyValueError::new_err(format!(
                "cut-point {number} is {end}, expected one from {start} to {}",
                bytes.len()
            ))
        })?;
        chunks.push(chunk);
        start = end;
    }
    detached(buffer.py(), || many(&fingerprinter, &chunks))
}

fn many(fingerprinter: &Fingerprinter, chunks: &[&[u8]]) -> Fingerprints {
    let mut all = Vec::with_capacity(chunks.len());
    fingerprinter.fingerprint_many(chunks, &mut all);
    Fingerprints::new(&all, fingerprinter.algorithm().digest_len())
}

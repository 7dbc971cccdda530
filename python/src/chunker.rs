//! Chunkers.

use std::fs::File;
use std::num::NonZero;
use std::path::PathBuf;

use onefold_cdc::{
    Choice, Divisors, Kernel, Lookahead, Params, Scheme, Secret, Stream, cut_points_parallel,
};
use onefold_cdc::{Chunker as Rule, ParamError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::bytes::Bytes;
use crate::errors::{detached, of_file, refused};
use crate::numbers::CutPoints;
use crate::rapid::{Hints, RapidCounters};
use crate::stream::ChunkStream;

/// Bytes of a file that are cut between two looks whether the user wants to stop.
const ATTENTION: u64 = 64 << 20;

/// Finds cut-points. Keeps no state between calls, so that threads may share it.
///
/// `algorithm` is an algorithm or a preset of `algorithms()`. Sizes are in bytes: `avg` is the mean
/// that is aimed at on random data (16 KiB, or the preset's own), `min` and `max` bound all chunks
/// but the last, which may be shorter. What is left out is as suits the algorithm.
///
/// `window`, `level` and `seed` are refused where they would change nothing; of restic, `seed` is
/// the polynomial. `secret`, 32 random bytes, keys the algorithm; docs/keyed-chunking.md says what
/// that protects. `divisors` are the pairs of bytes that bfbc cuts at, in a row. `kernel` is one of
/// `kernels(algorithm)`, or "auto" for the fastest; all cut alike.
///
/// Raises ValueError for anything that the algorithm cannot have.
#[pyclass(frozen, module = "onefold", name = "Chunker")]
pub(crate) struct Chunker(pub(crate) Rule);

impl Chunker {
    fn params(&self) -> &Params {
        self.0.params()
    }
}

#[pymethods]
impl Chunker {
    #[new]
    #[pyo3(signature = (
        algorithm = "mincdc", *, avg = None, min = None, max = None, window = None, level = None,
        seed = None, secret = None, divisors = None, kernel = "auto",
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named where they are given")]
    fn new(
        algorithm: &str,
        avg: Option<usize>,
        min: Option<usize>,
        max: Option<usize>,
        window: Option<usize>,
        level: Option<u8>,
        seed: Option<u64>,
        secret: Option<&Bound<'_, PyAny>>,
        divisors: Option<&Bound<'_, PyAny>>,
        kernel: &str,
    ) -> PyResult<Self> {
        let scheme: Scheme = algorithm.parse().map_err(refused)?;
        let kernel: Kernel = kernel.parse().map_err(refused)?;
        let secret = secret.map(secret_of).transpose()?;
        let choice = Choice { min, avg, max, window, level, seed, secret };
        let mut params = scheme.params(&choice).map_err(refused)?;
        params.divisors = divisors.map(divisors_of).transpose()?;
        Ok(Self(Rule::with_kernel(&params, kernel).map_err(refused)?))
    }

    /// The cut-points of `buffer`, a whole input; the last is its length in bytes.
    #[pyo3(signature = (buffer, *, threads = 1))]
    fn cut(&self, buffer: &Bound<'_, PyAny>, threads: usize) -> PyResult<CutPoints> {
        let threads = NonZero::new(threads)
            .ok_or_else(|| PyValueError::new_err("0 threads, expected at least 1"))?;
        let bytes = Bytes::of(buffer)?;
        let ends = detached(buffer.py(), || {
            let bytes = bytes.as_slice();
            if threads.get() == 1 {
                return self.0.cut_points(bytes).map(|end| end as u64).collect();
            }
            let ends = cut_points_parallel(&self.0, bytes, threads);
            ends.into_iter().map(|end| end as u64).collect()
        })?;
        Ok(CutPoints::new(ends))
    }

    /// The cut-points of the file at `path`, read in pieces. Raises OSError.
    fn cut_file(&self, py: Python<'_>, path: PathBuf) -> PyResult<CutPoints> {
        let file = detached(py, || File::open(&path))?.map_err(|error| of_file(&error, &path))?;
        let mut stream = Stream::new(self.0.clone(), file);
        let mut ends = Vec::new();
        loop {
            let stop = stream.offset() + ATTENTION;
            let cut = detached(py, || {
                while stream.offset() < stop {
                    if stream.next()?.is_none() {
                        return Ok(true);
                    }
                    ends.push(stream.offset());
                }
                Ok(false)
            })?;
            if cut.map_err(|error| of_file(&error, &path))? {
                return Ok(CutPoints::new(ends));
            }
            py.check_signals()?;
        }
    }

    /// An iterator over the chunks of `file`, in bounded memory.
    fn cut_stream(&self, file: &Bound<'_, PyAny>) -> PyResult<ChunkStream> {
        ChunkStream::new(self.0.clone(), file)
    }

    /// The cut-points of `buffer` by RapidCDC: known chunks are jumped over.
    ///
    /// With the criteria "fingerprint" and "marker-fingerprint" the cut-points are those of `cut`.
    /// With "forward", "window" and "marker" they depend on what was cut with `hints` before, and
    /// are found faster.
    #[pyo3(signature = (buffer, hints, *, criterion = "fingerprint"))]
    fn cut_rapid(
        &self,
        buffer: &Bound<'_, PyAny>,
        hints: &Hints,
        criterion: &str,
    ) -> PyResult<(CutPoints, RapidCounters)> {
        hints.cut(&self.0, buffer, criterion)
    }

    /// The length of the next chunk of `buffer`, which may go on, or None if that depends on the
    /// bytes after it; then `buffer` is shorter than `max`.
    fn next_cut(&self, buffer: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let bytes = Bytes::of(buffer)?;
        detached(buffer.py(), || self.0.next_cut(bytes.as_slice()))
    }

    /// The length of the next chunk of `buffer`, which ends the input; None if it is empty.
    fn last_cut(&self, buffer: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let bytes = Bytes::of(buffer)?;
        detached(buffer.py(), || self.0.last_cut(bytes.as_slice()))
    }

    #[getter]
    fn algorithm(&self) -> &'static str {
        Scheme::of(self.params()).name()
    }

    #[getter]
    fn min(&self) -> usize {
        self.params().sizes.min()
    }

    #[getter]
    fn avg(&self) -> usize {
        self.params().sizes.avg()
    }

    #[getter]
    fn max(&self) -> usize {
        self.params().sizes.max()
    }

    #[getter]
    fn window(&self) -> usize {
        self.params().window
    }

    #[getter]
    fn level(&self) -> u8 {
        self.params().level
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.params().seed
    }

    /// Whether there is a secret.
    #[getter]
    fn is_keyed(&self) -> bool {
        self.params().secret.is_some()
    }

    /// The kernel at work, never "auto".
    #[getter]
    fn kernel(&self) -> &'static str {
        self.0.kernel().name()
    }

    /// Bytes after a chunk on which its end depends, at most.
    #[getter]
    fn lookahead(&self) -> usize {
        match self.0.lookahead() {
            Lookahead::None => 0,
            Lookahead::Bytes(bytes) => bytes,
            Lookahead::ToMax => self.max(),
        }
    }

    fn __repr__(&self) -> String {
        let keyed = if self.is_keyed() { ", keyed" } else { "" };
        let (name, kernel) = (self.algorithm(), self.kernel());
        let sizes = self.params().sizes;
        format!(
            "<onefold.Chunker: {name}, {} to {} bytes, {} in the mean{keyed}, kernel {kernel}>",
            sizes.min(),
            sizes.max(),
            sizes.avg(),
        )
    }
}

#[pyfunction]
pub(crate) fn algorithms() -> Vec<(&'static str, &'static str, bool)> {
    let told =
        |scheme: Scheme| (scheme.name(), scheme.summary(), matches!(scheme, Scheme::Tool(_)));
    Scheme::all().map(told).collect()
}

/// The kernels that run `algorithm` on this CPU, the fastest first. Raises ValueError for an
/// unknown name.
#[pyfunction]
pub(crate) fn kernels(algorithm: &str) -> PyResult<Vec<&'static str>> {
    let scheme: Scheme = algorithm.parse().map_err(refused)?;
    Ok(scheme.kernels().iter().map(|kernel| kernel.name()).collect())
}

fn secret_of(given: &Bound<'_, PyAny>) -> PyResult<Secret> {
    let bytes = Bytes::of(given)?;
    let bytes = bytes.as_slice();
    match bytes.try_into() {
        Ok(bytes) => Ok(Secret::new(bytes)),
        Err(_) => Err(PyValueError::new_err(format!(
            "secret of {} bytes, expected 32 random ones",
            bytes.len()
        ))),
    }
}

fn divisors_of(given: &Bound<'_, PyAny>) -> PyResult<Divisors> {
    let bytes = Bytes::of(given)?;
    let (pairs, rest) = bytes.as_slice().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(PyValueError::new_err("divisors of an odd number of bytes, expected pairs"));
    }
    Divisors::from_pairs(pairs.iter().copied()).map_err(|error: ParamError| refused(error))
}

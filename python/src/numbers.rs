//! Cut-points and fingerprints as arrays.

use std::ffi::c_int;

use onefold_fingerprint::Fingerprint;
use pyo3::exceptions::PyIndexError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySlice};

use crate::bytes::Lent;

/// The ends of all chunks of an input, in bytes: a sequence, and a read-only buffer of u64 with
/// one dimension. A slice of it is a memoryview of the same numbers.
#[pyclass(frozen, eq, sequence, module = "onefold", name = "CutPoints")]
pub(crate) struct CutPoints {
    ends: Box<[u64]>,
    shape: [isize; 1],
}

impl PartialEq for CutPoints {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends
    }
}

impl CutPoints {
    const STRIDES: [isize; 1] = [8];

    pub(crate) fn new(ends: Vec<u64>) -> Self {
        let shape = [ends.len() as isize];
        Self { ends: ends.into(), shape }
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.ends
    }
}

#[pymethods]
impl CutPoints {
    fn __len__(&self) -> usize {
        self.ends.len()
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if index.is_instance_of::<PySlice>() {
            return PyMemoryView::from(slf)?.as_any().get_item(index);
        }
        let ends = &slf.get().ends;
        let at = position(index, ends.len())?;
        Ok(ends[at].into_pyobject(py)?.into_any())
    }

    /// The numbers as a list.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.ends)
    }

    fn __repr__(&self) -> String {
        match (&self.ends[..], self.ends.last()) {
            ([], _) | (_, None) => "<onefold.CutPoints of no bytes>".into(),
            (ends, Some(len)) => {
                format!("<onefold.CutPoints: {} chunks of {len} bytes>", ends.len())
            }
        }
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Self { ends, shape } = slf.get();
        let lent = Lent {
            data: ends.as_ptr().cast(),
            item_size: 8,
            format: c"Q",
            shape,
            strides: &Self::STRIDES,
        };
        // SAFETY: Python passes the view of this object, in which all is that `lent` points to.
        unsafe { lent.fill(slf.clone().into_any(), view, flags) }
    }
}

/// The fingerprints of many chunks: a sequence of bytes, and a read-only buffer of bytes with the
/// shape (count, width). The width is 32, and 20 for SHA-1.
#[pyclass(frozen, eq, sequence, module = "onefold", name = "Fingerprints")]
pub(crate) struct Fingerprints {
    bytes: Box<[u8]>,
    shape: [isize; 2],
    strides: [isize; 2],
}

impl PartialEq for Fingerprints {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.bytes == other.bytes
    }
}

impl Fingerprints {
    /// The first `width` bytes of each of `all`.
    pub(crate) fn new(all: &[Fingerprint], width: usize) -> Self {
        let bytes: Vec<u8> =
            all.iter().flat_map(|one| one.as_bytes()[..width].iter().copied()).collect();
        let shape = [all.len() as isize, width as isize];
        Self { bytes: bytes.into(), shape, strides: [width as isize, 1] }
    }

    fn count(&self) -> usize {
        self.shape[0] as usize
    }
}

#[pymethods]
impl Fingerprints {
    fn __len__(&self) -> usize {
        self.count()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (at, width) = (position(index, self.count())?, self.shape[1] as usize);
        Ok(PyBytes::new(py, &self.bytes[at * width..(at + 1) * width]))
    }

    fn __repr__(&self) -> String {
        format!("<onefold.Fingerprints: {} of {} bytes>", self.shape[0], self.shape[1])
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Self { bytes, shape, strides } = slf.get();
        let lent = Lent { data: bytes.as_ptr(), item_size: 1, format: c"B", shape, strides };
        // SAFETY: Python passes the view of this object, in which all is that `lent` points to.
        unsafe { lent.fill(slf.clone().into_any(), view, flags) }
    }
}

/// The position that `index`, which may count from the end, means among `len`.
fn position(index: &Bound<'_, PyAny>, len: usize) -> PyResult<usize> {
    let given: i64 = index.extract()?;
    let at = if given < 0 { given + len as i64 } else { given };
    let found = usize::try_from(at).ok().filter(|&at| at < len);
    found.ok_or_else(|| PyIndexError::new_err(format!("index {given}, expected one of {len}")))
}

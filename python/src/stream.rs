//! Chunks of what a file object yields.

use std::io::{self, Read};
use std::sync::Mutex;

use onefold_cdc::{Chunker as Rule, Stream};
use pyo3::exceptions::{PyBlockingIOError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::bytes::Bytes;
use crate::errors::detached;

/// A chunk of a stream.
#[pyclass(frozen, module = "onefold", name = "Chunk")]
pub(crate) struct Chunk {
    /// Where it begins in the stream, in bytes.
    #[pyo3(get)]
    offset: u64,
    /// Its bytes.
    #[pyo3(get)]
    data: Py<PyBytes>,
}

#[pymethods]
impl Chunk {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.data.bind(py).as_bytes().len()
    }

    /// Its cut-point: the offset just after its last byte.
    #[getter]
    fn end(&self, py: Python<'_>) -> u64 {
        self.offset + self.__len__(py) as u64
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<onefold.Chunk: bytes {} to {}>", self.offset, self.end(py))
    }
}

/// An iterator over the chunks of a file object, for one thread at a time.
#[pyclass(frozen, module = "onefold", name = "ChunkStream")]
pub(crate) struct ChunkStream(Mutex<Stream<FileLike>>);

impl ChunkStream {
    pub(crate) fn new(rule: Rule, file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let read = file.getattr("read").map_err(|_| {
            PyTypeError::new_err("expected a file object opened for reading bytes: no method read")
        })?;
        Ok(Self(Mutex::new(Stream::new(rule, FileLike(read.unbind())))))
    }
}

#[pymethods]
impl ChunkStream {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Chunk>> {
        // Locked without the interpreter's lock, for which a reading thread may be waiting.
        let next = detached(py, || {
            // A read that is called by this stream's own read would never get the lock.
            let mut stream = match self.0.try_lock() {
                Ok(stream) => stream,
                Err(_) => return Err(io::Error::other(InUse)),
            };
            let offset = stream.offset();
            let Some(chunk) = stream.next()? else { return Ok(None) };
            Ok(Some(Python::attach(|py| Chunk { offset, data: PyBytes::new(py, chunk).unbind() })))
        })?;
        next.map_err(|error| match error.downcast::<InUse>() {
            Ok(InUse) => PyValueError::new_err(
                "another thread is at this stream, or an earlier read broke it: expected one at a time",
            ),
            // An exception of the file object comes back as it was raised.
            Err(error) => PyErr::from(error),
        })
    }
}

/// The stream is at work already.
#[derive(Debug)]
struct InUse;

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("in use")
    }
}

impl std::error::Error for InUse {}

/// The method `read` of a file object.
struct FileLike(Py<PyAny>);

impl Read for FileLike {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| self.read_attached(py, buffer).map_err(io::Error::from))
    }
}

impl FileLike {
    fn read_attached(&self, py: Python<'_>, buffer: &mut [u8]) -> PyResult<usize> {
        let read = self.0.bind(py).call1((buffer.len(),))?;
        if read.is_none() {
            return Err(PyBlockingIOError::new_err(
                "the file has no bytes yet, expected one that blocks until it has",
            ));
        }
        if read.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("the file yields text, expected one opened as 'rb'"));
        }
        let bytes = Bytes::of(&read)?;
        let bytes = bytes.as_slice();
        let Some(room) = buffer.get_mut(..bytes.len()) else {
            let asked = buffer.len();
            return Err(PyValueError::new_err(format!(
                "read({asked}) gave {} bytes, expected at most {asked}",
                bytes.len()
            )));
        };
        room.copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

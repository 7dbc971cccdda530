//! Entries of a snapshot, and the content of files.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use onefold_store::tree::{Entry as Stored, Node};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Shared;
use super::errors::of_store;
use super::snapshot::moment;
use crate::errors::detached;

/// What a name in a snapshot stands for.
#[pyclass(frozen, module = "onefold", name = "Entry")]
pub(crate) struct Entry {
    stored: Stored,
    path: Vec<u8>,
}

impl Entry {
    pub(super) const fn new(stored: Stored, path: Vec<u8>) -> Self {
        Self { stored, path }
    }
}

#[pymethods]
impl Entry {
    /// The last component of the path; empty for the root.
    #[getter]
    fn name(&self) -> OsString {
        name(&self.stored.name)
    }

    /// The path in the snapshot, without a slash before it.
    #[getter]
    fn path(&self) -> OsString {
        name(&self.path)
    }

    /// file, directory, symlink, fifo, socket, char-device or block-device.
    #[getter]
    fn kind(&self) -> &'static str {
        self.stored.node.kind()
    }

    /// Length of a file in bytes, 0 for anything else.
    #[getter]
    fn size(&self) -> u64 {
        self.stored.size()
    }

    /// Permission, set-id and sticky bits.
    #[getter]
    fn mode(&self) -> u32 {
        self.stored.meta.mode
    }

    #[getter]
    fn uid(&self) -> u32 {
        self.stored.meta.uid
    }

    #[getter]
    fn gid(&self) -> u32 {
        self.stored.meta.gid
    }

    #[getter]
    fn links(&self) -> u64 {
        self.stored.meta.links
    }

    /// Last change of content, in UTC, to the microsecond.
    #[getter]
    fn mtime<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.stored.meta.mtime)
    }

    /// The same in nanoseconds since 1970.
    #[getter]
    fn mtime_ns(&self) -> i128 {
        let time = self.stored.meta.mtime;
        i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos)
    }

    /// Where a symbolic link points.
    #[getter]
    fn target(&self) -> Option<OsString> {
        match &self.stored.node {
            Node::Symlink { target } => Some(name(target)),
            _ => None,
        }
    }

    #[getter]
    fn is_file(&self) -> bool {
        matches!(self.stored.node, Node::File { .. })
    }

    #[getter]
    fn is_directory(&self) -> bool {
        matches!(self.stored.node, Node::Directory { .. })
    }

    fn __repr__(&self) -> String {
        let path = String::from_utf8_lossy(&self.path);
        format!("<onefold.Entry {} '{path}': {} bytes>", self.kind(), self.size())
    }
}

/// The content of a file in a snapshot.
#[pyclass(frozen, module = "onefold", name = "FileContent")]
pub(crate) struct FileContent {
    shared: Arc<Shared>,
    entry: Stored,
}

impl FileContent {
    pub(super) const fn new(shared: Arc<Shared>, entry: Stored) -> Self {
        Self { shared, entry }
    }
}

#[pymethods]
impl FileContent {
    #[getter]
    fn size(&self) -> u64 {
        self.entry.size()
    }

    /// The bytes from `offset` on, at most `len`, fewer only at the end.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        len: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let read = detached(py, || self.shared.view(|view| view.read(&self.entry, offset, len)))?;
        Ok(PyBytes::new(py, &read.map_err(|error| of_store(&error))?))
    }
}

/// A name as Python's file systems decode it.
pub(super) fn name(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

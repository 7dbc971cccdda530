//! A snapshot.

use onefold_seal::ObjectId;
use onefold_store::tree::{Entry, Time};
use onefold_store::{Snapshot as Stored, StoreError};
use pyo3::prelude::*;

use super::Shared;
use super::entry::name;

/// What the sources of a backup looked like at one moment.
#[pyclass(frozen, module = "onefold", name = "Snapshot")]
pub(crate) struct Snapshot {
    id: ObjectId,
    stored: Stored,
    issues: Vec<String>,
}

impl Snapshot {
    pub(super) const fn new(id: ObjectId, stored: Stored, issues: Vec<String>) -> Self {
        Self { id, stored, issues }
    }

    pub(super) fn entry_at(&self, shared: &Shared, path: &[u8]) -> Result<Entry, StoreError> {
        shared.repository().entry_at(self.id, &self.stored, path)
    }
}

#[pymethods]
impl Snapshot {
    /// 32 hexadecimal digits.
    #[getter]
    fn id(&self) -> String {
        self.id.to_string()
    }

    /// When the backup began, in UTC.
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        moment(py, self.stored.time)
    }

    #[getter]
    fn host(&self) -> &str {
        &self.stored.host
    }

    #[getter]
    fn user(&self) -> &str {
        &self.stored.user
    }

    #[getter]
    fn tags(&self) -> Vec<String> {
        self.stored.tags.clone()
    }

    /// The sources, absolute.
    #[getter]
    fn paths(&self) -> Vec<std::ffi::OsString> {
        self.stored.paths.iter().map(|path| name(path)).collect()
    }

    /// The id of the snapshot by which unchanged files were recognised.
    #[getter]
    fn parent(&self) -> Option<String> {
        self.stored.parent.map(|id| id.to_string())
    }

    #[getter]
    fn files(&self) -> u64 {
        self.stored.summary.files
    }

    #[getter]
    fn directories(&self) -> u64 {
        self.stored.summary.directories
    }

    /// Bytes of all files, holes left out.
    #[getter]
    fn bytes(&self) -> u64 {
        self.stored.summary.bytes
    }

    /// Files that were not read, since the parent has them.
    #[getter]
    fn unchanged_files(&self) -> u64 {
        self.stored.summary.unchanged_files
    }

    /// Bytes of chunks that were new.
    #[getter]
    fn new_bytes(&self) -> u64 {
        self.stored.summary.new_bytes
    }

    /// Bytes that these take in the repository.
    #[getter]
    fn stored_bytes(&self) -> u64 {
        self.stored.summary.stored_bytes
    }

    /// What could not be read, and is missing.
    #[getter]
    fn unreadable(&self) -> u64 {
        self.stored.summary.unreadable
    }

    /// What went wrong while it was made, if `backup` returned it; else nothing.
    #[getter]
    fn issues(&self) -> Vec<String> {
        self.issues.clone()
    }

    fn __repr__(&self) -> String {
        let Stored { host, summary, .. } = &self.stored;
        format!("<onefold.Snapshot {} of {host}: {} files>", self.id, summary.files)
    }
}

/// A moment as a `datetime` in UTC, to the microsecond.
pub(super) fn moment(py: Python<'_>, time: Time) -> PyResult<Bound<'_, PyAny>> {
    let module = py.import("datetime")?;
    let utc = module.getattr("timezone")?.getattr("utc")?;
    let second = module.getattr("datetime")?.call_method1("fromtimestamp", (time.secs, utc))?;
    let rest = module.getattr("timedelta")?.call1((0, 0, time.nanos / 1000))?;
    second.add(rest)
}

//! Repositories: opening, backing up, listing and reading.

mod entry;
mod errors;
mod local;
mod open;
mod place;
mod snapshot;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use onefold_store::backup::{self, Options};
use onefold_store::tree::Node;
use onefold_store::{Cancel, Progress, Repository, SnapshotSpec, StoreError, View};
use pyo3::exceptions::{PyIsADirectoryError, PyNotADirectoryError, PyOSError};
use pyo3::prelude::*;
use self_cell::self_cell;

use crate::errors::{detached, refused};

pub(crate) use self::entry::{Entry, FileContent};
use self::errors::of_store;
pub(crate) use self::errors::{RepositoryError, RepositoryWarning};
use self::open::Opening;
use self::place::Place;
pub(crate) use self::snapshot::Snapshot;

/// How long Python waits at most before it looks whether the user wants a backup to stop.
const ATTENTION: Duration = Duration::from_millis(20);

/// What reads from a repository, made when something is read first.
type Reader<'a> = OnceLock<View<'a>>;

self_cell!(
    /// A repository with what reads from it.
    struct Held {
        owner: Repository,
        #[not_covariant]
        dependent: Reader,
    }
);

/// An open repository, shared with the files that are read from it.
pub(crate) struct Shared(Held);

impl Shared {
    fn repository(&self) -> &Repository {
        self.0.borrow_owner()
    }

    /// Runs `read` with the view of the repository.
    fn view<T>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.0.with_dependent(|repository, reader| {
            if let Some(view) = reader.get() {
                return read(view);
            }
            let view = repository.view()?;
            read(reader.get_or_init(|| view))
        })
    }
}

/// The repository that the package's class `Repository` wraps.
#[pyclass(frozen, module = "onefold", name = "RepositoryCore")]
pub(crate) struct RepositoryCore {
    shared: Arc<Shared>,
    place: Place,
}

#[pymethods]
impl RepositoryCore {
    /// Opens the repository at `location`, or makes it if a chunker is given.
    #[staticmethod]
    #[pyo3(signature = (location, *, password, host, user, state_dir, cache_dir, use_cache, accept, endpoint))]
    #[expect(clippy::too_many_arguments, reason = "they are named where they are given")]
    fn open(
        py: Python<'_>,
        location: PathBuf,
        password: Option<Vec<u8>>,
        host: String,
        user: String,
        state_dir: Option<PathBuf>,
        cache_dir: Option<PathBuf>,
        use_cache: bool,
        accept: Option<&str>,
        endpoint: Option<String>,
    ) -> PyResult<Self> {
        let accept = accept.map(str::parse).transpose().map_err(refused)?;
        let opening =
            Opening { password, host, user, state_dir, cache_dir, use_cache, accept, endpoint };
        Self::after(py, || opening.open(&location))
    }

    #[staticmethod]
    #[pyo3(signature = (
        location, *, chunker, encrypt, padding, password, host, user, state_dir, cache_dir, use_cache,
        endpoint,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named where they are given")]
    fn init(
        py: Python<'_>,
        location: PathBuf,
        chunker: Option<Py<crate::chunker::Chunker>>,
        encrypt: bool,
        padding: bool,
        password: Option<Vec<u8>>,
        host: String,
        user: String,
        state_dir: Option<PathBuf>,
        cache_dir: Option<PathBuf>,
        use_cache: bool,
        endpoint: Option<String>,
    ) -> PyResult<Self> {
        let params = chunker.map(|chunker| *chunker.get().0.params());
        let opening = Opening {
            password,
            host,
            user,
            state_dir,
            cache_dir,
            use_cache,
            accept: None,
            endpoint,
        };
        Self::after(py, || opening.init(&location, params, encrypt, padding))
    }

    #[getter]
    fn id(&self) -> String {
        self.shared.repository().id().to_string()
    }

    #[getter]
    fn location(&self) -> String {
        self.place.to_string()
    }

    #[getter]
    fn is_encrypted(&self) -> bool {
        self.shared.repository().is_encrypted()
    }

    #[pyo3(signature = (
        paths, *, host, user, tags, excludes, devices, one_file_system, full_paths, ignore_files, force,
        threads,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named where they are given")]
    fn backup(
        &self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
        host: String,
        user: String,
        tags: Vec<String>,
        excludes: Vec<String>,
        devices: Vec<PathBuf>,
        one_file_system: bool,
        full_paths: bool,
        ignore_files: bool,
        force: bool,
        threads: Option<std::num::NonZero<usize>>,
    ) -> PyResult<Snapshot> {
        let options = Options {
            host,
            user,
            tags,
            excludes,
            devices,
            one_file_system,
            full_paths,
            ignore_files,
            force,
            threads,
            own_repository: self.place.identity()?,
            ..Options::default()
        };
        let issues = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&issues);
        let progress = Progress::new(move |issue| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(issue.to_string());
        });
        let cancel = Cancel::default();
        let made = self.stoppable(py, &cancel, || {
            backup::backup(self.shared.repository(), &paths, &options, &progress, &cancel)
        })?;
        let (id, snapshot) = made.map_err(|error| of_store(&error))?;
        let issues = std::mem::take(&mut *issues.lock().unwrap_or_else(PoisonError::into_inner));
        for issue in &issues {
            warn(py, issue)?;
        }
        self.tell(py)?;
        Ok(Snapshot::new(id, snapshot, issues))
    }

    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<Snapshot>> {
        let listed = detached(py, || self.shared.repository().shown_snapshots())?;
        let (snapshots, damaged) = listed.map_err(|error| of_store(&error))?;
        for error in damaged {
            warn(py, &errors::told(&error))?;
        }
        Ok(snapshots.into_iter().map(|(id, one)| Snapshot::new(id, one, Vec::new())).collect())
    }

    fn snapshot(&self, py: Python<'_>, spec: &str) -> PyResult<Snapshot> {
        let spec: SnapshotSpec = spec.parse().map_err(|error| of_store(&error))?;
        let found = detached(py, || self.shared.repository().find(&spec))?;
        let (id, snapshot) = found.map_err(|error| of_store(&error))?;
        Ok(Snapshot::new(id, snapshot, Vec::new()))
    }

    /// The entry at `path` in the snapshot.
    fn stat(&self, py: Python<'_>, snapshot: &Snapshot, path: PathBuf) -> PyResult<Entry> {
        let path = place::bytes_of(&path);
        let found = detached(py, || snapshot.entry_at(&self.shared, path))?;
        Ok(Entry::new(found.map_err(|error| of_store(&error))?, place::normal(path)))
    }

    /// What the directory at `path` holds, by name.
    fn ls(&self, py: Python<'_>, snapshot: &Snapshot, path: PathBuf) -> PyResult<Vec<Entry>> {
        let path = place::bytes_of(&path);
        let found = detached(py, || {
            let entry = snapshot.entry_at(&self.shared, path)?;
            if !matches!(entry.node, Node::Directory { .. }) {
                return Ok(None);
            }
            self.shared.view(|view| view.entries(&entry)).map(Some)
        })?;
        let above = place::normal(path);
        match found.map_err(|error| of_store(&error))? {
            None => Err(PyNotADirectoryError::new_err(format!(
                "'{}' is no directory",
                String::from_utf8_lossy(&above)
            ))),
            Some(entries) => {
                let below = |name: &[u8]| match &above[..] {
                    [] => name.to_vec(),
                    above => [above, name].join(&b'/'),
                };
                Ok(entries.iter().map(|one| Entry::new(one.clone(), below(&one.name))).collect())
            }
        }
    }

    /// The content of the file at `path`.
    fn content(&self, py: Python<'_>, snapshot: &Snapshot, path: PathBuf) -> PyResult<FileContent> {
        let path = place::bytes_of(&path);
        let found = detached(py, || snapshot.entry_at(&self.shared, path))?;
        let entry = found.map_err(|error| of_store(&error))?;
        let shown = String::from_utf8_lossy(path);
        match &entry.node {
            Node::File { .. } => {}
            Node::Directory { .. } => {
                return Err(PyIsADirectoryError::new_err(format!("'{shown}' is a directory")));
            }
            other => {
                let message = format!("'{shown}' is a {}, expected a file", other.kind());
                return Err(PyOSError::new_err(message));
            }
        }
        Ok(FileContent::new(Arc::clone(&self.shared), entry))
    }
}

impl RepositoryCore {
    /// What `open` opens, after the user was told what is wrong.
    fn after(
        py: Python<'_>,
        open: impl FnOnce() -> Result<open::Opened, open::Failure> + Send,
    ) -> PyResult<Self> {
        let opened = detached(py, open)?.map_err(PyErr::from)?;
        for warning in &opened.warnings {
            warn(py, warning)?;
        }
        let shared = Shared(Held::new(opened.repository, |_| OnceLock::new()));
        let core = Self { shared: Arc::new(shared), place: opened.place };
        core.tell(py)?;
        Ok(core)
    }

    /// Warns of what the repository noticed.
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let repository = self.shared.repository();
        let mut all = repository.trouble();
        all.extend(repository.index_trouble());
        all.iter().try_for_each(|one| warn(py, one))
    }

    /// Runs `work` in another thread, and asks it to stop when Python has a signal to raise.
    fn stoppable<T: Send>(
        &self,
        py: Python<'_>,
        cancel: &Cancel,
        work: impl FnOnce() -> T + Send,
    ) -> PyResult<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(work);
            let mut signal = Ok(());
            while !worker.is_finished() {
                py.detach(|| thread::sleep(ATTENTION));
                if signal.is_ok() {
                    signal = py.check_signals();
                    if signal.is_err() {
                        cancel.cancel();
                    }
                }
            }
            let ended = py.detach(|| worker.join());
            signal?;
            ended.map_err(|panic| crate::errors::broken(&*panic))
        })
    }
}

fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let message = std::ffi::CString::new(message.replace('\0', "\\0")).expect("no NUL is left");
    PyErr::warn(py, &py.get_type::<RepositoryWarning>(), &message, 3)
}

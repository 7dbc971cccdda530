//! How an operation tells how far it is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// Something that did not go as wished and did not end the operation.
#[derive(Debug)]
pub struct Issue {
    /// Which file.
    pub path: PathBuf,
    /// What happened.
    pub kind: IssueKind,
}

/// What happened to a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum IssueKind {
    /// It could not be read: it is missing from the snapshot.
    Unreadable {
        /// What was attempted.
        action: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// It changed while it was read: the snapshot has it as it was read.
    Changed,
    /// It is the repository itself: it was left out.
    OwnRepository,
    /// It could not be restored as the snapshot has it.
    NotRestored {
        /// Why.
        reason: String,
    },
    /// Its extended attributes could not be read: the snapshot has it without them.
    NoAttributes {
        /// What the operating system said.
        source: std::io::Error,
    },
    /// An archive has it and a snapshot cannot: it is missing from the snapshot.
    NotImported {
        /// Why.
        reason: String,
    },
    /// It was imported, but not all that the archive says of it.
    ImportedWithout {
        /// What is missing and why.
        reason: String,
    },
    /// It was restored, but not all of its metadata.
    Incomplete {
        /// What is missing and why.
        reason: String,
    },
}

impl IssueKind {
    /// Whether content is missing because of this.
    pub const fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. } | Self::NotRestored { .. } | Self::NotImported { .. }
        )
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            IssueKind::Unreadable { action, source } => {
                write!(f, "cannot {action} '{path}': {source}; it is not in the snapshot")
            }
            IssueKind::NoAttributes { source } => write!(
                f,
                "cannot read the extended attributes of '{path}': {source}; backed up without them"
            ),
            IssueKind::Changed => {
                write!(f, "'{path}' changed while it was read; backed up as it was read")
            }
            IssueKind::OwnRepository => write!(f, "'{path}' is this repository; left out"),
            IssueKind::NotRestored { reason } => write!(f, "'{path}' was not restored: {reason}"),
            IssueKind::NotImported { reason } => write!(f, "'{path}' was not imported: {reason}"),
            IssueKind::ImportedWithout { reason } => {
                write!(f, "'{path}' is imported, but {reason}")
            }
            IssueKind::Incomplete { reason } => write!(f, "'{path}' is restored, but {reason}"),
        }
    }
}

/// What an operation does at a path of its target, or would do in a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Something is made where nothing was.
    Create,
    /// What is there is replaced.
    Replace,
    /// What is there stays.
    Keep,
    /// What is there is removed.
    Delete,
}

impl Act {
    /// The verb, for listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Keep => "keep",
            Self::Delete => "delete",
        }
    }
}

type OnIssue = Box<dyn Fn(&Issue) + Send + Sync>;
type OnAct = Box<dyn Fn(Act, &Path) + Send + Sync>;

/// What a backup found an entry to be, compared with the parent snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The parent has nothing of this name, or there is no parent.
    New,
    /// The parent has something of this name; a file was read, since it looks otherwise.
    Changed,
    /// The parent has the same; a file was not read.
    Unchanged,
}

type OnEntry = Box<dyn Fn(&Path, Outcome) + Send + Sync>;

/// Counters that an operation raises while it runs, for whoever watches.
#[derive(Default)]
pub struct Progress {
    /// Files to come in all; 0 until it is known.
    pub total_files: AtomicU64,
    /// Bytes to come in all; 0 until it is known.
    pub total_bytes: AtomicU64,
    /// Files done.
    pub files: AtomicU64,
    /// Bytes done, read or not.
    pub bytes: AtomicU64,
    /// Bytes of seeds that were read before anything was restored.
    pub seed_bytes: AtomicU64,
    /// Bytes of chunks that were new to the repository.
    pub new_bytes: AtomicU64,
    /// Bytes written to containers.
    pub stored_bytes: AtomicU64,
    /// Files taken over from the parent snapshot without reading them.
    pub unchanged_files: AtomicU64,
    /// What `files` counts instead, in the plural; files if nothing is said.
    pub noun: OnceLock<&'static str>,
    /// Patterns of a backup that fitted nothing; known once the sources were walked.
    pub unused_excludes: OnceLock<Vec<String>>,
    /// Issues so far.
    pub issues: AtomicU64,
    /// Issues by which content is missing.
    pub losses: AtomicU64,
    /// What the operation was at when somebody wanted to know.
    current: Mutex<PathBuf>,
    /// Whether nobody asked since.
    is_current_new: AtomicBool,
    on_issue: Option<OnIssue>,
    on_entry: Option<OnEntry>,
    on_act: Option<OnAct>,
}

impl Progress {
    /// Counters at zero; `on_issue` hears of every issue as it happens, from any thread.
    pub fn new(on_issue: impl Fn(&Issue) + Send + Sync + 'static) -> Self {
        Self { on_issue: Some(Box::new(on_issue)), ..Self::default() }
    }

    /// Has `on_entry` hear of every entry of a backup that is not a directory, as it is done, from
    /// any thread. A file of which a part could not be read is an issue instead.
    pub fn telling_entries(
        self,
        on_entry: impl Fn(&Path, Outcome) + Send + Sync + 'static,
    ) -> Self {
        Self { on_entry: Some(Box::new(on_entry)), ..self }
    }

    pub(crate) fn entry(&self, path: &Path, outcome: Outcome) {
        if let Some(on_entry) = &self.on_entry {
            on_entry(path, outcome);
        }
    }

    /// Lets `on_act` hear of every act, from any thread.
    pub fn telling(self, on_act: impl Fn(Act, &Path) + Send + Sync + 'static) -> Self {
        Self { on_act: Some(Box::new(on_act)), ..self }
    }

    /// What the operation is at, or was a moment ago: a file, or an object of the repository. Empty
    /// until it is at something.
    pub fn current(&self) -> PathBuf {
        let current = self.current.lock().expect("no thread panics with it locked").clone();
        self.is_current_new.store(false, Ordering::Relaxed);
        current
    }

    /// Says what the operation is at. `path` is called only once each time that somebody asks.
    pub(crate) fn at(&self, path: impl FnOnce() -> PathBuf) {
        let is_new = &self.is_current_new;
        if !is_new.load(Ordering::Relaxed) && !is_new.swap(true, Ordering::Relaxed) {
            *self.current.lock().expect("no thread panics with it locked") = path();
        }
    }

    /// Tells of an act; `path` is called only if somebody listens.
    pub(crate) fn act(&self, act: Act, path: impl FnOnce() -> PathBuf) {
        if let Some(on_act) = &self.on_act {
            on_act(act, &path());
        }
    }

    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    /// Whether it is known how much will come.
    pub(crate) fn has_totals(&self) -> bool {
        Self::read(&self.total_files) > 0 || Self::read(&self.total_bytes) > 0
    }

    pub(crate) fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    pub(crate) fn issue(&self, path: impl Into<PathBuf>, kind: IssueKind) {
        Self::add(&self.issues, 1);
        if kind.is_loss() {
            Self::add(&self.losses, 1);
        }
        if let Some(on_issue) = &self.on_issue {
            on_issue(&Issue { path: path.into(), kind });
        }
    }
}

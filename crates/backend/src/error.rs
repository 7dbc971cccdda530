//! Errors: they name the object, the operation and the location, and keep the cause.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::rados::RadosError;
#[cfg(feature = "remote")]
use crate::remote::is_passing as is_passing_answer;

/// The error of the layer below a backend.
pub type Cause = Box<dyn Error + Send + Sync>;

/// An operation of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Opening or creating a location, log or file of pages.
    Open,
    /// [`Objects::put`](crate::Objects::put).
    Put,
    /// [`Objects::get`](crate::Objects::get) or [`Objects::get_range`](crate::Objects::get_range).
    Get,
    /// [`Objects::size`](crate::Objects::size).
    Size,
    /// [`Objects::list`](crate::Objects::list).
    List,
    /// [`Objects::delete`](crate::Objects::delete).
    Delete,
    /// [`Folder::rename`](crate::Folder::rename).
    Rename,
    /// [`Log::append`](crate::Log::append).
    Append,
    /// `read` of a log or of pages.
    Read,
    /// [`Pages::write`](crate::Pages::write).
    Write,
    /// [`Log::truncate`](crate::Log::truncate) or [`Pages::set_count`](crate::Pages::set_count).
    Resize,
    /// `sync` of a log or of pages.
    Sync,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Put => "put",
            Self::Get => "get",
            Self::Size => "measure",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Append => "append to",
            Self::Read => "read",
            Self::Write => "write",
            Self::Resize => "resize",
            Self::Sync => "sync",
        })
    }
}

/// What an error says about the requested object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The object is missing or damaged: another copy may exist elsewhere.
    Lost,
    /// The storage refused the request: credentials, permissions, an unsupported request, no space. The
    /// object may be intact.
    Refused,
    /// The storage could not be reached. The object may be intact, and the same call may succeed later.
    Unreachable,
    /// A stop was requested.
    Interrupted,
}

/// Why a call of a backend failed.
///
/// `name` is the object, log or file of pages; `place` is its root directory or service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The name or prefix is not allowed.
    #[error("{name:?} is not an object name: {reason}")]
    BadName {
        /// The name as given.
        name: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// The text does not name a location for a repository.
    #[error("{text:?} is not a location for a repository: {reason}")]
    BadLocation {
        /// The text as given.
        text: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// There is no object of this name.
    #[error("{name} does not exist in {place}")]
    NotFound {
        /// The object.
        name: String,
        /// Its expected location.
        place: String,
    },
    /// The name already has other content.
    #[error("{name} exists in {place} with other content")]
    AlreadyExists {
        /// The object.
        name: String,
        /// Where it is.
        place: String,
    },
    /// The range extends past the end.
    #[error("bytes {}..{} of {name} were requested, its size is {size}", range.start, range.end)]
    OutOfRange {
        /// The object, log or file of pages.
        name: String,
        /// The requested bytes.
        range: Range<u64>,
        /// The size in bytes.
        size: u64,
    },
    /// The object is longer than its reader accepts.
    #[error("{name} has {size} bytes, expected at most {max}")]
    TooLong {
        /// The object.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// The maximum size that the reader accepts, in bytes.
        max: u64,
    },
    /// No space, or no quota, is left.
    #[error("cannot {operation} {name}: {place} is full")]
    Full {
        /// The object, log or file of pages.
        name: String,
        /// What was being done.
        operation: Operation,
        /// What is full.
        place: String,
        /// What the layer below said.
        source: Cause,
    },
    /// The location is not a directory that can be a root.
    #[error("{} cannot hold a repository: {reason}", root.display())]
    BadRoot {
        /// The directory.
        root: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
        /// The error of the operating system, if any.
        source: Option<io::Error>,
    },
    /// Another user may have put the file there, or may exchange it.
    #[error("'{}' is not used: {reason}", path.display())]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The root directory is no longer the one that was opened: removed, replaced or unmounted.
    #[error("cannot {operation} {name}: {} was removed or replaced", root.display())]
    RootGone {
        /// The object.
        name: String,
        /// What was being done.
        operation: Operation,
        /// The directory.
        root: PathBuf,
    },
    /// Another handle, perhaps of another process, has this file open.
    #[error("{name} in {place} is in use")]
    InUse {
        /// The log or file of pages.
        name: String,
        /// Where it is.
        place: String,
    },
    /// An earlier sync failed, so the content of this handle's file is unknown: the caller must open it
    /// again.
    #[error("cannot {operation} {name} in {place}: an earlier sync failed")]
    Poisoned {
        /// The log or file of pages.
        name: String,
        /// What was being done.
        operation: Operation,
        /// Where it is.
        place: String,
    },
    /// The service overwrites objects in spite of a condition.
    #[error(
        "{place} overwrites objects: it accepted two puts of {name} on condition that the name is \
         free (If-None-Match: *)"
    )]
    NoConditionalPut {
        /// The object of the test.
        name: String,
        /// The service.
        place: String,
    },
    /// Nothing may be deleted through this handle.
    #[error("cannot delete {name}: it is in an append-only place")]
    AppendOnly {
        /// The object.
        name: String,
    },
    /// The simulated disk has crashed; nothing was done.
    #[error("cannot {operation} {name}: the simulated disk has crashed")]
    Crashed {
        /// The object, log or file of pages.
        name: String,
        /// What was being done.
        operation: Operation,
    },
    /// The storage could not be reached within the caller's time limit.
    #[error("{place} cannot be reached; requests failed for {} s", tried.as_secs())]
    Unreachable {
        /// Where it is.
        place: String,
        /// How long the calls were retried.
        tried: Duration,
        /// The error of the last request.
        source: Arc<BackendError>,
    },
    /// A stop was requested and the call was aborted: it may or may not have been executed.
    #[error("cannot {operation} {name}: it was interrupted")]
    Interrupted {
        /// The object.
        name: String,
        /// What was being done.
        operation: Operation,
    },
    /// Any other error of the layer below.
    #[error("cannot {operation} {name} in {place}")]
    Io {
        /// The object, log or file of pages.
        name: String,
        /// What was being done.
        operation: Operation,
        /// Where it is.
        place: String,
        /// What the layer below said.
        source: Cause,
    },
}

impl BackendError {
    /// Whether the requested name does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the location has no space or quota left.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// What the error says about the requested object.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::OutOfRange { .. } | Self::TooLong { .. } => {
                ErrorKind::Lost
            }
            Self::Unreachable { .. } | Self::RootGone { .. } | Self::Crashed { .. } => {
                ErrorKind::Unreachable
            }
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::Io { source, .. } if causes(source.as_ref()).any(is_lost_sector) => {
                ErrorKind::Lost
            }
            error if error.may_retry() => ErrorKind::Unreachable,
            _ => ErrorKind::Refused,
        }
    }

    /// Whether a sync that failed with this took nothing and lost nothing: the log keeps what was appended and
    /// is as before, so that a later sync may succeed. That is [`Full`](Self::Full) of an append.
    pub fn may_sync_again(&self) -> bool {
        matches!(self, Self::Full { operation: Operation::Append, .. })
    }

    /// Whether the cause is transient (an interruption, a timeout, a lost connection), so that the same
    /// call may succeed a little later.
    ///
    /// Calls of [`Objects`](crate::Objects) may always be repeated. An append may not: read
    /// [`Log::len`](crate::Log::len) first.
    pub fn may_retry(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        causes(source.as_ref()).any(is_passing)
    }

    /// The error for `cause`: [`Full`](Self::Full) if a lack of space is anywhere in its chain of
    /// sources, else [`Io`](Self::Io).
    pub(crate) fn from_cause(
        operation: Operation,
        name: &str,
        place: &str,
        cause: impl Into<Cause>,
    ) -> Self {
        let (name, place, source) = (name.to_owned(), place.to_owned(), cause.into());
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        if causes(source.as_ref()).filter_map(io_kind).any(full) {
            Self::Full { name, operation, place, source }
        } else {
            Self::Io { name, operation, place, source }
        }
    }

    /// The error of an operation on the file at `path`.
    pub(crate) fn from_file(operation: Operation, path: &Path, cause: io::Error) -> Self {
        let (name, place) = name_and_place(path);
        if cause.kind() == io::ErrorKind::NotFound {
            return Self::NotFound { name, place };
        }
        Self::from_cause(operation, &name, &place, cause)
    }
}

/// A file's name and its directory, for errors.
pub(crate) fn name_and_place(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let place = path.parent().unwrap_or(Path::new("/"));
    (name.to_string_lossy().into_owned(), place.display().to_string())
}

/// An error and all that it names as its sources.
pub(crate) fn causes<'a>(
    first: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> + 'a {
    std::iter::successors(Some(first), |&error: &&'a (dyn Error + 'static)| {
        // An I/O error names as its source the source of what it wraps, passing over that.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn io_kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    error.downcast_ref().map(io::Error::kind)
}

/// Whether a disk could not read a sector, whose content is lost.
fn is_lost_sector(error: &(dyn Error + 'static)) -> bool {
    const LOST_SECTOR: i32 = rustix::io::Errno::IO.raw_os_error();
    error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) == Some(LOST_SECTOR)
}

/// Whether an error is transient.
pub(crate) fn is_passing(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::*;
    let kind = io_kind(error);
    kind.is_some_and(|kind| {
        matches!(
            kind,
            Interrupted
                | TimedOut
                | WouldBlock
                | ResourceBusy
                | ConnectionRefused
                | ConnectionReset
                | ConnectionAborted
                | NotConnected
                | BrokenPipe
                | HostUnreachable
                | NetworkUnreachable
                | NetworkDown
                | StaleNetworkFileHandle
        )
    }) || matches!(error.downcast_ref(), Some(RadosError::Unknown { .. }))
        || is_passing_answer(error)
}

/// Without a network no answer of a service is an error.
#[cfg(not(feature = "remote"))]
fn is_passing_answer(_: &(dyn Error + 'static)) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_space_is_found_below_other_errors() {
        let below = io::Error::from(io::ErrorKind::StorageFull);
        let wrapped = io::Error::other(below);
        let store = object_store::Error::Generic { store: "test", source: Box::new(wrapped) };
        let error = BackendError::from_cause(Operation::Put, "a", "here", store);
        assert!(error.is_full(), "{error:?}");
        assert!(!error.may_retry());
    }

    #[test]
    fn an_error_says_whether_the_object_is_lost_refused_or_out_of_reach() {
        let of = |error: io::Error| {
            BackendError::from_cause(Operation::Get, "a", "here", io::Error::other(error)).kind()
        };
        assert_eq!(of(rustix::io::Errno::IO.into()), ErrorKind::Lost);
        assert_eq!(of(io::ErrorKind::PermissionDenied.into()), ErrorKind::Refused);
        assert_eq!(of(io::ErrorKind::StorageFull.into()), ErrorKind::Refused);
        assert_eq!(of(io::ErrorKind::ConnectionRefused.into()), ErrorKind::Unreachable);
        let missing = BackendError::NotFound { name: "a".into(), place: "here".into() };
        assert_eq!(missing.kind(), ErrorKind::Lost);
    }

    #[test]
    fn only_passing_causes_may_be_retried() {
        let retry = |kind| {
            BackendError::from_cause(Operation::Get, "a", "here", io::Error::from(kind)).may_retry()
        };
        assert!(retry(io::ErrorKind::TimedOut));
        assert!(!retry(io::ErrorKind::PermissionDenied));
    }
}

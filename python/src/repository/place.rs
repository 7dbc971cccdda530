//! Locations of repositories.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_backend::{
    BackendError, LocalObjects, Objects, RemoteObjects, RetryPolicy, Retrying, S3Location,
    S3Options,
};
use pyo3::prelude::*;

use crate::errors::of_file;

/// Where a repository is.
pub(crate) enum Place {
    /// Absolute, symbolic links resolved.
    Directory(PathBuf),
    /// A bucket, and the service's URL unless it is Amazon's.
    S3(S3Location, Option<String>),
}

impl Place {
    /// Reaches the place that `location` names; makes its directory if `is_new`.
    pub(super) fn reach(
        location: &Path,
        endpoint: Option<&str>,
        is_new: bool,
    ) -> Result<(Self, Arc<dyn Objects>), BackendError> {
        match location.to_str() {
            Some(text) if S3Location::is_meant_by(text) => {
                Self::reach_s3(S3Location::parse(text)?, endpoint)
            }
            Some(text) if text.contains("://") => Err(BackendError::BadLocation {
                text: text.to_owned(),
                reason: "its scheme is not supported here; use s3://BUCKET/PREFIX or a directory",
            }),
            _ => {
                let objects = match is_new {
                    true => LocalObjects::create(location)?,
                    false => LocalObjects::open(location)?,
                };
                Ok((Self::Directory(objects.root().to_owned()), Arc::new(objects)))
            }
        }
    }

    fn reach_s3(
        location: S3Location,
        endpoint: Option<&str>,
    ) -> Result<(Self, Arc<dyn Objects>), BackendError> {
        let environment = S3Options::from_environment();
        let endpoint = endpoint.map(str::to_owned).or_else(|| environment.endpoint.clone());
        let options = S3Options { endpoint: endpoint.clone(), ..environment };
        let remote = RemoteObjects::open(&location, &options)?;
        let place = remote.place().to_owned();
        let objects = Retrying::new(remote, &place, RetryPolicy::default())
            .stopped_by(options.stop)
            .counted_by(options.usage);
        Ok((Self::S3(location, endpoint), Arc::new(objects)))
    }

    /// By what a client remembers the place: the command's words for it, so that both know of the same.
    pub(super) fn remembered(&self) -> Vec<u8> {
        match self {
            Self::Directory(path) => path.as_os_str().as_bytes().to_vec(),
            Self::S3(location, None) => location.to_string().into_bytes(),
            Self::S3(location, Some(endpoint)) => {
                format!("{location} at {}", endpoint.trim_end_matches('/')).into_bytes()
            }
        }
    }

    /// Whether a cache of remote objects is of use.
    pub(super) const fn is_far(&self) -> bool {
        matches!(self, Self::S3(..))
    }

    /// Device and inode of the directory, by which a backup leaves it out of itself.
    pub(super) fn identity(&self) -> PyResult<Option<(u64, u64)>> {
        let Self::Directory(path) = self else { return Ok(None) };
        let metadata = path.metadata().map_err(|error| of_file(&error, path))?;
        Ok(Some((metadata.dev(), metadata.ino())))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::S3(location, _) => location.fmt(f),
        }
    }
}

/// The bytes of a path in a snapshot, as Python's file systems encode names.
pub(super) fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The path without slashes that name nothing.
pub(super) fn normal(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    parts.join(&b'/')
}

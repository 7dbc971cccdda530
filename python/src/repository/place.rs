//! Locations of repositories.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_backend::{
    BackendError, BucketLocation, BucketService, LocalObjects, Location, Objects, RemoteObjects,
    RemoteOptions, RetryPolicy, Retrying, SftpLocation, SftpObjects,
};
use pyo3::prelude::*;

use crate::errors::of_file;

/// Where a repository is.
pub(crate) enum Place {
    /// Absolute, symbolic links resolved.
    Directory(PathBuf),
    /// A bucket, and the command's words for it, by which a client remembers it.
    Bucket(BucketLocation, String),
    Sftp(SftpLocation),
}

impl Place {
    /// Reaches the place that `location` names; makes its directory if `is_new`.
    pub(super) fn reach(
        location: &Path,
        endpoint: Option<&str>,
        is_new: bool,
    ) -> Result<(Self, Arc<dyn Objects>), BackendError> {
        let options = RemoteOptions::from_environment();
        match Location::parse(location)? {
            Location::Directory(path) => {
                let objects = match is_new {
                    true => LocalObjects::create(&path)?,
                    false => LocalObjects::open(&path)?,
                };
                Ok((Self::Directory(objects.root().to_owned()), Arc::new(objects)))
            }
            Location::Bucket(location) => {
                let is_s3 = location.service() == BucketService::S3;
                let endpoint = endpoint.filter(|_| is_s3).map(str::to_owned);
                let options = RemoteOptions { endpoint, ..options };
                let remote = RemoteObjects::open(&location, &options)?;
                let place = remote.place().to_owned();
                let objects = retried(remote, &place, options.clone());
                let words = options.place(&location);
                Ok((Self::Bucket(location, words), objects))
            }
            Location::Sftp(location) => {
                let remote = SftpObjects::open(&location, &options)?;
                let place = remote.place().to_owned();
                Ok((Self::Sftp(location), retried(remote, &place, options)))
            }
        }
    }

    /// By what a client remembers the place: the command's words for it, so that both know of the same.
    pub(super) fn remembered(&self) -> Vec<u8> {
        match self {
            Self::Directory(path) => path.as_os_str().as_bytes().to_vec(),
            Self::Bucket(_, words) => words.clone().into_bytes(),
            Self::Sftp(location) => location.to_string().into_bytes(),
        }
    }

    /// Whether a cache of remote objects is of use.
    pub(super) const fn is_far(&self) -> bool {
        !matches!(self, Self::Directory(_))
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
            Self::Bucket(location, _) => location.fmt(f),
            Self::Sftp(location) => location.fmt(f),
        }
    }
}

/// Objects that are reached over a network, and retried.
fn retried(
    remote: impl Objects + 'static,
    place: &str,
    options: RemoteOptions,
) -> Arc<dyn Objects> {
    let objects = Retrying::new(remote, place, RetryPolicy::default())
        .stopped_by(options.stop)
        .counted_by(options.usage);
    Arc::new(objects)
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

//! Locations of repositories, and how they are reached.

use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use onefold_backend::{
    AnyGone, AppendOnly, BackendError, LocalObjects, Objects, RateLimit, RemoteObjects, Retry,
    RetryPolicy, Retrying, S3Location, S3Options,
};

use crate::console::Console;
use crate::interrupt;
use crate::name::PathFields;
use crate::requests::Service;

/// The shortest silence that ends a request, however short `--s3-retry-for` is: a slow service may still
/// answer.
const LEAST_SILENCE: Duration = Duration::from_secs(10);

/// How the location of a repository is reached, and which operations are allowed there.
#[derive(Debug, Args)]
pub(crate) struct Access {
    /// The URL of the S3 service [default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or Amazon's]
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Use an S3 service that has no conditional puts: look up each name before a put instead, which is
    /// not safe while a prune runs
    #[arg(long)]
    s3_no_conditional_put: bool,
    /// Retry transient errors for this long
    #[arg(long, value_name = "SECONDS", default_value_t = RetryPolicy::default().total.as_secs())]
    s3_retry_for: u64,
    /// Keep N requests to the S3 service in flight [default: as many as raise the throughput, up to 64]
    #[arg(long, value_name = "N")]
    s3_connections: Option<NonZero<usize>>,
    /// Send at most RATE KiB/s to S3 services
    #[arg(long, value_name = "RATE")]
    limit_upload: Option<NonZero<u64>>,
    /// Receive at most RATE KiB/s from S3 services
    #[arg(long, value_name = "RATE")]
    limit_download: Option<NonZero<u64>>,
    /// The limits, which all repositories of the command share.
    #[arg(skip)]
    limits: OnceLock<[Option<RateLimit>; 2]>,
    /// Whether the service of one of the command's repositories is unreachable.
    #[arg(skip)]
    any_gone: AnyGone,
    /// Delete nothing in the repository, whatever the command
    #[arg(long)]
    append_only: bool,
}

impl Access {
    /// Whether the user does without conditional puts.
    pub(crate) const fn is_without_conditional_put(&self) -> bool {
        self.s3_no_conditional_put
    }
}

/// Where a repository is, or may be.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Once opened absolute, symbolic links resolved.
    Directory(PathBuf),
    S3(S3Location),
}

/// A place that can be read and written.
pub(crate) struct Opened {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) place: Place,
    /// The same objects, if they are on a disk that may keep a reserve.
    pub(crate) on_disk: Option<Arc<LocalObjects>>,
}

impl Place {
    /// The place that the user named.
    pub(crate) fn of(repo: &Path) -> Result<Self, BackendError> {
        match repo.to_str() {
            Some(text) if S3Location::is_meant_by(text) => S3Location::parse(text).map(Self::S3),
            Some(text) if has_scheme(text) => Err(BackendError::BadLocation {
                text: text.to_owned(),
                reason: "the scheme before its colon is not supported; \
                         use s3://BUCKET/PREFIX, or ./ before a directory name",
            }),
            _ => Ok(Self::Directory(repo.to_owned())),
        }
    }

    pub(crate) fn open(&self, access: &Access, console: &Console) -> Result<Opened, BackendError> {
        match self {
            Self::Directory(path) => Ok(access.to_directory(LocalObjects::open(path)?)),
            Self::S3(location) => access.to_s3(location, console),
        }
    }

    /// Opens the place; a directory is made if it does not exist, a bucket must be there.
    pub(crate) fn create(
        &self,
        access: &Access,
        console: &Console,
    ) -> Result<Opened, BackendError> {
        match self {
            Self::Directory(path) => Ok(access.to_directory(LocalObjects::create(path)?)),
            Self::S3(_) => self.open(access, console),
        }
    }

    /// The directory, if it is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::S3(_) => None,
        }
    }

    /// Device and inode of the directory, by which a backup leaves it out of itself.
    pub(crate) fn identity(&self) -> Result<Option<(u64, u64)>> {
        let Some(path) = self.directory() else { return Ok(None) };
        let metadata =
            path.metadata().with_context(|| format!("cannot stat '{}'", path.display()))?;
        Ok(Some((metadata.dev(), metadata.ino())))
    }

    /// By what the place is known to a client that remembers it; of an opened place.
    pub(crate) fn location(&self, access: &Access) -> Vec<u8> {
        match self {
            Self::Directory(path) => path.as_os_str().as_bytes().to_vec(),
            Self::S3(location) => match access.endpoint() {
                Some(endpoint) => format!("{location} at {}", endpoint.trim_end_matches('/')),
                None => location.to_string(),
            }
            .into_bytes(),
        }
    }

    /// The place in JSON.
    pub(crate) fn fields(&self) -> PathFields {
        match self {
            Self::Directory(path) => PathFields::of_path(path),
            Self::S3(location) => PathFields::new(location.to_string().as_bytes()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::S3(location) => location.fmt(f),
        }
    }
}

impl Access {
    /// Fails before `what` starts if nothing may be deleted.
    pub(crate) fn expect_deletes(&self, what: &str) -> Result<()> {
        match self.append_only {
            true => bail!(
                "{what} deletes objects, which --append-only forbids; --dry-run shows what it would do"
            ),
            false => Ok(()),
        }
    }

    /// The URL of the S3 service, unless it is Amazon's.
    fn endpoint(&self) -> Option<String> {
        self.s3_endpoint.clone().or_else(|| S3Options::from_environment().endpoint)
    }

    /// The limits for what is sent and for what is received.
    fn limits(&self) -> [Option<RateLimit>; 2] {
        let of = |rate: NonZero<u64>| {
            RateLimit::new(rate.saturating_mul(const { NonZero::new(1 << 10).unwrap() }))
        };
        self.limits.get_or_init(|| [self.limit_upload.map(of), self.limit_download.map(of)]).clone()
    }

    fn to_directory(&self, objects: LocalObjects) -> Opened {
        let place = Place::Directory(objects.root().to_owned());
        let objects = Arc::new(objects);
        Opened { objects: self.limited(Arc::clone(&objects)), place, on_disk: Some(objects) }
    }

    fn to_s3(&self, location: &S3Location, console: &Console) -> Result<Opened, BackendError> {
        let patience = Duration::from_secs(self.s3_retry_for);
        let environment = S3Options::from_environment();
        let [upload_limit, download_limit] = self.limits();
        let options = S3Options {
            endpoint: self.endpoint(),
            conditional_put: !self.s3_no_conditional_put,
            connections: self.s3_connections,
            silence: patience.clamp(LEAST_SILENCE, environment.silence),
            upload_limit,
            download_limit,
            stop: interrupt::new_stop(),
            ..environment
        };
        let policy = RetryPolicy { total: patience, ..RetryPolicy::default() };
        let remote = RemoteObjects::open(location, &options)?;
        let place = remote.place().to_owned();
        console.add_service(Service { place: place.clone(), usage: options.usage.clone() });
        let console = console.clone();
        let tell = {
            let place = place.clone();
            move |retry: Retry<'_>| tell_of_retry(&console, &place, &retry)
        };
        let objects = Retrying::new(remote, &place, policy)
            .on_retry(tell)
            .stopped_by(options.stop)
            .counted_by(options.usage)
            .beside(self.any_gone.clone());
        let place = Place::S3(location.clone());
        Ok(Opened { objects: self.limited(objects), place, on_disk: None })
    }

    fn limited(&self, objects: impl Objects + 'static) -> Arc<dyn Objects> {
        match self.append_only {
            true => Arc::new(AppendOnly(objects)),
            false => Arc::new(objects),
        }
    }
}

/// Whether `text` begins like a URL, or with a scheme of restic's, such as `sftp:` and `rest:`.
fn has_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let starts_so = text.starts_with(|first: char| first.is_ascii_alphabetic());
    starts_so && text.split_once(':').is_some_and(|(scheme, _)| scheme.bytes().all(is_part))
}

/// Reports retries; without --verbose only those that last so long that the user may notice.
fn tell_of_retry(console: &Console, place: &str, retry: &Retry<'_>) {
    let with_cause = |error: &BackendError| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    };
    match retry {
        Retry::Pause { error, pause } => console.detail(format_args!(
            "{}; retrying in {:.1} s",
            with_cause(error),
            pause.as_secs_f64()
        )),
        Retry::Outage { error, left } => console.notice(format_args!(
            "cannot reach {place}; retrying for another {}: {}",
            duration(*left),
            with_cause(error)
        )),
        Retry::Answered { lasted } => {
            console.notice(format_args!("{place} answers again, after {}", duration(*lasted)));
        }
    }
}

/// A duration in minutes and seconds.
fn duration(duration: Duration) -> String {
    // A duration that has begun counts.
    let seconds = duration.as_millis().div_ceil(1_000);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

/// What was found at the location of a repository.
pub(crate) enum Found {
    Nothing,
    NoDirectory,
    /// Unknown: the operating system or the service denies access.
    Unknown,
}

pub(crate) fn what_is_at(error: &BackendError) -> Found {
    match error {
        BackendError::BadRoot { source: Some(cause), .. } => match cause.kind() {
            io::ErrorKind::NotFound => Found::Nothing,
            io::ErrorKind::NotADirectory => Found::NoDirectory,
            _ => Found::Unknown,
        },
        BackendError::BadRoot { root, source: None, .. } if !root.is_dir() => Found::NoDirectory,
        _ => Found::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_in_s3_is_that_of_one_service() {
        let access = |endpoint: &str| Access {
            s3_endpoint: Some(endpoint.into()),
            s3_no_conditional_put: false,
            s3_retry_for: 0,
            s3_connections: None,
            limit_upload: None,
            limit_download: None,
            limits: OnceLock::new(),
            any_gone: AnyGone::default(),
            append_only: false,
        };
        let place = Place::of(Path::new("s3://bucket/a/")).unwrap();
        let here = place.location(&access("https://here/"));
        assert_eq!(here, b"s3://bucket/a at https://here");
        assert_eq!(here, place.location(&access("https://here")));
        assert_ne!(here, place.location(&access("https://there")));
    }
}

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
    AnyGone, AppendOnly, BackendError, BucketLocation, BucketService, LocalObjects, Location,
    Objects, RateLimit, RemoteObjects, RemoteOptions, Retry, RetryPolicy, Retrying, SftpLocation,
    SftpObjects,
};

use crate::console::Console;
use crate::interrupt;
use crate::name::PathFields;
use crate::requests::Service;

/// The shortest silence that ends a request, however short `--retry-for` is: a slow service may still
/// answer.
const LEAST_SILENCE: Duration = Duration::from_secs(10);

/// How the location of a repository is reached, and which operations are allowed there.
#[derive(Debug, Args)]
pub(crate) struct Access {
    /// The URL of the S3 service [default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or Amazon's]
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Use a service that has no conditional puts: look up each name before a put instead, which is not
    /// safe while a prune runs
    #[arg(long, alias = "s3-no-conditional-put")]
    no_conditional_put: bool,
    /// Retry transient errors of a service or a line for this long
    #[arg(long, alias = "s3-retry-for", value_name = "SECONDS",
        default_value_t = RetryPolicy::default().total.as_secs())]
    retry_for: u64,
    /// Keep N requests to a service in flight [default: as many as raise the throughput, up to 64], or N
    /// sessions of SFTP [default: 4]
    #[arg(long, alias = "s3-connections", value_name = "N")]
    connections: Option<NonZero<usize>>,
    /// Send at most RATE bytes a second over the network: 500K, 10M, 1G; without a unit, KiB
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    limit_upload: Option<NonZero<u64>>,
    /// Receive at most RATE bytes a second over the network
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    limit_download: Option<NonZero<u64>>,
    /// The configuration of ssh to use for SFTP [default: ~/.ssh/config and /etc/ssh/ssh_config]
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
    /// Reach the SFTP server by a command, such as 'ssh HOST -s sftp', instead of an own connection
    #[arg(long, value_name = "COMMAND")]
    sftp_command: Option<String>,
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
        self.no_conditional_put
    }
}

/// Where a repository is, or may be.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Once opened absolute, symbolic links resolved.
    Directory(PathBuf),
    Bucket(BucketLocation),
    Sftp(SftpLocation),
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
        Ok(match Location::parse(repo)? {
            Location::Directory(path) => Self::Directory(path),
            Location::Bucket(location) => Self::Bucket(location),
            Location::Sftp(location) => Self::Sftp(location),
        })
    }

    pub(crate) fn open(&self, access: &Access, console: &Console) -> Result<Opened, BackendError> {
        match self {
            Self::Directory(path) => Ok(access.to_directory(LocalObjects::open(path)?)),
            Self::Bucket(location) => access.to_bucket(location, console),
            Self::Sftp(location) => access.to_sftp(location, console),
        }
    }

    /// Opens the place; a directory is made if it does not exist, by SFTP with the first put, and a bucket must
    /// be there.
    pub(crate) fn create(
        &self,
        access: &Access,
        console: &Console,
    ) -> Result<Opened, BackendError> {
        match self {
            Self::Directory(path) => Ok(access.to_directory(LocalObjects::create(path)?)),
            Self::Bucket(_) | Self::Sftp(_) => self.open(access, console),
        }
    }

    /// The directory, if it is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Bucket(_) | Self::Sftp(_) => None,
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
            Self::Bucket(location) => access.options(location).place(location).into_bytes(),
            Self::Sftp(location) => location.to_string().into_bytes(),
        }
    }

    /// The place in JSON.
    pub(crate) fn fields(&self) -> PathFields {
        match self {
            Self::Directory(path) => PathFields::of_path(path),
            Self::Bucket(location) => PathFields::new(location.to_string().as_bytes()),
            Self::Sftp(location) => PathFields::new(location.to_string().as_bytes()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Bucket(location) => location.fmt(f),
            Self::Sftp(location) => location.fmt(f),
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

    /// The limits for what is sent and for what is received.
    fn limits(&self) -> [Option<RateLimit>; 2] {
        let limits =
            || [self.limit_upload.map(RateLimit::new), self.limit_download.map(RateLimit::new)];
        self.limits.get_or_init(limits).clone()
    }

    fn to_directory(&self, objects: LocalObjects) -> Opened {
        let place = Place::Directory(objects.root().to_owned());
        let objects = Arc::new(objects);
        Opened { objects: self.limited(Arc::clone(&objects)), place, on_disk: Some(objects) }
    }

    fn to_bucket(
        &self,
        location: &BucketLocation,
        console: &Console,
    ) -> Result<Opened, BackendError> {
        let options = self.options(location);
        let remote = RemoteObjects::open(location, &options)?;
        let place = remote.place().to_owned();
        Ok(self.to_remote(remote, &place, Place::Bucket(location.clone()), options, console))
    }

    fn to_sftp(&self, location: &SftpLocation, console: &Console) -> Result<Opened, BackendError> {
        let options = self.remote_options();
        let remote = SftpObjects::open(location, &options)?;
        let place = remote.place().to_owned();
        Ok(self.to_remote(remote, &place, Place::Sftp(location.clone()), options, console))
    }

    /// How a bucket is reached.
    fn options(&self, location: &BucketLocation) -> RemoteOptions {
        let is_s3 = location.service() == BucketService::S3;
        let endpoint = self.s3_endpoint.clone().filter(|_| is_s3);
        RemoteOptions { endpoint, ..self.remote_options() }
    }

    fn remote_options(&self) -> RemoteOptions {
        let environment = RemoteOptions::from_environment();
        let [upload_limit, download_limit] = self.limits();
        RemoteOptions {
            conditional_put: !self.no_conditional_put,
            connections: self.connections,
            silence: self.patience().clamp(LEAST_SILENCE, environment.silence),
            upload_limit,
            download_limit,
            stop: interrupt::new_stop(),
            ssh_config: self.ssh_config.clone(),
            sftp_command: self.sftp_command.clone(),
            ..environment
        }
    }

    const fn patience(&self) -> Duration {
        Duration::from_secs(self.retry_for)
    }

    /// Objects that are reached over a network: retried, counted and, if asked, never deleted.
    fn to_remote(
        &self,
        remote: impl Objects + 'static,
        service: &str,
        place: Place,
        options: RemoteOptions,
        console: &Console,
    ) -> Opened {
        let policy = RetryPolicy { total: self.patience(), ..RetryPolicy::default() };
        let RemoteOptions { usage, stop, .. } = options;
        console.add_service(Service { place: service.to_owned(), usage: usage.clone() });
        let tell = {
            let (console, service) = (console.clone(), service.to_owned());
            move |retry: Retry<'_>| tell_of_retry(&console, &service, &retry)
        };
        let objects = Retrying::new(remote, service, policy)
            .on_retry(tell)
            .stopped_by(stop)
            .counted_by(usage)
            .beside(self.any_gone.clone());
        Opened { objects: self.limited(objects), place, on_disk: None }
    }

    fn limited(&self, objects: impl Objects + 'static) -> Arc<dyn Objects> {
        match self.append_only {
            true => Arc::new(AppendOnly(objects)),
            false => Arc::new(objects),
        }
    }
}

/// Bytes a second: a number of KiB, or of what its unit says (B, K, M or G, by 1,024).
fn parse_rate(text: &str) -> Result<NonZero<u64>, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim_start().to_ascii_lowercase();
    let shift = match unit.strip_suffix("/s").unwrap_or(&unit) {
        "b" => 0,
        "" | "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err("expected a number and B, K, M or G, such as 10M".into()),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number, such as 10M".to_owned())?;
    let rate = number.checked_mul(1 << shift).and_then(NonZero::new);
    rate.ok_or_else(|| "expected more than nothing, and less than 16 EiB".into())
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
        let access = |endpoint: &str| {
            #[derive(clap::Parser)]
            struct Line {
                #[command(flatten)]
                access: Access,
            }
            <Line as clap::Parser>::parse_from(["onefold", "--s3-endpoint", endpoint]).access
        };
        let place = Place::of(Path::new("s3://bucket/a/")).unwrap();
        let here = place.location(&access("https://here/"));
        assert_eq!(here, b"s3://bucket/a at https://here");
        assert_eq!(here, place.location(&access("https://here")));
        assert_ne!(here, place.location(&access("https://there")));
    }

    #[test]
    fn a_rate_has_a_unit_or_is_in_kib() {
        for (text, expected) in [
            ("1", 1 << 10),
            ("500", 500 << 10),
            ("512B", 512),
            ("500K", 500 << 10),
            ("10 MiB/s", 10 << 20),
            ("2g", 2 << 30),
        ] {
            assert_eq!(parse_rate(text).map(NonZero::get), Ok(expected), "{text}");
        }
        for bad in ["", "K", "-1", "1.5M", "0", "10X", "99999999999999G"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}

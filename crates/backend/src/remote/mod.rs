//! Objects in a bucket of an S3 service.
//!
//! Each object is one object of the bucket, below a prefix. The guarantees of `put` rely on the service: an
//! acknowledged put is durable, a name appears with all its bytes or not at all, and `If-None-Match: *`
//! refuses a name that is taken. The last is tested before the first put, because some services ignore
//! the condition.
//!
//! Calls are tried once. [`Retrying`](crate::Retrying) retries them.

mod answers;
mod client;
mod hedge;
mod leftovers;
mod limit;
mod listing;
mod location;
mod many;
mod parts;
mod silence;
mod streams;
mod width;

pub use limit::RateLimit;
pub use location::S3Location;

use std::error::Error;
use std::fmt;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, Checksum, S3ConditionalPut};
use object_store::client::{HttpConnector, HttpError, HttpErrorKind};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, PutMode, RetryConfig};
use reqwest::Url;
use tokio::runtime::{self, Runtime};
use tokio::sync::Semaphore;

use crate::error::causes;
use crate::name::check_name;
use crate::stored::{Stored, Wait};
use crate::{BackendError, Cause, ObjectInfo, Objects, OnAnswer, Operation, Request, Stop, Usage};
use answers::{CheckedConnector, Refusal};
use client::Wire;
use hedge::Queues;
use leftovers::Lister;
use many::Pace;
use parts::{Attempt, Attempts, Sent};

/// Put twice to find out what the service does with a taken name. Capitals are in no object's
/// name, so it is never listed. It stays: a client may be allowed to put and not to delete.
const PROBE: &str = "PROBE";

const PROBE_CONTENT: &[u8] = b"Put under If-None-Match: * to see whether that is honoured.\n";

/// The default maximum number of requests in flight; more requests wait.
const MAX_REQUESTS: usize = 64;

/// Time to make a connection to the service.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The default time without a byte after which a request fails.
const SILENCE: Duration = Duration::from_secs(60);

/// Options for a bucket.
#[derive(Clone)]
pub struct S3Options {
    /// The service's URL, or `None` for Amazon's.
    pub endpoint: Option<String>,
    /// Whether puts are conditional on a free name, which the service must support.
    ///
    /// Without it, two writers that concurrently put different bytes under the same name may both succeed.
    pub conditional_put: bool,
    /// The number of requests in flight; if `None`, as many as raise the throughput, up to 64.
    pub connections: Option<NonZero<usize>>,
    /// Time without a byte in either direction after which a request fails.
    pub silence: Duration,
    /// Limits the bytes sent, together with all others that share it.
    pub upload_limit: Option<RateLimit>,
    /// Limits the bytes received, together with all others that share it.
    pub download_limit: Option<RateLimit>,
    /// Counts requests.
    pub usage: Usage,
    /// Aborts requests.
    pub stop: Stop,
    /// Credentials, region and the like, by the names of the variables that Amazon's tools read:
    /// `AWS_ACCESS_KEY_ID`, `AWS_REGION`.
    pub settings: Vec<(String, String)>,
}

impl S3Options {
    /// Options from the environment variables whose names start with `AWS_`.
    pub fn from_environment() -> Self {
        let settings: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty())
            .collect();
        // The variable for S3 alone goes before the one for all services.
        let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]
            .into_iter()
            .find_map(|wanted| settings.iter().find(|(name, _)| name == wanted))
            .map(|(_, value)| value.clone());
        Self {
            endpoint,
            conditional_put: true,
            connections: None,
            silence: SILENCE,
            upload_limit: None,
            download_limit: None,
            usage: Usage::default(),
            stop: Stop::default(),
            settings,
        }
    }

    /// Whether the user seems to rely on a profile for credentials.
    fn needs_profile(&self) -> bool {
        let has = |wanted: &str| self.settings.iter().any(|(name, _)| name == wanted);
        let others = [
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_SKIP_SIGNATURE",
        ];
        has("AWS_PROFILE") && !others.into_iter().any(has)
    }
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secret.
        let names: Vec<_> = self.settings.iter().map(|(name, _)| name).collect();
        f.debug_struct("S3Options")
            .field("endpoint", &self.endpoint)
            .field("conditional_put", &self.conditional_put)
            .field("connections", &self.connections)
            .field("silence", &self.silence)
            .field("upload_limit", &self.upload_limit)
            .field("download_limit", &self.download_limit)
            .field("settings", &names)
            .finish()
    }
}

/// Objects in a bucket; any number of processes may share it.
///
/// An object is sent and received in a single request and held in memory, so it may have at most 5 GiB, the
/// limit of services.
#[derive(Debug)]
pub struct RemoteObjects {
    bucket: Arc<Bucket>,
    pace: Mutex<Pace>,
    queues: Queues,
    /// The service again, for operations that its wrappers do not have.
    s3: AmazonS3,
    lister: Lister,
    prefix: Path,
    attempts: Attempts,
    conditional_put: bool,
    /// Whether the service has shown that it honours the condition.
    shown: Mutex<bool>,
    /// Whether it honours the condition at the end of a multipart upload; none until that was tested.
    shown_for_parts: Mutex<Option<bool>>,
}

type Bucket = Stored<Arc<PrefixStore<AmazonS3>>, Waiter>;

/// Runs requests, and aborts them when a stop is requested.
#[derive(Debug)]
struct Waiter {
    /// Present until this is dropped.
    runtime: Option<Runtime>,
    stop: Stop,
}

impl Waiter {
    fn new(runtime: Runtime, stop: Stop) -> Self {
        Self { runtime: Some(runtime), stop }
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("only a drop takes the runtime")
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // A look-up of a host's name blocks a thread of the runtime, and may last for minutes.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Wait for Waiter {
    fn wait<F: Future>(&self, what: F) -> Option<F::Output> {
        self.runtime().block_on(self.stop.unless_broken_off(what))
    }
}

impl RemoteObjects {
    /// A handle for a bucket; sends nothing yet.
    ///
    /// Plain HTTP is used only with an endpoint that says `http://`.
    pub fn open(location: &S3Location, options: &S3Options) -> Result<Self, BackendError> {
        let place = match &options.endpoint {
            Some(endpoint) => format!("{location} at {endpoint}"),
            None => location.to_string(),
        };
        let cannot_open =
            |cause| BackendError::from_cause(Operation::Open, location.bucket(), &place, cause);
        if options.needs_profile() {
            let text = "AWS_PROFILE names a profile, which is not read, and no other variable \
                        names credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
            return Err(cannot_open(text.into()));
        }
        let queues = Queues::default();
        let (s3, lister) =
            build(location, options, &queues).map_err(|cause| cannot_open(cause.into()))?;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("s3")
            .enable_all()
            .build()
            .map_err(|cause| cannot_open(Cause::from(cause)))?;
        let prefix = path_of(location);
        let store = PrefixStore::new(s3.clone(), prefix.clone());
        let waiter = Waiter::new(runtime, options.stop.clone());
        Ok(Self {
            bucket: Arc::new(Stored { store: Arc::new(store), place, waiter }),
            pace: Mutex::new(Pace::new(options.connections)),
            queues,
            s3,
            lister,
            prefix,
            attempts: Attempts::default(),
            conditional_put: options.conditional_put,
            shown: Mutex::new(false),
            shown_for_parts: Mutex::new(None),
        })
    }

    /// The bucket's location and service, as named in errors.
    pub fn place(&self) -> &str {
        &self.bucket.place
    }

    /// Fails with [`BackendError::NoConditionalPut`] if the service overwrites existing objects.
    fn probe(&self) -> Result<(), BackendError> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // The probe of another process, or of an earlier run, serves as the first put.
        *shown = *shown || self.probe_is_refused()? || self.probe_is_refused()?;
        if *shown {
            return Ok(());
        }
        Err(BackendError::NoConditionalPut {
            name: PROBE.to_owned(),
            place: self.bucket.place.clone(),
        })
    }

    fn put_whole(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        match self.conditional_put {
            true => self.bucket.put(name, bytes).map(|_| ()),
            false => self.bucket.put_unless_seen(name, bytes).map(|_| ()),
        }
    }

    /// Continues a put that broke. An earlier try may have succeeded without an answer.
    fn put_in_parts(
        &self,
        name: &str,
        bytes: Bytes,
        attempt: &mut Attempt,
    ) -> Result<(), BackendError> {
        let taken = || {
            let (name, place) = (name.to_owned(), self.bucket.place.clone());
            BackendError::AlreadyExists { name, place }
        };
        match self.bucket.holds(name, &bytes)? {
            Some(true) => return Ok(()),
            Some(false) => return Err(taken()),
            None => {}
        }
        if self.conditional_put && !self.probe_for_parts()? {
            return self.put_whole(name, bytes);
        }
        let path = self.full_path(name);
        let sent = self.bucket.wait(Operation::Put, name, attempt.send(&self.s3, &path, &bytes))?;
        match sent.map_err(|cause| self.bucket.error(Operation::Put, name, cause))? {
            Sent::Whole => Ok(()),
            Sent::Taken => self.bucket.taken(name, &bytes, taken()).map(|_| ()),
            Sent::Refused => self.put_whole(name, bytes),
        }
    }

    /// Whether the service refuses to complete a multipart upload under a name that is taken. If not,
    /// objects are sent in one request only. The tested name was found taken by the [probe](Self::probe).
    fn probe_for_parts(&self) -> Result<bool, BackendError> {
        let mut shown = self.shown_for_parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(is_honoured) = *shown {
            return Ok(is_honoured);
        }
        let content = Bytes::from_static(PROBE_CONTENT);
        let path = self.full_path(PROBE);
        let probe = parts::refuses_taken(&self.s3, &path, content);
        let is_honoured = match self.bucket.wait(Operation::Put, PROBE, probe)? {
            Err(error) if may_pass(&error) => {
                return Err(self.bucket.error(Operation::Put, PROBE, error));
            }
            // A service without multipart uploads gets none.
            probed => probed.unwrap_or(false),
        };
        Ok(*shown.insert(is_honoured))
    }

    /// Aborts a multipart upload. If that fails, it is left for [`Objects::discard_unfinished`].
    fn abort(&self, name: &str, attempt: &Attempt) {
        if let Some(id) = attempt.unfinished() {
            let path = self.full_path(name);
            drop(self.bucket.wait(Operation::Put, name, self.s3.abort_multipart(&path, id)));
        }
    }

    /// The name of an object in the bucket.
    fn full_path(&self, name: &str) -> Path {
        let name = Path::parse(name).expect("an object's name is a path");
        self.prefix.parts().chain(name.parts()).collect()
    }

    fn probe_is_refused(&self) -> Result<bool, BackendError> {
        let content = Bytes::from_static(PROBE_CONTENT);
        match self.bucket.put_as(PROBE, &content, PutMode::Create) {
            Ok(()) => Ok(false),
            Err(BackendError::AlreadyExists { .. }) => Ok(true),
            Err(BackendError::Io { source, .. }) if is_unknown_request(source.as_ref()) => {
                Err(BackendError::NoConditionalPut {
                    name: PROBE.to_owned(),
                    place: self.bucket.place.clone(),
                })
            }
            Err(error) => Err(error),
        }
    }
}

impl Objects for RemoteObjects {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        check_name(name)?;
        if self.conditional_put {
            self.probe()?;
        }
        let mut attempt = self.attempts.take(name);
        let put = match attempt.goes_in_parts(bytes.len()) {
            true => self.put_in_parts(name, bytes, &mut attempt),
            false => self.put_whole(name, bytes),
        };
        match &put {
            Err(error) if error.may_retry() => {
                self.attempts.keep(name, attempt, broke_in_transit(error));
            }
            _ => self.abort(name, &attempt),
        }
        put
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.bucket.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.bucket.get_range(name, range)
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.bucket.get_limited(name, max)
    }

    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        many::get_many(&self.bucket, &self.pace, &self.queues, requests, take)
    }

    fn gap(&self) -> u64 {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).gap()
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.bucket.size(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let store = &self.bucket.store;
        self.bucket.list_by(prefix, async |directory| listing::list(store, directory).await)
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.bucket.delete(name)
    }

    fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
        let width = self.pace.lock().unwrap_or_else(PoisonError::into_inner).deletes();
        self.bucket.delete_each(names, width)
    }

    fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
        const WHAT: &str = "unfinished uploads";
        let aborting = leftovers::abort(&self.s3, &self.lister, &self.prefix, age);
        let aborted = self.bucket.wait(Operation::List, WHAT, aborting)?;
        aborted.map_err(|cause| self.bucket.error(Operation::List, WHAT, cause))
    }
}

/// Whether the service may answer the same request otherwise a little later.
pub(crate) fn is_passing(error: &(dyn Error + 'static)) -> bool {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return refusal.is_passing();
    }
    // A request or an answer that broke off. Of kind Unknown are requests that cannot be made,
    // and refusals.
    let broke_off = |error: &HttpError| error.kind() != HttpErrorKind::Unknown;
    error.downcast_ref::<HttpError>().is_some_and(broke_off)
}

/// Whether a put ended between its first byte and the answer, as on a line that breaks: neither the
/// service refused it, nor the connection.
fn broke_in_transit(error: &BackendError) -> bool {
    let BackendError::Io { operation: Operation::Put, source, .. } = error else { return false };
    causes(source.as_ref())
        .filter_map(|error| error.downcast_ref::<HttpError>())
        .any(|error| matches!(error.kind(), HttpErrorKind::Interrupted | HttpErrorKind::Timeout))
}

/// Whether the same request may succeed a little later.
fn may_pass(error: &object_store::Error) -> bool {
    causes(error).any(crate::error::is_passing)
}

/// Whether the service does not know the request.
fn is_unknown_request(first: &(dyn Error + 'static)) -> bool {
    causes(first)
        .filter_map(|error| error.downcast_ref::<Refusal>())
        .any(Refusal::is_unknown_request)
}

fn build(
    location: &S3Location,
    options: &S3Options,
    queues: &Queues,
) -> object_store::Result<(AmazonS3, Lister)> {
    let endpoint = options.endpoint.as_deref();
    // The signature already has the digest, which buckets with Object Lock require.
    let mut builder = AmazonS3Builder::new().with_checksum_algorithm(Checksum::SHA256);
    for (name, value) in &options.settings {
        // What is for other programs is passed over.
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    let wire = Wire {
        silence: options.silence,
        upload: options.upload_limit.clone(),
        download: options.download_limit.clone(),
        conditional_put: options.conditional_put,
        usage: options.usage.clone(),
        bucket: Url::parse(&bucket_url(&builder, location.bucket())).ok(),
    };
    let most = options.connections.map_or(MAX_REQUESTS, NonZero::get);
    let permits = Arc::new(Semaphore::new(most));
    let connector = CheckedConnector { wire, queues: queues.clone(), permits };
    let client = ClientOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_allow_http(endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")));
    let lister = Lister {
        client: connector.connect(&client)?,
        unsigned: is_set(&builder, AmazonS3ConfigKey::SkipSignature)
            .then(|| bucket_url(&builder, location.bucket())),
    };
    let s3 = builder
        .with_client_options(client)
        .with_http_connector(connector)
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_disable_bulk_delete(true)
        .with_bucket_name(location.bucket())
        .build()?;
    Ok((s3, lister))
}

/// Whether a setting is on, in the words that `object_store` takes for it.
fn is_set(builder: &AmazonS3Builder, key: AmazonS3ConfigKey) -> bool {
    let value = builder.get_config_value(&key).map(|value| value.to_ascii_lowercase());
    matches!(value.as_deref(), Some("1" | "true" | "on" | "yes" | "y"))
}

/// The URL of a bucket, as `object_store` forms it.
fn bucket_url(builder: &AmazonS3Builder, bucket: &str) -> String {
    let value = |key| builder.get_config_value(&key);
    let endpoint = value(AmazonS3ConfigKey::S3Endpoint).or(value(AmazonS3ConfigKey::Endpoint));
    let region = value(AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
    match (endpoint, is_set(builder, AmazonS3ConfigKey::VirtualHostedStyleRequest)) {
        (Some(endpoint), true) => endpoint,
        (Some(endpoint), false) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
        (None, true) => format!("https://{bucket}.s3.{region}.amazonaws.com"),
        (None, false) => format!("https://s3.{region}.amazonaws.com/{bucket}"),
    }
}

fn path_of(location: &S3Location) -> Path {
    Path::parse(location.prefix()).expect("a location's prefix is a path")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn dropping_a_waiter_waits_for_no_thread_that_blocks() {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (begun, begins) = mpsc::channel();
        runtime.spawn_blocking(move || {
            begun.send(()).unwrap();
            thread::sleep(Duration::from_secs(20));
        });
        begins.recv().unwrap();
        let start = Instant::now();
        drop(Waiter::new(runtime, Stop::default()));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

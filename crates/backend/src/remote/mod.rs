//! Objects in a bucket of an object service: S3, Azure Blob Storage or Google Cloud Storage.
//!
//! Each object is one object of the bucket, below a prefix. The guarantees of `put` rely on the service: an
//! acknowledged put is durable, a name appears with all its bytes or not at all, and a condition
//! (`If-None-Match: *`; for Google, generation 0) refuses a name that is taken. The last is tested before the
//! first put, because some services ignore the condition.
//!
//! Calls are tried once. [`Retrying`](crate::Retrying) retries them.

mod answers;
mod azure;
mod client;
mod google;
mod hedge;
mod leftovers;
mod limit;
mod listing;
mod many;
mod options;
mod parts;
mod s3;
mod service;
mod sftp;
mod silence;
mod streams;
mod width;

pub use limit::RateLimit;
pub use options::RemoteOptions;
pub use sftp::SftpObjects;

use std::error::Error;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, PutMode};
use tokio::runtime::{self, Runtime};

use crate::error::causes;
use crate::name::check_name;
use crate::stored::{Stored, Wait};
use crate::{
    BackendError, BucketLocation, Cause, ObjectInfo, Objects, OnAnswer, Operation, Request, Stop,
};
use answers::Refusal;
use hedge::Queues;
use many::Pace;
use parts::{Attempt, Attempts, Sent};
use s3::S3;
use service::Service;

/// Put twice to find out what the service does with a taken name. Capitals are in no object's
/// name, so it is never listed. It stays: a client may be allowed to put and not to delete.
const PROBE: &str = "PROBE";

const PROBE_CONTENT: &[u8] = b"Put under If-None-Match: * to see whether that is honoured.\n";

/// Time to make a connection to the service.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Objects in a bucket; any number of processes may share it.
///
/// An object is sent and received in a single request and held in memory, so it may have at most 5 GiB, the
/// limit of services.
#[derive(Debug)]
pub struct RemoteObjects {
    bucket: Arc<Bucket>,
    pace: Mutex<Pace>,
    queues: Queues,
    /// Whether listings can begin anywhere, so that several pages are requested together.
    lists_from_anywhere: bool,
    /// Uploads in parts, where the service has them under the condition.
    uploads: Option<Uploads>,
    conditional_put: bool,
    /// Whether the service has shown that it honours the condition.
    shown: Mutex<bool>,
}

/// Uploads in parts.
#[derive(Debug)]
struct Uploads {
    s3: S3,
    prefix: Path,
    attempts: Attempts,
    /// Whether the service honours the condition at the end of an upload; none until that was tested.
    shown: Mutex<Option<bool>>,
}

type Bucket = Stored<Arc<PrefixStore<Arc<dyn ObjectStore>>>, Waiter>;

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
    pub fn open(location: &BucketLocation, options: &RemoteOptions) -> Result<Self, BackendError> {
        let place = options.place(location);
        let cannot_open =
            |cause| BackendError::from_cause(Operation::Open, location.bucket(), &place, cause);
        let queues = Queues::default();
        let Service { store, s3, lists_from_anywhere } =
            service::open(location, options, &queues).map_err(cannot_open)?;
        let runtime = new_runtime().map_err(|cause| cannot_open(Cause::from(cause)))?;
        let prefix = Path::parse(location.prefix()).expect("a location's prefix is a path");
        let store = PrefixStore::new(store, prefix.clone());
        let waiter = Waiter::new(runtime, options.stop.clone());
        let uploads = s3.map(|s3| {
            let (attempts, shown) = (Attempts::default(), Mutex::new(None));
            Uploads { s3, prefix, attempts, shown }
        });
        Ok(Self {
            bucket: Arc::new(Stored { store: Arc::new(store), place, waiter }),
            pace: Mutex::new(Pace::new(options.connections)),
            queues,
            lists_from_anywhere,
            uploads,
            conditional_put: options.conditional_put,
            shown: Mutex::new(false),
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
        uploads: &Uploads,
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
        if self.conditional_put && !self.probe_for_parts(uploads)? {
            return self.put_whole(name, bytes);
        }
        let path = uploads.full_path(name);
        let sending = attempt.send(&uploads.s3.store, &path, &bytes);
        let sent = self.bucket.wait(Operation::Put, name, sending)?;
        match sent.map_err(|cause| self.bucket.error(Operation::Put, name, cause))? {
            Sent::Whole => Ok(()),
            Sent::Taken => self.bucket.taken(name, &bytes, taken()).map(|_| ()),
            Sent::Refused => self.put_whole(name, bytes),
        }
    }

    /// Whether the service refuses to complete a multipart upload under a name that is taken. If not,
    /// objects are sent in one request only. The tested name was found taken by the [probe](Self::probe).
    fn probe_for_parts(&self, uploads: &Uploads) -> Result<bool, BackendError> {
        let mut shown = uploads.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(is_honoured) = *shown {
            return Ok(is_honoured);
        }
        let content = Bytes::from_static(PROBE_CONTENT);
        let path = uploads.full_path(PROBE);
        let probe = parts::refuses_taken(&uploads.s3.store, &path, content);
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
    fn abort(&self, uploads: &Uploads, name: &str, attempt: &Attempt) {
        if let Some(id) = attempt.unfinished() {
            let path = uploads.full_path(name);
            let aborting = uploads.s3.store.abort_multipart(&path, id);
            drop(self.bucket.wait(Operation::Put, name, aborting));
        }
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
        let Some(uploads) = &self.uploads else { return self.put_whole(name, bytes) };
        let mut attempt = uploads.attempts.take(name);
        let put = match attempt.goes_in_parts(bytes.len()) {
            true => self.put_in_parts(uploads, name, bytes, &mut attempt),
            false => self.put_whole(name, bytes),
        };
        match &put {
            Err(error) if error.may_retry() => {
                uploads.attempts.keep(name, attempt, broke_in_transit(error));
            }
            _ => self.abort(uploads, name, &attempt),
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
        if !self.lists_from_anywhere {
            return self.bucket.list(prefix);
        }
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
        // Only S3 keeps parts until they are aborted.
        let Some(Uploads { s3, prefix, .. }) = &self.uploads else { return Ok(0) };
        let aborting = leftovers::abort(&s3.store, &s3.lister, prefix, age);
        let aborted = self.bucket.wait(Operation::List, WHAT, aborting)?;
        aborted.map_err(|cause| self.bucket.error(Operation::List, WHAT, cause))
    }
}

impl Uploads {
    /// The name of an object in the bucket.
    fn full_path(&self, name: &str) -> Path {
        let name = Path::parse(name).expect("an object's name is a path");
        self.prefix.parts().chain(name.parts()).collect()
    }
}

/// What runs requests: two threads move the bytes of all of them.
pub(crate) fn new_runtime() -> std::io::Result<Runtime> {
    let mut builder = runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name("remote").enable_all().build()
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

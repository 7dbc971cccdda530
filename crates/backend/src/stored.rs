//! A blocking interface for any store of the `object_store` crate.

use std::io;
use std::ops::Range;

use bytes::Bytes;
#[cfg(feature = "remote")]
use futures::StreamExt;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::body::Answer;
use crate::name::{check_name, check_prefix};
use crate::objects::check_size;
use crate::{BackendError, ObjectInfo, Operation};

/// The result of a put.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The object is new.
    New,
    /// The same object already existed.
    Same,
}

/// How a thread waits for an operation of a store.
pub(crate) trait Wait {
    /// The result of `what`, or none if the wait was aborted.
    fn wait<F: Future>(&self, what: F) -> Option<F::Output>;
}

/// Waits for stores that need no runtime: on local disks and in memory.
#[derive(Debug)]
pub(crate) struct Here;

impl Wait for Here {
    fn wait<F: Future>(&self, what: F) -> Option<F::Output> {
        Some(futures::executor::block_on(what))
    }
}

/// A store and where it is, for errors.
#[derive(Debug)]
pub(crate) struct Stored<S, W = Here> {
    pub(crate) store: S,
    pub(crate) place: String,
    pub(crate) waiter: W,
}

impl<S: ObjectStore, W: Wait> Stored<S, W> {
    pub(crate) fn put(&self, name: &str, bytes: Bytes) -> Result<Put, BackendError> {
        check_name(name)?;
        match self.put_as(name, &bytes, PutMode::Create) {
            Ok(()) => Ok(Put::New),
            Err(error @ BackendError::AlreadyExists { .. }) => self.taken(name, &bytes, error),
            Err(error) => Err(error),
        }
    }

    /// The result of a put that failed with `error` because its name is taken.
    pub(crate) fn taken(
        &self,
        name: &str,
        bytes: &Bytes,
        error: BackendError,
    ) -> Result<Put, BackendError> {
        match self.holds(name, bytes)? {
            Some(true) => Ok(Put::Same),
            Some(false) => Err(error),
            // Another put of the name is in progress, or a delete was faster than the check.
            None => {
                let busy = io::Error::new(io::ErrorKind::ResourceBusy, error);
                Err(BackendError::from_cause(Operation::Put, name, &self.place, busy))
            }
        }
    }

    /// Puts in a store without conditional puts: checks the name first. If two writers concurrently put
    /// different bytes under one name, both may succeed.
    #[cfg(feature = "remote")]
    pub(crate) fn put_unless_seen(&self, name: &str, bytes: Bytes) -> Result<Put, BackendError> {
        check_name(name)?;
        match self.holds(name, &bytes)? {
            Some(true) => Ok(Put::Same),
            Some(false) => Err(BackendError::AlreadyExists {
                name: name.to_owned(),
                place: self.place.clone(),
            }),
            None => self.put_as(name, &bytes, PutMode::Overwrite).map(|()| Put::New),
        }
    }

    /// Puts under `name`, which need not be the name of an object.
    pub(crate) fn put_as(
        &self,
        name: &str,
        bytes: &Bytes,
        mode: PutMode,
    ) -> Result<(), BackendError> {
        let path = parse(name)?;
        let payload = PutPayload::from_bytes(bytes.clone());
        let put = self.store.put_opts(&path, payload, mode.into());
        match self.wait(Operation::Put, name, put)? {
            Ok(_) => Ok(()),
            Err(cause) => Err(self.error(Operation::Put, name, cause)),
        }
    }

    /// Waits for an operation on the object `name`.
    pub(crate) fn wait<F: Future>(
        &self,
        operation: Operation,
        name: &str,
        what: F,
    ) -> Result<F::Output, BackendError> {
        let interrupted = || BackendError::Interrupted { name: name.to_owned(), operation };
        self.waiter.wait(what).ok_or_else(interrupted)
    }

    pub(crate) fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.get_limited(name, u64::MAX)
    }

    pub(crate) fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.wait(Operation::Get, name, self.read_whole(name, max))?
    }

    pub(crate) fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.wait(Operation::Get, name, self.read_range(name, range))?
    }

    /// Reads a whole object of at most `max` bytes.
    pub(crate) async fn read_whole(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        let path = path_of(name)?;
        let failed = |cause| self.error(Operation::Get, name, cause);
        let answer = Answer::ask(&self.store, &path, None).await.map_err(failed)?;
        let size = answer.size();
        check_size(name, size, max)?;
        let bytes = answer.body(&self.store, &path).await.map_err(failed)?;
        self.whole(name, bytes, size)
    }

    /// Reads exactly `range` of an object.
    pub(crate) async fn read_range(
        &self,
        name: &str,
        range: Range<u64>,
    ) -> Result<Bytes, BackendError> {
        let path = path_of(name)?;
        if range.is_empty() {
            return self.inside(name, range, self.measure(name).await?).map(|_| Bytes::new());
        }
        let failed = |cause| self.error(Operation::Get, name, cause);
        match Answer::ask(&self.store, &path, Some(range.clone())).await.map_err(failed) {
            Ok(answer) if answer.range() == range => {
                let bytes = answer.body(&self.store, &path).await.map_err(failed)?;
                self.whole(name, bytes, range.end - range.start)
            }
            Ok(answer) => {
                self.inside(name, range.clone(), answer.size())?;
                self.whole(name, Bytes::new(), range.end - range.start)
            }
            Err(error) if error.is_not_found() || error.may_retry() => Err(error),
            // A range that starts after the object is an error that stores word differently.
            Err(error) => {
                self.inside(name, range, self.measure(name).await?)?;
                Err(error)
            }
        }
    }

    pub(crate) fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.wait(Operation::Size, name, self.measure(name))?
    }

    async fn measure(&self, name: &str) -> Result<u64, BackendError> {
        let path = path_of(name)?;
        match self.store.head(&path).await {
            Ok(meta) => Ok(meta.size),
            Err(cause) => Err(self.error(Operation::Size, name, cause)),
        }
    }

    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.list_by(prefix, async |directory| {
            self.store.list(directory).map_ok(info).try_collect().await
        })
    }

    /// Lists the objects that `list` finds in a directory, without files that are not objects, such as those
    /// of unfinished puts.
    pub(crate) fn list_by(
        &self,
        prefix: &str,
        list: impl AsyncFnOnce(Option<&Path>) -> object_store::Result<Vec<ObjectInfo>>,
    ) -> Result<Vec<ObjectInfo>, BackendError> {
        check_prefix(prefix)?;
        let path = match prefix.strip_suffix('/') {
            Some(directory) => Some(path_of(directory)?),
            None => None,
        };
        let listed = self.wait(Operation::List, prefix, list(path.as_ref()))?;
        let mut objects = listed.map_err(|cause| self.error(Operation::List, prefix, cause))?;
        objects.retain(|object| check_name(&object.name).is_ok());
        objects.sort();
        Ok(objects)
    }

    pub(crate) fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.wait(Operation::Delete, name, self.remove(name))?
    }

    /// Removes all of `names`, `width` at a time; returns those that may still exist, and the error.
    #[cfg(feature = "remote")]
    pub(crate) fn delete_each(
        &self,
        names: &[String],
        width: usize,
    ) -> Vec<(String, BackendError)> {
        let removing = futures::stream::iter(names)
            .map(async |name| Some((name.clone(), self.remove(name).await.err()?)))
            .buffer_unordered(width)
            .filter_map(std::future::ready)
            .collect();
        match names.first().map(|first| self.wait(Operation::Delete, first, removing)) {
            None => Vec::new(),
            Some(Ok(left)) => left,
            Some(Err(_)) => names.iter().map(|name| self.not_deleted(name)).collect(),
        }
    }

    /// The error of a delete whose wait was aborted.
    #[cfg(feature = "remote")]
    fn not_deleted(&self, name: &str) -> (String, BackendError) {
        let operation = Operation::Delete;
        (name.to_owned(), BackendError::Interrupted { name: name.to_owned(), operation })
    }

    async fn remove(&self, name: &str) -> Result<(), BackendError> {
        match self.store.delete(&path_of(name)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(cause) => Err(self.error(Operation::Delete, name, cause)),
        }
    }

    /// Whether exactly `bytes` are stored under `name`; `None` if there is no object.
    pub(crate) fn holds(&self, name: &str, bytes: &Bytes) -> Result<Option<bool>, BackendError> {
        let same_size = self.size(name).map(|size| size == bytes.len() as u64);
        match same_size.and_then(|same| Ok(same && self.get(name)? == *bytes)) {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Returns `bytes` if their number is the announced one.
    fn whole(&self, name: &str, bytes: Bytes, announced: u64) -> Result<Bytes, BackendError> {
        if bytes.len() as u64 == announced {
            return Ok(bytes);
        }
        let text = format!("received {} bytes, expected {announced}", bytes.len());
        let cut = io::Error::new(io::ErrorKind::ConnectionAborted, text);
        Err(BackendError::from_cause(Operation::Get, name, &self.place, cut))
    }

    fn inside(&self, name: &str, range: Range<u64>, size: u64) -> Result<(), BackendError> {
        if range.start <= range.end && range.end <= size {
            return Ok(());
        }
        Err(BackendError::OutOfRange { name: name.to_owned(), range, size })
    }

    pub(crate) fn error(
        &self,
        operation: Operation,
        name: &str,
        cause: object_store::Error,
    ) -> BackendError {
        let (owned, place) = (name.to_owned(), self.place.clone());
        match cause {
            // A put or a listing that finds nothing misses the bucket, which the cause names.
            object_store::Error::NotFound { .. }
                if matches!(operation, Operation::Get | Operation::Size) =>
            {
                BackendError::NotFound { name: owned, place }
            }
            object_store::Error::AlreadyExists { .. } => {
                BackendError::AlreadyExists { name: owned, place }
            }
            cause => BackendError::from_cause(operation, name, &place, cause),
        }
    }
}

/// An object as callers see it.
pub(crate) fn info(meta: ObjectMeta) -> ObjectInfo {
    ObjectInfo { name: meta.location.into(), size: meta.size }
}

fn path_of(name: &str) -> Result<Path, BackendError> {
    check_name(name)?;
    parse(name)
}

fn parse(name: &str) -> Result<Path, BackendError> {
    Path::parse(name).map_err(|_| BackendError::BadName {
        name: name.to_owned(),
        reason: "the object store does not take it",
    })
}

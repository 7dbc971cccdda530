//! Objects in any store of the `object_store` crate, called without an async runtime.

use std::ops::Range;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::executor::block_on;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::name::{check_name, check_prefix};
use crate::{BackendError, ObjectInfo, Operation};

/// What an attempt to put came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The object is new.
    New,
    /// The same bytes were there already.
    Same,
}

/// A store and where it is, for errors.
#[derive(Debug)]
pub(crate) struct Stored<S> {
    pub(crate) store: S,
    pub(crate) place: String,
}

impl<S: ObjectStore> Stored<S> {
    pub(crate) fn put(&self, name: &str, bytes: Bytes) -> Result<Put, BackendError> {
        let path = path_of(name)?;
        let payload = PutPayload::from_bytes(bytes.clone());
        match block_on(self.store.put_opts(&path, payload, PutMode::Create.into())) {
            Ok(_) => Ok(Put::New),
            Err(object_store::Error::AlreadyExists { .. }) if self.holds(name, &bytes)? => {
                Ok(Put::Same)
            }
            Err(cause) => Err(self.error(Operation::Put, name, cause)),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        let path = path_of(name)?;
        block_on(async { self.store.get(&path).await?.bytes().await })
            .map_err(|cause| self.error(Operation::Get, name, cause))
    }

    pub(crate) fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        let path = path_of(name)?;
        if range.is_empty() {
            return self.inside(name, range, self.size(name)?).map(|_| Bytes::new());
        }
        let options =
            GetOptions { range: Some(GetRange::Bounded(range.clone())), ..Default::default() };
        let got = block_on(async {
            let result = self.store.get_opts(&path, options).await?;
            Ok((result.range.clone(), result.meta.size, result.bytes().await?))
        });
        match got {
            Ok((returned, _, bytes)) if returned == range => Ok(bytes),
            // A range that ends after the object comes back shortened.
            Ok((_, size, bytes)) => self.inside(name, range, size).map(|_| bytes),
            Err(cause @ object_store::Error::NotFound { .. }) => {
                Err(self.error(Operation::Get, name, cause))
            }
            // One that starts there is an error that stores word differently.
            Err(cause) => {
                self.inside(name, range, self.size(name)?)?;
                Err(self.error(Operation::Get, name, cause))
            }
        }
    }

    pub(crate) fn size(&self, name: &str) -> Result<u64, BackendError> {
        let path = path_of(name)?;
        match block_on(self.store.head(&path)) {
            Ok(meta) => Ok(meta.size),
            Err(cause) => Err(self.error(Operation::Size, name, cause)),
        }
    }

    /// Files that no put can have made, such as those of an unfinished one, are left out.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        check_prefix(prefix)?;
        let path = match prefix.strip_suffix('/') {
            Some(directory) => Some(path_of(directory)?),
            None => None,
        };
        let mut objects: Vec<ObjectInfo> = block_on(
            self.store
                .list(path.as_ref())
                .map_ok(|meta| ObjectInfo { name: meta.location.into(), size: meta.size })
                .try_collect(),
        )
        .map_err(|cause| self.error(Operation::List, prefix, cause))?;
        objects.retain(|object| check_name(&object.name).is_ok());
        objects.sort();
        Ok(objects)
    }

    pub(crate) fn delete(&self, name: &str) -> Result<(), BackendError> {
        let path = path_of(name)?;
        match block_on(self.store.delete(&path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(cause) => Err(self.error(Operation::Delete, name, cause)),
        }
    }

    /// Whether exactly `bytes` are stored under `name`.
    fn holds(&self, name: &str, bytes: &Bytes) -> Result<bool, BackendError> {
        let same_size = self.size(name).map(|size| size == bytes.len() as u64);
        match same_size.and_then(|same| Ok(same && self.get(name)? == *bytes)) {
            Err(error) if error.is_not_found() => Ok(false),
            answer => answer,
        }
    }

    fn inside(&self, name: &str, range: Range<u64>, size: u64) -> Result<(), BackendError> {
        if range.start <= range.end && range.end <= size {
            return Ok(());
        }
        Err(BackendError::OutOfRange { name: name.to_owned(), range, size })
    }

    fn error(&self, operation: Operation, name: &str, cause: object_store::Error) -> BackendError {
        let (owned, place) = (name.to_owned(), self.place.clone());
        match cause {
            object_store::Error::NotFound { .. } => BackendError::NotFound { name: owned, place },
            object_store::Error::AlreadyExists { .. } => {
                BackendError::AlreadyExists { name: owned, place }
            }
            cause => BackendError::from_cause(operation, name, &place, cause),
        }
    }
}

fn path_of(name: &str) -> Result<Path, BackendError> {
    check_name(name)?;
    Path::parse(name).map_err(|_| BackendError::BadName {
        name: name.to_owned(),
        reason: "the object store does not take it",
    })
}

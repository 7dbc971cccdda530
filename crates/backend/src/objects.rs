//! The contract of a store of immutable, named objects.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::BackendError;

/// An object as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectInfo {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
}

/// The part of an object to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// The whole object, if it has at most `max` bytes.
    Whole {
        /// In bytes.
        max: u64,
    },
    /// Exactly these bytes.
    Range(Range<u64>),
}

/// One read of [`Objects::get_many`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object.
    pub name: String,
    /// The part to read.
    pub span: Span,
}

/// Called with the answer of each request: its position among the requests, and the bytes. By
/// [`ControlFlow::Break`] it stops all further requests.
pub type OnAnswer<'a> = dyn FnMut(usize, Result<Bytes, BackendError>) -> ControlFlow<()> + 'a;

/// Immutable objects under unique names.
///
/// A name is one or more parts of `a-z 0-9 . _ -` joined by single slashes; no part is `.` or
/// `..`, none is longer than 200 bytes, and the whole name is no longer than 1,000. Any other name is
/// [`BackendError::BadName`]. A name must not also be a directory of other names.
///
/// Every call may be repeated after an error: a failed call was executed completely or not at all.
pub trait Objects: Send + Sync {
    /// Puts an object once.
    ///
    /// On success name and bytes are durable. A name appears only after its bytes are durable, so that no
    /// reader finds part of an object, before or after a crash.
    ///
    /// A put of the same bytes under the same name succeeds and again makes sure that they are durable.
    /// So a put whose answer was lost may be repeated. A put of other bytes under an existing name fails
    /// with [`BackendError::AlreadyExists`]; the existing object does not change.
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError>;

    /// The whole object, or [`BackendError::NotFound`].
    ///
    /// An object may be visible before its name is durable, while another process puts it. Only objects
    /// that `put` acknowledged or [`list`](Self::list) returned are certain to survive a crash.
    fn get(&self, name: &str) -> Result<Bytes, BackendError>;

    /// Exactly the bytes of `range`, which may be empty.
    ///
    /// If a range ends after the object, or before its start, fails with [`BackendError::OutOfRange`].
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError>;

    /// The whole object if it has at most `max` bytes, else [`BackendError::TooLong`], without allocating
    /// memory for it.
    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        check_size(name, self.size(name)?, max)?;
        self.get(name)
    }

    /// Answers one of many requests.
    fn answer(&self, request: &Request) -> Result<Bytes, BackendError> {
        match &request.span {
            Span::Whole { max } => self.get_limited(&request.name, *max),
            Span::Range(range) => self.get_range(&request.name, range.clone()),
        }
    }

    /// Makes many requests and calls `take` on the calling thread for each answer when it arrives.
    ///
    /// If the storage is remote, many requests are in flight, and answers arrive in any order. `requests`
    /// is advanced only while there is memory for answers, and not after `take` breaks. Returns whether
    /// `take` did.
    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        requests.enumerate().try_for_each(|(at, request)| take(at, self.answer(&request)))
    }

    /// The number of bytes that can be transferred in the time of a round trip: reading through a shorter
    /// gap costs less than another request. Zero for local storage.
    fn gap(&self) -> u64 {
        0
    }

    /// The object's length in bytes, or [`BackendError::NotFound`].
    fn size(&self, name: &str) -> Result<u64, BackendError>;

    /// All objects below the directory `prefix`, at any depth, sorted by name.
    ///
    /// `prefix` is "" for all objects, or ends in a slash: `a/` has `a/b` below it, not `ab`. A directory
    /// that does not exist is empty. Unfinished puts are not listed. All returned names are durable, even
    /// if their put was never acknowledged. A deleted name directly below `prefix` that is not returned
    /// stays deleted.
    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError>;

    /// The names that [`list`](Self::list) returns, with the same guarantees. Faster if lengths need a
    /// call each.
    fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        Ok(self.list(prefix)?.into_iter().map(|object| object.name).collect())
    }

    /// Removes an object; succeeds if there is none.
    ///
    /// The deletion is durable after the next [`list`](Self::list) of the object's directory: after an
    /// earlier crash the whole object may exist again.
    fn delete(&self, name: &str) -> Result<(), BackendError>;

    /// Removes all of `names`, as [`delete`](Self::delete) does, in any order, with concurrent requests if
    /// the storage is remote. On error some of them may have been deleted.
    fn delete_many(&self, names: &[String]) -> Result<(), BackendError> {
        self.delete_each(names).into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The same; returns the names that may still exist, and the error.
    fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
        let delete = |name: &String| Some((name.clone(), self.delete(name).err()?));
        names.iter().filter_map(delete).collect()
    }

    /// Discards the parts of unfinished puts that began longer than `age` ago, and returns the number of
    /// those puts. If such a put is still in progress, it starts again.
    fn discard_unfinished(&self, _age: Duration) -> Result<u64, BackendError> {
        Ok(0)
    }

    /// Waits until every listing shows all puts and deletes before this call, by any client.
    ///
    /// Returns immediately unless listings of the storage are eventually consistent.
    fn settle(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Fails if an object of `size` bytes is longer than `max`.
pub(crate) fn check_size(name: &str, size: u64, max: u64) -> Result<(), BackendError> {
    if size > max {
        return Err(BackendError::TooLong { name: name.to_owned(), size, max });
    }
    Ok(())
}

macro_rules! forward_objects {
    ($pointer:ty) => {
        impl<T: Objects + ?Sized> Objects for $pointer {
            fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
                (**self).put(name, bytes)
            }

            fn get(&self, name: &str) -> Result<Bytes, BackendError> {
                (**self).get(name)
            }

            fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
                (**self).get_range(name, range)
            }

            fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
                (**self).get_limited(name, max)
            }

            fn get_many(
                &self,
                requests: &mut dyn Iterator<Item = Request>,
                take: &mut OnAnswer<'_>,
            ) -> ControlFlow<()> {
                (**self).get_many(requests, take)
            }

            fn gap(&self) -> u64 {
                (**self).gap()
            }

            fn size(&self, name: &str) -> Result<u64, BackendError> {
                (**self).size(name)
            }

            fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
                (**self).list(prefix)
            }

            fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
                (**self).list_names(prefix)
            }

            fn delete(&self, name: &str) -> Result<(), BackendError> {
                (**self).delete(name)
            }

            fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
                (**self).delete_each(names)
            }

            fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
                (**self).discard_unfinished(age)
            }

            fn settle(&self) -> Result<(), BackendError> {
                (**self).settle()
            }
        }
    };
}

forward_objects!(&T);
forward_objects!(Box<T>);
forward_objects!(Arc<T>);

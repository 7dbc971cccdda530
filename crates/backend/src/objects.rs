//! The contract of a place for immutable, named objects.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::BackendError;

/// An object as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectInfo {
    /// The name it was put under.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
}

/// What of an object is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// All of it, if it has at most `max` bytes.
    Whole {
        /// In bytes.
        max: u64,
    },
    /// Exactly these bytes.
    Range(Range<u64>),
}

/// A read of one object, of the many that [`Objects::get_many`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object.
    pub name: String,
    /// What of it is read.
    pub span: Span,
}

/// Receives the answer of each request: its position among the requests, and the bytes. It stops
/// all further requests by [`ControlFlow::Break`].
pub type OnAnswer<'a> = dyn FnMut(usize, Result<Bytes, BackendError>) -> ControlFlow<()> + 'a;

/// Immutable objects under unique names.
///
/// A name is one or more parts of `a-z 0-9 . _ -` joined by single slashes; no part is `.` or
/// `..`, none is longer than 200 bytes, the whole is no longer than 1,000. Any other name is
/// [`BackendError::BadName`]. A name must not also be a directory of other names.
///
/// Every call may be repeated after an error: a failed call has happened wholly or not at all.
pub trait Objects: Send + Sync {
    /// Puts an object once.
    ///
    /// On return name and bytes are durable. A name appears only after its bytes are durable, so
    /// no reader, before or after a crash, finds part of an object.
    ///
    /// Putting the same bytes under the same name again succeeds, and makes sure once more that
    /// they are durable: a put whose answer was lost may be repeated. Other bytes under a taken
    /// name are [`BackendError::AlreadyExists`]; what is there stays.
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError>;

    /// The whole object, or [`BackendError::NotFound`].
    ///
    /// An object that another process is putting at this moment may be seen before its name is
    /// durable; only what `put` acknowledged or [`list`](Self::list) returned is sure to stay.
    fn get(&self, name: &str) -> Result<Bytes, BackendError>;

    /// Exactly the bytes of `range`, which may be empty.
    ///
    /// A range that ends after the object, or ends before it starts, is
    /// [`BackendError::OutOfRange`].
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError>;

    /// The whole object if it has at most `max` bytes, or [`BackendError::TooLong`], for which no
    /// memory is taken.
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

    /// Makes many requests and hands each answer to `take`, on the calling thread, as it comes.
    ///
    /// Where a request takes time to travel, many are under way at once, and answers come in any
    /// order. `requests` is advanced only as far as there is room for answers, and no further once
    /// `take` breaks. The return tells whether it did.
    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        requests.enumerate().try_for_each(|(at, request)| take(at, self.answer(&request)))
    }

    /// Bytes that travel in the time that a request takes beside them: to read through a gap that
    /// is shorter costs less than another request.
    fn gap(&self) -> u64 {
        0
    }

    /// The object's length in bytes, or [`BackendError::NotFound`].
    fn size(&self, name: &str) -> Result<u64, BackendError>;

    /// All objects below the directory `prefix`, at any depth, sorted by name.
    ///
    /// `prefix` is "" for all, or ends in a slash: `a/` has `a/b` below it, not `ab`. A directory
    /// that does not exist is empty. Unfinished puts are left out. Names returned are durable,
    /// even if the put that made them was never acknowledged; and a name right below `prefix`
    /// that was deleted and is not returned stays deleted.
    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError>;

    /// The names that [`list`](Self::list) returns, with all that it promises. Where lengths would
    /// have to be asked for one by one, this takes less time.
    fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        Ok(self.list(prefix)?.into_iter().map(|object| object.name).collect())
    }

    /// Removes an object; succeeds if there is none.
    ///
    /// Not durable until the next [`list`](Self::list) of the directory that it was in: after a
    /// crash before that the object may be back, whole.
    fn delete(&self, name: &str) -> Result<(), BackendError>;

    /// Removes all of `names`, as [`delete`](Self::delete) does, in any order; where a request takes
    /// time to travel, many are under way at once. If it fails, some of them may be gone.
    fn delete_many(&self, names: &[String]) -> Result<(), BackendError> {
        self.delete_each(names).into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The same; gives those that may be there still, and why.
    fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
        let delete = |name: &String| Some((name.clone(), self.delete(name).err()?));
        names.iter().filter_map(delete).collect()
    }

    /// Discards what the storage still holds of puts that began longer than `age` ago and never ended, and
    /// returns of how many. A put that is under way since then begins anew.
    fn discard_unfinished(&self, _age: Duration) -> Result<u64, BackendError> {
        Ok(0)
    }

    /// Returns when every listing shows what was put and deleted before the call, by whomever.
    ///
    /// For storage whose listings lag behind; where they do not, there is nothing to wait for.
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

//! A wrapper that forbids deletion.

use std::ops::{ControlFlow, Range};

use bytes::Bytes;

use crate::{BackendError, ObjectInfo, Objects, OnAnswer, Request};

/// Objects that cannot be deleted: every `delete` fails with [`BackendError::AppendOnly`].
///
/// This restricts only this program. Permissions of the storage restrict others.
#[derive(Debug)]
pub struct AppendOnly<T>(pub T);

impl<T: Objects> Objects for AppendOnly<T> {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.0.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.0.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.0.get_range(name, range)
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.0.get_limited(name, max)
    }

    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        self.0.get_many(requests, take)
    }

    fn gap(&self) -> u64 {
        self.0.gap()
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.0.size(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.0.list(prefix)
    }

    fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        self.0.list_names(prefix)
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        Err(BackendError::AppendOnly { name: name.to_owned() })
    }

    fn settle(&self) -> Result<(), BackendError> {
        self.0.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryObjects;

    #[test]
    fn an_append_only_place_takes_and_gives_and_deletes_nothing() {
        let objects = AppendOnly(MemoryObjects::new());
        objects.put("a", "1".into()).unwrap();
        let error = objects.delete("a").unwrap_err();
        assert!(matches!(&error, BackendError::AppendOnly { name } if name == "a"), "{error:?}");
        assert!(!error.may_retry());
        assert_eq!(objects.get("a").unwrap(), "1");
        assert_eq!(objects.get_range("a", 0..1).unwrap(), "1");
        assert_eq!((objects.size("a").unwrap(), objects.list("").unwrap().len()), (1, 1));
    }
}

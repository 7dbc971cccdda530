//! Objects that let a test act in the middle of a backup.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::{BackendError, ObjectInfo, Objects};

/// Objects that call `before_put` with the name of each object about to be put.
pub struct Hooked<F> {
    objects: Arc<dyn Objects>,
    before_put: F,
}

impl<F: Fn(&str)> Hooked<F> {
    pub fn new(objects: &Arc<dyn Objects>, before_put: F) -> Self {
        Self { objects: Arc::clone(objects), before_put }
    }
}

impl<F: Fn(&str) + Send + Sync> Objects for Hooked<F> {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        (self.before_put)(name);
        self.objects.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.objects.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.objects.get_range(name, range)
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.objects.size(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.objects.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.objects.delete(name)
    }
}

//! Objects that let a test act in the middle of a backup or a restore.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::{BackendError, ObjectInfo, Objects};

/// Objects that call `hook` with the name of each object about to be put, or read.
pub struct Hooked<F> {
    objects: Arc<dyn Objects>,
    hook: F,
    is_for_reads: bool,
}

impl<F: Fn(&str)> Hooked<F> {
    /// Calls `hook` before each put.
    pub fn new(objects: &Arc<dyn Objects>, hook: F) -> Self {
        Self { objects: Arc::clone(objects), hook, is_for_reads: false }
    }

    /// Calls `hook` before each read.
    pub fn reading(objects: &Arc<dyn Objects>, hook: F) -> Self {
        Self { objects: Arc::clone(objects), hook, is_for_reads: true }
    }
}

impl<F: Fn(&str) + Send + Sync> Objects for Hooked<F> {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        if !self.is_for_reads {
            (self.hook)(name);
        }
        self.objects.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        if self.is_for_reads {
            (self.hook)(name);
        }
        self.objects.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        if self.is_for_reads {
            (self.hook)(name);
        }
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

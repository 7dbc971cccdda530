//! A repository far away, in memory.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onefold_backend::{BackendError, ObjectInfo, Objects};

use super::names;

/// Objects that take long to come, and what was read of them.
pub struct Far {
    objects: Arc<dyn Objects>,
    pub read: Mutex<Vec<(String, Range<u64>)>>,
}

impl Objects for Far {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.objects.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.objects.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.read.lock().unwrap().push((name.to_owned(), range.clone()));
        self.objects.get_range(name, range)
    }

    fn gap(&self) -> u64 {
        64 << 10
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

impl Far {
    pub fn new(objects: Arc<dyn Objects>) -> Arc<Self> {
        Arc::new(Self { objects, read: Mutex::default() })
    }

    /// Bytes that were read of containers.
    pub fn received(&self) -> u64 {
        let read = self.read.lock().unwrap();
        let of_containers = read.iter().filter(|(name, _)| name.starts_with("containers/"));
        of_containers.map(|(_, range)| range.end - range.start).sum()
    }
}

/// Bytes of all containers.
pub fn stored(objects: &dyn Objects) -> u64 {
    names(objects, "containers/").iter().map(|name| objects.size(name).unwrap()).sum()
}

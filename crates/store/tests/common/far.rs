//! A repository far away, in memory, of which reads are counted.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onefold_backend::{BackendError, ObjectInfo, Objects};

use super::names;

/// Objects that take long to come, and what was read of them.
pub struct Far {
    objects: Arc<dyn Objects>,
    pub read: Mutex<Vec<(String, Range<u64>)>>,
    /// The names of all objects of which something was asked.
    asked: Mutex<Vec<String>>,
    /// What begins so is listed and not there.
    vanished: Option<&'static str>,
}

impl Objects for Far {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.objects.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.note(name)?;
        self.objects.get(name)
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.note(name)?;
        self.objects.get_limited(name, max)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.note(name)?;
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
        Arc::new(Self::having(objects, None))
    }

    /// The same, where what begins with `prefix` went since it was listed.
    pub fn without(objects: Arc<dyn Objects>, prefix: &'static str) -> Arc<Self> {
        Arc::new(Self::having(objects, Some(prefix)))
    }

    fn having(objects: Arc<dyn Objects>, vanished: Option<&'static str>) -> Self {
        let (read, asked) = Default::default();
        Self { objects, read, asked, vanished }
    }

    fn note(&self, name: &str) -> Result<(), BackendError> {
        self.asked.lock().unwrap().push(name.to_owned());
        match self.vanished.is_some_and(|prefix| name.starts_with(prefix)) {
            true => Err(BackendError::NotFound { name: name.to_owned(), place: "far away".into() }),
            false => Ok(()),
        }
    }

    /// How many reads of objects below `prefix` there were since this was asked last.
    pub fn take_count(&self, prefix: &str) -> usize {
        let mut asked = self.asked.lock().unwrap();
        let before = asked.len();
        asked.retain(|name| !name.starts_with(prefix));
        before - asked.len()
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

//! Objects far away, whose reads are counted and of which some may have vanished.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onefold_backend::{BackendError, ObjectInfo, Objects};

/// Objects that note what is read.
pub struct Counted {
    objects: Arc<dyn Objects>,
    read: Mutex<Vec<String>>,
    /// What begins so is listed and not there.
    vanished: Option<&'static str>,
}

impl Counted {
    pub fn new(objects: &Arc<dyn Objects>) -> Self {
        Self { objects: Arc::clone(objects), read: Mutex::default(), vanished: None }
    }

    /// The same, where what begins with `prefix` went since it was listed.
    pub fn without(objects: &Arc<dyn Objects>, prefix: &'static str) -> Self {
        Self { vanished: Some(prefix), ..Self::new(objects) }
    }

    /// How many objects below `prefix` were read since this was asked last.
    pub fn take_count(&self, prefix: &str) -> usize {
        let mut read = self.read.lock().unwrap();
        let before = read.len();
        read.retain(|name| !name.starts_with(prefix));
        before - read.len()
    }

    fn note(&self, name: &str) -> Result<(), BackendError> {
        self.read.lock().unwrap().push(name.to_owned());
        match self.vanished.is_some_and(|prefix| name.starts_with(prefix)) {
            true => Err(BackendError::NotFound { name: name.to_owned(), place: "counted".into() }),
            false => Ok(()),
        }
    }
}

impl Objects for Counted {
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

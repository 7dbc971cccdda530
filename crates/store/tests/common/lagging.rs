//! Objects whose listings show nothing new until they have settled.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use onefold_backend::{BackendError, ObjectInfo, Objects};

use super::pass_on::pass_on;

/// Listings below a prefix as they were when this was made, or when [`settle`](Objects::settle) was
/// called last.
pub struct Lagging {
    objects: Arc<dyn Objects>,
    prefix: &'static str,
    before: Mutex<Vec<ObjectInfo>>,
    settled: AtomicUsize,
}

impl Lagging {
    pub fn new(objects: Arc<dyn Objects>, prefix: &'static str) -> Self {
        let before = Mutex::new(objects.list("").unwrap());
        Self { objects, prefix, before, settled: AtomicUsize::new(0) }
    }

    /// How often it was waited for.
    pub fn settled(&self) -> usize {
        self.settled.load(Ordering::Relaxed)
    }
}

impl Objects for Lagging {
    pass_on!(put, get, size, delete);

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        if !prefix.starts_with(self.prefix) {
            return self.objects.list(prefix);
        }
        let before = self.before.lock().unwrap();
        Ok(before.iter().filter(|info| info.name.starts_with(prefix)).cloned().collect())
    }

    fn settle(&self) -> Result<(), BackendError> {
        self.settled.fetch_add(1, Ordering::Relaxed);
        *self.before.lock().unwrap() = self.objects.list("").unwrap();
        Ok(())
    }
}

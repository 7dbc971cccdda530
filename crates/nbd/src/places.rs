//! Who may be connected: some clients that are served, and some that have not chosen an export yet.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The handshakes under way. Anybody who reaches the server can begin one, so that none waits for
/// another: where there are too many, the oldest ends.
pub(crate) struct Handshakes {
    most: usize,
    /// How to end each, the oldest first.
    ends: Mutex<VecDeque<Arc<Notify>>>,
}

/// A handshake under way.
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    end: Arc<Notify>,
}

impl Handshakes {
    pub(crate) fn new(most: u32) -> Arc<Handshakes> {
        Arc::new(Handshakes { most: most as usize, ends: Mutex::default() })
    }

    pub(crate) fn begin(self: &Arc<Handshakes>) -> Handshake {
        let end = Arc::new(Notify::new());
        let mut ends = self.lock();
        while ends.len() >= self.most {
            ends.pop_front().expect("there are some").notify_one();
        }
        ends.push_back(end.clone());
        drop(ends);
        Handshake { all: self.clone(), end }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// Waits until it must end for a newer one.
    pub(crate) async fn is_displaced(&self) {
        self.end.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().retain(|end| !Arc::ptr_eq(end, &self.end));
    }
}

/// Whether a connection has a place among those that are served at once.
pub(crate) enum Place {
    Later,
    Awaited,
    Taken { _permit: OwnedSemaphorePermit },
}

impl Place {
    pub(crate) fn taken(permit: OwnedSemaphorePermit) -> Place {
        Place::Taken { _permit: permit }
    }

    /// Waits for a place, if it has none.
    pub(crate) async fn take(&mut self, places: &Arc<Semaphore>) {
        if matches!(self, Place::Taken { .. }) {
            return;
        }
        *self = Place::Awaited;
        *self = Place::taken(places.clone().acquire_owned().await.expect("never closed"));
    }
}

//! Limits on connections: clients that are served, and clients that have not chosen an export yet.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a handshake may continue while other clients wait. An honest client completes it in this time.
const SPARED: Duration = Duration::from_secs(1);

/// The handshakes in progress. Any client that reaches the server can begin one. So that no client blocks
/// others for long, the oldest handshake is ended when there are too many.
pub(crate) struct Handshakes {
    most: usize,
    /// Ordered by age, the oldest first.
    begun: Mutex<VecDeque<Arc<Begun>>>,
    /// Notified when a handshake has ended.
    ended: Notify,
}

/// When a handshake began, and how to end it.
struct Begun {
    since: Instant,
    end: Notify,
}

/// A handshake in progress.
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    begun: Arc<Begun>,
}

impl Handshakes {
    pub(crate) fn new(most: u32) -> Arc<Handshakes> {
        Arc::new(Handshakes { most: most as usize, begun: Mutex::default(), ended: Notify::new() })
    }

    /// Begins a handshake when there is a place, or when the oldest may be ended.
    pub(crate) async fn begin(self: &Arc<Handshakes>) -> Handshake {
        loop {
            // made before it is looked, so that no end is missed
            let ended = self.ended.notified();
            match self.try_begin() {
                Ok(handshake) => return handshake,
                Err(spared) => _ = timeout(spared, ended).await,
            }
        }
    }

    /// On error, returns how long the oldest handshake must still be spared.
    fn try_begin(self: &Arc<Handshakes>) -> Result<Handshake, Duration> {
        let mut all = self.lock();
        let now = Instant::now();
        if all.len() >= self.most {
            let oldest = all.front().expect("there are some");
            let spared = SPARED.saturating_sub(now.duration_since(oldest.since));
            if !spared.is_zero() {
                return Err(spared);
            }
            oldest.end.notify_one();
            all.pop_front();
        }
        let begun = Arc::new(Begun { since: now, end: Notify::new() });
        all.push_back(begun.clone());
        Ok(Handshake { all: self.clone(), begun })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Begun>>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handshake {
    /// Waits until this handshake must end for a newer one.
    pub(crate) async fn is_displaced(&self) {
        self.begun.end.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.lock().retain(|begun| !Arc::ptr_eq(begun, &self.begun));
        self.all.ended.notify_waiters();
    }
}

/// The state of a connection's place among the clients that are served.
pub(crate) enum Place {
    /// It has none and does not wait for one yet.
    Later,
    /// It waits for one.
    Awaited,
    /// It has one, until this is dropped.
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

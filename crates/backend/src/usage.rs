//! Counts of requests to a service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts requests to a service and the bytes transferred. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct Usage(Arc<Counters>);

/// The kinds of requests, by which services charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Get,
    Head,
    List,
    Put,
    Delete,
    Multipart,
}

#[derive(Debug, Default)]
struct Counters {
    /// In the order of [`RequestKind`].
    requests: [AtomicU64; 6],
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    retries: AtomicU64,
    hedges: AtomicU64,
}

/// The counts of a [`Usage`] at one moment. A retried request counts each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reads of objects.
    pub get: u64,
    /// Requests for the length of an object.
    pub head: u64,
    /// Pages of listings.
    pub list: u64,
    /// Puts of objects in one piece.
    pub put: u64,
    /// Deletes of objects and aborts of multipart uploads.
    pub delete: u64,
    /// All other requests of multipart uploads: begin, each part, complete.
    pub multipart: u64,
    /// Bytes of requests, in heads and bodies.
    pub sent_bytes: u64,
    /// Bytes of answers, in heads and bodies.
    pub received_bytes: u64,
    /// Requests repeated after an error, and bodies resumed.
    pub retries: u64,
    /// Reads sent a second time because their answer did not begin, or because it stalled. The latter count
    /// as retries, too.
    pub hedges: u64,
}

impl Usage {
    /// The counts so far.
    pub fn requests(&self) -> Requests {
        let of = |kind: RequestKind| self.0.requests[kind as usize].load(Ordering::Relaxed);
        Requests {
            get: of(RequestKind::Get),
            head: of(RequestKind::Head),
            list: of(RequestKind::List),
            put: of(RequestKind::Put),
            delete: of(RequestKind::Delete),
            multipart: of(RequestKind::Multipart),
            sent_bytes: self.0.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.0.received_bytes.load(Ordering::Relaxed),
            retries: self.0.retries.load(Ordering::Relaxed),
            hedges: self.0.hedges.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn retry(&self, count: u64) {
        self.0.retries.fetch_add(count, Ordering::Relaxed);
    }
}

#[cfg(feature = "remote")]
impl Usage {
    pub(crate) fn request(&self, kind: RequestKind) {
        self.0.requests[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn hedge(&self) {
        self.0.hedges.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn send(&self, bytes: usize) {
        self.0.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn receive(&self, bytes: usize) {
        self.0.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

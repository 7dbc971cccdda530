//! Until when a gateway answers reads of a shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lease::GatewayLease;
use crate::seeded::fault;

/// That a gateway may answer reads of one shard: until it gives the shard away, while its lease is valid.
#[derive(Debug)]
pub struct Tenure {
    lease: Arc<GatewayLease>,
    is_over: AtomicBool,
}

impl Tenure {
    pub(super) fn new(lease: Arc<GatewayLease>) -> Self {
        Self { lease, is_over: AtomicBool::new(false) }
    }

    /// Whether a read whose answer is ready now may be answered.
    pub fn is_current(&self) -> bool {
        fault!(ReadWithoutLease) || (!self.is_over.load(Ordering::Acquire) && self.lease.is_valid())
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether it was obtained under this lease.
    pub(super) fn is_under(&self, lease: &Arc<GatewayLease>) -> bool {
        Arc::ptr_eq(&self.lease, lease)
    }
}

//! How much one gateway may store under the quota of the domain.
//!
//! A gateway tells every [`RENEWAL`](crate::gateway::lease::RENEWAL) what it has stored and removed, counts what all
//! have stored, and allows itself an equal share of what is left. When that share is used up it counts again before
//! it refuses anything. So all of them together may exceed the quota by what the others write between two of its
//! counts, and by no more than what was left then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use onefold_seal::ObjectId;
use onefold_volume::{SharedRoom, VolumeError};

use super::records::UsageRecord;
use super::{Care, Stored};
use crate::clock::LeaseClock;
use crate::containers::Usage;
use crate::seeded::fault;

/// A count is used for so long by all who find no room.
const FRESH: Duration = Duration::from_millis(250);

/// What a gateway may store.
pub(crate) struct RoomKeeper {
    care: Care,
    process: ObjectId,
    clock: Arc<dyn LeaseClock>,
    usage: Arc<Usage>,
    /// How many gateways had a lease at the last look.
    gateways: AtomicUsize,
    told: Mutex<Told>,
}

/// What the other gateways know.
#[derive(Default)]
struct Told {
    usage: UsageRecord,
    value: Option<Bytes>,
    /// When all was counted last, and what there was.
    counted: Option<Duration>,
    stored: Option<Stored>,
}

impl RoomKeeper {
    /// That of `process`, whose shards store nothing before it has counted.
    ///
    /// # Errors
    /// If it cannot count.
    pub(crate) fn begin(
        care: Care,
        process: ObjectId,
        clock: &Arc<dyn LeaseClock>,
    ) -> Result<Arc<Self>, VolumeError> {
        let keeper = Arc::new(Self {
            care,
            process,
            clock: Arc::clone(clock),
            usage: Arc::default(),
            gateways: AtomicUsize::new(1),
            told: Mutex::default(),
        });
        let asked = Arc::downgrade(&keeper);
        keeper.usage.recount_by(move || {
            // without an answer what was allowed before holds
            let _ = asked.upgrade().map(|keeper| keeper.keep_unless_fresh());
        });
        keeper.keep()?;
        Ok(keeper)
    }

    pub(crate) fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }

    pub(crate) fn note_gateways(&self, count: usize) {
        self.gateways.store(count.max(1), Ordering::Relaxed);
    }

    fn keep_unless_fresh(&self) -> Result<(), VolumeError> {
        let now = self.clock.now();
        let counted = self.told.lock().unwrap_or_else(PoisonError::into_inner).counted;
        let is_fresh = counted.is_some_and(|counted| now.saturating_sub(counted) < FRESH);
        if is_fresh { Ok(()) } else { self.keep() }
    }

    /// Tells what this process has stored, if that changed, and allows it what is left.
    ///
    /// # Errors
    /// If a record cannot be read or changed. What was allowed before holds then.
    pub(crate) fn keep(&self) -> Result<(), VolumeError> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (written, removed) = self.usage.counts();
        let now = UsageRecord { written, removed };
        if now != told.usage && !fault!(StoredUntold) {
            told.value = Some(self.care.tell_usage(self.process, told.value.take(), now)?);
            told.usage = now;
        }
        let found = self.care.stored()?;
        let room = found.quota.map(|quota| {
            let (stored, share) = (found.bytes, self.gateways.load(Ordering::Relaxed) as u64);
            SharedRoom { bytes: quota.saturating_sub(stored) / share, stored, quota }
        });
        self.usage.allow(room);
        (told.counted, told.stored) = (Some(self.clock.now()), Some(found));
        Ok(())
    }

    /// What there was when all was counted last.
    pub(crate) fn stored(&self) -> Option<Stored> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).stored
    }
}

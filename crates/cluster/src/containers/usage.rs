//! What a process has stored in containers and removed of them, and how much more it may store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use onefold_volume::SharedRoom;

/// The use of containers by one process.
#[derive(Default)]
pub struct Usage {
    written: AtomicU64,
    removed: AtomicU64,
    room: Mutex<Option<SharedRoom>>,
    /// Counts again what all have stored, and allows what that leaves.
    recount: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (written, removed) = self.counts();
        f.debug_struct("Usage").field("written", &written).field("removed", &removed).finish()
    }
}

impl Usage {
    /// Bytes by which containers grew, and bytes of containers that were removed, since the process began. What
    /// happened without an answer is in neither.
    pub fn counts(&self) -> (u64, u64) {
        (self.written.load(Ordering::Acquire), self.removed.load(Ordering::Acquire))
    }

    pub(super) fn note_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn note_removed(&self, bytes: u64) {
        self.removed.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Allows so much from now on; anything, if that is none.
    pub fn allow(&self, room: Option<SharedRoom>) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }

    /// Calls `recount` when there is no room any more.
    pub(crate) fn recount_by(&self, recount: impl Fn() + Send + Sync + 'static) {
        let _ = self.recount.set(Box::new(recount));
    }

    /// What is allowed and not taken yet.
    pub fn room(&self) -> Option<SharedRoom> {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes this many bytes.
    pub(super) fn take(&self, bytes: u64) {
        if let Some(room) = &mut *self.room.lock().unwrap_or_else(PoisonError::into_inner) {
            room.bytes = room.bytes.saturating_sub(bytes);
        }
    }

    /// Counts again; whether there is room for `needed` bytes.
    pub(super) fn ask(&self, needed: u64) -> bool {
        if let Some(recount) = self.recount.get() {
            recount();
        }
        self.room().is_none_or(|room| room.bytes >= needed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_taken_is_missing_until_it_is_counted_again() {
        let usage = Arc::<Usage>::default();
        usage.take(1 << 40);
        assert_eq!(usage.room(), None);
        let room = |bytes| Some(SharedRoom { bytes, stored: 30, quota: 100 });
        usage.allow(room(70));
        usage.take(50);
        assert_eq!(usage.room(), room(20));
        usage.take(50);
        assert_eq!(usage.room(), room(0));
        assert!(!usage.ask(1));
        let counted = Arc::downgrade(&usage);
        usage.recount_by(move || counted.upgrade().expect("it is asked").allow(room(40)));
        assert!(!usage.ask(41) && usage.ask(40));
    }
}

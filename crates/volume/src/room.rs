//! Room for new pages: a write that meets the quota, or a full disk, waits for a compaction before it is
//! refused, and a compaction has a reserve with which it works on a full disk.
//!
//! **Reserve.** The file `reserve` has no bytes, and blocks for two containers, where the disk can keep
//! blocks for a file. A compaction, a commit or a checkpoint that meets a full disk gives them back and
//! tries again. Until the reserve is whole again writes of new pages are refused, so that they do not
//! take what a compaction needs. So the pool is never full of garbage that nothing can remove.
//!
//! **Waiting.** The caller must hold no lock of the engine: a compaction takes all but those of stripes,
//! and a thread that waits with a stripe's lock would stop writers that need no room.
//!
//! Why: docs/decisions/0046-room.md.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use onefold_backend::{Folder, Log};

use crate::VolumeError;
use crate::compact::{Compaction, Worth};
use crate::engine::Engine;

/// The file whose blocks are the reserve.
const NAME: &str = "reserve";

/// Containers that the reserve has blocks for: one for the pages that are moved, and one for footers and
/// for what the journal takes meanwhile.
const RESERVED: u64 = 2;

/// Containers for which there is room when compactions begin, and the least part of a quota that is not
/// as much.
const LOW: u64 = 4;
const LOW_PART: u64 = 8;

/// How long a write waits for room altogether.
const PATIENCE: Duration = Duration::from_secs(30);

/// Containers that one write compacts at most once there is little room.
const HELPED: usize = 4;

/// Blocks of the disk that are kept for compactions.
pub(crate) struct Reserve {
    folder: Arc<dyn Folder>,
    /// How many bytes.
    bytes: u64,
    held: Mutex<Held>,
    /// Whether they were given back and are not there again.
    is_spent: AtomicBool,
}

#[derive(Default)]
struct Held {
    /// Once the file was opened.
    log: Option<Box<dyn Log + Sync>>,
    is_whole: bool,
}

impl Reserve {
    /// The one in `folder`, for containers of `container_len` bytes. Nothing is opened before it is
    /// filled.
    pub(crate) fn new(folder: Arc<dyn Folder>, container_len: u64) -> Self {
        let bytes = RESERVED * container_len;
        Self { folder, bytes, held: Mutex::default(), is_spent: AtomicBool::new(false) }
    }

    /// Makes the reserve whole, unless it was spent, as far as the disk has room and can keep it.
    fn begin(&self) {
        let mut held = self.held();
        if !self.is_spent() {
            self.fill_held(&mut held);
        }
    }

    /// Makes the reserve whole again; whether it was spent before and is not any more. The caller must
    /// have maintenance: a compaction that meets a full disk must not meet half a reserve.
    fn refill(&self) -> bool {
        self.is_spent() && self.fill_held(&mut self.held())
    }

    fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Acquire)
    }

    /// Gives the reserve back to the disk; false if there is none.
    fn spend(&self) -> bool {
        let mut held = self.held();
        // an earlier opening may have left one
        if !self.fill_held(&mut held) {
            return false;
        }
        let Some(log) = &mut held.log else { return false };
        log.reserve(0);
        held.is_whole = false;
        self.is_spent.store(true, Ordering::Release);
        true
    }

    /// Whether it is whole now. A disk that keeps no room, or a file that cannot be opened, is no
    /// error: then there is no reserve.
    fn fill_held(&self, held: &mut Held) -> bool {
        if held.is_whole {
            return true;
        }
        if held.log.is_none() {
            held.log = self.folder.log(NAME).ok();
        }
        let Some(log) = &mut held.log else { return false };
        held.is_whole = log.reserve(self.bytes);
        match held.is_whole {
            true => self.is_spent.store(false, Ordering::Release),
            // of a part of it nobody has any use
            false => drop(log.reserve(0)),
        }
        held.is_whole
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics with it")
    }
}

/// A lock for which a thread can wait for a limited time.
#[derive(Default)]
pub(crate) struct Maintenance {
    is_taken: Mutex<bool>,
    released: Condvar,
}

/// The lock, until this is dropped.
pub(crate) struct Maintaining<'a>(&'a Maintenance);

impl Maintenance {
    pub(crate) fn lock(&self) -> Maintaining<'_> {
        let mut is_taken = self.is_taken();
        while *is_taken {
            is_taken = self.released.wait(is_taken).expect("nobody panics with it");
        }
        *is_taken = true;
        Maintaining(self)
    }

    /// The lock, unless another thread has it until `deadline`.
    fn lock_until(&self, deadline: Instant) -> Option<Maintaining<'_>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.released.wait_timeout_while(self.is_taken(), left, |taken| *taken);
        let (mut is_taken, _) = waited.expect("nobody panics with it");
        (!std::mem::replace(&mut *is_taken, true)).then_some(Maintaining(self))
    }

    fn is_taken(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().expect("nobody panics with it")
    }
}

impl Drop for Maintaining<'_> {
    fn drop(&mut self) {
        *self.0.is_taken() = false;
        self.0.released.notify_one();
    }
}

/// What writes know of the room that there is.
pub(crate) struct Room {
    reserve: Reserve,
    /// Length in bytes from which on a container is closed.
    container_len: u64,
    /// How often some was given back.
    made: AtomicU64,
    /// Whether there was little when the last container was begun, and nothing was done about it yet.
    is_low: AtomicBool,
}

impl Room {
    /// That of a pool in `folder`, whose containers are closed from `container_len` bytes on.
    pub(crate) fn new(folder: Arc<dyn Folder>, container_len: u64) -> Self {
        let (made, is_low) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { reserve: Reserve::new(folder, container_len), container_len, made, is_low }
    }
}

/// What new pages are appended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A write, within the quota and beside the reserve.
    Write,
    /// A compaction, which may take a container beyond the quota, and the reserve.
    Move,
}

/// How long a write has been waiting for room.
#[derive(Default)]
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    fn deadline(&mut self) -> Instant {
        *self.0.get_or_insert_with(|| Instant::now() + PATIENCE)
    }
}

impl Engine {
    /// How often room was given back since the pool was opened.
    pub(crate) fn room_made(&self) -> u64 {
        self.room.made.load(Ordering::Acquire)
    }

    /// Room was given back.
    pub(crate) fn note_room(&self) {
        self.room.made.fetch_add(1, Ordering::Release);
    }

    /// Makes the reserve whole again. The caller must have maintenance.
    pub(crate) fn refill_reserve(&self) {
        if self.room.reserve.refill() {
            self.note_room();
        }
    }

    /// Fails if the reserve was spent, unless that is what it is for.
    pub(crate) fn expect_reserve(&self, purpose: Purpose) -> Result<(), VolumeError> {
        match purpose {
            Purpose::Write if self.room.reserve.is_spent() => {
                Err(VolumeError::Full { kept: self.room.reserve.bytes })
            }
            _ => Ok(()),
        }
    }

    /// Does `step`, and once more with the reserve if it meets a full disk.
    pub(crate) fn with_reserve<T>(
        &self,
        mut step: impl FnMut() -> Result<T, VolumeError>,
    ) -> Result<T, VolumeError> {
        match step() {
            Err(VolumeError::Backend(error)) if error.is_full() && self.room.reserve.spend() => {
                step()
            }
            done => done,
        }
    }

    /// A container was begun: sees that there is a reserve, and notes whether there is little room left.
    pub(crate) fn look_at_room(&self) {
        self.room.reserve.begin();
        let low = LOW * self.room.container_len;
        let by_quota = self
            .options
            .quota
            .is_some_and(|quota| self.state().pages.room(quota) < low.min(quota / LOW_PART));
        let by_disk = self.folder.free_bytes().is_some_and(|free| free < low);
        self.room.is_low.store(by_quota || by_disk, Ordering::Relaxed);
    }

    /// Compacts some containers if there was little room left when the last one was begun, unless
    /// another thread is at it. So writes are slowed before one is refused.
    ///
    /// The caller must hold no lock of the engine. An error here is none of the caller's write; what
    /// caused it meets the next compaction or commit, which tells.
    pub(crate) fn help(self: &Arc<Self>) {
        let is_low = &self.room.is_low;
        if !is_low.load(Ordering::Relaxed) || !is_low.swap(false, Ordering::Relaxed) {
            return;
        }
        for _ in 0..HELPED {
            let Some(only) = self.maintenance.lock_until(Instant::now()) else { return };
            if !matches!(self.compact_with(&only, Worth::Sparse), Ok(Compaction::Done)) {
                return;
            }
        }
    }

    /// Makes room after `refused`, which a write got that began when room had been given back `seen`
    /// times. Once it returns the write may be tried again. The error is `refused` if there is nothing
    /// to give back or the write has waited long enough, or else what a compaction failed with.
    ///
    /// The caller must hold no lock of the engine.
    pub(crate) fn make_room(
        self: &Arc<Self>,
        refused: VolumeError,
        seen: u64,
        patience: &mut Patience,
    ) -> Result<(), VolumeError> {
        if !refused.is_full() {
            return Err(refused);
        }
        let deadline = patience.deadline();
        loop {
            let only = self.maintenance.lock_until(deadline);
            let Some(only) = only.filter(|_| Instant::now() < deadline) else {
                return Err(refused);
            };
            if self.room_made() != seen {
                return Ok(());
            }
            match self.give_back(&only, &refused) {
                Ok(false) if self.room_made() == seen => return Err(refused),
                Ok(_) => {}
                Err(error) if error.is_full() => return Err(refused),
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives back what one step can; false if there is nothing.
    fn give_back(
        self: &Arc<Self>,
        only: &Maintaining<'_>,
        refused: &VolumeError,
    ) -> Result<bool, VolumeError> {
        let is_disk = !matches!(refused, VolumeError::Quota { .. });
        // as much as a container, and less work
        if is_disk && self.batches_len() >= self.room.container_len {
            return self.checkpoint_with(only).map(|()| true);
        }
        let done = self.compact_with(only, Worth::Any)?;
        Ok(!matches!(done, Compaction::Nothing))
    }
}

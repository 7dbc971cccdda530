//! Room for new pages, as the engine sees it: what was refused, whether little is left, and a
//! reserve with which compactions work on a full disk.
//!
//! **Reserve.** The file `reserve` has no bytes, and blocks for two containers, where the disk can keep
//! blocks for a file. A compaction, a commit or a checkpoint that meets a full disk gives them back and
//! tries again. Until the reserve is whole again writes of new pages are refused, so that they do not
//! take what a compaction needs. So the pool is never full of garbage that nothing can remove.
//!
//! Why: docs/decisions/0046-room.md.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use onefold_backend::{Folder, Log, Reserved};

use crate::error::VolumeError;

/// The file whose blocks are the reserve.
const NAME: &str = "reserve";

/// Containers that the reserve has blocks for: one for the pages that are moved, and one for
/// footers and for what the journal takes meanwhile.
const RESERVED: u64 = 2;

/// Containers for which there is room when compactions begin, and the least part of a quota that is not
/// as much.
const LOW: u64 = 4;
const LOW_PART: u64 = 8;

/// How long compactions go on for writes that wait without giving any room back.
const PATIENCE: Duration = Duration::from_secs(30);

/// Blocks of the disk that are kept for compactions.
pub(crate) struct Reserve {
    folder: Arc<dyn Folder>,
    /// How many bytes.
    bytes: u64,
    held: Mutex<Held>,
    /// Whether it was tried to make the reserve whole.
    has_begun: AtomicBool,
    /// Whether the disk has no room for it since it was given back. A disk that never had room for
    /// it does without.
    is_spent: AtomicBool,
}

#[derive(Default)]
struct Held {
    /// Once the file was opened.
    log: Option<Box<dyn Log + Sync>>,
    /// Whether it was whole once, in this opening of the pool or before.
    was_whole: bool,
    is_whole: bool,
    /// Threads that gave it back and have not used it yet.
    users: usize,
}

/// Whoever has this uses a reserve that was given back; until then nobody makes it whole again.
struct Spent<'a>(&'a Reserve);

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        self.0.held().users -= 1;
    }
}

impl Reserve {
    /// The one in `folder`, for containers of `container_len` bytes. Nothing is opened before it is
    /// filled.
    pub(crate) fn new(folder: Arc<dyn Folder>, container_len: u64) -> Self {
        let bytes = RESERVED * container_len;
        let (has_begun, is_spent) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { folder, bytes, held: Mutex::default(), has_begun, is_spent }
    }

    /// Makes the reserve whole, unless it was spent, as far as the disk has room and can keep it.
    fn begin(&self) {
        let mut held = self.held();
        if !self.is_spent() {
            self.fill_held(&mut held);
        }
        self.has_begun.store(true, Ordering::Release);
    }

    /// Does so unless it was tried before. So a pool that was closed, or killed, while the reserve was
    /// spent knows that before it takes the first page.
    fn begin_once(&self) {
        if !self.has_begun.load(Ordering::Acquire) {
            self.begin();
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

    /// Gives the reserve back to the disk, unless another thread just did; `None` if there is none.
    fn spend(&self) -> Option<Spent<'_>> {
        let mut held = self.held();
        // an earlier opening may have left one, or have spent it
        if !self.is_spent() && !self.fill_held(&mut held) && !self.is_spent() {
            return None;
        }
        if std::mem::take(&mut held.is_whole)
            && let Some(log) = &mut held.log
        {
            log.reserve(0);
            self.is_spent.store(true, Ordering::Release);
        }
        held.users += 1;
        Some(Spent(self))
    }

    /// Whether it is whole now. A disk that keeps no room, or a file that cannot be opened, is no
    /// error: then there is no reserve.
    fn fill_held(&self, held: &mut Held) -> bool {
        if held.is_whole || held.users > 0 {
            return held.is_whole;
        }
        // an attempt in vain takes all that is free for a moment; the first one finds blocks, perhaps,
        // that an earlier opening left, which are not free
        let has_room = || self.folder.free_bytes().is_none_or(|free| free >= self.bytes);
        if (held.log.is_some() || self.has_begun.load(Ordering::Acquire)) && !has_room() {
            return false;
        }
        if held.log.is_none() {
            let names = self.folder.names().unwrap_or_default();
            held.was_whole |= names.iter().any(|name| name == NAME);
            held.log = self.folder.log(NAME).ok();
        }
        let Some(log) = &mut held.log else { return false };
        let reserved = log.reserve(self.bytes);
        held.is_whole = reserved == Reserved::Kept;
        if !held.is_whole {
            // of a part of it nobody has any use
            log.reserve(0);
        }
        held.was_whole |= held.is_whole;
        if !held.was_whole {
            // the next opening sees that there was none; if this fails it waits for room in vain
            held.log = None;
            let _ = self.folder.remove(NAME);
        }
        self.is_spent.store(reserved == Reserved::Full && held.was_whole, Ordering::Release);
        held.is_whole
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics with it")
    }
}

/// What writes know of the room that there is.
pub(crate) struct Room {
    reserve: Reserve,
    /// Length in bytes from which on a container is closed.
    container_len: u64,
    /// Bytes that containers may have together.
    quota: Option<u64>,
    /// How often some was given back.
    made: AtomicU64,
    /// Writes and commits that the quota or the disk had no room for.
    refused: AtomicU64,
    /// How many had been refused when all the room there was had been made.
    refused_before: AtomicU64,
    /// Whether there was little when the last container was begun, and nothing was done about it yet.
    is_low: AtomicBool,
    effort: Mutex<Effort>,
}

impl Room {
    /// That of a pool in `folder`, whose containers are closed from `container_len` bytes on and
    /// have at most `quota` bytes together.
    pub(crate) fn new(folder: Arc<dyn Folder>, container_len: u64, quota: Option<u64>) -> Self {
        Self {
            reserve: Reserve::new(folder, container_len),
            container_len,
            quota,
            made: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            refused_before: AtomicU64::new(0),
            is_low: AtomicBool::new(false),
            effort: Mutex::default(),
        }
    }

    /// Length in bytes from which on a container is closed.
    pub(crate) fn container_len(&self) -> u64 {
        self.container_len
    }

    /// How often room was given back since the pool was opened.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    /// Room was given back.
    pub(crate) fn note_made(&self) {
        self.made.fetch_add(1, Ordering::Release);
    }

    /// Makes the reserve whole again. The caller must have maintenance.
    pub(crate) fn refill_reserve(&self) {
        if self.reserve.refill() {
            self.note_made();
        }
    }

    /// Fails if the reserve was spent, unless that is what it is for.
    pub(crate) fn ensure_reserve(&self, purpose: Purpose) -> Result<(), VolumeError> {
        if purpose != Purpose::Write {
            return Ok(());
        }
        self.reserve.begin_once();
        match self.reserve.is_spent() {
            true => Err(VolumeError::Full { kept: self.reserve.bytes }),
            false => Ok(()),
        }
    }

    /// Does `step`, and once more with the reserve if it meets a full disk.
    pub(crate) fn with_reserve<T>(
        &self,
        mut step: impl FnMut() -> Result<T, VolumeError>,
    ) -> Result<T, VolumeError> {
        let error = match step() {
            Err(VolumeError::Backend(error)) if error.is_full() => error,
            done => return done,
        };
        let Some(_spent) = self.reserve.spend() else { return Err(error.into()) };
        step()
    }

    /// A container was begun, and all have `taken` bytes: sees that there is a reserve, and notes
    /// whether there is little room left.
    pub(crate) fn look(&self, taken: u64) {
        self.reserve.begin();
        let low = LOW * self.container_len;
        let is_low_in = |quota: u64| quota.saturating_sub(taken) < low.min(quota / LOW_PART);
        let by_quota = self.quota.is_some_and(is_low_in);
        let by_disk = self.reserve.folder.free_bytes().is_some_and(|free| free < low);
        self.is_low.store(by_quota || by_disk, Ordering::Relaxed);
    }

    /// Whether there was little room when the last container was begun; true for one caller.
    pub(crate) fn take_is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed) && self.is_low.swap(false, Ordering::Relaxed)
    }

    /// Counts an error that says that there is no room.
    pub(crate) fn note_refused(&self, error: VolumeError) -> VolumeError {
        if error.is_full() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        error
    }

    /// How many were refused for want of room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Notes that all the room was made that there was when so many had been refused.
    pub(crate) fn note_all_made(&self, refused: u64) {
        self.refused_before.fetch_max(refused, Ordering::Relaxed);
    }

    /// Whether somebody was refused for want of room, and none was made since.
    pub(crate) fn is_wanted(&self) -> bool {
        self.refused() > self.refused_before.load(Ordering::Relaxed)
    }

    pub(crate) fn effort(&self) -> MutexGuard<'_, Effort> {
        self.effort.lock().expect("nobody panics with it")
    }
}

/// What new pages are appended for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A write, within the quota and beside the reserve.
    Write,
    /// A compaction, which may take a container beyond the quota, and the reserve.
    Move {
        /// The container in which they are now: pages move to later ones only.
        from: u32,
    },
}

/// What was done in vain for all writes that wait, so that each of many does not try as long anew. What
/// others do who have maintenance does not count.
#[derive(Default)]
pub(crate) struct Effort {
    /// How often room had been given back when it began.
    made: u64,
    /// How long it took.
    took: Duration,
    /// When the last of it ended.
    ended: Option<Instant>,
}

impl Effort {
    /// Adds what took from `begun` until `now`, after room had been given back `made` times.
    pub(crate) fn add(&mut self, made: u64, begun: Instant, now: Instant) {
        if !self.goes_on(made, begun) {
            (self.made, self.took) = (made, Duration::ZERO);
        }
        self.took += now.saturating_duration_since(begun);
        self.ended = Some(now);
    }

    /// Whether it was enough, where room has been given back `made` times.
    pub(crate) fn is_enough(&self, made: u64, now: Instant) -> bool {
        self.goes_on(made, now) && self.took >= PATIENCE
    }

    /// Whether it counts: room that was given back ends it, and so does time in which nobody waited.
    fn goes_on(&self, made: u64, now: Instant) -> bool {
        let is_recent = |ended| now.saturating_duration_since(ended) < PATIENCE;
        self.made == made && self.ended.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::LocalFolder;

    use super::*;

    #[test]
    fn a_reserve_that_was_given_back_stays_so_until_it_was_used() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::new(Arc::new(LocalFolder::open(folder.path()).unwrap()), 1 << 16);
        reserve.begin();
        if !reserve.held().is_whole {
            onefold_testkit::skip("the file system keeps no room for files");
            return;
        }
        let first = reserve.spend().expect("it was whole");
        // another thread met the full disk at the same time
        let second = reserve.spend().expect("it was given back just now");
        assert!(reserve.is_spent());
        drop(first);
        assert!(!reserve.refill());
        assert!(reserve.is_spent());
        drop(second);
        assert!(reserve.refill());
        assert!(!reserve.is_spent());
    }

    #[test]
    fn writes_share_what_was_tried_in_vain_and_room_or_a_rest_begins_anew() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut effort = Effort::default();
        assert!(!effort.is_enough(0, start));
        effort.add(5, at(0), at(20));
        assert!(!effort.is_enough(5, at(20)));
        // somebody else had maintenance for 25 seconds
        effort.add(5, at(45), at(50));
        assert!(!effort.is_enough(5, at(50)));
        effort.add(5, at(50), at(55));
        assert!(effort.is_enough(5, at(55)));
        assert!(!effort.is_enough(6, at(55)), "room was given back");
        assert!(!effort.is_enough(5, at(90)), "nobody waited for long");
        effort.add(6, at(90), at(91));
        assert!(!effort.is_enough(6, at(91)));
    }
}

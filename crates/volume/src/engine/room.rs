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

use onefold_backend::{Folder, Log, Reserved};

use crate::VolumeError;
use crate::engine::parts::Engine;
use crate::space::compact::{Compaction, Worth};

/// The file whose blocks are the reserve.
const NAME: &str = "reserve";

/// Containers that the reserve has blocks for: one for the pages that are moved, and one for footers and
/// for what the journal takes meanwhile.
const RESERVED: u64 = 2;

/// Containers for which there is room when compactions begin, and the least part of a quota that is not
/// as much.
const LOW: u64 = 4;
const LOW_PART: u64 = 8;

/// How long compactions go on for writes that wait without giving any room back.
const PATIENCE: Duration = Duration::from_secs(30);

/// Containers that one write compacts at most once there is little room.
const HELPED: usize = 4;

/// Blocks of the disk that are kept for compactions.
pub(crate) struct Reserve {
    folder: Arc<dyn Folder>,
    /// How many bytes.
    bytes: u64,
    held: Mutex<Held>,
    /// Whether it was tried to make the reserve whole.
    has_begun: AtomicBool,
    /// Whether the disk has no room for it since it was given back. A disk that never had room for it does
    /// without.
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
        // an earlier opening may have left one
        if !self.is_spent() && !self.fill_held(&mut held) {
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

/// A lock for which writes wait until they are told not to.
#[derive(Default)]
pub(crate) struct Maintenance {
    state: Mutex<Taken>,
    changed: Condvar,
}

#[derive(Default)]
struct Taken {
    is_taken: bool,
    /// Whether writes do not wait any more.
    is_ending: bool,
}

/// The lock, until this is dropped.
pub(crate) struct Maintaining<'a>(&'a Maintenance);

impl Maintenance {
    pub(crate) fn lock(&self) -> Maintaining<'_> {
        let waited = self.changed.wait_while(self.state(), |state| state.is_taken);
        waited.expect("nobody panics with it").is_taken = true;
        Maintaining(self)
    }

    /// The lock for a write, unless writes do not wait any more.
    fn lock_for_write(&self) -> Option<Maintaining<'_>> {
        let is_waiting = |state: &mut Taken| state.is_taken && !state.is_ending;
        let waited = self.changed.wait_while(self.state(), is_waiting);
        let mut state = waited.expect("nobody panics with it");
        if state.is_ending {
            return None;
        }
        state.is_taken = true;
        Some(Maintaining(self))
    }

    /// The lock, unless another thread has it.
    fn try_lock(&self) -> Option<Maintaining<'_>> {
        let was_taken = std::mem::replace(&mut self.state().is_taken, true);
        (!was_taken).then_some(Maintaining(self))
    }

    /// Lets no write wait any more.
    fn end(&self) {
        self.state().is_ending = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, Taken> {
        self.state.lock().expect("nobody panics with it")
    }
}

impl Drop for Maintaining<'_> {
    fn drop(&mut self) {
        self.0.state().is_taken = false;
        self.0.changed.notify_one();
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
    effort: Mutex<Effort>,
}

impl Room {
    /// That of a pool in `folder`, whose containers are closed from `container_len` bytes on.
    pub(crate) fn new(folder: Arc<dyn Folder>, container_len: u64) -> Self {
        let (made, is_low) = (AtomicU64::new(0), AtomicBool::new(false));
        let (reserve, effort) = (Reserve::new(folder, container_len), Mutex::default());
        Self { reserve, container_len, made, is_low, effort }
    }

    fn effort(&self) -> MutexGuard<'_, Effort> {
        self.effort.lock().expect("nobody panics with it")
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

/// What was done in vain for all writes that wait, so that each of many does not try as long anew. What
/// others do who have maintenance does not count.
#[derive(Default)]
struct Effort {
    /// How often room had been given back when it began.
    made: u64,
    /// How long it took.
    took: Duration,
    /// When the last of it ended.
    ended: Option<Instant>,
}

impl Effort {
    /// Adds what took from `begun` until `now`, after room had been given back `made` times.
    fn add(&mut self, made: u64, begun: Instant, now: Instant) {
        if !self.goes_on(made, begun) {
            (self.made, self.took) = (made, Duration::ZERO);
        }
        self.took += now.saturating_duration_since(begun);
        self.ended = Some(now);
    }

    /// Whether it was enough, where room has been given back `made` times.
    fn is_enough(&self, made: u64, now: Instant) -> bool {
        self.goes_on(made, now) && self.took >= PATIENCE
    }

    /// Whether it counts: room that was given back ends it, and so does time in which nobody waited.
    fn goes_on(&self, made: u64, now: Instant) -> bool {
        let is_recent = |ended| now.saturating_duration_since(ended) < PATIENCE;
        self.made == made && self.ended.is_some_and(is_recent)
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
        let reserve = &self.room.reserve;
        if purpose == Purpose::Move {
            return Ok(());
        }
        reserve.begin_once();
        match reserve.is_spent() {
            true => Err(VolumeError::Full { kept: reserve.bytes }),
            false => Ok(()),
        }
    }

    /// Lets no write wait for room any more: what has none is refused at once.
    pub(crate) fn let_no_write_wait(&self) {
        self.maintenance.end();
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
        let Some(_spent) = self.room.reserve.spend() else { return Err(error.into()) };
        step()
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
            let Some(only) = self.maintenance.try_lock() else { return };
            if !matches!(self.compact_with(&only, Worth::Sparse), Ok(Compaction::Done)) {
                return;
            }
        }
    }

    /// Makes room after `refused`, which a write got that began when room had been given back `seen`
    /// times. Once it returns the write may be tried again. The error is `refused` if there is nothing
    /// to give back, compactions gave back nothing for long, or the end of waiting came; or else what a
    /// compaction failed with.
    ///
    /// The caller must hold no lock of the engine.
    pub(crate) fn make_room(
        self: &Arc<Self>,
        refused: VolumeError,
        seen: u64,
    ) -> Result<(), VolumeError> {
        if !refused.is_full() {
            return Err(refused);
        }
        loop {
            let Some(only) = self.maintenance.lock_for_write() else { return Err(refused) };
            if self.room_made() != seen {
                return Ok(());
            }
            let begun = Instant::now();
            if self.room.effort().is_enough(seen, begun) {
                return Err(refused);
            }
            let given = self.give_back(&only, &refused);
            self.room.effort().add(seen, begun, Instant::now());
            match given {
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use onefold_backend::{LocalFolder, MemoryFolder};
    use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
    use onefold_testkit::random;

    use super::*;
    use crate::{Hash, Options, Pool};

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

    #[test]
    fn a_write_waits_while_others_have_maintenance_reads_go_on_and_the_end_refuses_it() {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let quota = Some(100_000);
        let options = Options { table_bytes: 1 << 20, quota, ..Options::default() };
        let (pool, _) = Pool::open(folder, options).unwrap();
        pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
        let volume = pool.volume("a").unwrap();
        let page = random(1, 4096);
        volume.write(0, &page, Durability::OnFlush).unwrap();
        let (told, hear) = mpsc::channel();
        thread::scope(|scope| {
            // as somebody has who looks at each block of a volume
            let _only = pool.0.maintenance.lock();
            let volume = &volume;
            scope.spawn(move || {
                let written = volume.write(4096, &random(2, 200_000), Durability::OnFlush);
                told.send(written).unwrap();
            });
            hear.recv_timeout(Duration::from_millis(300)).unwrap_err();
            let mut found = vec![0; 4096];
            volume.read(0, &mut found).unwrap();
            assert!(found == page);
            pool.let_no_write_wait();
            let ended = hear.recv_timeout(Duration::from_secs(20)).expect("it waits no more");
            assert!(matches!(ended, Err(BlockError::NoSpace { .. })), "{ended:?}");
        });
        // nor does one that comes later
        volume.write(4096, &random(3, 200_000), Durability::OnFlush).unwrap_err();
    }
}

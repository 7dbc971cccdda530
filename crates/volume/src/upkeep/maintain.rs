//! What is worth doing for a pool now and then, and how it leaves room for others.

use std::time::Duration;

use onefold_backend::{Clock, SystemClock};

use crate::error::VolumeError;
use crate::pool::open::Pool;
use crate::space::compact::Compaction;

/// Batches of fewer bytes are not worth a checkpoint.
const MIN_CHECKPOINT: u64 = 4 << 20;

/// Batches of more bytes take long to read when a pool is opened.
const LONG: u64 = 64 << 20;

/// Batches that changed more nodes take long as well: an opening reads these, 32 MiB. Each write to a random place of
/// a large volume changes one, and adds a few bytes to a batch.
const MANY: u64 = 8192;

/// In the background a compaction is followed by a pause of so many times what it took. With one,
/// compactions have at most half of the time: clients that share the disk and the processor with them
/// have the other half to themselves, and space comes back half as fast as it could.
const PAUSE: u32 = 1;

/// How long it is paused before it is looked whether to go on.
const SLICE: Duration = Duration::from_millis(50);

/// What was worth doing.
#[derive(Debug, Default)]
pub struct Maintained {
    /// Containers whose space was given back.
    pub compacted: u64,
    /// Containers that could not be emptied. What may pass is tried again the next time.
    pub left: u64,
    /// Why not, of the first of them.
    pub why_left: Option<VolumeError>,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
    /// Whether a checkpoint was made.
    pub is_checkpointed: bool,
}

impl Pool {
    /// Does what is worth doing now and then: gives back the space of containers that are used by
    /// less than half, and makes a checkpoint where the journal has grown. A container that cannot be
    /// emptied keeps none of the others from it. For who waits for it: it does not pause.
    pub fn maintain(&self) -> Result<Maintained, VolumeError> {
        self.maintain_by(|| self.0.compact(), || true)
    }

    /// The same in the background, beginning nothing more once `go_on` says no. After each container it
    /// pauses for as long as that took, unless writes were refused for want of room.
    pub fn maintain_while(&self, go_on: impl Fn() -> bool) -> Result<Maintained, VolumeError> {
        let clock = SystemClock::default();
        self.maintain_by(|| self.compact_and_pause(&clock, &go_on), &go_on)
    }

    /// Gives back the space of all containers that are used by less than half and can be emptied, one
    /// after the other, and begins none any more once `go_on` says no. For who waits for it, too.
    pub fn compact_while(&self, go_on: impl Fn() -> bool) -> Result<Maintained, VolumeError> {
        self.compact_by(|| self.0.compact(), go_on)
    }

    /// Whether so much was changed since the last checkpoint of a paged pool that it is time for the next:
    /// opening the pool reads all of it.
    pub fn wants_checkpoint(&self) -> bool {
        let changes_many = || self.0.state().pages.nodes.changed() > MANY;
        self.0.paging.is_some() && (self.0.shard.batches_len() > LONG || changes_many())
    }

    fn maintain_by(
        &self,
        compact: impl Fn() -> Result<Compaction, VolumeError>,
        go_on: impl Fn() -> bool,
    ) -> Result<Maintained, VolumeError> {
        self.flush()?;
        // not after compactions, which may take long
        let is_due = self.wants_checkpoint();
        if is_due {
            self.checkpoint()?;
        }
        // what a crash left of volumes that were deleted
        self.0.release_all()?;
        self.0.settle_all()?;
        let compacted = self.compact_by(compact, go_on);
        let is_stopped = compacted.as_ref().is_ok_and(|done| done.is_stopped);
        let is_worth_it = !is_stopped && self.0.shard.batches_len() > MIN_CHECKPOINT;
        if is_worth_it {
            self.checkpoint()?;
        }
        Ok(Maintained { is_checkpointed: is_due || is_worth_it, ..compacted? })
    }

    fn compact_by(
        &self,
        compact: impl Fn() -> Result<Compaction, VolumeError>,
        go_on: impl Fn() -> bool,
    ) -> Result<Maintained, VolumeError> {
        let refused = self.0.room.refused();
        let mut done = Maintained::default();
        while go_on() {
            match compact()? {
                Compaction::Done => done.compacted += 1,
                Compaction::Left(error) => {
                    done.left += 1;
                    done.why_left.get_or_insert(error);
                }
                Compaction::Nothing => {
                    // all the room that there was for those who were refused before
                    self.0.room.note_all_made(refused);
                    return Ok(done);
                }
            }
        }
        done.is_stopped = true;
        Ok(done)
    }

    /// Compacts one container, and then does nothing for a while, as long as `go_on` says so and nobody
    /// wants the room.
    fn compact_and_pause(
        &self,
        clock: &dyn Clock,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Compaction, VolumeError> {
        let begun = clock.now();
        let compacted = self.0.compact()?;
        if matches!(compacted, Compaction::Nothing) {
            return Ok(compacted);
        }
        let mut left = PAUSE * clock.now().saturating_sub(begun);
        while !left.is_zero() && go_on() && !self.0.room.is_wanted() {
            let slice = left.min(SLICE);
            clock.sleep(slice);
            left -= slice;
        }
        Ok(compacted)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::{Arc, Mutex};

    use onefold_backend::{Folder, MemoryFolder};
    use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
    use onefold_testkit::random;

    use super::*;
    use crate::{Hash, Options};

    const BLOCK: u64 = 4096;

    #[test]
    fn a_checkpoint_is_due_once_batches_changed_many_nodes_however_short_they_are() {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let open = || {
            Pool::open(Arc::clone(&folder), Options { table_bytes: 1 << 20, ..Options::default() })
        };
        let (pool, _) = open().unwrap();
        let segment = 512 * 512;
        pool.create_volume("a", (MANY + 1) * segment, BlockSize::B512).unwrap();
        let volume = pool.volume("a").unwrap();
        let write = |segments: Range<u64>| {
            for one in segments {
                volume.write(one * segment, &[7; 512], Durability::OnFlush).unwrap();
            }
            pool.flush().unwrap();
        };
        // tables of pages have some nodes as well
        write(0..MANY - 16);
        assert!(!pool.wants_checkpoint() && pool.0.shard.batches_len() < MIN_CHECKPOINT);
        write(MANY - 16..MANY + 1);
        assert!(pool.wants_checkpoint());
        // and after a crash, whose batches are taken again
        drop((volume, pool));
        let (pool, _) = open().unwrap();
        assert!(pool.wants_checkpoint());
        assert!(pool.maintain().unwrap().is_checkpointed);
        assert!(!pool.wants_checkpoint());
        assert_eq!(pool.0.shard.batches_len(), 0);
    }

    /// Each look at it takes `step`, so a compaction does; and it notes the pauses.
    struct FakeClock {
        step: Duration,
        state: Mutex<(Duration, Vec<Duration>)>,
    }

    impl FakeClock {
        fn new(millis: u64) -> Self {
            Self { step: Duration::from_millis(millis), state: Mutex::default() }
        }

        fn pauses(&self) -> Vec<u64> {
            let pauses = &self.state.lock().unwrap().1;
            pauses.iter().map(|pause| pause.as_millis() as u64).collect()
        }
    }

    impl Clock for FakeClock {
        fn now(&self) -> Duration {
            let now = &mut self.state.lock().unwrap().0;
            *now += self.step;
            *now
        }

        fn sleep(&self, pause: Duration) {
            self.state.lock().unwrap().1.push(pause);
        }
    }

    /// A pool with `count` containers of which little is left, and an open one.
    fn pool(count: u64, quota: Option<u64>) -> Pool {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options { container_len: 40_000, quota, ..Options::default() };
        let (pool, _) = Pool::open(folder, options).unwrap();
        pool.create_volume("a", 1000 * BLOCK, BlockSize::B4096).unwrap();
        let volume = pool.volume("a").unwrap();
        let pages = count * 10;
        volume.write(0, &random(1, (pages * BLOCK) as usize), Durability::OnFlush).unwrap();
        for block in (0..pages).filter(|block| block % 10 > 1) {
            volume.erase(block * BLOCK..(block + 1) * BLOCK, Durability::OnFlush).unwrap();
        }
        pool.flush().unwrap();
        pool
    }

    fn maintain(pool: &Pool, clock: &FakeClock, go_on: impl Fn() -> bool) -> Maintained {
        pool.maintain_by(|| pool.compact_and_pause(clock, &go_on), &go_on).unwrap()
    }

    #[test]
    fn each_compaction_is_followed_by_a_pause_as_long_as_it_took() {
        let (pool, clock) = (pool(3, None), FakeClock::new(120));
        let done = maintain(&pool, &clock, || true);
        assert!(done.compacted >= 3, "{done:?}");
        let each = [50, 50, 20];
        assert_eq!(clock.pauses(), each.repeat(done.compacted as usize));
        assert_eq!(pool.check(), Vec::<String>::new());
        // nothing was done, nothing is paused for
        assert_eq!(maintain(&pool, &clock, || true).compacted, 0);
        assert_eq!(clock.pauses().len() as u64, 3 * done.compacted);
    }

    #[test]
    fn a_pause_ends_when_it_is_told_to() {
        let (pool, clock) = (pool(3, None), FakeClock::new(10_000));
        let done = maintain(&pool, &clock, || clock.pauses().len() < 7);
        assert_eq!((done.compacted, clock.pauses()), (1, vec![50; 7]));
        assert!(pool.statistics().reclaimable_bytes > 0);
    }

    #[test]
    fn where_writes_are_refused_nobody_pauses_until_room_was_made() {
        let (pool, clock) = (pool(6, Some(6 * 42_000 + 8000)), FakeClock::new(10));
        let volume = pool.volume("a").unwrap();
        let write = |block: u64| {
            volume.write(block * BLOCK, &random(block, BLOCK as usize), Durability::OnFlush)
        };
        let refused = (100..200).find_map(|block| write(block).err()).expect("a quota");
        assert!(matches!(refused, BlockError::NoSpace { .. }), "{refused}");
        // what becomes garbage after that is given back at once
        assert!(pool.0.room.is_wanted());
        for block in (100..200).filter(|block| block % 10 > 1) {
            volume.erase(block * BLOCK..(block + 1) * BLOCK, Durability::OnFlush).unwrap();
        }
        let done = maintain(&pool, &clock, || true);
        assert!(done.compacted >= 3, "{done:?}");
        assert_eq!(clock.pauses(), [0; 0]);
        assert!(!pool.0.room.is_wanted());
        write(300).unwrap();
        // and one that comes in the middle of a pause ends it
        volume.erase(0..1000 * BLOCK, Durability::OnFlush).unwrap();
        volume.write(0, &random(7, 45 * BLOCK as usize), Durability::OnFlush).unwrap();
        maintain(&pool, &clock, || true);
        for block in (0..45).filter(|block| block % 10 > 1) {
            volume.erase(block * BLOCK..(block + 1) * BLOCK, Durability::OnFlush).unwrap();
        }
        let slow = FakeClock::new(10_000);
        let go_on = || {
            if slow.pauses().len() == 3 {
                let refused = (100..300).find_map(|block| write(block).err());
                assert!(matches!(refused, Some(BlockError::NoSpace { .. })), "{refused:?}");
            }
            true
        };
        let done = maintain(&pool, &slow, go_on);
        assert!(done.compacted >= 1, "{done:?}");
        assert_eq!(slow.pauses(), [50, 50, 50]);
    }
}

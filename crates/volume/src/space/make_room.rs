//! Room for writes: a write that meets the quota, or a full disk, waits for compactions before it is
//! refused.
//!
//! The caller must hold no lock of the engine: a compaction takes all but those of stripes, and a
//! thread that waits with a stripe's lock would stop writers that need no room.
//!
//! Why: docs/decisions/0046-room.md.

use std::time::Instant;

use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::space::compact::{Compaction, Worth};
use crate::sync::maintenance::Maintaining;

/// Containers that one write compacts at most once there is little room.
const HELPED: usize = 4;

impl Engine {
    /// Compacts some containers if there was little room left when the last one was begun, unless
    /// another thread is at it. So writes are slowed before one is refused.
    ///
    /// The caller must hold no lock of the engine. An error here is none of the caller's write; what
    /// caused it meets the next compaction or commit, which tells.
    pub(crate) fn help(&self) {
        if !self.room.take_is_low() {
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
    pub(crate) fn make_room(&self, refused: VolumeError, seen: u64) -> Result<(), VolumeError> {
        if !refused.is_full() {
            return Err(refused);
        }
        loop {
            // other shards may have given back what this one wants
            if let VolumeError::SharedQuota { needed, .. } = refused
                && self.sharing().is_some_and(|sharing| sharing.ask_room(needed))
            {
                return Ok(());
            }
            let Some(only) = self.maintenance.lock_for_write() else { return Err(refused) };
            if self.room.made() != seen {
                return Ok(());
            }
            let begun = Instant::now();
            if self.room.effort().is_enough(seen, begun) {
                return Err(refused);
            }
            let given = self.give_back(&only, &refused);
            self.room.effort().add(seen, begun, Instant::now());
            match given {
                Ok(false) if self.room.made() == seen => return Err(refused),
                Ok(_) => {}
                Err(error) if error.is_full() => return Err(refused),
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives back what one step can; false if there is nothing.
    fn give_back(
        &self,
        only: &Maintaining<'_>,
        refused: &VolumeError,
    ) -> Result<bool, VolumeError> {
        let is_disk =
            !matches!(refused, VolumeError::Quota { .. } | VolumeError::SharedQuota { .. });
        // as much as a container, and less work
        if is_disk && self.shard.batches_len() >= self.room.container_len() {
            return self.checkpoint_with(only).map(|()| true);
        }
        let done = self.compact_with(only, Worth::Any)?;
        Ok(!matches!(done, Compaction::Nothing))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use onefold_backend::MemoryFolder;
    use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
    use onefold_testkit::random;

    use crate::{Hash, Options, Pool};

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

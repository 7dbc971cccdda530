//! Checkpoints: all of a pool but its pages, so that the batches before can go.
//!
//! A checkpoint says how the pool was between two batches. It is written while further ones are
//! added, so nobody waits for it; until it is whole, the one before and all batches are what counts.

use std::sync::atomic::Ordering;

use crate::containers::append::Appender;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::journal::metadata::Checkpoint;
use crate::recovery::image::Image;
use crate::recovery::paged::PagedImage;
use crate::seeded::fault;
use crate::state::State;
use crate::state::paging::Paging;
use crate::sync::maintenance::Maintaining;

/// A checkpoint that is to be written, and what it is to tell of.
struct Begun<'a, I> {
    image: I,
    checkpoint: Box<dyn Checkpoint + 'a>,
    /// Of the batches that it takes the place of.
    bytes: u64,
    /// What the counter of these said.
    before: u64,
    /// Nodes that were changed by then.
    changed: u64,
}

impl Engine {
    /// Writes a checkpoint, which takes the place of the batches before it.
    pub(crate) fn checkpoint(&self) -> Result<(), VolumeError> {
        self.checkpoint_with(&self.maintenance.lock())
    }

    /// Does the same for a thread that has maintenance. On a full disk it takes the reserve, and
    /// what the batches took comes back.
    pub(crate) fn checkpoint_with(&self, _only: &Maintaining<'_>) -> Result<(), VolumeError> {
        let written = self.room.with_reserve(|| self.write_checkpoint());
        if written.is_ok() {
            self.room.note_made();
        }
        self.room.refill_reserve();
        written
    }

    fn write_checkpoint(&self) -> Result<(), VolumeError> {
        match &self.paging {
            Some(paging) => self.write_paged(paging),
            None => self.write_whole(),
        }
    }

    /// Takes an image of the pool between two batches, and begins the checkpoint that is to tell of it.
    /// `None` if there was no batch since the last one.
    fn begin_checkpoint<I>(
        &self,
        image: impl FnOnce(&State, &Appender) -> I,
    ) -> Result<Option<Begun<'_, I>>, VolumeError> {
        let mut batches = self.shard.batches();
        self.shard.ensure_running()?;
        // The image is how the pool is when all that waits is there.
        let (image, bodies, files, added, changed) = {
            let appender = self.appender();
            let mut state = self.state();
            let mut bodies = state.waiting.take();
            fault!(WaitingLost => bodies.clear());
            let added = state.pages.take_added();
            let changed = state.pages.nodes.changed();
            (image(&state, &appender), bodies, state.pages.take_unsynced(), added, changed)
        };
        self.write(&mut batches, bodies, &files)?;
        self.tell(&added);
        let Some(checkpoint) = self.shard.begin_checkpoint(&batches)? else { return Ok(None) };
        let bytes = std::mem::take(&mut batches.bytes);
        let before = self.counters.journal_bytes.load(Ordering::Relaxed);
        Ok(Some(Begun { image, checkpoint, bytes, before, changed }))
    }

    /// Writes where the nodes of the pool are, and the nodes that were changed.
    fn write_paged(&self, paging: &Paging) -> Result<(), VolumeError> {
        let _storing = paging.storing();
        let Some(begun) = self.begin_checkpoint(PagedImage::of)? else { return Ok(()) };
        let Begun { mut image, checkpoint, bytes, before, changed } = begun;
        let failed = |error| self.shard.checkpoint_failed(bytes, error);
        let stored = image.store(paging).map_err(failed)?;
        if !fault!(NodesUnsynced) {
            paging.files.sync().map_err(|error| failed(self.shard.stop_at("nodes", error)))?;
        }
        fault!(NodesRemovedEarly => paging.files.retain(&paging.files_of(image.addresses()))?);
        image.write(paging, checkpoint).map_err(failed)?;
        self.counters.journal_bytes.fetch_sub(before, Ordering::Relaxed);
        let used = {
            let mut state = self.state();
            stored.note(&mut state);
            state.pages.nodes.forget_changed(changed);
            paging.files_of(image.addresses().chain(state.pages.nodes.addresses()))
        };
        // those that no checkpoint names any more
        paging.files.retain(&used)
    }

    /// Writes all of the pool.
    fn write_whole(&self) -> Result<(), VolumeError> {
        let Some(begun) = self.begin_checkpoint(Image::of)? else { return Ok(()) };
        let Begun { image, checkpoint, bytes, before, .. } = begun;
        image.write(checkpoint).map_err(|error| self.shard.checkpoint_failed(bytes, error))?;
        self.counters.journal_bytes.fetch_sub(before, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
    use onefold_backend::{MemoryFolder, Operation};
    use onefold_block::{BlockDevice, BlockSize, Durability};

    use crate::{Hash, Options, Pool};

    #[test]
    fn a_checkpoint_that_failed_leaves_its_batches_to_the_next() {
        let faults = Faults::none();
        let folder = Arc::new(Faulty::new(MemoryFolder::new(), "pool", &faults));
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options { table_bytes: 1 << 20, ..Options::default() };
        let (pool, _) = Pool::open(folder, options).unwrap();
        pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
        let write = || {
            let volume = pool.volume("a").unwrap();
            volume.write(0, &[7; 40_000], Durability::OnReturn).unwrap();
        };
        write();
        let before = pool.0.shard.batches_len();
        assert!(before > 0);
        let told = pool.statistics().journal_bytes;
        for operation in [Operation::Append, Operation::Sync] {
            faults.add(Fault::new(Failure::Full).on(operation).named("checkpoint-"));
            pool.checkpoint().unwrap_err();
            assert_eq!(pool.0.shard.batches_len(), before, "{operation:?}");
            assert_eq!(pool.statistics().journal_bytes, told, "{operation:?}");
        }
        write();
        assert!(pool.0.shard.batches_len() > before);
        pool.checkpoint().unwrap();
        assert_eq!((pool.0.shard.batches_len(), pool.statistics().journal_bytes), (0, 0));
    }
}

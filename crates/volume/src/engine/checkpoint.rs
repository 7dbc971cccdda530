//! Checkpoints: all of a pool but its pages, so that the batches before can go.
//!
//! A checkpoint says how the pool was between two batches. It is written while further ones are
//! added, so nobody waits for it; until it is whole, the one before and all batches are what counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use onefold_block::BlockSize;

use crate::VolumeError;
use crate::containers::append::Appender;
use crate::engine::parts::{Engine, State, VolumeState};
use crate::engine::room::Maintaining;
use crate::ids::VolumeId;
use crate::journal::metadata::Checkpoint;
use crate::journal::record::Record;
use crate::seeded::{self, Bug};
use crate::state::map::Segment;
use crate::state::pages::ContainerImage;

/// Bodies of a checkpoint's frames are about as long.
const BODY: usize = 1 << 20;

/// How a pool was at one moment.
pub(crate) struct Image {
    volumes: Vec<(VolumeId, VolumeImage)>,
    containers: BTreeMap<u32, ContainerImage>,
    next_volume: u32,
    next_container: u32,
}

struct VolumeImage {
    name: String,
    size: u64,
    block_size: BlockSize,
    is_read_only: bool,
    source: Option<VolumeId>,
    made: u64,
    segments: Vec<(u32, Arc<Segment>)>,
}

impl Image {
    fn of(state: &State, appender: &Appender) -> Self {
        let image = |(id, one): (&VolumeId, &VolumeState)| {
            let segments = one.map.segments().map(|(at, segment)| (at, Arc::clone(segment)));
            let image = VolumeImage {
                name: one.name.clone(),
                size: one.size.get(),
                block_size: one.block_size,
                is_read_only: one.is_read_only,
                source: one.source,
                made: one.made,
                segments: segments.collect(),
            };
            (*id, image)
        };
        Self {
            volumes: state.volumes.iter().map(image).collect(),
            containers: state.pages.images(appender.number().zip(appender.directory())),
            next_volume: state.next_volume,
            next_container: state.pages.next,
        }
    }

    /// Gives each record of the checkpoint to `put`.
    fn records<E>(&self, mut put: impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        for (container, image) in &self.containers {
            for page in &image.pages {
                put(Record::Page { container: *container, page: page.clone() })?;
            }
            if image.is_sealed {
                put(Record::Sealed { container: *container })?;
            }
        }
        let mut numbers = HashMap::new();
        for (volume, image) in &self.volumes {
            put(Record::Create {
                volume: *volume,
                name: image.name.clone(),
                size: image.size,
                block_size: image.block_size,
                is_read_only: image.is_read_only,
                source: image.source,
                made: image.made,
            })?;
            for (index, segment) in &image.segments {
                let next = numbers.len() as u32;
                let number = *numbers.entry(segment.identity()).or_insert(next);
                if number == next {
                    put(Record::Segment { pages: segment.pages().to_vec() })?;
                }
                put(Record::Placed { volume: *volume, index: *index, segment: number })?;
            }
        }
        let volume = VolumeId(self.next_volume);
        put(Record::Next { volume, container: self.next_container })
    }

    /// Lets `checkpoint` say so; durable when this returns.
    fn write(&self, mut checkpoint: Box<dyn Checkpoint + '_>) -> Result<(), VolumeError> {
        let mut body = Vec::with_capacity(BODY);
        self.records(|record| {
            record.encode(&mut body);
            if body.len() >= BODY {
                checkpoint.put(&body)?;
                body.clear();
            }
            Ok::<_, VolumeError>(())
        })?;
        if !body.is_empty() {
            checkpoint.put(&body)?;
        }
        checkpoint.finish()
    }
}

impl Engine {
    /// Writes a checkpoint, which takes the place of the batches before it.
    pub(crate) fn checkpoint(&self) -> Result<(), VolumeError> {
        self.checkpoint_with(&self.maintenance.lock())
    }

    /// Does the same for a thread that has maintenance. On a full disk it takes the reserve, and what the
    /// batches took comes back.
    pub(crate) fn checkpoint_with(&self, _only: &Maintaining<'_>) -> Result<(), VolumeError> {
        let written = self.with_reserve(|| self.write_checkpoint());
        if written.is_ok() {
            self.note_room();
        }
        self.refill_reserve();
        written
    }

    fn write_checkpoint(&self) -> Result<(), VolumeError> {
        let (image, checkpoint, bytes, before) = {
            let mut batches = self.batches.lock().expect("nobody panics with it");
            self.expect_running()?;
            // The image is how the pool is when all that waits is there.
            let (image, bodies, files) = {
                let appender = self.appender();
                let mut state = self.state();
                let mut bodies = state.waiting.take();
                if seeded::active(Bug::WaitingLost) {
                    bodies.clear();
                }
                (Image::of(&state, &appender), bodies, state.pages.take_unsynced())
            };
            self.write(&mut batches, bodies, &files)?;
            let begun = self.metadata.checkpoint(self.shard, self.writer, batches.next);
            let Some(checkpoint) = begun.map_err(|error| self.noted(error))? else {
                return Ok(());
            };
            let bytes = std::mem::take(&mut batches.bytes);
            (image, checkpoint, bytes, self.counters.journal_bytes.load(Ordering::Relaxed))
        };
        if let Err(error) = image.write(checkpoint) {
            // they are read at the next opening as before, and worth the next try
            self.batches.lock().expect("nobody panics with it").bytes += bytes;
            return Err(self.noted(error));
        }
        self.counters.journal_bytes.fetch_sub(before, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
    use onefold_backend::{MemoryFolder, Operation};
    use onefold_block::{BlockDevice, Durability};

    use super::*;
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
        let before = pool.0.batches_len();
        assert!(before > 0);
        let told = pool.statistics().journal_bytes;
        for operation in [Operation::Append, Operation::Sync] {
            faults.add(Fault::new(Failure::Full).on(operation).named("checkpoint-"));
            pool.checkpoint().unwrap_err();
            assert_eq!(pool.0.batches_len(), before, "{operation:?}");
            assert_eq!(pool.statistics().journal_bytes, told, "{operation:?}");
        }
        write();
        assert!(pool.0.batches_len() > before);
        pool.checkpoint().unwrap();
        assert_eq!((pool.0.batches_len(), pool.statistics().journal_bytes), (0, 0));
    }
}

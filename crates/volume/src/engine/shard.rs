//! The shard of a pool, as its writer holds it: batches are applied in order until the writer stops.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use onefold_backend::BackendError;

use crate::error::{VolumeError, told};
use crate::ids::Writer;
use crate::journal::metadata::{Checkpoint, Metadata, Shard, Taken};

/// What commits take turns for.
pub(crate) struct Batches {
    /// The number of the next batch.
    next: u64,
    /// Of those since a checkpoint was begun.
    pub(super) bytes: u64,
    /// How often records had come when the last commit took them that is durable.
    pub(super) durable: u64,
}

/// The shard, until the writer loses it or cannot tell what is durable.
pub(crate) struct OwnShard {
    metadata: Arc<dyn Metadata>,
    shard: Shard,
    writer: Writer,
    batches: Mutex<Batches>,
    /// Whether nothing may be changed, from the beginning on.
    is_read_only: bool,
    /// Why nothing more is taken.
    stopped: OnceLock<String>,
}

impl OwnShard {
    /// The shard that was `taken`, whose batches since the checkpoint have `bytes` bytes.
    pub(crate) fn new(
        metadata: Arc<dyn Metadata>,
        shard: Shard,
        taken: Taken,
        bytes: u64,
        is_read_only: bool,
    ) -> Self {
        let batches = Mutex::new(Batches { next: taken.sequence, bytes, durable: 0 });
        let (writer, stopped) = (taken.writer, OnceLock::new());
        Self { metadata, shard, writer, batches, is_read_only, stopped }
    }

    /// The writer that has it.
    pub(crate) fn writer(&self) -> Writer {
        self.writer
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Why nothing more is taken, if so.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Fails unless the pool may be changed.
    pub(crate) fn ensure_running(&self) -> Result<(), VolumeError> {
        if self.is_read_only {
            return Err(VolumeError::ReadOnlyPool);
        }
        match self.stopped.get() {
            None => Ok(()),
            Some(why) => Err(VolumeError::Stopped { why: why.clone() }),
        }
    }

    /// Fails if another process has the pool by now, whose pages must not be written over.
    pub(crate) fn ensure_current(&self) -> Result<(), VolumeError> {
        self.metadata.expect_current(self.shard, self.writer).map_err(|error| self.noted(error))
    }

    /// Notes durably how far changes were acknowledged.
    pub(crate) fn note_acknowledged(&self) -> Result<(), VolumeError> {
        self.metadata.note_acknowledged(self.shard)
    }

    /// Bytes of the batches since a checkpoint was begun.
    pub(crate) fn batches_len(&self) -> u64 {
        self.batches().bytes
    }

    pub(super) fn batches(&self) -> MutexGuard<'_, Batches> {
        self.batches.lock().expect("nobody panics with it")
    }

    /// The same, unless another thread has it.
    pub(super) fn try_batches(&self) -> Option<MutexGuard<'_, Batches>> {
        self.batches.try_lock().ok()
    }

    /// Adds `body` as the next batch.
    pub(super) fn apply(&self, batches: &mut Batches, body: &[u8]) -> Result<(), VolumeError> {
        let applied = self.metadata.apply_batch(self.shard, self.writer, batches.next, body);
        applied.map_err(|error| self.noted(error))?;
        batches.next += 1;
        batches.bytes += body.len() as u64;
        Ok(())
    }

    /// Begins a checkpoint of how the pool is before the next batch, unless there was no batch
    /// since the last one.
    pub(super) fn begin_checkpoint(
        &self,
        batches: &Batches,
    ) -> Result<Option<Box<dyn Checkpoint + '_>>, VolumeError> {
        let begun = self.metadata.checkpoint(self.shard, self.writer, batches.next);
        begun.map_err(|error| self.noted(error))
    }

    /// Notes that the checkpoint which took the place of `bytes` failed: they are read at the next
    /// opening as before, and worth the next try.
    pub(super) fn checkpoint_failed(&self, bytes: u64, error: VolumeError) -> VolumeError {
        self.batches().bytes += bytes;
        self.noted(error)
    }

    /// After a sync that failed nobody knows what is durable.
    pub(super) fn stop(&self, object: &str, error: BackendError) -> VolumeError {
        let _ = self.stopped.set(format!("{object} could not be synced: {}", told(&error)));
        error.into()
    }

    /// The same where the sync was one of several files.
    pub(super) fn stop_at(&self, objects: &str, error: VolumeError) -> VolumeError {
        let _ = self.stopped.set(format!("{objects} could not be synced: {}", told(&error)));
        error
    }

    /// Takes no more changes after an error that is for good.
    fn noted(&self, error: VolumeError) -> VolumeError {
        let why = match &error {
            VolumeError::Stopped { why } => why.clone(),
            VolumeError::Superseded { .. } => error.to_string(),
            _ => return error,
        };
        let _ = self.stopped.set(why);
        error
    }
}

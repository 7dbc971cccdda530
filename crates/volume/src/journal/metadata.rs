//! What a pool durably knows besides the bytes of its pages, behind one narrow call.
//!
//! Which volumes there are, which page each block is, which pages and containers there are: all of
//! it changes by batches of operations, and a batch is there as a whole, durably and once, or not at
//! all. [`Journals`](crate::Journals) keeps that in a folder. What follows from it is never stored:
//! references are counted in maps, and the table of fingerprints is filled from containers. So
//! nothing that is handed over twice can count twice.
//!
//! **A shard** is what has one order of batches and one writer at a time: a pool. A snapshot, a page
//! that moves and a page's first reference each change what several volumes share, which only one
//! order makes one change. Whoever keeps many pools has as many shards.

use onefold_seal::ObjectId;
use onefold_seal::wire::WireError;

use crate::error::VolumeError;
use crate::ids::Writer;

/// No batch, and no part of a checkpoint, has more bytes of operations.
pub const MAX_BATCH: usize = 8 << 20;

/// A pool, by its id, as those who keep what pools know tell it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(ObjectId);

impl Shard {
    /// That of the pool `id`.
    pub const fn of(id: ObjectId) -> Self {
        Self(id)
    }

    /// The id of the pool.
    pub const fn id(self) -> ObjectId {
        self.0
    }
}

/// What a shard tells whoever takes it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known<'a> {
    /// What follows takes the place of all that was told.
    Anew,
    /// Operations of the checkpoint.
    Checkpoint(&'a [u8]),
    /// Operations of the batch that comes next.
    Batch(&'a [u8]),
}

/// Who is told; an error says what is wrong with the operations.
pub type Take<'a> = dyn FnMut(Known<'_>) -> Result<(), WireError> + 'a;

/// How a shard was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Who has it from now on.
    pub writer: Writer,
    /// The number of the next batch. Batches of a shard count from 0, over all writers.
    pub sequence: u64,
    /// In how many places the batches since the checkpoint lie. Each makes it take longer to take the
    /// shard over.
    pub places: u64,
}

/// Keeps what pools know.
///
/// Operations are records as docs/pool-format.md has them, one behind the other, at most
/// [`MAX_BATCH`] bytes at a time: those of a journal in batches, those of a checkpoint in
/// checkpoints. Whoever keeps them need not know what they say.
///
/// **After an error** of a batch it is not known whether the batch is there, and the same batch is
/// handed over again with the same number before any other is. Two errors are for good:
/// [`VolumeError::Superseded`] and [`VolumeError::Stopped`].
///
/// **Panics** where a batch has no operations. To change a shard that this one never gave to anybody
/// is an error or a panic.
pub trait Metadata: Send + Sync {
    /// Makes the caller the only writer of `shard`, durably, and gives all that the shard has to
    /// `take`: a checkpoint if there is one, and the batches since, in order.
    ///
    /// No batch of an earlier writer is acknowledged or told after it, if it was not told here.
    fn take_over(&self, shard: Shard, take: &mut Take<'_>) -> Result<Taken, VolumeError>;

    /// Adds `operations`, which are not empty, as batch number `sequence`: all of them or none.
    /// Durable when this returns, and told to whoever takes the shard over then.
    ///
    /// A batch that is there already is answered like that again and nothing is done; one that
    /// leaves out a number is [`VolumeError::OutOfOrder`]; and of a writer that is not the last there
    /// was, nothing is taken any more: [`VolumeError::Superseded`].
    fn apply_batch(
        &self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
        operations: &[u8],
    ) -> Result<(), VolumeError>;

    /// Fails if another one took the shard over, as far as that can be seen. For what is changed
    /// beside batches: containers.
    fn expect_current(&self, shard: Shard, writer: Writer) -> Result<(), VolumeError>;

    /// Notes durably which batch was acknowledged last, so that taking the shard over finds out if it
    /// was lost since. Nobody waits for it to acknowledge a batch.
    ///
    /// # Errors
    /// Whatever kept it from being noted. No batch is affected, and a later call may succeed.
    fn note_acknowledged(&self, shard: Shard) -> Result<(), VolumeError> {
        let _ = shard;
        Ok(())
    }

    /// Begins a checkpoint, which says how the pool is when all batches before number `sequence` have
    /// been applied and no other; that is the number of the next batch. Meanwhile and until it is
    /// finished batches are added and told as before.
    ///
    /// `None` if there was no batch since the last checkpoint.
    fn checkpoint<'a>(
        &'a self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
    ) -> Result<Option<Box<dyn Checkpoint + 'a>>, VolumeError>;
}

/// A checkpoint that is being written. Unless it is finished it is none.
pub trait Checkpoint {
    /// Adds operations, which are not empty.
    fn put(&mut self, operations: &[u8]) -> Result<(), VolumeError>;

    /// Lets it take the place of the batches before it, durably.
    fn finish(self: Box<Self>) -> Result<(), VolumeError>;
}

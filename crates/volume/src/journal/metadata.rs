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
    /// The writer that takes the shard over. It is told first, or not at all.
    Writer(Writer),
    /// What follows takes the place of all that was told.
    Anew,
    /// Operations of the checkpoint.
    Checkpoint(&'a [u8]),
    /// Operations of several batches that come next. Each is told as a [`Batch`](Self::Batch) afterwards; this lets
    /// the reader read together what they need. A journal may leave it out.
    Coming(&'a [&'a [u8]]),
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
/// *Operations* are concatenated records of docs/pool-format.md, at most [`MAX_BATCH`] bytes at a
/// time. An implementation need not understand them.
///
/// The caller must take a shard over before any other call, must number its batches in order, and
/// must make durable whatever a batch names, the bytes of pages, before it submits the batch.
///
/// # Errors
///
/// [`VolumeError::Superseded`] and [`VolumeError::Stopped`] are permanent: the caller must change
/// nothing any more, neither the shard nor containers. A call for a shard that was not taken over
/// here fails with one of them. After any other error of a batch the caller cannot tell whether it
/// was applied, and must submit the same bytes with the same number before any other batch.
///
/// # Panics
///
/// If operations are empty or longer than [`MAX_BATCH`], or for a shard that this one does not keep.
pub trait Metadata: Send + Sync {
    /// Makes the caller the only writer of `shard`, durably, and gives all that the shard has to
    /// `take`: a checkpoint if there is one, and the batches since, in order.
    ///
    /// On success no batch of an earlier writer is acknowledged any more, and one that was not given to
    /// `take` is never given to a later writer.
    ///
    /// # Errors
    ///
    /// If what the shard has cannot be read whole, or `take` refuses it. An earlier writer may be
    /// superseded then, and the caller may try again.
    fn take_over(&self, shard: Shard, take: &mut Take<'_>) -> Result<Taken, VolumeError>;

    /// Applies `operations` as batch number `sequence`: all of them or none. On success they are
    /// durable, and any later writer gets them. A batch that was applied before succeeds and
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`VolumeError::OutOfOrder`] if a number was left out, [`VolumeError::Superseded`] if
    /// `writer` is not the last one.
    fn apply_batch(
        &self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
        operations: &[u8],
    ) -> Result<(), VolumeError>;

    /// Fails if `writer` is superseded, as far as that can be seen. The caller must ask before it
    /// changes what batches do not cover: containers, unless these refuse superseded writers by themselves.
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

    /// Begins a checkpoint of the pool as it is before batch number `sequence`, the next one. Until the
    /// checkpoint is finished, batches are applied and given to later writers as before.
    ///
    /// `None` if there was no batch since the last checkpoint.
    fn checkpoint<'a>(
        &'a self,
        shard: Shard,
        writer: Writer,
        sequence: u64,
    ) -> Result<Option<Box<dyn Checkpoint + 'a>>, VolumeError>;
}

/// A checkpoint that is being written. It has no effect unless it is finished.
pub trait Checkpoint {
    /// Adds operations, which must not be empty.
    fn put(&mut self, operations: &[u8]) -> Result<(), VolumeError>;

    /// Lets it take the place of the batches before it, durably. On error it has no effect, or all
    /// of it.
    fn finish(self: Box<Self>) -> Result<(), VolumeError>;
}

use std::ops::Range;

use crate::BlockError;

/// A range of bytes that is read and written, by many threads at once.
///
/// Offsets and lengths are in bytes and need not be multiples of [`block_size`]; those that are
/// spare the device from reading what it writes only a part of. Every call refuses what lies
/// beyond [`size`] with [`BlockError::OutOfRange`] and then changes nothing.
///
/// # What holds between calls
///
/// * A call that begins after another has returned sees what that one did, whichever threads they
///   were on.
/// * Calls that overlap in time and in place end in either order, block by block. No block is ever
///   torn: it has what one of them wrote, not a part of each.
/// * What an error left of a write is unknown block by block: each is old or new.
/// * [`flush`] makes durable whatever had returned before it was called, from any thread. So one
///   device may be served over several connections, and a flush on one of them covers all.
///
/// [`block_size`]: BlockDevice::block_size
/// [`size`]: BlockDevice::size
/// [`flush`]: BlockDevice::flush
pub trait BlockDevice: Send + Sync {
    /// Bytes that there are, a multiple of the block size.
    ///
    /// It may change between calls, by [`resize`](BlockDevice::resize) or by what manages the
    /// device; ask again rather than remember it. Never waits, neither for another call nor for a
    /// disk: servers ask before each request, on threads that may not.
    fn size(&self) -> u64;

    /// The unit in which the device keeps bytes, tears none and erases.
    fn block_size(&self) -> BlockSize;

    /// Whether every call that would change a byte ends with [`BlockError::ReadOnly`].
    fn is_read_only(&self) -> bool {
        false
    }

    /// Fills all of `buffer` with the bytes at `offset`. What was never written reads as zeroes.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError>;

    /// Puts `data` at `offset`.
    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError>;

    /// Puts each of `writes`, an offset and what to put there, as calls of [`write`] that overlap in
    /// time would.
    ///
    /// After an error any of them may have been done, in whole or in part.
    ///
    /// [`write`]: BlockDevice::write
    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        writes.iter().try_for_each(|(offset, data)| self.write(*offset, data, durability))
    }

    /// How many writes at once are less work for the device than as many one after another: 1 where
    /// that saves nothing, and several threads had better call.
    fn writes_at_once(&self) -> usize {
        1
    }

    /// Gives back the space of the blocks that lie wholly in `range`, which read as zeroes then.
    /// Blocks that lie in it by a part stay as they are.
    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError>;

    /// Makes `range` read as zeroes, in the manner of `zeroes`.
    ///
    /// Ends with [`BlockError::Slow`], having changed nothing, if only a fast way was asked for and
    /// there is none.
    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError>;

    /// Makes durable whatever was done by calls that had returned before this one began.
    fn flush(&self) -> Result<(), BlockError>;

    /// Says that `range` will be read soon. Whether that does anything is the device's affair.
    fn cache(&self, range: Range<u64>) -> Result<(), BlockError>;

    /// What is where from the start of `range`: neighbouring extents, none empty, that together
    /// are no longer than `range`.
    ///
    /// There is at least one, unless `range` is empty, and at most `max` (which is at least 1);
    /// they may end before `range` does. Unlike neighbours are kept apart, like ones need not be
    /// joined.
    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError>;

    /// Makes the device `size` bytes long, which must be a multiple of the block size. What is
    /// beyond is dropped, what is added reads as zeroes.
    fn resize(&self, size: u64) -> Result<(), BlockError> {
        let _ = size;
        Err(BlockError::NotSupported { operation: "resize" })
    }
}

/// The unit in which a device keeps bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// 512 bytes.
    B512,
    /// 4,096 bytes.
    B4096,
}

impl BlockSize {
    /// The size in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            BlockSize::B512 => 512,
            BlockSize::B4096 => 4096,
        }
    }
}

/// When what a call did is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once a [`flush`](BlockDevice::flush) that began later has returned.
    OnFlush,
    /// Once the call has returned (forced unit access).
    OnReturn,
}

/// In which manner zeroes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeroes {
    /// The blocks must keep, or get, space of their own: a later write to them does not run out of
    /// it. Otherwise the device may make a hole. One that writes every block to a new place has no
    /// such space to give, and makes holes all the same.
    pub keep_space: bool,
    /// Refuse rather than take as long as a write of as many bytes would.
    pub only_if_fast: bool,
}

/// A stretch of bytes that are kept alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many bytes that have space of their own, whatever they are.
    Data(u64),
    /// So many bytes that have no space and read as zeroes.
    Hole(u64),
}

impl Extent {
    /// The length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(self) -> u64 {
        let (Extent::Data(len) | Extent::Hole(len)) = self;
        len
    }
}

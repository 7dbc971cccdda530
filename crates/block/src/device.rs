use std::ops::Range;

use crate::BlockError;

/// A range of bytes that many threads may read and write concurrently.
///
/// Offsets and lengths are in bytes. They need not be multiples of [`block_size`], but other writes make
/// the device read the blocks that they change in part. A call beyond [`size`] fails with
/// [`BlockError::OutOfRange`] and changes nothing.
///
/// # Guarantees
///
/// * A call sees the effects of every call that returned before it began, on any thread.
/// * Concurrent calls for the same block take effect in either order. No block is ever torn: it has the
///   bytes of one write, not parts of several.
/// * After a failed write each of its blocks has its old or its new content.
/// * [`flush`] makes durable the effects of all calls that returned before it began, on any thread. So
///   several connections may serve one device, and a flush on one of them covers all.
///
/// [`block_size`]: BlockDevice::block_size
/// [`size`]: BlockDevice::size
/// [`flush`]: BlockDevice::flush
pub trait BlockDevice: Send + Sync {
    /// The size in bytes, a multiple of the block size.
    ///
    /// The size may change between calls, by [`resize`](BlockDevice::resize) or by the manager of the
    /// device, so callers must not cache it. This never blocks on another call or on a disk: servers call
    /// it before each request, on threads that must not block.
    fn size(&self) -> u64;

    /// The unit in which the device stores and erases bytes, and which it never tears.
    fn block_size(&self) -> BlockSize;

    /// Whether every call that would change a byte fails with [`BlockError::ReadOnly`].
    fn is_read_only(&self) -> bool {
        false
    }

    /// Fills `buffer` with the bytes at `offset`. Blocks that were never written read as zeroes.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError>;

    /// Writes `data` at `offset`.
    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError>;

    /// Writes each of `writes`, pairs of offset and data, like concurrent calls of [`write`].
    ///
    /// On error any of them may have been executed, fully or partly.
    ///
    /// [`write`]: BlockDevice::write
    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        writes.iter().try_for_each(|(offset, data)| self.write(*offset, data, durability))
    }

    /// The number of writes up to which one call of [`write_many`](BlockDevice::write_many) is less work
    /// than separate calls. It is 1 if one call saves nothing and several threads should call instead.
    fn writes_at_once(&self) -> usize {
        1
    }

    /// Frees the space of the blocks that are entirely within `range`; they read as zeroes afterwards.
    /// Other blocks do not change.
    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError>;

    /// Makes `range` read as zeroes, as `zeroes` requires.
    ///
    /// Fails with [`BlockError::Slow`], and changes nothing, if `zeroes` requires a fast way and there is
    /// none.
    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError>;

    /// Makes durable the effects of all calls that returned before this one began.
    fn flush(&self) -> Result<(), BlockError>;

    /// A hint that `range` will be read soon. The device may ignore it.
    fn cache(&self, range: Range<u64>) -> Result<(), BlockError>;

    /// The extents from the start of `range`: adjacent, none empty, and together no longer than `range`.
    ///
    /// There is at least one, unless `range` is empty, and at most `max`, which must be at least 1. They
    /// may end before `range` does. Adjacent extents may have the same kind.
    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError>;

    /// Sets the size to `size` bytes, which must be a multiple of the block size. Bytes beyond it are
    /// dropped; new bytes read as zeroes.
    fn resize(&self, size: u64) -> Result<(), BlockError> {
        let _ = size;
        Err(BlockError::NotSupported { operation: "resize" })
    }
}

/// The unit in which a device stores bytes.
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

/// When the effects of a call are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When a [`flush`](BlockDevice::flush) that began later has returned.
    OnFlush,
    /// When the call has returned (forced unit access).
    OnReturn,
}

/// Requirements for writing zeroes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeroes {
    /// The device must allocate space for the blocks, so that a later write to them does not run out of
    /// it. Otherwise the device may make a hole. A device that writes every block to a new place cannot
    /// reserve space, and makes holes in either case.
    pub keep_space: bool,
    /// Fail instead of taking as long as a write of as many bytes.
    pub only_if_fast: bool,
}

/// A stretch of bytes with one allocation status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// This many bytes occupy space, whatever their values.
    Data(u64),
    /// This many bytes occupy no space and read as zeroes.
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

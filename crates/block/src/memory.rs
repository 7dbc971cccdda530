use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{BlockDevice, BlockError, BlockSize, Durability, Extent, Zeroes};

/// The number of bytes that are allocated together.
const PAGE_LEN: u64 = 64 << 10;
/// The number of locks over which pages are distributed.
const SHARDS: usize = 64;

/// A device in memory. Blocks that were never written, or were erased, take no memory.
///
/// Nothing is durable: a flush does nothing.
pub struct MemoryDevice {
    block_size: BlockSize,
    /// Locked for writing while the size changes, for reading by calls that rely on it.
    size: RwLock<u64>,
    /// The same size, for callers that must not block.
    told_size: AtomicU64,
    shards: Vec<RwLock<HashMap<u64, Page>>>,
}

/// The memory of [`PAGE_LEN`] bytes, of which some blocks may be holes. Bytes of a hole are zero.
struct Page {
    bytes: Box<[u8]>,
    /// One bit a block: set if it has been written.
    written: u128,
}

/// The part of a range that lies on one page.
struct Piece {
    page: u64,
    /// The range within the page.
    bytes: Range<usize>,
}

impl MemoryDevice {
    /// An empty device of `size` bytes, which must be a multiple of the block size.
    pub fn new(size: u64, block_size: BlockSize) -> Result<MemoryDevice, BlockError> {
        check_size(size, block_size)?;
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        let told_size = AtomicU64::new(size);
        Ok(MemoryDevice { block_size, size: RwLock::new(size), told_size, shards })
    }

    /// The bytes of memory that hold data.
    pub fn allocated(&self) -> u64 {
        let pages: usize = self.shards.iter().map(|shard| read(shard).len()).sum();
        pages as u64 * PAGE_LEN
    }

    fn shard(&self, page: u64) -> &RwLock<HashMap<u64, Page>> {
        &self.shards[page as usize % SHARDS]
    }

    /// The range, and a guard that keeps the size from changing.
    fn check(
        &self,
        offset: u64,
        len: u64,
    ) -> Result<(Range<u64>, RwLockReadGuard<'_, u64>), BlockError> {
        let size = read(&self.size);
        Ok((BlockError::check_range(offset, len, *size)?, size))
    }

    fn check_range(
        &self,
        range: Range<u64>,
    ) -> Result<(Range<u64>, RwLockReadGuard<'_, u64>), BlockError> {
        self.check(range.start, range.end.saturating_sub(range.start))
    }

    /// Makes the whole blocks of `range` holes, and bytes of blocks at its ends zero.
    fn clear(&self, range: Range<u64>) {
        for piece in pieces(range) {
            let mut shard = write(self.shard(piece.page));
            let Some(page) = shard.get_mut(&piece.page) else { continue };
            page.bytes[piece.bytes.clone()].fill(0);
            page.written &= !bits(self.whole_blocks(&piece.bytes));
            if page.written == 0 {
                shard.remove(&piece.page);
            }
        }
    }

    /// Allocates memory for the blocks of `range` and calls `fill` to set its bytes, with their offset in
    /// `range`.
    fn put(&self, range: Range<u64>, mut fill: impl FnMut(usize, &mut [u8])) {
        let mut done = 0;
        for piece in pieces(range) {
            let mut shard = write(self.shard(piece.page));
            let page = shard.entry(piece.page).or_insert_with(Page::empty);
            page.written |= bits(self.blocks(&piece.bytes));
            let len = piece.bytes.len();
            fill(done, &mut page.bytes[piece.bytes]);
            done += len;
        }
    }

    /// The numbers of the blocks that `bytes` of a page touch.
    fn blocks(&self, bytes: &Range<usize>) -> Range<usize> {
        let block = self.block_size.bytes() as usize;
        bytes.start / block..bytes.end.div_ceil(block)
    }

    /// The numbers of the blocks that are entirely within `bytes` of a page.
    fn whole_blocks(&self, bytes: &Range<usize>) -> Range<usize> {
        let block = self.block_size.bytes() as usize;
        let (start, end) = (bytes.start.div_ceil(block), bytes.end / block);
        start..end.max(start)
    }

    /// The extents of one piece, block by block.
    fn extents_of(&self, piece: &Piece) -> Vec<Extent> {
        let shard = read(self.shard(piece.page));
        let Some(page) = shard.get(&piece.page) else {
            return vec![Extent::Hole(piece.bytes.len() as u64)];
        };
        let block = self.block_size.bytes() as usize;
        let extent = |number: usize| {
            let start = piece.bytes.start.max(number * block);
            let end = piece.bytes.end.min((number + 1) * block);
            let len = (end - start) as u64;
            if page.written & (1 << number) == 0 { Extent::Hole(len) } else { Extent::Data(len) }
        };
        self.blocks(&piece.bytes).map(extent).collect()
    }
}

impl BlockDevice for MemoryDevice {
    fn size(&self) -> u64 {
        self.told_size.load(Ordering::Acquire)
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError> {
        let (range, _size) = self.check(offset, buffer.len() as u64)?;
        let mut rest = buffer;
        for piece in pieces(range) {
            let (part, behind) = rest.split_at_mut(piece.bytes.len());
            match read(self.shard(piece.page)).get(&piece.page) {
                Some(page) => part.copy_from_slice(&page.bytes[piece.bytes]),
                None => part.fill(0),
            }
            rest = behind;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8], _: Durability) -> Result<(), BlockError> {
        let (range, _size) = self.check(offset, data.len() as u64)?;
        self.put(range, |done, bytes| bytes.copy_from_slice(&data[done..done + bytes.len()]));
        Ok(())
    }

    fn erase(&self, range: Range<u64>, _: Durability) -> Result<(), BlockError> {
        let (range, _size) = self.check_range(range)?;
        let block = u64::from(self.block_size.bytes());
        let (start, end) = (range.start.next_multiple_of(block), range.end / block * block);
        self.clear(start..end.max(start));
        Ok(())
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        _: Durability,
    ) -> Result<(), BlockError> {
        let (range, _size) = self.check_range(range)?;
        match zeroes {
            Zeroes { keep_space: true, only_if_fast: true } => return Err(BlockError::Slow),
            Zeroes { keep_space: true, .. } => self.put(range, |_, bytes| bytes.fill(0)),
            Zeroes { keep_space: false, .. } => self.clear(range),
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockError> {
        Ok(())
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.check_range(range).map(|_| ())
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        let (range, _size) = self.check_range(range)?;
        let mut extents: Vec<Extent> = Vec::new();
        for extent in pieces(range).flat_map(|piece| self.extents_of(&piece)) {
            let is_full = extents.len() == max;
            match (extents.last_mut(), extent) {
                (Some(Extent::Data(before)), Extent::Data(len)) => *before += len,
                (Some(Extent::Hole(before)), Extent::Hole(len)) => *before += len,
                _ if is_full => break,
                _ => extents.push(extent),
            }
        }
        Ok(extents)
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        check_size(size, self.block_size)?;
        let mut current = write(&self.size);
        if size < *current {
            let (kept, page_end) = (size.div_ceil(PAGE_LEN), size.next_multiple_of(PAGE_LEN));
            self.clear(size..page_end.min(*current));
            self.shards.iter().for_each(|shard| write(shard).retain(|page, _| *page < kept));
        }
        *current = size;
        self.told_size.store(size, Ordering::Release);
        Ok(())
    }
}

impl Page {
    fn empty() -> Page {
        Page { bytes: vec![0; PAGE_LEN as usize].into(), written: 0 }
    }
}

fn check_size(size: u64, block_size: BlockSize) -> Result<(), BlockError> {
    if size.is_multiple_of(u64::from(block_size.bytes())) {
        return Ok(());
    }
    Err(BlockError::BadSize { size, expected: "a multiple of the block size" })
}

/// Splits `range` at page boundaries.
fn pieces(range: Range<u64>) -> impl Iterator<Item = Piece> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let page = start / PAGE_LEN;
        let end = range.end.min((page + 1).saturating_mul(PAGE_LEN));
        let first = (start % PAGE_LEN) as usize;
        let piece = Piece { page, bytes: first..first + end.checked_sub(start)? as usize };
        start = end;
        (!piece.bytes.is_empty()).then_some(piece)
    })
}

/// The bits of blocks `blocks.start` up to `blocks.end`.
fn bits(blocks: Range<usize>) -> u128 {
    match blocks.len() {
        0 => 0,
        count => (u128::MAX >> (128 - count)) << blocks.start,
    }
}

/// A panic cannot leave a page in a state that other threads could not read: pages are plain bytes.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

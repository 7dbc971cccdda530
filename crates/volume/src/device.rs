//! A volume as a block device.

use std::ops::Range;
use std::sync::Arc;

use onefold_backend::BackendError;
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Extent, Zeroes};

use crate::containers::located::{Wanted, read_all};
use crate::engine::ahead::Sequence;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::VolumeId;
use crate::journal::record::Record;
use crate::limits::check_size;
use crate::state::State;
use crate::state::volume::Size;

/// Blocks that are put at a time: so many go through each stage together.
const BATCH: usize = 256;

/// Blocks that become holes at a time, while others wait.
const ERASED: u64 = 4096;

/// Writes of a block that are worth being one call: lanes of vectors are full then, and little is
/// left to be saved.
const AT_ONCE: usize = 16;

/// How often a write that has no room is put again at most. Others may take what comes back, and so
/// may what the write itself puts and replaces.
const ROUNDS: u32 = 1000;

/// A volume of a pool.
pub struct Volume {
    engine: Arc<Engine>,
    id: VolumeId,
    /// 0 once it is deleted or rolled back.
    size: Size,
    block_size: BlockSize,
    is_read_only: bool,
    reads: Sequence,
}

impl Volume {
    pub(crate) fn new(
        engine: Arc<Engine>,
        id: VolumeId,
        size: Size,
        block_size: BlockSize,
        is_read_only: bool,
    ) -> Self {
        Self { engine, id, size, block_size, is_read_only, reads: Sequence::default() }
    }

    fn block_len(&self) -> u64 {
        self.block_size.bytes().into()
    }

    fn ensure_writable(&self) -> Result<(), BlockError> {
        if self.is_read_only { Err(BlockError::ReadOnly) } else { Ok(()) }
    }

    /// Fails if the volume was deleted, or rolled back. Whoever has locks of its blocks knows that
    /// it is not rolled back meanwhile.
    fn ensure_there(&self) -> Result<(), VolumeError> {
        if self.size.get() == 0 { Err(VolumeError::Deleted) } else { Ok(()) }
    }

    /// `bytes`, unless they reach beyond the volume. A range that ends before it begins is empty.
    fn within(&self, bytes: Range<u64>) -> Result<Range<u64>, BlockError> {
        let len = bytes.end.saturating_sub(bytes.start);
        BlockError::check_range(bytes.start, len, self.size())
    }

    /// The blocks that `bytes` touches.
    fn touched(&self, bytes: &Range<u64>) -> Range<u64> {
        match bytes.is_empty() {
            true => 0..0,
            false => bytes.start / self.block_len()..bytes.end.div_ceil(self.block_len()),
        }
    }

    /// The blocks that lie wholly in `bytes`.
    fn whole(&self, bytes: &Range<u64>) -> Range<u64> {
        let first = bytes.start.div_ceil(self.block_len());
        first..(bytes.end / self.block_len()).max(first)
    }

    /// The blocks that lie wholly in `bytes`, and those at its ends that do in part.
    fn whole_and_parts(&self, bytes: &Range<u64>) -> (Range<u64>, [Range<u64>; 2]) {
        let (whole, touched) = (self.whole(bytes), self.touched(bytes));
        match bytes.is_empty() {
            true => (0..0, [0..0, 0..0]),
            false => (whole.clone(), [touched.start..whole.start, whole.end..touched.end]),
        }
    }

    fn read_block(&self, block: u64) -> Result<Vec<u8>, VolumeError> {
        let mut page = vec![0; self.block_len() as usize];
        self.read_blocks(block, &mut page)?;
        Ok(page)
    }

    /// Fills `part` with what is in `block` from `within` on.
    fn read_part(&self, block: u64, within: usize, part: &mut [u8]) -> Result<(), VolumeError> {
        if !part.is_empty() {
            part.copy_from_slice(&self.read_block(block)?[within..within + part.len()]);
        }
        Ok(())
    }

    /// Fills `buffer` with whole blocks from `first` on; holes are zeros. All that can be read is,
    /// also where others cannot.
    fn read_blocks(&self, first: u64, buffer: &mut [u8]) -> Result<(), VolumeError> {
        let pages = buffer.chunks_exact_mut(self.block_len() as usize);
        let blocks = first..first + pages.len() as u64;
        let ahead = self.reads.note(&blocks);
        let located = self.engine.locate(self.id, blocks, &ahead)?;
        let mut wanted = Vec::with_capacity(located.len());
        for ((at, located), into) in located.iter().enumerate().zip(pages) {
            match located {
                None => into.fill(0),
                Some(located) => wanted.push(Wanted { at, located, into }),
            }
        }
        let failed = read_all(wanted);
        for (at, _) in failed.iter().filter(|(_, error)| !error.may_pass()) {
            let page = located[*at].as_ref().expect("it was wanted").page;
            self.engine.state().pages.note_bad(page);
        }
        match failed.into_iter().min_by_key(|(at, _)| *at) {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }

    /// Puts all `writes`, which change the blocks of `whole` wholly and those of `parts` in part. While
    /// there is no room for them, but some comes back, they are put again, [`ROUNDS`] times at most: in
    /// between without locks, so that writers that need none do not wait.
    fn put_locked(
        &self,
        whole: &[Range<u64>],
        parts: &[Range<u64>],
        writes: &[(u64, &[u8])],
    ) -> Result<(), VolumeError> {
        let mut rounds = 0..ROUNDS;
        loop {
            let seen = self.engine.room.made();
            let put = {
                let (whole, parts) = (whole.iter().cloned(), parts.iter().cloned());
                let _blocks = self.engine.blocks.lock(self.id, whole, parts);
                self.put(writes)
            };
            match put {
                Ok(()) => {
                    self.engine.help();
                    return Ok(());
                }
                Err(error) if rounds.next().is_none() => return Err(error),
                Err(error) => self.engine.make_room(error, seen)?,
            }
        }
    }

    /// Puts all `writes`; blocks at their ends are changed in part. Who calls has their locks.
    fn put(&self, writes: &[(u64, &[u8])]) -> Result<(), VolumeError> {
        self.ensure_there()?;
        let len = self.block_len() as usize;
        let mut batch = Vec::with_capacity(BATCH.min(writes.len()));
        for &(offset, data) in writes {
            let (mut block, within) = (offset / len as u64, (offset % len as u64) as usize);
            let (head, rest) = match within {
                0 => (&data[..0], data),
                _ => data.split_at(data.len().min(len - within)),
            };
            if !head.is_empty() {
                self.change_block(block, within, head)?;
                block += 1;
            }
            let (pages, tail) = rest.split_at(rest.len() - rest.len() % len);
            for page in pages.chunks(len) {
                batch.push((block, page));
                block += 1;
                if batch.len() == BATCH {
                    self.engine.put(self.id, &batch)?;
                    batch.clear();
                }
            }
            if !tail.is_empty() {
                self.change_block(block, 0, tail)?;
            }
        }
        if batch.is_empty() { Ok(()) } else { self.engine.put(self.id, &batch) }
    }

    fn change_block(&self, block: u64, within: usize, data: &[u8]) -> Result<(), VolumeError> {
        let mut page = self.read_block(block)?;
        page[within..within + data.len()].copy_from_slice(data);
        self.engine.put(self.id, &[(block, &page)])
    }

    /// Makes holes of `blocks`, some at a time: others write in between, and while what waits is made
    /// durable.
    ///
    /// After an error the first ones are holes.
    fn erase_blocks(&self, mut blocks: Range<u64>) -> Result<(), BlockError> {
        self.engine.shard.ensure_running().map_err(block_error)?;
        while !blocks.is_empty() {
            let (alike, are_holes) =
                self.engine.alike(self.id, blocks.clone()).map_err(block_error)?;
            if are_holes {
                blocks.start += alike;
                continue;
            }
            // before blocks are locked: it may wait for the disk
            self.engine.ensure_room(self.id).map_err(block_error)?;
            let end = blocks.end.min(blocks.start + ERASED);
            let step = blocks.start..end;
            let _blocks = self.engine.blocks.lock(self.id, [step], []);
            self.ensure_there().map_err(block_error)?;
            self.engine.erase(self.id, blocks.start..end).map_err(block_error)?;
            blocks.start = end;
        }
        Ok(())
    }

    /// What the user is told of a write that was not done.
    fn refusal(&self, error: VolumeError) -> BlockError {
        if matches!(error, VolumeError::Quota { .. } | VolumeError::SharedQuota { .. }) {
            self.engine.counters.note_over_quota();
        }
        block_error(error)
    }

    fn finish(&self, durability: Durability) -> Result<(), BlockError> {
        match durability {
            Durability::OnFlush => Ok(()),
            Durability::OnReturn => self.flush(),
        }
    }
}

impl BlockDevice for Volume {
    fn size(&self) -> u64 {
        self.size.get()
    }

    fn block_size(&self) -> BlockSize {
        self.block_size
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError> {
        let bytes = BlockError::check_range(offset, buffer.len() as u64, self.size())?;
        let (len, whole) = (self.block_len(), self.whole(&bytes));
        let before = (whole.start * len - bytes.start).min(buffer.len() as u64) as usize;
        let (head, rest) = buffer.split_at_mut(before);
        let (pages, tail) = rest.split_at_mut(rest.len() - rest.len() % len as usize);
        self.read_part(bytes.start / len, (bytes.start % len) as usize, head)
            .and_then(|()| self.read_blocks(whole.start, pages))
            .and_then(|()| self.read_part(whole.end, 0, tail))
            .map_err(block_error)
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError> {
        self.write_many(&[(offset, data)], durability)
    }

    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.ensure_writable()?;
        let size = self.size();
        let (mut whole, mut parts) = (Vec::with_capacity(writes.len()), Vec::new());
        for (offset, data) in writes {
            let bytes = BlockError::check_range(*offset, data.len() as u64, size)?;
            let (blocks, ends) = self.whole_and_parts(&bytes);
            whole.push(blocks);
            parts.extend(ends.into_iter().filter(|end| !end.is_empty()));
        }
        self.put_locked(&whole, &parts, writes).map_err(|error| self.refusal(error))?;
        self.finish(durability)
    }

    fn writes_at_once(&self) -> usize {
        AT_ONCE
    }

    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError> {
        self.ensure_writable()?;
        let range = self.within(range)?;
        self.erase_blocks(self.whole(&range))?;
        self.finish(durability)
    }

    /// Always fast but for the ends of the range, and always makes holes: a block is kept anew by
    /// each write, so that space that it had before would be of no use to it.
    fn write_zeroes(
        &self,
        range: Range<u64>,
        _zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.ensure_writable()?;
        let range = self.within(range)?;
        let whole = self.whole(&range);
        let put = |bytes: Range<u64>| {
            let (whole, parts) = self.whole_and_parts(&bytes);
            let zeros = vec![0; (bytes.end - bytes.start) as usize];
            let put = self.put_locked(&[whole], &parts, &[(bytes.start, &zeros)]);
            put.map_err(|error| self.refusal(error))
        };
        if whole.is_empty() {
            put(range)?;
        } else {
            put(range.start..whole.start * self.block_len())?;
            self.erase_blocks(whole.clone())?;
            put(whole.end * self.block_len()..range.end)?;
        }
        self.finish(durability)
    }

    fn flush(&self) -> Result<(), BlockError> {
        if self.engine.shard.is_read_only() {
            return Ok(());
        }
        self.engine.flush().map_err(block_error)
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.within(range).map(drop)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        let range = self.within(range)?;
        let mut extents: Vec<Extent> = Vec::new();
        let mut blocks = self.touched(&range);
        while !blocks.is_empty() {
            // others go on in between
            let (alike, are_holes) =
                self.engine.alike(self.id, blocks.clone()).map_err(block_error)?;
            let start = (blocks.start * self.block_len()).max(range.start);
            blocks.start += alike;
            let len = (blocks.start * self.block_len()).min(range.end) - start;
            match (extents.last_mut(), are_holes) {
                (Some(Extent::Hole(before)), true) | (Some(Extent::Data(before)), false) => {
                    *before += len;
                    continue;
                }
                _ => {}
            }
            if extents.len() == max {
                break;
            }
            extents.push(if are_holes { Extent::Hole(len) } else { Extent::Data(len) });
        }
        Ok(extents)
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        self.ensure_writable()?;
        check_size(size, self.block_size).map_err(|_| BlockError::BadSize {
            size,
            expected: "a positive multiple of the block size",
        })?;
        self.engine.shard.ensure_running().map_err(block_error)?;
        let shortened = {
            // nobody writes meanwhile
            let _blocks = self.engine.blocks.lock(self.id, [], std::iter::once(0..u64::MAX));
            self.ensure_there().map_err(block_error)?;
            let end = size / self.block_len();
            let here = self.engine.state_with(|state| state.ensure_here(self.id, end..end + 1));
            let mut state = here.map_err(block_error)?;
            let State { volumes, pages, .. } = &mut *state;
            let one = volumes.get_mut(&self.id);
            let one = one.ok_or_else(|| block_error(VolumeError::Deleted))?;
            one.size.set(size);
            let beyond = one.map.split_off(end, pages).expect("the segment is in memory");
            state.let_die(self.id, beyond, &[Record::Resize { volume: self.id, size }])
        };
        self.engine.settle(shortened).map_err(block_error)
    }
}

/// What gives room back to a pool of which compactions give back no more.
const WHAT_HELPS: &str = "delete volumes or snapshots, erase blocks";

fn block_error(error: VolumeError) -> BlockError {
    match error {
        VolumeError::Backend(BackendError::Full { place, .. }) => BlockError::NoSpace {
            object: format!("{place}; {WHAT_HELPS}, or make room on the disk"),
        },
        VolumeError::Full { kept } => {
            let object = format!(
                "the pool's disk beside {kept} bytes that are kept for compactions; {WHAT_HELPS}, or \
                 make room on the disk"
            );
            BlockError::NoSpace { object }
        }
        VolumeError::Quota { quota, .. } => {
            let object =
                format!("the pool, whose quota is {quota} bytes; {WHAT_HELPS}, or raise the quota");
            BlockError::NoSpace { object }
        }
        VolumeError::SharedQuota { stored, quota, .. } => {
            let object = format!(
                "the cluster of volumes, whose quota is {quota} bytes, of which containers have {stored}; \
                 {WHAT_HELPS}, or raise the quota with `onefold cluster quota`"
            );
            BlockError::NoSpace { object }
        }
        error => BlockError::Io { object: "the pool".into(), source: Box::new(error) },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use onefold_backend::MemoryFolder;
    use onefold_testkit::random;

    use super::*;
    use crate::{Hash, Options, Pool};

    /// A new pool in memory with a small table, and its volume `a` of so many bytes.
    pub(crate) fn small(size: u64) -> (Pool, Volume) {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options { table_bytes: 1 << 20, ..Options::default() };
        let (pool, _) = Pool::open(folder, options).unwrap();
        pool.create_volume("a", size, BlockSize::B4096).unwrap();
        let volume = pool.volume("a").unwrap();
        (pool, volume)
    }

    #[test]
    fn a_read_that_a_deletion_came_before_gives_no_zeros() {
        let (pool, volume) = small(1 << 20);
        volume.write(0, &[1; 4096], Durability::OnReturn).unwrap();
        // its size is known by then, and that the range lies within
        let locate = || volume.engine.locate(volume.id, 0..2, &(2..2));
        assert_eq!(
            locate().unwrap().iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false]
        );
        pool.delete_volume("a").unwrap();
        assert!(matches!(locate(), Err(VolumeError::Deleted)));
        // and nothing lies within none
        volume.read(0, &mut []).unwrap_err();
        let BlockError::Io { source, .. } = volume.resize(8192).unwrap_err() else { panic!() };
        assert!(matches!(source.downcast_ref(), Some(VolumeError::Deleted)));
        assert!(matches!(volume.engine.alike(volume.id, 0..1), Err(VolumeError::Deleted)));
    }

    #[test]
    fn a_write_that_a_rollback_came_before_changes_nothing() {
        let (pool, volume) = small(8192);
        volume.write(0, &[1; 8192], Durability::OnFlush).unwrap();
        pool.clone_volume("a", "snapshot", true).unwrap();
        pool.roll_back_volume("a", "snapshot").unwrap();
        // each had found its range within the volume, and waited for the locks of its blocks
        let late = [
            volume.put(&[(0, &[2; 4096])]).map_err(block_error),
            volume.put(&[(4000, &[2; 200])]).map_err(block_error),
            volume.erase_blocks(0..2),
            volume.resize(4096),
        ];
        for late in late {
            let Err(BlockError::Io { source, .. }) = late else { panic!("{late:?}") };
            assert!(matches!(source.downcast_ref(), Some(VolumeError::Deleted)), "{source}");
        }
        volume.write(0, &[2; 4096], Durability::OnFlush).unwrap_err();
        let again = pool.volume("a").unwrap();
        let mut found = [0; 8192];
        again.read(0, &mut found).unwrap();
        assert_eq!(found, [1; 8192]);
        again.write(0, &[3; 4096], Durability::OnFlush).unwrap();
        assert_eq!(pool.check(), Vec::<String>::new());
    }

    /// Block by block either would take hours.
    #[test]
    fn what_was_never_written_is_erased_and_asked_for_at_once() {
        const BLOCK: u64 = 4096;
        const SIZE: u64 = BLOCK << 38;
        let (pool, volume) = small(SIZE);
        let extents = |range, max| volume.extents(range, max).unwrap();
        volume.erase(0..SIZE, Durability::OnReturn).unwrap();
        volume.write_zeroes(1..SIZE - 1, Zeroes::default(), Durability::OnReturn).unwrap();
        assert_eq!(extents(0..SIZE, 9), [Extent::Hole(SIZE)]);
        let far = BLOCK << 37;
        for at in [BLOCK, far, far + BLOCK] {
            volume.write(at, &random(at, BLOCK as usize), Durability::OnFlush).unwrap();
        }
        let rest = SIZE - far - 2 * BLOCK;
        let all = [
            Extent::Hole(BLOCK),
            Extent::Data(BLOCK),
            Extent::Hole(far - 2 * BLOCK),
            Extent::Data(2 * BLOCK),
            Extent::Hole(rest),
        ];
        assert_eq!(extents(0..SIZE, 9), all);
        assert_eq!(extents(0..SIZE, 2), all[..2]);
        let parts = [Extent::Hole(far - 2 * BLOCK), Extent::Data(BLOCK + 7)];
        assert_eq!(extents(2 * BLOCK..far + BLOCK + 7, 2), parts);
        assert_eq!(extents(BLOCK + 1..BLOCK + 2, 2), [Extent::Data(1)]);
        volume.erase(BLOCK + 1..SIZE, Durability::OnReturn).unwrap();
        assert_eq!(extents(0..SIZE, 9)[..2], all[..2]);
        assert_eq!(pool.statistics().mapped_blocks, 1);
        volume.write_zeroes(0..SIZE, Zeroes::default(), Durability::OnReturn).unwrap();
        assert_eq!(extents(0..SIZE, 1), [Extent::Hole(SIZE)]);
        assert_eq!(pool.check(), Vec::<String>::new());
    }

    #[test]
    fn a_size_is_told_while_others_have_the_state_and_is_that_of_all_handles() {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let (pool, _) = Pool::open(folder, Options::default()).unwrap();
        pool.create_volume("a", 8192, BlockSize::B4096).unwrap();
        let (volume, other) = (pool.volume("a").unwrap(), pool.volume("a").unwrap());
        other.resize(12288).unwrap();
        let (told, hear) = mpsc::channel();
        {
            let _state = volume.engine.state();
            thread::spawn(move || told.send(other.size()).unwrap());
            assert_eq!(hear.recv_timeout(Duration::from_secs(20)), Ok(12288));
        }
        assert_eq!(volume.size(), 12288);
        pool.delete_volume("a").unwrap();
        assert_eq!(volume.size(), 0);
    }
}

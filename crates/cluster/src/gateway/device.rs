//! A volume as a gateway's clients see it.

use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Extent, Zeroes};

use super::tenure::Tenure;
use super::unsettled::Unsettled;

/// A client cannot see that its server lost its memory: writes are durable when they return.
const DURABLE: Durability = Durability::OnReturn;

/// A device that answers reads only while its gateway may, acknowledges writes only when they are durable,
/// and shows none before: a client cannot see that another gateway goes on without what one had in memory.
pub struct LeasedDevice<D> {
    device: D,
    tenure: Arc<Tenure>,
    /// Those of all devices of the volume.
    unsettled: Arc<Unsettled>,
}

impl<D: BlockDevice> LeasedDevice<D> {
    /// `device`, of a shard whose reads are answered during `tenure`, and whose writes are `unsettled`.
    pub(super) fn new(device: D, tenure: Arc<Tenure>, unsettled: Arc<Unsettled>) -> Self {
        Self { device, tenure, unsettled }
    }

    /// What was read of `bytes`, or an error if that may not be answered.
    fn read_now<T>(
        &self,
        bytes: &Range<u64>,
        found: Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        let found = found
            .and_then(|found| self.unsettled.settle(bytes, || self.device.flush()).map(|()| found));
        if self.tenure.is_current() { found } else { Err(BlockError::Elsewhere) }
    }

    /// Makes a change of `ranges` of bytes. One that was made is durable, also if the gateway has lost the
    /// shard since.
    fn change(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
        make: impl FnOnce() -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        self.changed(self.unsettled.during(ranges, make))
    }

    /// That a change was made, or why not.
    fn changed(&self, outcome: Result<(), BlockError>) -> Result<(), BlockError> {
        outcome.map_err(|error| match self.tenure.is_current() {
            true => error,
            false => BlockError::Elsewhere,
        })
    }
}

impl<D: BlockDevice> BlockDevice for LeasedDevice<D> {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn block_size(&self) -> BlockSize {
        self.device.block_size()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError> {
        let found = self.device.read(offset, buffer);
        self.read_now(&bytes_of(offset, buffer), found)
    }

    fn write(&self, offset: u64, data: &[u8], _: Durability) -> Result<(), BlockError> {
        self.change(once(bytes_of(offset, data)), || self.device.write(offset, data, DURABLE))
    }

    fn write_many(&self, writes: &[(u64, &[u8])], _: Durability) -> Result<(), BlockError> {
        let ranges = writes.iter().map(|(offset, data)| bytes_of(*offset, data));
        self.change(ranges, || self.device.write_many(writes, DURABLE))
    }

    fn writes_at_once(&self) -> usize {
        self.device.writes_at_once()
    }

    fn erase(&self, range: Range<u64>, _: Durability) -> Result<(), BlockError> {
        self.change(once(range.clone()), || self.device.erase(range, DURABLE))
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        _: Durability,
    ) -> Result<(), BlockError> {
        self.change(once(range.clone()), || self.device.write_zeroes(range, zeroes, DURABLE))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.changed(self.unsettled.flushing(|| self.device.flush()))
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.device.cache(range)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        let found = self.device.extents(range.clone(), max);
        self.read_now(&range, found)
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        self.changed(self.device.resize(size))
    }
}

/// The bytes of a volume that `data` from `offset` on is.
fn bytes_of(offset: u64, data: &[u8]) -> Range<u64> {
    offset..offset.saturating_add(data.len() as u64)
}

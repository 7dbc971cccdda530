//! A volume as a gateway's clients see it.

use std::ops::Range;
use std::sync::Arc;

use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Extent, Zeroes};

use super::tenure::Tenure;

/// A device that answers reads only while its gateway may, and acknowledges writes only when they are
/// durable: a client cannot see that another gateway goes on without what one had in memory.
///
/// Without a tenure it is `D` and nothing more.
pub struct LeasedDevice<D> {
    device: D,
    tenure: Option<Arc<Tenure>>,
}

impl<D: BlockDevice> LeasedDevice<D> {
    /// `device`, of a shard whose reads are answered during `tenure`.
    pub fn new(device: D, tenure: Option<Arc<Tenure>>) -> Self {
        Self { device, tenure }
    }

    /// What was read, or an error if that may not be answered.
    fn read_now<T>(&self, found: Result<T, BlockError>) -> Result<T, BlockError> {
        if self.is_current() { found } else { Err(BlockError::Elsewhere) }
    }

    /// That a change was made, or why not. A change that was made is durable, also if the gateway has lost the
    /// shard since.
    fn changed(&self, outcome: Result<(), BlockError>) -> Result<(), BlockError> {
        outcome.map_err(|error| if self.is_current() { error } else { BlockError::Elsewhere })
    }

    fn is_current(&self) -> bool {
        self.tenure.as_ref().is_none_or(|tenure| tenure.is_current())
    }

    fn durability(&self, asked: Durability) -> Durability {
        if self.tenure.is_some() { Durability::OnReturn } else { asked }
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
        self.read_now(found)
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError> {
        self.changed(self.device.write(offset, data, self.durability(durability)))
    }

    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.changed(self.device.write_many(writes, self.durability(durability)))
    }

    fn writes_at_once(&self) -> usize {
        self.device.writes_at_once()
    }

    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError> {
        self.changed(self.device.erase(range, self.durability(durability)))
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.changed(self.device.write_zeroes(range, zeroes, self.durability(durability)))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.changed(self.device.flush())
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.device.cache(range)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        self.read_now(self.device.extents(range, max))
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        self.changed(self.device.resize(size))
    }
}

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

    /// Fails if the answer that is ready now may not be given.
    fn ensure_current(&self) -> Result<(), BlockError> {
        if self.tenure.as_ref().is_none_or(|tenure| tenure.is_current()) {
            return Ok(());
        }
        let source = "the gateway could not renew its lease or gave the volume away, so another one may have it";
        Err(BlockError::Io { object: "the cluster".to_owned(), source: source.into() })
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
        self.device.read(offset, buffer)?;
        self.ensure_current()
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError> {
        self.device.write(offset, data, self.durability(durability))
    }

    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.device.write_many(writes, self.durability(durability))
    }

    fn writes_at_once(&self) -> usize {
        self.device.writes_at_once()
    }

    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError> {
        self.device.erase(range, self.durability(durability))
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.device.write_zeroes(range, zeroes, self.durability(durability))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.device.flush()
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.device.cache(range)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        let found = self.device.extents(range, max)?;
        self.ensure_current()?;
        Ok(found)
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        self.device.resize(size)
    }
}

//! A volume as a gateway's clients see it.

use std::ops::Range;
use std::sync::Arc;

use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Extent, Zeroes};

use crate::lease::Lease;
use crate::undurable::Undurable;

/// A device that answers reads only while its gateway may, and acknowledges writes only when they are
/// durable: a client cannot see that another gateway goes on without what one had in memory. A read does not
/// show a write before that is durable either.
///
/// Without a lease it is `D` and nothing more.
pub struct LeasedDevice<D> {
    device: D,
    lease: Option<Arc<Lease>>,
    undurable: Undurable,
}

impl<D: BlockDevice> LeasedDevice<D> {
    /// `device`, of a gateway that holds `lease`.
    pub fn new(device: D, lease: Option<Arc<Lease>>) -> Self {
        Self { device, lease, undurable: Undurable::default() }
    }

    /// Fails if the answer that is ready now may not be given.
    fn ensure_current(&self) -> Result<(), BlockError> {
        if self.lease.as_ref().is_none_or(|lease| lease.is_valid()) {
            return Ok(());
        }
        let source = "the gateway could not renew its lease, so another one may have the volume";
        Err(BlockError::Io { object: "the cluster".to_owned(), source: source.into() })
    }

    /// Makes durable what a read of `range` may have seen, which is over.
    fn settle(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.undurable.settle(&range, || self.device.flush())
    }

    /// Makes a change of `ranges`, which reads wait for until it is durable.
    fn change(
        &self,
        ranges: impl IntoIterator<Item = Range<u64>>,
        make: impl FnOnce() -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        if self.lease.is_none() {
            return make();
        }
        let change = self.undurable.begin(ranges);
        make()?;
        change.durable();
        Ok(())
    }

    fn durability(&self, asked: Durability) -> Durability {
        if self.lease.is_some() { Durability::OnReturn } else { asked }
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
        self.settle(range(offset, buffer))?;
        self.ensure_current()
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError> {
        let write = || self.device.write(offset, data, self.durability(durability));
        self.change([range(offset, data)], write)
    }

    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        let write = || self.device.write_many(writes, self.durability(durability));
        self.change(writes.iter().map(|(offset, data)| range(*offset, data)), write)
    }

    fn writes_at_once(&self) -> usize {
        self.device.writes_at_once()
    }

    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError> {
        let erase = || self.device.erase(range.clone(), self.durability(durability));
        self.change([range.clone()], erase)
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let write = || self.device.write_zeroes(range.clone(), zeroes, self.durability(durability));
        self.change([range.clone()], write)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.device.flush()
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.device.cache(range)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        let found = self.device.extents(range.clone(), max)?;
        self.settle(range)?;
        self.ensure_current()?;
        Ok(found)
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        self.device.resize(size)
    }
}

/// The bytes that `data` has at `offset`.
fn range(offset: u64, data: &[u8]) -> Range<u64> {
    offset..offset.saturating_add(data.len() as u64)
}

//! A volume in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::BlockSize;

use crate::error::VolumeError;
use crate::ids::VolumeId;
use crate::journal::record::Record;
use crate::state::map::Map;

/// How many bytes a volume has, for those who may not wait for the state; who has that changes it.
#[derive(Clone)]
pub(crate) struct Size(Arc<AtomicU64>);

impl Size {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }
}

/// A volume, as the pool knows it.
pub(crate) struct VolumeState {
    pub(crate) name: String,
    pub(crate) size: Size,
    pub(crate) block_size: BlockSize,
    pub(crate) is_read_only: bool,
    /// The volume that it was made of, which may be gone.
    pub(crate) source: Option<VolumeId>,
    /// When it was made, in seconds since 1970.
    pub(crate) made: u64,
    pub(crate) map: Map,
}

impl VolumeState {
    /// The record by which a volume `volume` like this one comes into being, with the map of
    /// `source`.
    pub(crate) fn create_record(&self, volume: VolumeId, source: Option<VolumeId>) -> Record {
        Record::Create {
            volume,
            name: self.name.clone(),
            size: self.size.get(),
            block_size: self.block_size,
            is_read_only: self.is_read_only,
            source,
            made: self.made,
        }
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> u64 {
        self.size.get() / u64::from(self.block_size.bytes())
    }

    /// Fails unless it can be written and has blocks of this size.
    pub(crate) fn ensure_like(&self, block_size: BlockSize) -> Result<(), VolumeError> {
        if self.is_read_only {
            return Err(VolumeError::ReadOnly { name: self.name.clone() });
        }
        if self.block_size != block_size {
            let (found, expected) = (block_size.bytes(), self.block_size.bytes());
            return Err(VolumeError::OtherBlocks { found, expected });
        }
        Ok(())
    }
}

//! Erases: blocks become holes.

use std::ops::Range;

use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::{Handle, VolumeId};

impl Engine {
    /// Makes holes of `blocks`; other threads wait for the state meanwhile. The caller must hold their
    /// stripes, and must have asked for room before it took them.
    pub(crate) fn erase(&self, volume: VolumeId, blocks: Range<u64>) -> Result<(), VolumeError> {
        let mut state = self.state_for(volume, || blocks.clone())?;
        blocks.for_each(|block| state.map(volume, block, Handle::HOLE));
        drop(state);
        self.let_others();
        Ok(())
    }
}

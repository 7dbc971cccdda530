//! Locks of blocks, so that a block that is changed in part is not changed by others meanwhile.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use crate::handle::VolumeId;

const STRIPES: usize = 256;

/// Locks that blocks share, each many blocks.
pub(crate) struct Stripes([Mutex<()>; STRIPES]);

impl Stripes {
    pub(crate) fn new() -> Self {
        Self([const { Mutex::new(()) }; STRIPES])
    }

    /// The locks of `blocks`, taken in one order by all, so that nobody waits in a circle.
    pub(crate) fn lock(&self, volume: VolumeId, blocks: Range<u64>) -> Vec<MutexGuard<'_, ()>> {
        let count = (blocks.end - blocks.start).min(STRIPES as u64);
        let stripe =
            |block: u64| (block.wrapping_add(u64::from(volume.0) * 37) % STRIPES as u64) as usize;
        let mut stripes: Vec<usize> = (0..count).map(|i| stripe(blocks.start + i)).collect();
        stripes.sort_unstable();
        stripes.into_iter().map(|one| self.0[one].lock().expect("nobody panics with it")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_any_length_takes_each_lock_once() {
        let stripes = Stripes::new();
        for (range, count) in [(0..0, 0), (5..6, 1), (200..300, 100), (0..1 << 40, STRIPES)] {
            assert_eq!(stripes.lock(VolumeId(3), range).len(), count);
        }
    }
}

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

    /// The locks of the blocks in `ranges`, taken in one order by all, so that nobody waits in a
    /// circle.
    pub(crate) fn lock(
        &self,
        volume: VolumeId,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Vec<MutexGuard<'_, ()>> {
        let mut wanted = [0_u64; STRIPES / 64];
        for range in ranges {
            for i in 0..(range.end - range.start).min(STRIPES as u64) {
                let block = range.start + i;
                let stripe = block.wrapping_add(u64::from(volume.0) * 37) % STRIPES as u64;
                wanted[stripe as usize / 64] |= 1 << (stripe % 64);
            }
        }
        let count: u32 = wanted.iter().map(|bits| bits.count_ones()).sum();
        let mut locks = Vec::with_capacity(count as usize);
        let is_wanted = |stripe: &usize| wanted[stripe / 64] >> (stripe % 64) & 1 == 1;
        for stripe in (0..STRIPES).filter(is_wanted) {
            locks.push(self.0[stripe].lock().expect("nobody panics with it"));
        }
        locks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_any_length_take_each_lock_once() {
        let stripes = Stripes::new();
        for (range, count) in [(0..0, 0), (5..6, 1), (200..300, 100), (0..1 << 40, STRIPES)] {
            assert_eq!(stripes.lock(VolumeId(3), [range]).len(), count);
        }
        assert_eq!(stripes.lock(VolumeId(3), [5..6, 0..0, 261..262, 4..7]).len(), 3);
        assert_eq!(stripes.lock(VolumeId(3), [0..200, 150..256]).len(), STRIPES);
    }
}

//! Locks of blocks, so that a block that is changed in part is not changed by others meanwhile.

use std::ops::Range;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::ids::VolumeId;

const STRIPES: usize = 256;

/// Locks that blocks share, each many blocks.
///
/// Who writes or erases a whole block shares its lock with others who do: the last one to change the
/// map decides. Who changes a part of one, of what it was before, has the lock alone.
pub(crate) struct Stripes([RwLock<()>; STRIPES]);

/// Locks that are held, until this is dropped.
#[derive(Default)]
pub(crate) struct Locked<'a> {
    shared: Vec<RwLockReadGuard<'a, ()>>,
    alone: Vec<RwLockWriteGuard<'a, ()>>,
}

impl Stripes {
    pub(crate) fn new() -> Self {
        Self([const { RwLock::new(()) }; STRIPES])
    }

    /// The locks of the blocks in `whole`, shared, and of those in `parts`, alone. All take them in
    /// one order, so that nobody waits in a circle.
    pub(crate) fn lock(
        &self,
        volume: VolumeId,
        whole: impl IntoIterator<Item = Range<u64>>,
        parts: impl IntoIterator<Item = Range<u64>>,
    ) -> Locked<'_> {
        let (whole, parts) = (wanted(volume, whole), wanted(volume, parts));
        let mut locked = Locked::default();
        for (locks, (whole, parts)) in self.0.chunks(64).zip(whole.into_iter().zip(parts)) {
            let mut left = whole | parts;
            while left != 0 {
                let (lock, bit) =
                    (&locks[left.trailing_zeros() as usize], left & left.wrapping_neg());
                match parts & bit {
                    0 => locked.shared.push(lock.read().expect("nobody panics with it")),
                    _ => locked.alone.push(lock.write().expect("nobody panics with it")),
                }
                left ^= bit;
            }
        }
        locked
    }
}

/// A bit for each stripe.
type Wanted = [u64; STRIPES / 64];

fn wanted(volume: VolumeId, ranges: impl IntoIterator<Item = Range<u64>>) -> Wanted {
    let mut wanted = Wanted::default();
    for range in ranges {
        for i in 0..(range.end - range.start).min(STRIPES as u64) {
            let block = range.start + i;
            let stripe = block.wrapping_add(u64::from(volume.0) * 37) % STRIPES as u64;
            wanted[stripe as usize / 64] |= 1 << (stripe % 64);
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Range<u64>; 0] = [];

    fn one(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        std::iter::once(range)
    }

    fn counts(locked: &Locked<'_>) -> (usize, usize) {
        (locked.shared.len(), locked.alone.len())
    }

    #[test]
    fn ranges_of_any_length_take_each_lock_once() {
        let (stripes, volume) = (Stripes::new(), VolumeId(3));
        for (range, count) in [(0..0, 0), (5..6, 1), (200..300, 100), (0..1 << 40, STRIPES)] {
            assert_eq!(counts(&stripes.lock(volume, [range.clone()], NONE)), (count, 0));
            assert_eq!(counts(&stripes.lock(volume, NONE, [range.clone()])), (0, count));
            assert_eq!(counts(&stripes.lock(volume, [range.clone()], [range])), (0, count));
        }
        assert_eq!(counts(&stripes.lock(volume, [5..6, 0..0, 261..262, 4..7], NONE)), (3, 0));
        assert_eq!(counts(&stripes.lock(volume, [0..200, 150..256], [7..8, 263..264])), (255, 1));
    }

    #[test]
    fn whole_blocks_are_written_by_many_and_parts_by_one() {
        let (stripes, volume) = (Stripes::new(), VolumeId(3));
        let try_alone = |block: usize| {
            let stripe = (block + 3 * 37) % STRIPES;
            stripes.0[stripe].try_write().is_ok()
        };
        let first = stripes.lock(volume, one(0..256), NONE);
        let second = stripes.lock(volume, one(100..200), NONE);
        assert!(!try_alone(0) && !try_alone(150));
        drop(first);
        assert!(try_alone(0) && !try_alone(150));
        drop(second);
        let part = stripes.lock(volume, one(10..20), one(20..21));
        let stripe = |block: usize| &stripes.0[(block + 3 * 37) % STRIPES];
        assert!(stripe(15).try_read().is_ok() && stripe(20).try_read().is_err());
        drop(part);
        assert!(try_alone(20));
    }
}

//! Groups that came from far away, kept as they are stored for whoever wants them again.
//!
//! They lie in a file without a name, so a command that is killed leaves nothing. The file is a ring:
//! what came first goes first.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::chunks::groups::Key;

/// A ring of stored groups.
pub(crate) struct Scratch {
    file: File,
    /// Bytes of the file, at most.
    capacity: u64,
    kept: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    /// Where the next group goes.
    end: u64,
    /// Which groups there are, in the order in which they came.
    order: VecDeque<Key>,
    places: HashMap<Key, Range<u64>>,
    /// The file took no more, as a full disk does.
    is_closed: bool,
}

impl Scratch {
    /// An empty one in `file`, of at most `capacity` bytes.
    pub(crate) fn new(file: File, capacity: u64) -> Self {
        Self { file, capacity, kept: Mutex::default() }
    }

    /// Whether `len` bytes of groups can be kept until they are wanted again.
    pub(crate) fn has_room(&self, len: u64) -> bool {
        len <= self.capacity / 2 && !self.kept().is_closed
    }

    /// The stored bytes of a group, if it is kept. Whoever decodes them verifies them.
    pub(crate) fn get(&self, group: Key) -> Option<Bytes> {
        let kept = self.kept();
        let place = kept.places.get(&group)?;
        let mut bytes = vec![0; (place.end - place.start) as usize];
        self.file.read_exact_at(&mut bytes, place.start).ok()?;
        Some(bytes.into())
    }

    /// Keeps a group, in place of the oldest. Where the file takes no more, it gives back its room,
    /// and nothing is kept any longer.
    pub(crate) fn put(&self, group: Key, stored: &[u8]) {
        let mut kept = self.kept();
        let len = stored.len() as u64;
        if kept.is_closed || len > self.capacity || kept.places.contains_key(&group) {
            return;
        }
        let place = kept.take_room(len, self.capacity);
        if self.file.write_all_at(stored, place.start).is_ok() {
            kept.order.push_back(group);
            kept.places.insert(group, place);
            return;
        }
        *kept = Ring { is_closed: true, ..Ring::default() };
        // If it stays, it is gone with the command.
        let _ = self.file.set_len(0);
    }

    fn kept(&self) -> MutexGuard<'_, Ring> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// Makes room for `len` bytes behind what came last, or at the beginning if the file ends there.
    fn take_room(&mut self, len: u64, capacity: u64) -> Range<u64> {
        if self.end + len > capacity {
            // What lies behind it is older than anything before it.
            self.drop_oldest(self.end..capacity);
            self.end = 0;
        }
        let place = self.end..self.end + len;
        self.drop_oldest(place.clone());
        self.end = place.end;
        place
    }

    /// Forgets the oldest groups as long as they lie in `room`.
    fn drop_oldest(&mut self, room: Range<u64>) {
        while let Some(oldest) = self.order.front() {
            let place = &self.places[oldest];
            if place.start >= room.end || place.end <= room.start {
                return;
            }
            self.places.remove(oldest);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_testkit::SplitMix64;

    use super::*;

    #[test]
    fn what_is_kept_is_what_was_put_and_the_latest_is_kept() {
        const CAPACITY: u64 = 10_000;
        let file = tempfile::tempfile().unwrap();
        let scratch = Scratch::new(file.try_clone().unwrap(), CAPACITY);
        let mut numbers = SplitMix64::new(1);
        let mut put: Vec<Vec<u8>> = Vec::new();
        for number in 0..1000 {
            let stored = vec![number as u8; 1 + numbers.below(1500)];
            scratch.put((7, number), &stored);
            put.push(stored);
            let mut kept = 0;
            for (older, stored) in (0..).zip(&put) {
                let Some(found) = scratch.get((7, older)) else { continue };
                assert_eq!(found, stored, "group {older} after {number}");
                kept += found.len() as u64;
            }
            let all: usize = put.iter().map(Vec::len).sum();
            assert!(kept >= (all as u64).min(CAPACITY - 2 * 1500), "{kept} after {number}");
            assert_eq!(scratch.get((7, number)).unwrap(), put[number as usize]);
        }
        assert!(file.metadata().unwrap().len() <= CAPACITY);
        scratch.put((8, 0), &vec![0; CAPACITY as usize + 1]);
        assert_eq!(scratch.get((8, 0)), None, "it has no room for it");
    }

    #[test]
    fn a_file_that_takes_no_more_ends_it() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let scratch = Scratch::new(File::open(path.path()).unwrap(), 1000);
        assert!(scratch.has_room(500) && !scratch.has_room(501));
        scratch.put((1, 1), b"read-only");
        assert_eq!(scratch.get((1, 1)), None);
        assert!(!scratch.has_room(1));
    }
}

//! Reading ahead of programs that read files from far away in order.
//!
//! Whoever reads a file in order soon wants what follows. So each such read may bring what lies ahead by
//! one plan, twice as much each time. A read elsewhere in the file drops that: it brings only what it
//! needs.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use onefold_fingerprint::Fingerprint;

/// Bytes that are read ahead at first, and at most.
const FIRST: u64 = 128 << 10;
const MOST: u64 = 16 << 20;
/// Reads that follow one another may come in another order, because threads ask for them at once: so
/// many bytes apart they still count as following.
const SLACK: u64 = 512 << 10;
/// Files that are followed at a time.
const FILES: usize = 16;

/// How files are being read.
#[derive(Default)]
pub(crate) struct ReadAhead(Mutex<VecDeque<(Fingerprint, Arc<Mutex<Following>>)>>);

/// How one file is being read.
struct Following {
    /// Where the last read ended.
    next: u64,
    /// Up to where all was brought.
    end: u64,
    /// How much is brought the next time.
    reach: u64,
}

impl ReadAhead {
    /// Calls `bring` with what is to be brought before `range` of `content` is read, if it is read in
    /// order. Others who read the same content wait until it is there.
    pub(crate) fn before(
        &self,
        content: &Fingerprint,
        range: &Range<u64>,
        bring: impl FnOnce(Range<u64>),
    ) {
        let file = self.file(content);
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ahead) = file.ahead(range) {
            bring(ahead);
        }
    }

    fn file(&self, content: &Fingerprint) -> Arc<Mutex<Following>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.iter().position(|(known, _)| known == content);
        let file = known.and_then(|at| files.remove(at)).unwrap_or_else(|| {
            // A first read at the beginning follows nothing.
            let new = Following { next: u64::MAX, end: 0, reach: FIRST };
            (*content, Arc::new(Mutex::new(new)))
        });
        let following = Arc::clone(&file.1);
        files.push_front(file);
        files.truncate(FILES);
        following
    }
}

impl Following {
    /// What is to be brought before `range` is read.
    fn ahead(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        if self.next.abs_diff(range.start) > SLACK {
            *self = Self { next: range.end, end: range.end, reach: FIRST };
            return None;
        }
        self.next = self.next.max(range.end);
        if range.end <= self.end {
            return None;
        }
        let ahead = self.end..range.end + self.reach;
        self.end = ahead.end;
        self.reach = (self.reach * 2).min(MOST);
        Some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is brought before reads of `len` bytes at `starts`.
    fn brought(starts: impl IntoIterator<Item = u64>, len: u64) -> Vec<Range<u64>> {
        let (ahead, mut brought) = (ReadAhead::default(), Vec::new());
        for start in starts {
            let content = Fingerprint::from_bytes([1; 32]);
            ahead.before(&content, &(start..start + len), |range| brought.push(range));
        }
        brought
    }

    #[test]
    fn reading_in_order_brings_twice_as_much_each_time() {
        const LEN: u64 = 128 << 10;
        let brought = brought((0..512).map(|number| number * LEN), LEN);
        assert_eq!(brought[0], LEN..3 * LEN);
        for pair in brought.windows(2) {
            assert_eq!(pair[1].start, pair[0].end, "nothing is left out or brought twice");
        }
        assert!(brought.iter().all(|range| range.end - range.start <= MOST + LEN), "{brought:?}");
        assert!(brought.len() < 13, "{brought:?}");
    }

    #[test]
    fn reads_that_overtake_one_another_are_in_order() {
        const LEN: u64 = 128 << 10;
        let swapped = (0..512).map(|number: u64| (number ^ 1) * LEN);
        assert!(brought(swapped, LEN).len() < 13);
    }

    #[test]
    fn reading_anywhere_brings_nothing_and_begins_anew() {
        let far_apart = |number: u64| (number * 7919 % 64) << 20;
        assert_eq!(brought((0..64).map(far_apart), 4096), []);
        let there_and_on = [0, 4096, 8192, 32 << 20, (32 << 20) + 4096];
        let brought = brought(there_and_on, 4096);
        let lens: Vec<u64> = brought.iter().map(|range| range.end - range.start).collect();
        assert_eq!(lens, [4096 + FIRST; 2], "{brought:?}");
    }

    #[test]
    fn each_file_is_followed_by_itself_and_no_more_than_a_few() {
        let ahead = ReadAhead::default();
        let mut brought = 0;
        for start in 0..3 {
            for file in 0..FILES as u8 {
                let content = Fingerprint::from_bytes([file; 32]);
                ahead.before(&content, &(start * 4096..(start + 1) * 4096), |_| brought += 1);
            }
        }
        assert_eq!(brought, FILES);
        for file in 0..=255 {
            ahead.before(&Fingerprint::from_bytes([file; 32]), &(0..1), |_| ());
        }
        assert_eq!(ahead.0.lock().unwrap().len(), FILES);
    }
}

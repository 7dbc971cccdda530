//! Changes of a volume that are not known to be durable, which no read may show before they are: a client
//! would see what is gone when another gateway takes over.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many changes that failed are told apart at most; beyond that all of the volume counts as changed.
const MOST_FAILED: usize = 1024;

/// The changes of one volume.
#[derive(Debug, Default)]
pub(crate) struct Undurable(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    next: u64,
    /// Changes under way, by number.
    under_way: BTreeMap<u64, Range<u64>>,
    /// Changes that failed, by number: they may be there or not, and may become durable later.
    failed: BTreeMap<u64, Range<u64>>,
}

/// A change under way. It counts as failed if this is dropped before [`durable`](Self::durable).
pub(crate) struct Change<'a> {
    of: &'a Undurable,
    numbers: Range<u64>,
}

impl Undurable {
    /// Notes a change of `ranges` before it is made.
    pub(crate) fn begin(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> Change<'_> {
        let mut changes = self.changes();
        let first = changes.next;
        for range in ranges {
            let number = changes.next;
            changes.under_way.insert(number, range);
            changes.next += 1;
        }
        let numbers = first..changes.next;
        Change { of: self, numbers }
    }

    /// Makes what a read of `range` has seen durable by `flush`, if it may have seen a change that is not. The
    /// read must be over: a change that is durable since then is durable whatever the read saw.
    pub(crate) fn settle<E>(
        &self,
        range: &Range<u64>,
        flush: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let before = {
            let changes = self.changes();
            let is_seen = |of: &BTreeMap<u64, Range<u64>>| {
                of.values().any(|changed| changed.start < range.end && range.start < changed.end)
            };
            if !is_seen(&changes.under_way) && !is_seen(&changes.failed) {
                return Ok(());
            }
            changes.failed.keys().next_back().map_or(0, |last| last + 1)
        };
        flush()?;
        // what had failed before the flush is durable, or was never made
        let mut changes = self.changes();
        let later = changes.failed.split_off(&before);
        changes.failed = later;
        Ok(())
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change<'_> {
    /// The change is durable.
    pub(crate) fn durable(self) {
        let mut changes = self.of.changes();
        for number in self.numbers.clone() {
            changes.under_way.remove(&number);
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut changes = self.of.changes();
        for number in self.numbers.clone() {
            // none if it is durable
            if let Some(range) = changes.under_way.remove(&number) {
                // numbers of failed changes rise in the order in which they failed
                let number = changes.next;
                changes.next += 1;
                changes.failed.insert(number, range);
            }
        }
        if changes.failed.len() > MOST_FAILED {
            let last = changes.failed.keys().next_back().copied().unwrap_or_default();
            changes.failed = BTreeMap::from([(last, 0..u64::MAX)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    /// Whether a read of `range` flushes.
    fn flushes(undurable: &Undurable, range: Range<u64>) -> bool {
        let mut is_flushed = false;
        let flush = || {
            is_flushed = true;
            Ok::<(), ()>(())
        };
        undurable.settle(&range, flush).unwrap();
        is_flushed
    }

    #[test]
    fn a_read_waits_for_changes_of_its_blocks_alone() {
        let undurable = Undurable::default();
        let change = undurable.begin([10..20, 30..40]);
        for (range, is_waited_for) in
            [(0..10, false), (0..11, true), (19..20, true), (20..30, false), (39..50, true)]
        {
            assert_eq!(flushes(&undurable, range.clone()), is_waited_for, "{range:?}");
        }
        change.durable();
        assert!(!flushes(&undurable, 0..50));
    }

    #[test]
    fn a_change_that_failed_is_waited_for_until_a_flush_succeeds() {
        let undurable = Undurable::default();
        drop(undurable.begin(iter::once(10..20)));
        assert_eq!(undurable.settle(&(0..11), || Err(7)), Err(7));
        let other = undurable.begin(iter::once(50..60));
        // one that fails during the flush is not settled by it
        let failing = || {
            drop(undurable.begin(iter::once(70..80)));
            Ok::<(), ()>(())
        };
        undurable.settle(&(0..11), failing).unwrap();
        assert!(!flushes(&undurable, 0..11));
        assert!(flushes(&undurable, 70..71));
        assert!(!flushes(&undurable, 70..71));
        assert!(flushes(&undurable, 50..51));
        drop(other);
        assert!(flushes(&undurable, 50..51));
        assert!(!flushes(&undurable, 50..51));
    }

    #[test]
    fn many_failed_changes_take_bounded_memory() {
        let undurable = Undurable::default();
        (0..3000).for_each(|at| drop(undurable.begin(iter::once(at..at + 1))));
        assert!(undurable.changes().failed.len() <= MOST_FAILED);
        assert!(flushes(&undurable, 0..1));
        assert!(!flushes(&undurable, 0..1));
    }
}

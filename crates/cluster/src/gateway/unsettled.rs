//! Writes of a volume that are not known to be durable.
//!
//! A gateway's memory shows a write before it is durable, and also one that failed on its way. Whoever reads
//! such a block would see what is lost if the gateway dies at that moment. So a read of a block with an
//! unsettled write waits until the write is durable; where it failed, the read makes it durable first.

use std::iter;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use onefold_block::BlockError;

use crate::seeded::fault;

/// More failed writes than this are remembered as one, of all that lies between them.
const MOST_FAILED: usize = 256;

/// The unsettled writes of one volume.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// Writes under way, by number.
    running: Vec<(u64, Range<u64>)>,
    /// Those that failed, by number.
    failed: Vec<(u64, Range<u64>)>,
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn has(ranges: &[(u64, Range<u64>)], bytes: &Range<u64>) -> bool {
    ranges.iter().any(|(_, range)| overlap(range, bytes))
}

impl Unsettled {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `write`, which changes `ranges` of bytes and returns once they are durable.
    pub(super) fn during(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
        write: impl FnOnce() -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let mut running = Running { of: self, number: self.begin(ranges), is_durable: false };
        let outcome = write();
        running.is_durable = outcome.is_ok();
        outcome
    }

    /// Notes a change of all bytes that failed.
    pub(super) fn fail(&self) {
        let number = self.begin(iter::once(0..u64::MAX));
        drop(Running { of: self, number, is_durable: false });
    }

    /// Notes a write that begins; its number.
    fn begin(&self, ranges: impl Iterator<Item = Range<u64>>) -> u64 {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next += 1;
        inner.running.extend(ranges.map(|range| (number, range)));
        number
    }

    /// Returns once no write of `bytes` that began before is unsettled: waits for those under way, and calls
    /// `flush` if one failed.
    ///
    /// # Errors
    /// Those of `flush`.
    pub(super) fn settle(
        &self,
        bytes: &Range<u64>,
        flush: impl Fn() -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        if fault!(ReadUnsettled) {
            return Ok(());
        }
        let mut inner = self.inner();
        let before = inner.next;
        while inner.running.iter().any(|(number, range)| *number < before && overlap(range, bytes))
        {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let is_failed = has(&inner.failed, bytes);
        drop(inner);
        if is_failed { self.flushing(flush) } else { Ok(()) }
    }

    /// Calls `flush`, which makes all writes durable that returned before.
    pub(super) fn flushing(
        &self,
        flush: impl FnOnce() -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let failed: Vec<u64> = self.inner().failed.iter().map(|(number, _)| *number).collect();
        flush()?;
        if !failed.is_empty() {
            self.inner().failed.retain(|(number, _)| !failed.contains(number));
        }
        Ok(())
    }
}

/// A write under way. It has failed if it is not durable when this is dropped, also by a panic.
struct Running<'a> {
    of: &'a Unsettled,
    number: u64,
    is_durable: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.of.inner().end(self.number, self.is_durable);
        self.of.changed.notify_all();
    }
}

impl Inner {
    /// Ends the write `number`.
    fn end(&mut self, number: u64, is_durable: bool) {
        let ended = self.running.extract_if(.., |(running, _)| *running == number);
        if is_durable {
            ended.for_each(drop);
            return;
        }
        self.failed.extend(ended);
        if self.failed.len() > MOST_FAILED {
            let start = self.failed.iter().map(|(_, range)| range.start).min();
            let end = self.failed.iter().map(|(_, range)| range.end).max();
            let all = start.unwrap_or_default()..end.unwrap_or_default();
            // under the last number: a flush that began before it does not settle it
            self.failed = vec![(number, all)];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn broken() -> Result<(), BlockError> {
        Err(BlockError::Io { object: "the cluster".into(), source: "no answer".into() })
    }

    #[test]
    fn who_reads_a_failed_write_makes_it_durable_first() {
        let unsettled = Unsettled::default();
        unsettled.during(iter::once(0..4096), broken).unwrap_err();
        let flushes = Cell::new(0);
        let flush = |is_ok: bool| {
            flushes.set(flushes.get() + 1);
            if is_ok { Ok(()) } else { broken() }
        };
        // elsewhere
        unsettled.settle(&(4096..8192), || flush(true)).unwrap();
        assert_eq!(flushes.get(), 0);
        unsettled.settle(&(4095..4096), || flush(false)).unwrap_err();
        unsettled.settle(&(0..1), || flush(true)).unwrap();
        assert_eq!(flushes.get(), 2);
        unsettled.settle(&(0..4096), || flush(true)).unwrap();
        assert_eq!(flushes.get(), 2);
    }

    #[test]
    fn after_a_failed_change_of_all_bytes_the_first_read_makes_it_durable() {
        let unsettled = Unsettled::default();
        unsettled.fail();
        unsettled.settle(&(1 << 40..1 << 41), broken).unwrap_err();
        unsettled.settle(&(0..1), || Ok(())).unwrap();
        unsettled.settle(&(0..1), broken).unwrap();
    }

    #[test]
    fn a_write_that_fails_during_a_flush_is_not_settled_by_it() {
        let unsettled = Unsettled::default();
        let late =
            || unsettled.during(iter::once(0..10), broken).map_or(Ok(()), |()| panic!("it failed"));
        unsettled.flushing(late).unwrap();
        unsettled.settle(&(0..1), broken).unwrap_err();
    }

    #[test]
    fn so_many_failed_writes_are_one() {
        let unsettled = Unsettled::default();
        for at in 0..=MOST_FAILED as u64 {
            unsettled.during(iter::once(at * 10..at * 10 + 1), broken).unwrap_err();
        }
        assert_eq!(unsettled.inner().failed.len(), 1);
        unsettled.settle(&(5..6), broken).unwrap_err();
        unsettled.settle(&(5..6), || Ok(())).unwrap();
        unsettled.settle(&(0..10_000), broken).unwrap();
    }

    #[test]
    fn a_write_that_panics_leaves_no_reader_waiting() {
        let unsettled = Unsettled::default();
        let panics = || unsettled.during(iter::once(0..10), || panic!("on purpose"));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        unsettled.settle(&(0..1), broken).unwrap_err();
        unsettled.settle(&(0..1), || Ok(())).unwrap();
    }

    #[test]
    fn who_reads_what_is_being_written_waits_for_it() {
        let unsettled = Unsettled::default();
        let (begun, has_begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (begun, unsettled) = (begun, &unsettled);
            let write = scope.spawn(move || {
                unsettled.during(iter::once(0..10), || {
                    begun.send(()).unwrap();
                    ends.recv().unwrap();
                    Ok(())
                })
            });
            has_begun.recv().unwrap();
            let read = scope.spawn(move || unsettled.settle(&(9..12), || Ok(())));
            unsettled.settle(&(10..12), || Ok(())).unwrap();
            assert!(!read.is_finished());
            end.send(()).unwrap();
            write.join().unwrap().unwrap();
            read.join().unwrap().unwrap();
        });
    }
}

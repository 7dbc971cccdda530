//! Onefold's own layout, in a third of the memory.
//!
//! An entry has the first 16 bytes of the fingerprint and the handle. A bucket has five adjacent entries
//! and a lock, in two adjacent cache lines. A fingerprint may be in two buckets, selected by its first and
//! its second eight bytes, and is inserted into the one with more free entries (Azar and others, "Balanced
//! allocations", 1994). If both are full, one of their entries moves to its other bucket if that has a free
//! entry (one step of Pagh and Rodler, "Cuckoo hashing", 2001). So a table reaches nine tenths of its
//! capacity before it refuses an entry. A look-up prefetches both buckets concurrently.
//!
//! Among 2^32 random fingerprints, two agree in 16 bytes with a probability of 2^-65. An attacker who
//! chooses the pages can find such a pair with 2^64 computed fingerprints. So callers that have the whole
//! fingerprint should compare it.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_fingerprint::Fingerprint;

use super::lock::{SequenceLock, Version, Writing};
use super::mapped::{Mapped, Zeroed};
use super::{
    BATCH, Inserted, MAX_HANDLE, Table, TableCounters, TableError, Words, one_of, prefetch,
};

const ENTRIES: usize = 5;

#[repr(C, align(128))]
pub(super) struct Bucket {
    lock: SequenceLock,
    entries: [Entry; ENTRIES],
}

// SAFETY: numbers, and padding.
unsafe impl Zeroed for Bucket {}

/// An entry, free if the handle is zero; handles are stored plus one.
pub(super) struct Entry {
    fingerprint: [AtomicU64; 2],
    handle: AtomicU64,
}

impl Entry {
    fn is_free(&self) -> bool {
        self.handle.load(Ordering::Relaxed) == 0
    }

    pub(super) fn fingerprint(&self) -> [u64; 2] {
        [0, 1].map(|i: usize| self.fingerprint[i].load(Ordering::Relaxed))
    }

    /// Writes all of it; `kept` is the handle as it is kept.
    fn set(&self, fingerprint: [u64; 2], kept: u64) {
        for (place, word) in self.fingerprint.iter().zip(fingerprint) {
            place.store(word, Ordering::Relaxed);
        }
        self.handle.store(kept, Ordering::Relaxed);
    }
}

impl Bucket {
    /// The entry of `words`, and its handle.
    fn find(&self, fingerprint: [u64; 2]) -> Option<(&Entry, u64)> {
        let is_it = |entry: &&Entry| entry.fingerprint() == fingerprint && !entry.is_free();
        let entry = self.entries.iter().find(is_it)?;
        Some((entry, entry.handle.load(Ordering::Relaxed).checked_sub(1)?))
    }

    pub(super) fn entries(&self) -> &[Entry; ENTRIES] {
        &self.entries
    }

    fn free(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_free())
    }

    fn count(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_free()).count()
    }
}

/// The stored part of a fingerprint, which also selects its buckets.
pub(super) fn shortened(fingerprint: &Fingerprint) -> [u64; 2] {
    let Words([first, second, ..]) = Words::of(fingerprint);
    [first, second]
}

/// A table with two candidate buckets of five shortened entries per fingerprint: 25.6 bytes per entry.
pub struct CompactTable {
    buckets: Mapped<Bucket>,
    refused: AtomicU64,
}

impl CompactTable {
    /// A table in at most this many bytes of memory.
    pub fn new(bytes: usize) -> Result<Self, TableError> {
        let (count, least) = (bytes / size_of::<Bucket>(), 2 * size_of::<Bucket>());
        if count < 2 {
            return Err(TableError::TooSmall { bytes, least });
        }
        let buckets = Mapped::zeroed(count).ok_or(TableError::NoMemory { bytes })?;
        Ok(Self { buckets, refused: AtomicU64::new(0) })
    }

    /// The two buckets of a fingerprint, which are never the same, the first in memory first.
    fn buckets(&self, [first, second]: [u64; 2]) -> [&Bucket; 2] {
        let count = self.buckets.len();
        let one = one_of(first, count);
        // one of the others
        let other = (one + 1 + one_of(second, count - 1)) % count;
        [&self.buckets[one.min(other)], &self.buckets[one.max(other)]]
    }

    /// Moves an entry of `buckets`, which are full and locked, to its other bucket; returns the
    /// entry, which is free now.
    pub(super) fn make_room<'a>(&self, buckets: [&'a Bucket; 2]) -> Option<&'a Entry> {
        let is_ours = |other: &Bucket| buckets.iter().any(|&ours| ptr::eq(ours, other));
        let entries = || buckets.iter().flat_map(|bucket| &bucket.entries);
        let other = |entry: &Entry| {
            self.buckets(entry.fingerprint()).into_iter().find(|other| !is_ours(other))
        };
        entries().filter_map(other).for_each(prefetch_bucket);
        for entry in entries() {
            let fingerprint = entry.fingerprint();
            let Some(other) = other(entry) else { continue };
            // the thread with that lock may wait for one of ours
            let Some(_writing) = other.lock.try_write() else { continue };
            if let Some(free) = other.free() {
                free.set(fingerprint, entry.handle.swap(0, Ordering::Relaxed));
                return Some(entry);
            }
        }
        None
    }

    /// Prefetches both buckets of a fingerprint.
    pub(super) fn prefetch_one(&self, fingerprint: &Fingerprint) {
        let buckets = self.buckets(shortened(fingerprint));
        buckets.iter().for_each(|bucket| prefetch_bucket(bucket));
    }

    /// Inserts `fingerprint`, or replaces its handle. If both of its buckets are full, `when_full` gets
    /// them, locked, and returns the entry to overwrite, one of theirs; [`Inserted::Full`] if there is
    /// none.
    ///
    /// # Panics
    ///
    /// If `handle` exceeds [`MAX_HANDLE`].
    pub(super) fn enter<'a>(
        &'a self,
        fingerprint: &Fingerprint,
        handle: u64,
        when_full: impl FnOnce([&'a Bucket; 2]) -> Option<&'a Entry>,
    ) -> Inserted {
        assert!(handle <= MAX_HANDLE, "handle {handle}, expected at most {MAX_HANDLE}");
        let fingerprint = shortened(fingerprint);
        let buckets = self.buckets(fingerprint);
        buckets.iter().for_each(|bucket| prefetch_bucket(bucket));
        let _writing = Self::write(buckets);
        if let Some((entry, before)) = buckets.iter().find_map(|bucket| bucket.find(fingerprint)) {
            entry.handle.store(handle + 1, Ordering::Relaxed);
            return Inserted::Replaced(before);
        }
        let roomiest = buckets.iter().min_by_key(|bucket| bucket.count()).expect("there are two");
        let Some(entry) = roomiest.free().or_else(|| when_full(buckets)) else {
            return Inserted::Full;
        };
        entry.set(fingerprint, handle + 1);
        Inserted::New
    }

    /// The stored parts of fingerprints in `sample` evenly spaced buckets, or in all buckets if there are
    /// fewer. Concurrent changes may be seen or not.
    pub(super) fn sample(&self, sample: usize) -> impl Iterator<Item = [u64; 2]> {
        let (count, sample) = (self.buckets.len(), sample.min(self.buckets.len()));
        let buckets = (0..sample).map(move |i| &self.buckets[i * count / sample]);
        let entries = buckets.flat_map(|bucket| &bucket.entries);
        entries.filter(|entry| !entry.is_free()).map(Entry::fingerprint)
    }

    fn write(buckets: [&Bucket; 2]) -> [Writing<'_>; 2] {
        // all threads lock in the same order, which prevents deadlocks
        buckets.map(|bucket| bucket.lock.write())
    }
}

fn prefetch_bucket(bucket: &Bucket) {
    prefetch(bucket);
    prefetch(&bucket.entries[ENTRIES - 1]);
}

impl Table for CompactTable {
    fn get(&self, fingerprint: &Fingerprint) -> Option<u64> {
        let fingerprint = shortened(fingerprint);
        let buckets = self.buckets(fingerprint);
        buckets.iter().for_each(|bucket| prefetch_bucket(bucket));
        loop {
            let versions: [Version; 2] = buckets.map(|bucket| bucket.lock.read());
            let found = buckets.iter().find_map(|bucket| bucket.find(fingerprint));
            let is_unchanged = buckets
                .iter()
                .zip(versions)
                .all(|(bucket, version)| bucket.lock.is_unchanged(version));
            if is_unchanged {
                return found.map(|(_, handle)| handle);
            }
        }
    }

    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        assert_eq!(fingerprints.len(), handles.len(), "a handle for each fingerprint");
        for (fingerprints, handles) in fingerprints.chunks(BATCH).zip(handles.chunks_mut(BATCH)) {
            self.prefetch(fingerprints);
            for (fingerprint, handle) in fingerprints.iter().zip(handles) {
                *handle = self.get(fingerprint);
            }
        }
    }

    fn prefetch(&self, fingerprints: &[Fingerprint]) {
        fingerprints.iter().for_each(|fingerprint| self.prefetch_one(fingerprint));
    }

    fn insert(&self, fingerprint: &Fingerprint, handle: u64) -> Inserted {
        let inserted = self.enter(fingerprint, handle, |buckets| self.make_room(buckets));
        self.refused.fetch_add(u64::from(inserted == Inserted::Full), Ordering::Relaxed);
        inserted
    }

    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize {
        let mut refused = 0;
        for entries in entries.chunks(BATCH) {
            entries.iter().for_each(|(fingerprint, _)| self.prefetch_one(fingerprint));
            let entered = entries.iter().map(|(one, handle)| self.insert(one, *handle));
            refused += entered.filter(|entered| *entered == Inserted::Full).count();
        }
        refused
    }

    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64> {
        let fingerprint = shortened(fingerprint);
        let buckets = self.buckets(fingerprint);
        buckets.iter().for_each(|bucket| prefetch_bucket(bucket));
        let _writing = Self::write(buckets);
        let (entry, handle) = buckets.iter().find_map(|bucket| bucket.find(fingerprint))?;
        entry.handle.store(0, Ordering::Relaxed);
        Some(handle)
    }

    fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    fn capacity(&self) -> usize {
        self.buckets.len() * ENTRIES
    }

    fn count(&self) -> usize {
        self.buckets.iter().map(Bucket::count).sum()
    }

    fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    fn populate(&self) {
        self.buckets.populate();
    }

    fn counters(&self) -> TableCounters {
        TableCounters { refused: self.refused.load(Ordering::Relaxed), ..TableCounters::default() }
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use crate::table::mapped::tests::present;

    #[test]
    fn all_of_its_memory_can_be_had_at_once() {
        let table = CompactTable::new(3 << 20).unwrap();
        table.populate();
        let (there, pages) = present(&table.buckets);
        assert_eq!(there, pages);
    }
}

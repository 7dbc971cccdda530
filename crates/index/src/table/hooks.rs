//! The compact layout, bounded: exact until it is full, and a sample of the fingerprints from then on.
//!
//! The *rank* of a fingerprint is a number of 32 bits that is uniform and independent of its buckets. When
//! both buckets of a fingerprint are full, the ten entries and the fingerprint compete: the highest rank
//! goes. So the table keeps the fingerprints of lowest rank, its *hooks*, of old pages and new ones alike.
//! This is sparse indexing (Lillibridge and others, "Sparse indexing", 2009): pages that lie next to a
//! hook's page are found by the caller, which reads the directory of its container.
//!
//! Departure. Sparse indexing takes fingerprints whose last k bits are zero, and k grows when they no longer
//! fit; each step of k removes half of the entries, in a pass over the whole table. Ranks need no pass and
//! no pause: each insertion evicts at most one entry, of its own buckets. The table always uses all of its
//! memory, where steps of k leave a quarter of it empty on average.
//!
//! An attacker who chooses pages of low ranks can evict the hooks of other pages. That costs deduplication,
//! never data, as filling a table that refuses what does not fit does.

use std::sync::atomic::{AtomicU64, Ordering};

use onefold_fingerprint::Fingerprint;

use super::compact::{Bucket, CompactTable, Entry, shortened};
use super::{BATCH, Inserted, Table, TableCounters, TableError};

/// Buckets whose entries tell how dense the sample is: 5,120 entries estimate it within two percent.
const SAMPLE: usize = 1024;

/// The table is sampled once more than one of so many entries was passed over: before, a fingerprint in
/// thousands is, which found two full buckets by chance.
const FEW: usize = 1024;

/// A table of 25.6 bytes per entry that keeps the fingerprints of lowest rank when it is full.
pub struct HookTable {
    entries: CompactTable,
    passed_over: AtomicU64,
}

/// The rank of a fingerprint, by its stored part: the lower bits of a word whose upper bits select a bucket.
fn rank([first, _]: [u64; 2]) -> u32 {
    first as u32
}

impl HookTable {
    /// A table in at most this many bytes of memory.
    pub fn new(bytes: usize) -> Result<Self, TableError> {
        Ok(Self { entries: CompactTable::new(bytes)?, passed_over: AtomicU64::new(0) })
    }

    /// The entry of these buckets, full and locked, that goes for `fingerprint`; `None` if that one itself
    /// is passed over.
    fn evict<'a>(&self, fingerprint: [u64; 2], buckets: [&'a Bucket; 2]) -> Option<&'a Entry> {
        // a search is worth it only while other buckets have room
        if !self.is_sampled()
            && let Some(entry) = self.entries.make_room(buckets)
        {
            return Some(entry);
        }
        self.passed_over.fetch_add(1, Ordering::Relaxed);
        let entries = buckets.into_iter().flat_map(Bucket::entries);
        let last = entries.max_by_key(|entry| rank(entry.fingerprint()))?;
        (rank(fingerprint) < rank(last.fingerprint())).then_some(last)
    }
}

impl Table for HookTable {
    fn get(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.entries.get(fingerprint)
    }

    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        self.entries.get_many(fingerprints, handles);
    }

    fn prefetch(&self, fingerprints: &[Fingerprint]) {
        self.entries.prefetch(fingerprints);
    }

    /// Never returns [`Inserted::Full`].
    fn insert(&self, fingerprint: &Fingerprint, handle: u64) -> Inserted {
        let words = shortened(fingerprint);
        match self.entries.enter(fingerprint, handle, |buckets| self.evict(words, buckets)) {
            Inserted::Full => Inserted::PassedOver,
            inserted => inserted,
        }
    }

    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize {
        for entries in entries.chunks(BATCH) {
            entries.iter().for_each(|(fingerprint, _)| self.entries.prefetch_one(fingerprint));
            for (fingerprint, handle) in entries {
                self.insert(fingerprint, *handle);
            }
        }
        0
    }

    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.entries.remove(fingerprint)
    }

    fn bucket_count(&self) -> usize {
        self.entries.bucket_count()
    }

    fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    fn count(&self) -> usize {
        self.entries.count()
    }

    fn bytes(&self) -> usize {
        self.entries.bytes()
    }

    fn populate(&self) {
        self.entries.populate();
    }

    fn is_sampled(&self) -> bool {
        let few = (self.entries.capacity() / FEW) as u64;
        self.passed_over.load(Ordering::Relaxed) > few
    }

    fn one_in(&self) -> u64 {
        if !self.is_sampled() {
            return 1;
        }
        let ranks = self.entries.sample(SAMPLE).map(rank);
        let (count, sum) =
            ranks.fold((0, 0), |(count, sum), rank| (count + 1, sum + u64::from(rank)));
        // ranks are uniform below a bound, which is twice their mean
        let bound = (2 * sum).checked_div(count).unwrap_or(1 << 32);
        ((1 << 32) + bound / 2).checked_div(bound).unwrap_or(1 << 32).max(1)
    }

    fn counters(&self) -> TableCounters {
        let passed_over = self.passed_over.load(Ordering::Relaxed);
        TableCounters { passed_over, ..self.entries.counters() }
    }
}

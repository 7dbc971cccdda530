//! The index in memory: fingerprint → handle, for pages that come by the million a second.
//!
//! As the paged index it is advisory: what does not fit is refused, and all of it may be dropped.
//! Memory is what was asked for at the start, to the byte, and never grows.
//!
//! | file | what it is |
//! | --- | --- |
//! | chained.rs | StreamDedup's layout: buckets with a Bloom filter, entries of a cache line in chains |
//! | chained/tags.rs | which entries beside a bucket may have a fingerprint |
//! | compact.rs | our own: shorter entries in one of two buckets |
//! | lock.rs | a bucket's lock: one writer, and readers that try again |
//! | mapped.rs | the memory |
//!
//! Both are shared by reference: readers never wait for one another, writers for those of the same
//! bucket only.

mod chained;
mod compact;
mod lock;
mod mapped;

pub use chained::ChainedTable;
pub use compact::CompactTable;

use onefold_fingerprint::Fingerprint;
use thiserror::Error;

/// Fingerprints for which memory is asked before the first of them is looked up or entered.
const BATCH: usize = 16;

/// A table of fingerprints in memory that was allotted once.
///
/// A handle is any number below [`MAX_HANDLE`]: where a page was when it was entered.
pub trait Table: Send + Sync {
    /// The handle that `fingerprint` was entered with last.
    fn get(&self, fingerprint: &Fingerprint) -> Option<u64>;

    /// What [`get`](Self::get) says of each of `fingerprints`, written over `handles`, while the
    /// memory that the next ones need is on its way.
    ///
    /// # Panics
    ///
    /// If there are more or fewer `handles` than `fingerprints`.
    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]);

    /// Asks memory for what looking up each of `fingerprints` reads first, so that it is on its way
    /// while the caller does something else: a hint, which changes no answer.
    fn prefetch(&self, fingerprints: &[Fingerprint]) {
        let _ = fingerprints;
    }

    /// Enters `fingerprint`, or another handle for it.
    ///
    /// # Panics
    ///
    /// If `handle` exceeds [`MAX_HANDLE`].
    fn insert(&self, fingerprint: &Fingerprint, handle: u64) -> Inserted;

    /// Does what [`insert`](Self::insert) does with each of `entries`, in their order, while the memory
    /// that the next ones need is on its way; how many there was no room for.
    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize;

    /// Takes `fingerprint` out, and tells its handle.
    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64>;

    /// Entries that there is memory for.
    fn capacity(&self) -> usize;

    /// Buckets: entries divided by them are the mean length of a chain.
    fn bucket_count(&self) -> usize;

    /// Entries, counted one by one; what others do meanwhile may be counted or not.
    fn count(&self) -> usize;

    /// Memory in bytes, used or not.
    fn bytes(&self) -> usize;

    /// Has the system give all memory now, instead of where an entry first needs it, so that no later
    /// one waits for that. A hint.
    fn populate(&self) {}

    /// How many of `sample` buckets, which lie far from one another, have chains of 0, 1, 2 and so on
    /// entries; of all buckets, if there are no more. `None` if a table has no chains.
    fn chain_lengths(&self, sample: usize) -> Option<Vec<u64>> {
        let _ = sample;
        None
    }

    /// What happened since the start.
    fn counters(&self) -> TableCounters;
}

/// The largest handle.
pub const MAX_HANDLE: u64 = u64::MAX - 1;

/// What came of entering a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It was not there.
    New,
    /// It was there with this handle, and has the new one now.
    Replaced(u64),
    /// It was not there, and is not now: there is no room for it.
    Full,
}

/// What a table counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Walks along a chain that a filter caused for nothing.
    pub false_positives: u64,
    /// Filters that were made anew, without the bits of what was removed.
    pub rebuilt_filters: u64,
    /// Fingerprints for which there was no room.
    pub refused: u64,
}

/// Why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableError {
    /// Less than one bucket.
    #[error("a table of {bytes} bytes, expected at least {least}")]
    TooSmall {
        /// What was asked for.
        bytes: usize,
        /// What one bucket takes.
        least: usize,
    },
    /// Handles of entries have 32 bits.
    #[error("a table of {bytes} bytes, expected at most {most}")]
    TooLarge {
        /// What was asked for.
        bytes: usize,
        /// What all entries that can be told apart take.
        most: usize,
    },
    /// The system has none.
    #[error("no memory for a table of {bytes} bytes")]
    NoMemory {
        /// What was asked for.
        bytes: usize,
    },
}

/// A fingerprint as it is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Words([u64; 4]);

impl Words {
    fn of(fingerprint: &Fingerprint) -> Self {
        let (words, _) = fingerprint.as_bytes().as_chunks::<8>();
        Self(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }

    /// One of `count` buckets, by the last bytes.
    ///
    /// By their product with the count, of which the upper half is kept: as even as their remainder
    /// would be, and no division.
    fn bucket(self, count: usize) -> usize {
        one_of(self.0[3], count)
    }
}

fn one_of(uniform: u64, count: usize) -> usize {
    ((u128::from(uniform) * count as u128) >> 64) as usize
}

/// Asks memory for the cache line in which `place` begins, and does not wait for it: a hint.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: needs SSE, which every x86-64 has, and may be told any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

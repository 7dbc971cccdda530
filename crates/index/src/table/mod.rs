//! The index in memory: fingerprint → handle, for millions of pages per second.
//!
//! Like the paged index it is advisory: it keeps only entries that fit, and may be dropped at any time.
//! Its memory is exactly the size requested at the start, and never grows.
//!
//! | file | content |
//! | --- | --- |
//! | chained.rs | StreamDedup's layout: buckets with a Bloom filter, chains of entries of a cache line |
//! | chained/tags.rs | tags that tell which own entries of a bucket may have a fingerprint |
//! | compact.rs | Onefold's own layout: shorter entries in one of two buckets |
//! | hooks.rs | the compact layout, which keeps a sample of the fingerprints when it is full |
//! | lock.rs | a bucket's lock: one writer, and readers that retry |
//! | mapped.rs | the memory |
//!
//! All layouts are shared by reference. Readers never block each other; writers block only writers of the
//! same bucket.

mod chained;
mod compact;
mod hooks;
mod lock;
mod mapped;

pub use chained::ChainedTable;
pub use compact::CompactTable;
pub use hooks::HookTable;

use onefold_fingerprint::Fingerprint;
use thiserror::Error;

/// The number of fingerprints that are prefetched before the first of them is looked up or inserted.
const BATCH: usize = 16;

/// A table of fingerprints in a fixed amount of memory.
///
/// A handle is any number up to [`MAX_HANDLE`]: the location of a page when it was inserted.
pub trait Table: Send + Sync {
    /// The handle with which `fingerprint` was last inserted, if the table keeps it.
    fn get(&self, fingerprint: &Fingerprint) -> Option<u64>;

    /// Writes the result of [`get`](Self::get) for each of `fingerprints` to `handles`, and prefetches
    /// memory for the next ones meanwhile.
    ///
    /// # Panics
    ///
    /// If the lengths of `handles` and `fingerprints` differ.
    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]);

    /// Prefetches the memory that a look-up of each of `fingerprints` reads first, while the caller does
    /// other work. A hint, which changes no answer.
    fn prefetch(&self, fingerprints: &[Fingerprint]) {
        let _ = fingerprints;
    }

    /// Inserts `fingerprint`, or replaces its handle.
    ///
    /// # Panics
    ///
    /// If `handle` exceeds [`MAX_HANDLE`].
    fn insert(&self, fingerprint: &Fingerprint, handle: u64) -> Inserted;

    /// Calls [`insert`](Self::insert) for each of `entries`, in order, and prefetches memory for the next
    /// ones meanwhile. Returns the number of entries that did not fit.
    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize;

    /// Removes `fingerprint`, and returns its handle.
    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64>;

    /// The maximum number of entries.
    fn capacity(&self) -> usize;

    /// The number of buckets; entries per bucket are the mean length of a chain.
    fn bucket_count(&self) -> usize;

    /// The number of entries, by a full count. Concurrent changes may be counted or not.
    fn count(&self) -> usize;

    /// Memory in bytes, used or not.
    fn bytes(&self) -> usize;

    /// Lets the system allocate all memory now, so that no later insertion waits for it. A hint.
    fn populate(&self) {}

    /// The number of buckets with chains of 0, 1, 2 and so on entries, among `sample` evenly spaced buckets,
    /// or all buckets if there are fewer. `None` if the table has no chains.
    fn chain_lengths(&self, sample: usize) -> Option<Vec<u64>> {
        let _ = sample;
        None
    }

    /// Whether the table keeps only a sample of what was inserted. If so, callers should look for a page
    /// that it does not know among the neighbours of the pages that it knows.
    fn is_sampled(&self) -> bool {
        false
    }

    /// Of so many fingerprints the table keeps about one, estimated from some of its buckets; 1 while it
    /// keeps all.
    fn one_in(&self) -> u64 {
        1
    }

    /// Counters since the start.
    fn counters(&self) -> TableCounters;
}

/// The largest handle.
pub const MAX_HANDLE: u64 = u64::MAX - 1;

/// The result of inserting a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The fingerprint is new. A sampled table may have dropped another one for it.
    New,
    /// The fingerprint had this handle, and now has the new one.
    Replaced(u64),
    /// The fingerprint does not fit and was not inserted.
    Full,
    /// The fingerprint is not in the sample and was not inserted.
    PassedOver,
}

/// Counters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    /// Chain walks after a false positive of a filter.
    pub false_positives: u64,
    /// Filters rebuilt without the bits of removed entries.
    pub rebuilt_filters: u64,
    /// Fingerprints that did not fit.
    pub refused: u64,
    /// Fingerprints that a sampled table did not insert, or dropped for others.
    pub passed_over: u64,
}

/// Why a table could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableError {
    /// The size is less than one bucket.
    #[error("a table of {bytes} bytes, expected at least {least}")]
    TooSmall {
        /// The requested size in bytes.
        bytes: usize,
        /// The size of one bucket.
        least: usize,
    },
    /// The size exceeds what 32-bit entry numbers can address.
    #[error("a table of {bytes} bytes, expected at most {most}")]
    TooLarge {
        /// The requested size in bytes.
        bytes: usize,
        /// The maximum size.
        most: usize,
    },
    /// The system has no memory.
    #[error("no memory for a table of {bytes} bytes")]
    NoMemory {
        /// The requested size in bytes.
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
    /// The upper half of their product with the count: as even as the remainder would be, without a
    /// division.
    fn bucket(self, count: usize) -> usize {
        one_of(self.0[3], count)
    }
}

fn one_of(uniform: u64, count: usize) -> usize {
    ((u128::from(uniform) * count as u128) >> 64) as usize
}

/// Prefetches the cache line in which `place` begins. A hint, which does not block.
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

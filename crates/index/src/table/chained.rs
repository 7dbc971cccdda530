//! StreamDedup's hash table: "StreamDedup", ACM TRETS 2026, section 4.3.2, in a CPU's memory.
//!
//! A bucket has the head of a chain, eight entries long on average when the table is full, and a
//! Bloom filter of 32 bits over them: three bits a fingerprint, by five bits each of its first 15.
//! It passes one in eight of those that are not there when the bucket has its eight. An entry takes
//! a cache line. What is removed leaves its bits in the filter; so a walk along a chain makes the
//! filter of what it meets, and that takes the place of the other if nothing was found.
//!
//! Departures. The lock table and the parked requests of the hardware are a sequence lock a bucket,
//! and readers do not park. A bucket's entries are taken from eight that lie beside each other as
//! long as they last, so that memory is asked for all of them before the chain says which; the
//! hardware has a list of free ones.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use onefold_fingerprint::Fingerprint;

use super::lock::{SequenceLock, Version};
use super::mapped::{Mapped, Zeroed};
use super::{BATCH, Inserted, MAX_HANDLE, Table, TableCounters, TableError, Words, prefetch};

/// Entries for each bucket: the paper's average length of a chain.
const ENTRIES_A_BUCKET: usize = 8;

/// Buckets whose entries share a word of bits that say which are in use.
const BUCKETS_A_GROUP: usize = u64::BITS as usize / ENTRIES_A_BUCKET;

/// Memory of so many buckets with their entries.
const GROUP_BYTES: usize = BUCKETS_A_GROUP
    * (size_of::<Bucket>() + ENTRIES_A_BUCKET * size_of::<Entry>())
    + size_of::<AtomicU64>();

/// Groups that are searched for a free entry. If 32,768 entries in a row are in use the table is
/// full, or as good as that: at 99.9 % the next free one is a thousand entries away.
const SEARCH: usize = 512;

/// Steps along a chain after which a reader makes sure that it is still the same chain.
const STEPS: u32 = 64;

/// The end of a chain; entry i is i + 1.
const END: u32 = 0;

#[repr(C, align(16))]
struct Bucket {
    head: AtomicU32,
    filter: AtomicU32,
    lock: SequenceLock,
}

// SAFETY: three numbers, and padding.
unsafe impl Zeroed for Bucket {}

#[repr(C, align(64))]
struct Entry {
    fingerprint: [AtomicU64; 4],
    handle: AtomicU64,
    next: AtomicU32,
}

// SAFETY: numbers, and padding.
unsafe impl Zeroed for Entry {}

impl Entry {
    fn fingerprint(&self) -> Words {
        Words(std::array::from_fn(|i| self.fingerprint[i].load(Ordering::Relaxed)))
    }
}

/// Buckets with chains of entries, each of a cache line: 66.1 bytes an entry.
pub struct ChainedTable {
    buckets: Mapped<Bucket>,
    entries: Mapped<Entry>,
    /// A bit for each entry that is in use.
    used: Mapped<AtomicU64>,
    has_filters: bool,
    false_positives: AtomicU64,
    rebuilt_filters: AtomicU64,
    refused: AtomicU64,
}

impl ChainedTable {
    /// A table in at most so many bytes of memory.
    pub fn new(bytes: usize) -> Result<Self, TableError> {
        let groups = bytes / GROUP_BYTES;
        if groups == 0 {
            return Err(TableError::TooSmall { bytes, least: GROUP_BYTES });
        }
        let buckets = groups * BUCKETS_A_GROUP;
        if u32::try_from(buckets * ENTRIES_A_BUCKET).is_err() {
            let most = u32::MAX as usize / u64::BITS as usize * GROUP_BYTES;
            return Err(TableError::TooLarge { bytes, most });
        }
        let none = TableError::NoMemory { bytes };
        Ok(Self {
            buckets: Mapped::zeroed(buckets).ok_or(none)?,
            entries: Mapped::zeroed(buckets * ENTRIES_A_BUCKET).ok_or(none)?,
            used: Mapped::zeroed(groups).ok_or(none)?,
            has_filters: true,
            false_positives: AtomicU64::new(0),
            rebuilt_filters: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// The same without Bloom filters, to measure what these are worth.
    pub fn without_filters(bytes: usize) -> Result<Self, TableError> {
        Ok(Self { has_filters: false, ..Self::new(bytes)? })
    }

    fn chain(&self, bucket: &Bucket) -> impl Iterator<Item = &Entry> {
        let entry = |at: u32| (at != END).then(|| &self.entries[at as usize - 1]);
        let head = entry(bucket.head.load(Ordering::Relaxed));
        std::iter::successors(head, move |last| entry(last.next.load(Ordering::Relaxed)))
    }

    /// The last entry of the chain, or [`END`]. Who calls has the lock.
    fn last(&self, bucket: &Bucket) -> u32 {
        let (mut last, mut next) = (END, bucket.head.load(Ordering::Relaxed));
        while next != END {
            last = next;
            next = self.entries[last as usize - 1].next.load(Ordering::Relaxed);
        }
        last
    }

    /// Whether the filter leaves it open if `words` is in the bucket.
    fn may_have(&self, bucket: &Bucket, words: Words) -> bool {
        let bits = filter_bits(words);
        !self.has_filters || bucket.filter.load(Ordering::Relaxed) & bits == bits
    }

    /// Looks along the chain for `words`.
    ///
    /// `None` if the chain was written meanwhile and the walk got lost; not while `version` is none,
    /// which is for those who hold the lock.
    fn walk(&self, bucket: &Bucket, words: Words, version: Option<Version>) -> Option<Walk> {
        let mut walk = Walk { found: END, before: END, handle: 0, filter: 0 };
        let mut at = bucket.head.load(Ordering::Relaxed);
        let mut steps = 0_u32;
        while at != END {
            let entry = &self.entries[at as usize - 1];
            let fingerprint = entry.fingerprint();
            if fingerprint == words {
                walk.found = at;
                walk.handle = entry.handle.load(Ordering::Relaxed);
                break;
            }
            walk.filter |= filter_bits(fingerprint);
            walk.before = at;
            at = entry.next.load(Ordering::Relaxed);
            steps += 1;
            if steps.is_multiple_of(STEPS)
                && version.is_some_and(|one| !bucket.lock.is_unchanged(one))
            {
                return None;
            }
        }
        match version {
            Some(version) if !bucket.lock.is_unchanged(version) => None,
            _ => Some(walk),
        }
    }

    /// Puts the filter of what is there in the place of the one that was wrong, if nobody wrote the
    /// bucket since `version`.
    fn mend_filter(&self, bucket: &Bucket, version: Version, filter: u32) {
        self.false_positives.fetch_add(1, Ordering::Relaxed);
        if bucket.filter.load(Ordering::Relaxed) != filter
            && let Some(_writing) = bucket.lock.write_from(version)
        {
            bucket.filter.store(filter, Ordering::Relaxed);
            self.rebuilt_filters.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes a free entry, of the bucket's own if there is one.
    fn claim(&self, bucket: usize) -> Option<usize> {
        let home = bucket / BUCKETS_A_GROUP;
        let groups = self.used.len();
        self.claim_in(home, own_bits(bucket)).or_else(|| {
            (0..SEARCH.min(groups)).find_map(|i| self.claim_in((home + i) % groups, u64::MAX))
        })
    }

    fn claim_in(&self, group: usize, mask: u64) -> Option<usize> {
        let used = &self.used[group];
        let mut seen = used.load(Ordering::Relaxed);
        loop {
            let free = !seen & mask;
            if free == 0 {
                return None;
            }
            let bit = free & free.wrapping_neg();
            seen = used.fetch_or(bit, Ordering::Acquire);
            if seen & bit == 0 {
                return Some(group * u64::BITS as usize + bit.trailing_zeros() as usize);
            }
        }
    }

    fn release(&self, entry: usize) {
        let (group, bit) = (entry / u64::BITS as usize, entry % u64::BITS as usize);
        self.used[group].fetch_and(!(1 << bit), Ordering::Release);
    }

    /// Asks memory for the bucket's own entries, in which most of its chain lies.
    #[inline(always)]
    fn prefetch_own(&self, bucket: usize) {
        for entry in &self.entries[bucket * ENTRIES_A_BUCKET..][..ENTRIES_A_BUCKET] {
            prefetch(entry);
        }
    }

    /// Looks up at most [`BATCH`] fingerprints, a step of each chain at a time.
    fn get_batch(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        let mut places = [(0, Words([0; 4])); BATCH];
        for (place, fingerprint) in places.iter_mut().zip(fingerprints) {
            let words = Words::of(fingerprint);
            *place = (words.bucket(self.buckets.len()), words);
            prefetch(&self.buckets[place.0]);
        }
        // those whose filters leave it open; the others are not there
        let mut walks: [Option<Walker>; BATCH] = [const { None }; BATCH];
        let mut active = 0;
        for (i, &(bucket, words)) in places[..fingerprints.len()].iter().enumerate() {
            let bucket = &self.buckets[bucket];
            let version = bucket.lock.read();
            let at = bucket.head.load(Ordering::Relaxed);
            handles[i] = None;
            if !self.may_have(bucket, words) || at == END {
                if !bucket.lock.is_unchanged(version) {
                    handles[i] = self.get(&fingerprints[i]);
                }
                continue;
            }
            prefetch(&self.entries[at as usize - 1]);
            walks[active] = Some(Walker { lookup: i, version, at, filter: 0, steps: 0 });
            active += 1;
        }
        while active > 0 {
            let mut i = 0;
            while i < active {
                let walker = walks[i].as_mut().expect("the first ones are active");
                let (bucket, words) = places[walker.lookup];
                let bucket = &self.buckets[bucket];
                let entry = &self.entries[walker.at as usize - 1];
                let fingerprint = entry.fingerprint();
                let is_found = fingerprint == words;
                walker.filter |= filter_bits(fingerprint);
                walker.at = entry.next.load(Ordering::Relaxed);
                walker.steps += 1;
                let is_lost =
                    walker.steps.is_multiple_of(STEPS) && !bucket.lock.is_unchanged(walker.version);
                if !is_found && walker.at != END && !is_lost {
                    prefetch(&self.entries[walker.at as usize - 1]);
                    i += 1;
                    continue;
                }
                let handle = entry.handle.load(Ordering::Relaxed);
                let lookup = walker.lookup;
                handles[lookup] = if is_lost || !bucket.lock.is_unchanged(walker.version) {
                    self.get(&fingerprints[lookup])
                } else if is_found {
                    Some(handle)
                } else {
                    if self.has_filters {
                        self.mend_filter(bucket, walker.version, walker.filter);
                    }
                    None
                };
                active -= 1;
                walks.swap(i, active);
            }
        }
    }

    /// Enters `words` into bucket `index`, which is theirs, or gives them another handle there.
    fn enter(&self, index: usize, words: Words, handle: u64) -> Inserted {
        assert!(handle <= MAX_HANDLE, "handle {handle}, expected at most {MAX_HANDLE}");
        let bucket = &self.buckets[index];
        let _writing = bucket.lock.write();
        let mut filter = bucket.filter.load(Ordering::Relaxed);
        let mut last = None;
        if self.may_have(bucket, words) {
            let walk = self.walk(bucket, words, None).expect("nobody else writes the chain");
            last = Some(walk.before);
            if walk.found != END {
                let entry = &self.entries[walk.found as usize - 1];
                return Inserted::Replaced(entry.handle.swap(handle, Ordering::Relaxed));
            }
            if self.has_filters {
                self.false_positives.fetch_add(1, Ordering::Relaxed);
                self.rebuilt_filters.fetch_add(u64::from(filter != walk.filter), Ordering::Relaxed);
                filter = walk.filter;
            }
        }
        let Some(free) = self.claim(index) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            bucket.filter.store(filter, Ordering::Relaxed);
            return Inserted::Full;
        };
        // A reader of the chain that the entry was in before sees that chain's new version before
        // it sees what is written here.
        fence(Ordering::Release);
        let entry = &self.entries[free];
        for (place, word) in entry.fingerprint.iter().zip(words.0) {
            place.store(word, Ordering::Relaxed);
        }
        entry.handle.store(handle, Ordering::Relaxed);
        // The bucket's own come first: a walk has these at once, and waits for each of the others.
        let before = match free / ENTRIES_A_BUCKET == index {
            true => END,
            false => last.unwrap_or_else(|| self.last(bucket)),
        };
        let link = match before {
            END => &bucket.head,
            before => &self.entries[before as usize - 1].next,
        };
        entry.next.store(link.load(Ordering::Relaxed), Ordering::Relaxed);
        link.store(free as u32 + 1, Ordering::Relaxed);
        bucket.filter.store(filter | filter_bits(words), Ordering::Relaxed);
        Inserted::New
    }

    /// Enters at most [`BATCH`] fingerprints; how many were refused.
    fn insert_batch(&self, entries: &[(Fingerprint, u64)]) -> usize {
        let mut places = [(0, Words([0; 4])); BATCH];
        for (place, (fingerprint, _)) in places.iter_mut().zip(entries) {
            let words = Words::of(fingerprint);
            *place = (words.bucket(self.buckets.len()), words);
            prefetch(&self.buckets[place.0]);
            prefetch(&self.used[place.0 / BUCKETS_A_GROUP]);
        }
        let places = &places[..entries.len()];
        for &(index, words) in places {
            if self.may_have(&self.buckets[index], words) {
                self.prefetch_own(index);
            } else if let Some(free) = self.free_own(index) {
                prefetch(&self.entries[free]);
            } else {
                // one from elsewhere will follow them
                self.prefetch_own(index);
            }
        }
        let entered = places.iter().zip(entries);
        let entered =
            entered.map(|(&(index, words), (_, handle))| self.enter(index, words, *handle));
        entered.filter(|entered| *entered == Inserted::Full).count()
    }

    /// An entry of the bucket's own that is free now.
    fn free_own(&self, bucket: usize) -> Option<usize> {
        let group = bucket / BUCKETS_A_GROUP;
        let free = !self.used[group].load(Ordering::Relaxed) & own_bits(bucket);
        (free != 0).then(|| group * u64::BITS as usize + free.trailing_zeros() as usize)
    }
}

/// Where a walk along a chain came to.
struct Walk {
    /// The entry, or [`END`].
    found: u32,
    /// The entry before it.
    before: u32,
    handle: u64,
    /// Of the entries that were passed.
    filter: u32,
}

/// A walk that waits for its next entry.
struct Walker {
    lookup: usize,
    version: Version,
    at: u32,
    filter: u32,
    steps: u32,
}

/// Of the bits of a bucket's group, those of the bucket's own entries.
fn own_bits(bucket: usize) -> u64 {
    0xff << (ENTRIES_A_BUCKET * (bucket % BUCKETS_A_GROUP))
}

/// The three bits that a fingerprint sets in its bucket's filter.
fn filter_bits(words: Words) -> u32 {
    let first = words.0[0];
    1 << (first & 31) | 1 << (first >> 5 & 31) | 1 << (first >> 10 & 31)
}

impl Table for ChainedTable {
    fn get(&self, fingerprint: &Fingerprint) -> Option<u64> {
        let words = Words::of(fingerprint);
        let index = words.bucket(self.buckets.len());
        let bucket = &self.buckets[index];
        self.prefetch_own(index);
        loop {
            let version = bucket.lock.read();
            if !self.may_have(bucket, words) {
                if bucket.lock.is_unchanged(version) {
                    return None;
                }
                continue;
            }
            let Some(walk) = self.walk(bucket, words, Some(version)) else { continue };
            if walk.found != END {
                return Some(walk.handle);
            }
            if self.has_filters {
                self.mend_filter(bucket, version, walk.filter);
            }
            return None;
        }
    }

    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        assert_eq!(fingerprints.len(), handles.len(), "a handle for each fingerprint");
        for (fingerprints, handles) in fingerprints.chunks(BATCH).zip(handles.chunks_mut(BATCH)) {
            self.get_batch(fingerprints, handles);
        }
    }

    fn prefetch(&self, fingerprints: &[Fingerprint]) {
        for fingerprint in fingerprints {
            prefetch(&self.buckets[Words::of(fingerprint).bucket(self.buckets.len())]);
        }
    }

    fn insert(&self, fingerprint: &Fingerprint, handle: u64) -> Inserted {
        let words = Words::of(fingerprint);
        let index = words.bucket(self.buckets.len());
        self.prefetch_own(index);
        self.enter(index, words, handle)
    }

    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize {
        entries.chunks(BATCH).map(|entries| self.insert_batch(entries)).sum()
    }

    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64> {
        let words = Words::of(fingerprint);
        let index = words.bucket(self.buckets.len());
        let bucket = &self.buckets[index];
        self.prefetch_own(index);
        let _writing = bucket.lock.write();
        if !self.may_have(bucket, words) {
            return None;
        }
        let walk = self.walk(bucket, words, None).expect("nobody else writes the chain");
        if walk.found == END {
            if self.has_filters {
                self.false_positives.fetch_add(1, Ordering::Relaxed);
                let before = bucket.filter.swap(walk.filter, Ordering::Relaxed);
                self.rebuilt_filters.fetch_add(u64::from(before != walk.filter), Ordering::Relaxed);
            }
            return None;
        }
        let entry = &self.entries[walk.found as usize - 1];
        let next = entry.next.load(Ordering::Relaxed);
        match walk.before {
            END => bucket.head.store(next, Ordering::Relaxed),
            before => self.entries[before as usize - 1].next.store(next, Ordering::Relaxed),
        }
        self.release(walk.found as usize - 1);
        Some(walk.handle)
    }

    fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn count(&self) -> usize {
        self.used.iter().map(|used| used.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    fn bytes(&self) -> usize {
        self.used.len() * GROUP_BYTES
    }

    fn chain_lengths(&self, sample: usize) -> Option<Vec<u64>> {
        let (count, sample) = (self.buckets.len(), sample.min(self.buckets.len()));
        let mut lengths = vec![0];
        for i in 0..sample {
            let bucket = &self.buckets[i * count / sample];
            let len = loop {
                let version = bucket.lock.read();
                let len = self.chain(bucket).take(self.entries.len()).count();
                if bucket.lock.is_unchanged(version) {
                    break len;
                }
            };
            lengths.resize(lengths.len().max(len + 1), 0);
            lengths[len] += 1;
        }
        Some(lengths)
    }

    fn counters(&self) -> TableCounters {
        TableCounters {
            false_positives: self.false_positives.load(Ordering::Relaxed),
            rebuilt_filters: self.rebuilt_filters.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

//! StreamDedup's hash table: "StreamDedup", ACM TRETS 2026, section 4.3.2, in a CPU's memory.
//!
//! A bucket has the head of a chain, eight entries long on average when the table is full, and a
//! Bloom filter of 32 bits over them. A fingerprint sets three bits, selected by five bits each of its first
//! 15. With eight entries the filter has false positives for one in eight absent fingerprints. An entry
//! takes a cache line. A removed entry leaves its bits in the filter; after a false positive the filter is
//! rebuilt from the chain.
//!
//! Departures. Instead of the hardware's lock table and parked requests, each bucket has a sequence lock,
//! and readers do not park. The hardware takes entries from a free list, and hides the memory latency of
//! each link of a chain behind other requests. A core cannot keep so many requests in flight, so this table
//! rarely follows links:
//!
//! - Each bucket has eight adjacent entries of its own. It uses one of these while any is free, and then one
//!   from *elsewhere*: another bucket's. Own entries need no links: the four spare bytes of a bucket have a
//!   tag for each one in use. A look-up reads the bucket, and then, concurrently, the own entries that have
//!   the fingerprint's tag: 1.4 on average. See tags.rs.
//! - Only entries from elsewhere form a chain. If no tag led to the fingerprint, it is in the chain or
//!   absent.
//! - Without removals since the filter was built, it has no excess bits. So a bucket notes removals, and
//!   only a filter with a removal is rebuilt after a false positive. The rebuild walks the chain itself,
//!   because a look-up hardly ever visits all entries.

mod tags;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use onefold_fingerprint::Fingerprint;

use self::tags::{OwnEntries, Tag, Tags};
use super::lock::{SequenceLock, Version};
use super::mapped::{Mapped, Zeroed};
use super::{Inserted, MAX_HANDLE, Table, TableCounters, TableError, Words, prefetch};

/// Entries per bucket: the paper's average length of a chain.
const ENTRIES_A_BUCKET: usize = 8;

/// Buckets whose entries share a word of in-use bits.
const BUCKETS_A_GROUP: usize = u64::BITS as usize / ENTRIES_A_BUCKET;

/// The memory of this many buckets with their entries.
const GROUP_BYTES: usize = BUCKETS_A_GROUP
    * (size_of::<Bucket>() + ENTRIES_A_BUCKET * size_of::<Entry>())
    + size_of::<AtomicU64>();

/// The number of groups that are searched for a free entry. If 32,768 consecutive entries are in use, the
/// table is practically full: at 99.9 % the next free entry is a thousand entries away.
const SEARCH: usize = 512;

/// The number of groups in which the next free entry is prefetched: a cache line of bits.
const NEAR: usize = 8;

/// Steps along a chain after which a reader checks that it is still the same chain.
const STEPS: u32 = 64;

/// The number of look-ups that wait for memory together: the latency is the same for few and many.
const TOGETHER: usize = 32;

/// The end of a chain; entry i is i + 1.
const END: u32 = 0;

/// A flag in the head of the chain: an entry was removed since the filter was built.
const REMOVED: u32 = 1 << 31;

#[repr(C, align(16))]
struct Bucket {
    /// The first entry from elsewhere, and [`REMOVED`].
    head: AtomicU32,
    filter: AtomicU32,
    tags: AtomicU32,
    lock: SequenceLock,
}

// SAFETY: four numbers.
unsafe impl Zeroed for Bucket {}

impl Bucket {
    /// The first entry from elsewhere, or [`END`].
    fn first(&self) -> u32 {
        self.head.load(Ordering::Relaxed) & !REMOVED
    }

    fn tags(&self) -> Tags {
        Tags(self.tags.load(Ordering::Relaxed))
    }

    /// The caller must hold the lock.
    fn set_first(&self, first: u32) {
        let removed = self.head.load(Ordering::Relaxed) & REMOVED;
        self.head.store(first | removed, Ordering::Relaxed);
    }

    /// The caller must hold the lock.
    fn set_tag(&self, own: usize, tag: Option<Tag>) {
        self.tags.store(self.tags().with(own, tag).0, Ordering::Relaxed);
    }
}

#[repr(C, align(64))]
struct Entry {
    fingerprint: [AtomicU64; 4],
    handle: AtomicU64,
    /// The next entry of the chain, while a bucket other than its own uses this entry.
    next: AtomicU32,
}

// SAFETY: numbers, and padding.
unsafe impl Zeroed for Entry {}

impl Entry {
    fn fingerprint(&self) -> Words {
        Words(std::array::from_fn(|i| self.fingerprint[i].load(Ordering::Relaxed)))
    }

    /// Whether it has fingerprint `words`. Compares word by word: the first one nearly always decides.
    #[inline(always)]
    fn has(&self, words: Words) -> bool {
        self.fingerprint.iter().zip(words.0).all(|(one, word)| one.load(Ordering::Relaxed) == word)
    }
}

/// Buckets with chains of entries of a cache line each: 66.1 bytes per entry.
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

/// The result of a look-up in a bucket.
#[derive(Clone, Copy)]
enum Answer {
    /// It is in this entry, with this handle.
    Known { at: u32, handle: u64 },
    /// The filter says that it is absent.
    Excluded,
    /// It is absent, but the filter did not say so.
    FalsePositive,
}

/// A search for a fingerprint in a bucket whose filter does not exclude it: first in the own entries with
/// its tag, then in those from elsewhere.
#[derive(Clone, Copy)]
struct Search {
    own: OwnEntries,
    /// The next one from elsewhere, or [`END`].
    at: u32,
    steps: u32,
}

impl Search {
    const DONE: Self = Self { own: OwnEntries::NONE, at: END, steps: 0 };

    fn is_done(&self) -> bool {
        self.own.is_empty() && self.at == END
    }

    /// Whether to check again that the chain is still the same, after enough steps.
    fn may_be_lost(&self) -> bool {
        self.steps % STEPS == STEPS - 1
    }
}

/// One of several look-ups that wait for memory.
#[derive(Clone, Copy)]
struct Waiting {
    lookup: usize,
    version: Version,
    search: Search,
}

impl ChainedTable {
    /// A table in at most this many bytes of memory.
    pub fn new(bytes: usize) -> Result<Self, TableError> {
        let groups = bytes / GROUP_BYTES;
        if groups == 0 {
            return Err(TableError::TooSmall { bytes, least: GROUP_BYTES });
        }
        let most = (REMOVED - 1) as usize / u64::BITS as usize;
        if groups > most {
            return Err(TableError::TooLarge { bytes, most: most * GROUP_BYTES });
        }
        let buckets = groups * BUCKETS_A_GROUP;
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

    /// The same without Bloom filters, to measure their benefit.
    pub fn without_filters(bytes: usize) -> Result<Self, TableError> {
        Ok(Self { has_filters: false, ..Self::new(bytes)? })
    }

    fn entry(&self, at: u32) -> &Entry {
        &self.entries[at as usize - 1]
    }

    /// The entries from elsewhere.
    fn chain(&self, bucket: &Bucket) -> impl Iterator<Item = u32> {
        let some = |at: u32| (at != END).then_some(at);
        let next = move |&at: &u32| some(self.entry(at).next.load(Ordering::Relaxed));
        std::iter::successors(some(bucket.first()), next)
    }

    /// All entries of bucket `index`.
    fn all(&self, index: usize) -> impl Iterator<Item = u32> {
        let bucket = &self.buckets[index];
        bucket.tags().used().map(move |own| own_entry(index, own)).chain(self.chain(bucket))
    }

    /// Whether the filter does not exclude `words` from the bucket; false for an empty bucket.
    fn may_have(&self, bucket: &Bucket, words: Words) -> bool {
        let bits = filter_bits(words);
        let is_open = !self.has_filters || bucket.filter.load(Ordering::Relaxed) & bits == bits;
        is_open && (bucket.tags() != Tags::default() || bucket.first() != END)
    }

    /// Begins to look for `words`, unless the filter says that it is not there.
    #[inline(always)]
    fn search(&self, index: usize, words: Words) -> Option<Search> {
        let bucket = &self.buckets[index];
        if !self.may_have(bucket, words) {
            return None;
        }
        let own = bucket.tags().same_as(Tag::of(words));
        Some(Search { own, at: bucket.first(), steps: 0 })
    }

    /// Prefetches the memory that the next step of the search reads.
    #[inline(always)]
    fn ask(&self, index: usize, search: &Search) {
        if search.own.is_empty() {
            if search.at != END {
                prefetch(self.entry(search.at));
            }
            return;
        }
        for own in search.own {
            prefetch(&self.entries[index * ENTRIES_A_BUCKET + own]);
        }
    }

    /// Compares all own entries with the tag, or else the next entry from elsewhere.
    #[inline(always)]
    fn step(&self, index: usize, words: Words, search: &mut Search) -> Option<(u32, u64)> {
        let look = |at: u32| {
            let entry = self.entry(at);
            entry.has(words).then(|| (at, entry.handle.load(Ordering::Relaxed)))
        };
        search.steps += 1;
        if !search.own.is_empty() {
            let own = std::mem::replace(&mut search.own, OwnEntries::NONE);
            return own.map(|own| own_entry(index, own)).find_map(look);
        }
        let at = search.at;
        search.at = self.entry(at).next.load(Ordering::Relaxed);
        look(at)
    }

    /// Looks for `words` in bucket `index`.
    ///
    /// If the bucket is written concurrently, the answer is arbitrary. The walk calls `is_unchanged` now and
    /// then, so that it ends even if it left the chain.
    #[inline(always)]
    fn find(&self, index: usize, words: Words, is_unchanged: impl Fn() -> bool) -> Answer {
        let Some(mut search) = self.search(index, words) else { return Answer::Excluded };
        while !search.is_done() {
            if let Some((at, handle)) = self.step(index, words, &mut search) {
                return Answer::Known { at, handle };
            }
            if search.may_be_lost() && !is_unchanged() {
                break;
            }
        }
        Answer::FalsePositive
    }

    /// Counts a false positive of the filter at this version of the bucket. Rebuilds the filter if it may
    /// have bits of removed entries and no thread has written the bucket since.
    fn note_false_positive(&self, index: usize, version: Version) {
        if !self.has_filters {
            return;
        }
        self.false_positives.fetch_add(1, Ordering::Relaxed);
        let bucket = &self.buckets[index];
        if bucket.head.load(Ordering::Relaxed) & REMOVED != 0
            && let Some(_writing) = bucket.lock.write_from(version)
        {
            self.mend_filter(index);
        }
    }

    /// Rebuilds the filter if an entry was removed since it was built. The caller must hold the lock.
    fn mend_filter(&self, index: usize) {
        let bucket = &self.buckets[index];
        if bucket.head.load(Ordering::Relaxed) & REMOVED == 0 {
            return;
        }
        bucket.head.store(bucket.first(), Ordering::Relaxed);
        let bits = self.all(index).map(|at| filter_bits(self.entry(at).fingerprint()));
        let filter = bits.fold(0, |filter, bits| filter | bits);
        let before = bucket.filter.swap(filter, Ordering::Relaxed);
        self.rebuilt_filters.fetch_add(u64::from(before != filter), Ordering::Relaxed);
    }

    /// A free entry: one of the bucket's own if possible, else one in `groups` groups from its own on.
    /// Another thread may take it at any time.
    fn free(&self, bucket: usize, groups: usize) -> Option<usize> {
        let home = bucket / BUCKETS_A_GROUP;
        let free = |group: usize| !self.used[group].load(Ordering::Relaxed);
        let entry = |group, free: u64| group * u64::BITS as usize + free.trailing_zeros() as usize;
        let at_home = free(home);
        if at_home != 0 {
            let own = at_home & own_bits(bucket);
            return Some(entry(home, if own != 0 { own } else { at_home }));
        }
        let count = self.used.len();
        for group in home + 1..home + groups.min(count) {
            let group = if group < count { group } else { group - count };
            let free = free(group);
            if free != 0 {
                return Some(entry(group, free));
            }
        }
        None
    }

    /// Finds and prefetches the entry that the bucket uses next, unless another thread takes it first.
    #[inline(always)]
    fn ask_for_free(&self, bucket: usize) -> Option<usize> {
        let free = self.free(bucket, NEAR)?;
        prefetch(&self.entries[free]);
        Some(free)
    }

    /// Takes entry `seen` if it is still free, else another one that [`free`](Self::free) finds.
    fn claim(&self, bucket: usize, mut seen: Option<usize>) -> Option<usize> {
        loop {
            let free = seen.take().or_else(|| self.free(bucket, SEARCH))?;
            let (group, bit) = (free / u64::BITS as usize, 1 << (free % u64::BITS as usize));
            if self.used[group].fetch_or(bit, Ordering::Acquire) & bit == 0 {
                return Some(free);
            }
        }
    }

    fn release(&self, entry: usize) {
        let (group, bit) = (entry / u64::BITS as usize, entry % u64::BITS as usize);
        self.used[group].fetch_and(!(1 << bit), Ordering::Release);
    }

    /// Prefetches the bucket's own entries before it is known which of them are needed.
    #[inline(always)]
    fn prefetch_own(&self, bucket: usize) {
        for own in &self.entries[bucket * ENTRIES_A_BUCKET..][..ENTRIES_A_BUCKET] {
            prefetch(own);
        }
    }

    /// Looks up at most [`TOGETHER`] fingerprints, interleaving their steps.
    fn get_batch(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        let mut indices = [0; TOGETHER];
        for (index, fingerprint) in indices.iter_mut().zip(fingerprints) {
            *index = Words::of(fingerprint).bucket(self.buckets.len());
            prefetch(&self.buckets[*index]);
        }
        let nobody = Waiting { lookup: 0, version: Version::default(), search: Search::DONE };
        let mut waiting = [nobody; TOGETHER];
        let mut count = 0;
        for (lookup, fingerprint) in fingerprints.iter().enumerate() {
            let (index, bucket) = (indices[lookup], &self.buckets[indices[lookup]]);
            let version = bucket.lock.read();
            match self.search(index, Words::of(fingerprint)) {
                Some(search) => {
                    self.ask(index, &search);
                    waiting[count] = Waiting { lookup, version, search };
                    count += 1;
                }
                None if bucket.lock.is_unchanged(version) => handles[lookup] = None,
                None => handles[lookup] = self.get(fingerprint),
            }
        }
        while count > 0 {
            let mut i = 0;
            while i < count {
                let Waiting { lookup, version, search } = &mut waiting[i];
                let (index, fingerprint) = (indices[*lookup], &fingerprints[*lookup]);
                let bucket = &self.buckets[index];
                let found = match search.is_done() {
                    true => None,
                    false => self.step(index, Words::of(fingerprint), search),
                };
                let is_over = found.is_some() || search.is_done();
                let is_lost = search.may_be_lost() && !bucket.lock.is_unchanged(*version);
                if !is_over && !is_lost {
                    self.ask(index, search);
                    i += 1;
                    continue;
                }
                handles[*lookup] = if is_lost || !bucket.lock.is_unchanged(*version) {
                    self.get(fingerprint)
                } else {
                    if found.is_none() {
                        self.note_false_positive(index, *version);
                    }
                    found.map(|(_, handle)| handle)
                };
                count -= 1;
                waiting[i] = waiting[count];
            }
        }
    }

    /// Inserts `words` into their bucket `index`, or replaces their handle. Entry `free` was recently free.
    fn enter(&self, index: usize, words: Words, handle: u64, free: Option<usize>) -> Inserted {
        assert!(handle <= MAX_HANDLE, "handle {handle}, expected at most {MAX_HANDLE}");
        let bucket = &self.buckets[index];
        let _writing = bucket.lock.write();
        match self.find(index, words, || true) {
            Answer::Known { at, .. } => {
                return Inserted::Replaced(self.entry(at).handle.swap(handle, Ordering::Relaxed));
            }
            Answer::FalsePositive if self.has_filters => {
                self.false_positives.fetch_add(1, Ordering::Relaxed);
                self.mend_filter(index);
            }
            Answer::FalsePositive | Answer::Excluded => {}
        }
        let Some(free) = self.claim(index, free) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Inserted::Full;
        };
        // A reader whom a chain or a tag led here from the bucket that had the entry before sees
        // that bucket's new version before it sees what is written here: that bucket's writer let
        // go of the entry after it had made the version odd, and `claim` saw that. So the reader
        // begins again, even if this is the fingerprint it looks for, or has `next` in another
        // chain. What leads to the entry from here, link and tag, is guarded by this bucket's
        // version as all it has.
        fence(Ordering::Release);
        let entry = &self.entries[free];
        for (place, word) in entry.fingerprint.iter().zip(words.0) {
            place.store(word, Ordering::Relaxed);
        }
        entry.handle.store(handle, Ordering::Relaxed);
        match own_number(index, free) {
            Some(own) => bucket.set_tag(own, Some(Tag::of(words))),
            None => {
                entry.next.store(bucket.first(), Ordering::Relaxed);
                bucket.set_first(free as u32 + 1);
            }
        }
        let filter = bucket.filter.load(Ordering::Relaxed) | filter_bits(words);
        bucket.filter.store(filter, Ordering::Relaxed);
        Inserted::New
    }

    /// Runs searches in these buckets, interleaving their steps, so that the memory is in the cache when a
    /// writer reads it under the lock. The results are not used.
    fn go_ahead(&self, mut open: &mut [(usize, Words, Search)]) {
        let mut i = 0;
        while let Some(last) = open.len().checked_sub(1) {
            let (index, words, search) = &mut open[i];
            let is_over = search.is_done() || self.step(*index, *words, search).is_some();
            if is_over || search.may_be_lost() {
                open.swap(i, last);
                open = &mut open[..last];
            } else {
                self.ask(*index, search);
                i += 1;
            }
            if i >= open.len() {
                i = 0;
            }
        }
    }

    /// Removes entry `at` from bucket `index`. The caller must hold the lock.
    fn unlink(&self, index: usize, at: u32) {
        let bucket = &self.buckets[index];
        bucket.head.store(bucket.first() | REMOVED, Ordering::Relaxed);
        if let Some(own) = own_number(index, at as usize - 1) {
            bucket.set_tag(own, None);
            return;
        }
        let next = self.entry(at).next.load(Ordering::Relaxed);
        match self.chain(bucket).take_while(|&before| before != at).last() {
            None => bucket.set_first(next),
            Some(before) => self.entry(before).next.store(next, Ordering::Relaxed),
        }
    }

    /// Inserts at most [`TOGETHER`] fingerprints, and returns how many did not fit.
    fn insert_batch(&self, entries: &[(Fingerprint, u64)]) -> usize {
        let mut places = [(0, None); TOGETHER];
        for ((index, _), (fingerprint, _)) in places.iter_mut().zip(entries) {
            *index = Words::of(fingerprint).bucket(self.buckets.len());
            prefetch(&self.buckets[*index]);
            prefetch(&self.used[*index / BUCKETS_A_GROUP]);
        }
        // those whose filters leave it open
        let mut open = [(0, Words([0; 4]), Search::DONE); TOGETHER];
        let mut count = 0;
        for ((index, free), (fingerprint, _)) in places.iter_mut().zip(entries) {
            *free = self.ask_for_free(*index);
            let words = Words::of(fingerprint);
            if let Some(search) = self.search(*index, words) {
                self.ask(*index, &search);
                if self.buckets[*index].head.load(Ordering::Relaxed) & REMOVED != 0 {
                    // the filter may be rebuilt, from all entries
                    self.prefetch_own(*index);
                }
                open[count] = (*index, words, search);
                count += 1;
            }
        }
        self.go_ahead(&mut open[..count]);
        let entered = places.iter().zip(entries).map(|(&(index, free), (fingerprint, handle))| {
            self.enter(index, Words::of(fingerprint), *handle, free)
        });
        entered.filter(|entered| *entered == Inserted::Full).count()
    }
}

/// Bucket `index`'s own entry `own`.
fn own_entry(index: usize, own: usize) -> u32 {
    (index * ENTRIES_A_BUCKET + own) as u32 + 1
}

/// The number among bucket `index`'s own entries, if it is one of them.
fn own_number(index: usize, entry: usize) -> Option<usize> {
    (entry / ENTRIES_A_BUCKET == index).then_some(entry % ENTRIES_A_BUCKET)
}

/// The bits of the bucket's own entries among those of its group.
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
        loop {
            let version = bucket.lock.read();
            let is_unchanged = || bucket.lock.is_unchanged(version);
            let answer = self.find(index, words, is_unchanged);
            if !is_unchanged() {
                continue;
            }
            return match answer {
                Answer::Known { handle, .. } => Some(handle),
                Answer::Excluded => None,
                Answer::FalsePositive => {
                    self.note_false_positive(index, version);
                    None
                }
            };
        }
    }

    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        assert_eq!(fingerprints.len(), handles.len(), "a handle for each fingerprint");
        for (fingerprints, handles) in
            fingerprints.chunks(TOGETHER).zip(handles.chunks_mut(TOGETHER))
        {
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
        prefetch(&self.buckets[index]);
        prefetch(&self.used[index / BUCKETS_A_GROUP]);
        self.prefetch_own(index);
        let free = self.ask_for_free(index);
        self.enter(index, words, handle, free)
    }

    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize {
        entries.chunks(TOGETHER).map(|entries| self.insert_batch(entries)).sum()
    }

    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64> {
        let words = Words::of(fingerprint);
        let index = words.bucket(self.buckets.len());
        let bucket = &self.buckets[index];
        // they come while the bucket does
        self.prefetch_own(index);
        let _writing = bucket.lock.write();
        match self.find(index, words, || true) {
            Answer::Known { at, handle } => {
                self.unlink(index, at);
                self.release(at as usize - 1);
                return Some(handle);
            }
            Answer::FalsePositive if self.has_filters => {
                self.false_positives.fetch_add(1, Ordering::Relaxed);
                self.mend_filter(index);
            }
            Answer::FalsePositive | Answer::Excluded => {}
        }
        None
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

    fn populate(&self) {
        self.buckets.populate();
        self.entries.populate();
        self.used.populate();
    }

    fn chain_lengths(&self, sample: usize) -> Option<Vec<u64>> {
        let (count, sample) = (self.buckets.len(), sample.min(self.buckets.len()));
        let mut lengths = vec![0];
        for i in 0..sample {
            let index = i * count / sample;
            let bucket = &self.buckets[index];
            let len = loop {
                let version = bucket.lock.read();
                let len = self.all(index).take(self.entries.len()).count();
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
            passed_over: 0,
        }
    }
}

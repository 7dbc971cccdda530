//! Hints in memory: entries that lead to each other, and hash tables that are read without a lock.
//!
//! A jump costs one look-up, so a look-up may not cost more than the cache line that it waits for.
//! All that is known of a chunk is in one line, with numbers that lead to the entries of the chunks
//! that came next: along a run of known chunks no table is read. Entries never move and are
//! numbered in the order in which the chunks came by, so that a run goes through memory in order
//! and the lines of the next ones come unasked. Readers take no lock and write nothing that threads
//! share. Who writes holds the lock of one of many shards. Nothing is removed: a table that is half
//! full is copied into one twice as large and kept for those who still read it, so that at any time
//! all old tables together are as large as the one in use.
//!
//! A number that leads to an entry is a guess: it is read apart from the length that it belongs to,
//! and a writer may come in between. Whoever follows it compares the fingerprint that he finds.

use std::array;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{Hints, MAX_NEXT, NextChunk};

/// Hints in memory, shared by threads: for research and tests. Forgets nothing, so that it grows
/// with the number of different chunks, of which it takes 2^32 less a thousand.
pub struct MemoryHints<K, F> {
    fingerprint: F,
    entries: Entries<K>,
    shards: Box<[Shard]>,
    seed: u64,
}

/// An entry of [`MemoryHints`]: its number, from `FIRST_ENTRY` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlace(NonZeroU32);

/// Parts with a lock each, so that threads that write seldom meet. A power of two.
const SHARDS: usize = 64;

/// Slots of a shard's first table; the next ones have twice as many each. A power of two.
const FIRST_SLOTS: usize = 32;

/// How often a table can double.
const TABLES: usize = 32;

/// The number of the first entry, and how many there are in the first segment. A power of two.
const FIRST_ENTRY: u32 = 1 << 10;

/// Each has twice as many entries as the one before, up to the last number.
const SEGMENTS: usize = FIRST_ENTRY.leading_zeros() as usize + 1;

/// Next chunks that are kept in the entry itself.
const NEAR: usize = 2;

struct Shard {
    tables: [OnceLock<Table>; TABLES],
    /// The table in use.
    current: AtomicUsize,
    /// How many chunks are known. Held by the one thread that writes.
    count: Mutex<usize>,
}

/// Open addressing: a chunk is in the first slot that is its own, or free, from its hash on. A slot
/// holds the hash above the number of the entry; 0 is free.
struct Table {
    slots: Box<[AtomicU64]>,
}

/// What is known of all chunks, by number.
struct Entries<K> {
    segments: [OnceLock<Segment<K>>; SEGMENTS],
    /// The next number; there are no more when it comes back to 0.
    free: AtomicU32,
    /// The longest list.
    most: usize,
}

struct Segment<K> {
    entries: Box<[Entry<K>]>,
    /// What the lists of the entries in order have no room for: so much for each.
    far: Box<[(AtomicU64, AtomicU32)]>,
}

/// One line of memory, if fingerprints have 32 bytes and `Once` has four, as on Linux and Windows.
#[repr(align(64))]
struct Entry<K> {
    fingerprint: OnceLock<K>,
    by_rule: AtomicBool,
    /// The next chunks as [`pack`] has them; 0 for nothing.
    near: [AtomicU64; NEAR],
    /// The numbers of their entries; 0 for nothing.
    near_kept: [AtomicU32; NEAR],
}

impl<K: Copy + Eq + Hash, F: Fn(&[u8]) -> K> MemoryHints<K, F> {
    /// Empty hints with two next chunks for each chunk, as in the paper, and this function to
    /// compute fingerprints.
    pub fn new(fingerprint: F) -> Self {
        Self::with_next(fingerprint, 2)
    }

    /// As [`new`](Self::new), with up to `most` next chunks for each chunk and no more than
    /// [`MAX_NEXT`]. With 0 nothing is ever forwarded.
    pub fn with_next(fingerprint: F, most: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::new()).collect();
        let seed = RandomState::new().hash_one(0) | 1;
        Self { fingerprint, entries: Entries::new(most.min(MAX_NEXT)), shards, seed }
    }

    /// How many chunks are known.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| *shard.lock()).sum()
    }

    /// Whether no chunk is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shard of a chunk, and its hash there.
    fn shard(&self, fingerprint: &K) -> (&Shard, u32) {
        let hash = hash(self.seed, fingerprint);
        (&self.shards[hash as usize % SHARDS], (hash >> 32) as u32)
    }
}

impl<K: Copy + Eq + Hash, F: Fn(&[u8]) -> K> Hints for MemoryHints<K, F> {
    type Fingerprint = K;
    type Place = MemoryPlace;

    fn fingerprint(&self, chunk: &[u8]) -> K {
        (self.fingerprint)(chunk)
    }

    #[inline]
    fn look_up(&self, fingerprint: &K, guess: Option<MemoryPlace>) -> Option<MemoryPlace> {
        let is_there = |&guess: &MemoryPlace| self.entries.fingerprint(guess) == Some(fingerprint);
        guess.filter(is_there).or_else(|| {
            let (shard, hash) = self.shard(fingerprint);
            shard.current().find(hash, |place| self.entries.fingerprint(place) == Some(fingerprint))
        })
    }

    #[inline]
    fn is_by_rule(&self, place: MemoryPlace) -> bool {
        self.entries.entry(place).is_some_and(|entry| entry.by_rule.load(Ordering::Relaxed))
    }

    #[inline]
    fn next(
        &self,
        place: MemoryPlace,
        position: usize,
    ) -> Option<(NextChunk, Option<MemoryPlace>)> {
        let (packed, kept) = self.entries.next(place, position)?;
        let packed = packed.load(Ordering::Relaxed);
        let kept = NonZeroU32::new(kept.load(Ordering::Relaxed)).map(MemoryPlace);
        (packed != 0).then(|| (unpack(packed), kept))
    }

    fn learn(&self, fingerprint: &K, by_rule: bool) -> Option<MemoryPlace> {
        let (shard, hash) = self.shard(fingerprint);
        let mut count = shard.lock();
        if let Some(place) = self.look_up(fingerprint, None) {
            if by_rule {
                self.entries.entry(place)?.by_rule.store(true, Ordering::Relaxed);
            }
            return Some(place);
        }
        let place = self.entries.add(fingerprint, by_rule)?;
        *count += 1;
        shard.with_room_for(*count).insert(hash, place);
        Some(place)
    }

    fn learn_next(&self, place: MemoryPlace, next: NextChunk, kept: MemoryPlace) {
        if let Some(fingerprint) = self.entries.fingerprint(place) {
            let _writing = self.shard(fingerprint).0.lock();
            self.entries.touch(place, next, kept);
        }
    }
}

impl Shard {
    fn new() -> Self {
        let tables = array::from_fn(|_| OnceLock::new());
        let first = tables[0].get_or_init(|| Table::new(FIRST_SLOTS));
        debug_assert!(first.slots.len().is_power_of_two());
        Self { tables, current: AtomicUsize::new(0), count: Mutex::new(0) }
    }

    /// A thread that panicked left a table whole: none is ever taken apart.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> &Table {
        let table = self.tables[self.current.load(Ordering::Acquire)].get();
        table.expect("a table is filled before it is current")
    }

    /// The table in use, at most half full with `count` chunks. For the thread that writes.
    fn with_room_for(&self, count: usize) -> &Table {
        let table = self.current();
        if 2 * count <= table.slots.len() {
            return table;
        }
        let larger = Table::new(2 * table.slots.len());
        for slot in &table.slots {
            if let Some((hash, place)) = taken(slot.load(Ordering::Relaxed)) {
                larger.insert(hash, place);
            }
        }
        let place = self.current.load(Ordering::Relaxed) + 1;
        let larger = self.tables[place].get_or_init(|| larger);
        self.current.store(place, Ordering::Release);
        larger
    }
}

impl Table {
    /// With `slots` free slots, a power of two.
    fn new(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The number of the slot so many behind where this hash belongs.
    #[inline]
    fn slot(&self, hash: u32, behind: usize) -> usize {
        (hash as usize).wrapping_add(behind) & (self.slots.len() - 1)
    }

    /// What the slots hold from where this hash belongs, up to the first free one.
    fn from(&self, hash: u32) -> impl Iterator<Item = (u32, MemoryPlace)> {
        let slots = (0..self.slots.len()).map(move |behind| &self.slots[self.slot(hash, behind)]);
        slots.map_while(|slot| taken(slot.load(Ordering::Acquire)))
    }

    /// The place of a chunk of this hash that `is_it`.
    #[inline]
    fn find(&self, hash: u32, is_it: impl Fn(MemoryPlace) -> bool) -> Option<MemoryPlace> {
        self.from(hash)
            .find(|&(found, place)| found == hash && is_it(place))
            .map(|(_, place)| place)
    }

    /// Takes in a new chunk. For the thread that writes.
    fn insert(&self, hash: u32, place: MemoryPlace) {
        let slot = self.slot(hash, self.from(hash).count());
        let taken = u64::from(hash) << 32 | u64::from(place.0.get());
        self.slots[slot].store(taken, Ordering::Release);
    }
}

/// What a slot says: a hash, and the place of a chunk that has it.
#[inline]
fn taken(slot: u64) -> Option<(u32, MemoryPlace)> {
    NonZeroU32::new(slot as u32).map(|number| ((slot >> 32) as u32, MemoryPlace(number)))
}

impl<K: Copy + Eq> Entries<K> {
    fn new(most: usize) -> Self {
        let segments = array::from_fn(|_| OnceLock::new());
        Self { segments, free: AtomicU32::new(FIRST_ENTRY), most }
    }

    /// The segment of an entry, and which of its entries it is.
    #[inline]
    fn within(place: MemoryPlace) -> (usize, usize) {
        let number = place.0.get();
        let segment = number.ilog2() - FIRST_ENTRY.ilog2();
        (segment as usize, (number - (FIRST_ENTRY << segment)) as usize)
    }

    /// `None` only for a guess at what another thread has not yet made known to this one.
    #[inline]
    fn entry(&self, place: MemoryPlace) -> Option<&Entry<K>> {
        let (segment, i) = Self::within(place);
        self.segments[segment].get()?.entries.get(i)
    }

    #[inline]
    fn fingerprint(&self, place: MemoryPlace) -> Option<&K> {
        self.entry(place)?.fingerprint.get()
    }

    /// A next chunk by its position in the list.
    #[inline]
    fn next(&self, place: MemoryPlace, position: usize) -> Option<(&AtomicU64, &AtomicU32)> {
        if position >= self.most {
            return None;
        }
        let (segment, i) = Self::within(place);
        let segment = self.segments[segment].get()?;
        if position < NEAR {
            let entry = segment.entries.get(i)?;
            return Some((&entry.near[position], &entry.near_kept[position]));
        }
        let (packed, kept) = segment.far.get(i * (self.most - NEAR) + position - NEAR)?;
        Some((packed, kept))
    }

    /// Makes an entry for a new chunk; `None` if there are no numbers left.
    fn add(&self, fingerprint: &K, by_rule: bool) -> Option<MemoryPlace> {
        let behind = |number: u32| (number != 0).then(|| number.wrapping_add(1));
        let number = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, behind).ok()?;
        let place = MemoryPlace(NonZeroU32::new(number)?);
        let (segment, i) = Self::within(place);
        let len = (FIRST_ENTRY as usize) << segment;
        let segment = self.segments[segment].get_or_init(|| Segment::new(len, self.most));
        let entry = &segment.entries[i];
        entry.by_rule.store(by_rule, Ordering::Relaxed);
        let placed = entry.fingerprint.set(*fingerprint);
        debug_assert!(placed.is_ok(), "each number is given once");
        Some(place)
    }

    /// As [`NextChunks::touch`](crate::NextChunks::touch). For the thread that writes; others see
    /// some of before and some of after.
    fn touch(&self, place: MemoryPlace, next: NextChunk, kept: MemoryPlace) {
        let all = || (0..self.most).map_while(|position| self.next(place, position));
        let is_its = |(packed, _): &(&AtomicU64, &AtomicU32)| {
            let packed = packed.load(Ordering::Relaxed);
            packed == 0 || unpack(packed).len() == next.len()
        };
        let others = all().take_while(|next| !is_its(next)).count();
        let (mut packed, mut kept) = (pack(next), kept.0.get());
        for (packed_there, kept_there) in all().take(others + 1) {
            packed = packed_there.swap(packed, Ordering::Relaxed);
            kept = kept_there.swap(kept, Ordering::Relaxed);
        }
    }
}

impl<K> Segment<K> {
    fn new(len: usize, most: usize) -> Self {
        let entry = || Entry {
            fingerprint: OnceLock::new(),
            by_rule: AtomicBool::new(false),
            near: Default::default(),
            near_kept: Default::default(),
        };
        let far = len * most.saturating_sub(NEAR);
        Self {
            entries: (0..len).map(|_| entry()).collect(),
            far: (0..far).map(|_| Default::default()).collect(),
        }
    }
}

/// Length and marker in one number, so that no reader sees the one without the other.
fn pack(next: NextChunk) -> u64 {
    u64::from(next.len()) << 32 | u64::from(u32::from_le_bytes(next.marker()))
}

fn unpack(packed: u64) -> NextChunk {
    NextChunk::new((packed >> 32) as u32, (packed as u32).to_le_bytes())
}

/// A hash of what is itself the outcome of a good one, as fingerprints are.
fn hash<K: Hash>(seed: u64, fingerprint: &K) -> u64 {
    let mut sum = Sum(seed);
    fingerprint.hash(&mut sum);
    sum.finish()
}

/// Exclusive or of all words, each turned by its place, stirred once.
struct Sum(u64);

impl Hasher for Sum {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for &word in words {
            self.write_u64(u64::from_le_bytes(word));
        }
        for &byte in rest {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self.0.rotate_left(9) ^ word;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        let product = u128::from(self.0) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;
    use crate::NextChunks;

    fn number(bytes: &[u8]) -> u32 {
        bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
    }

    fn next(len: u32) -> NextChunk {
        NextChunk::new(len, len.to_be_bytes())
    }

    fn list<K, F>(hints: &MemoryHints<K, F>, place: MemoryPlace) -> Vec<NextChunk>
    where
        K: Copy + Eq + Hash,
        F: Fn(&[u8]) -> K,
    {
        (0..).map_while(|position| hints.next(place, position)).map(|(next, _)| next).collect()
    }

    /// What is known of chunks 0 to `count` if each was followed by those of a third and of half
    /// its number, and the even ones are by the rule.
    fn assert_known<K, F>(hints: &MemoryHints<K, F>, key: impl Fn(u32) -> K, count: u32)
    where
        K: Copy + Eq + Hash,
        F: Fn(&[u8]) -> K,
    {
        for i in 0..count {
            let place = hints.look_up(&key(i), None).expect("a chunk that was learned");
            assert_eq!(hints.is_by_rule(place), i.is_multiple_of(2));
            let [half, third] = [next(1 + i / 2), next(1 + i / 3)];
            let expected = if half == third { vec![half] } else { vec![half, third] };
            assert_eq!(list(hints, place), expected);
        }
        assert_eq!(hints.look_up(&key(count), None), None);
    }

    fn learn<K, F>(hints: &MemoryHints<K, F>, key: impl Fn(u32) -> K, i: u32)
    where
        K: Copy + Eq + Hash,
        F: Fn(&[u8]) -> K,
    {
        let place = hints.learn(&key(i), i.is_multiple_of(2)).expect("room for all");
        hints.learn_next(place, next(1 + i / 3), place);
        hints.learn_next(place, next(1 + i / 2), place);
    }

    #[test]
    fn nothing_is_lost_while_tables_grow() {
        let hints = MemoryHints::new(number);
        for i in 0..20_000 {
            learn(&hints, |i| i, i);
            // what was by the rule once remains so
            hints.learn(&i, false);
        }
        assert_eq!(hints.len(), 20_000);
        assert_known(&hints, |i| i, 20_000);
    }

    /// Fingerprints that all have the same hash.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Colliding(u32);

    impl Hash for Colliding {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }

    #[test]
    fn fingerprints_of_one_hash_are_told_apart() {
        let hints = MemoryHints::new(|bytes: &[u8]| Colliding(number(bytes)));
        for i in 0..300 {
            learn(&hints, Colliding, i);
        }
        assert_eq!(hints.len(), 300);
        assert_known(&hints, Colliding, 300);
    }

    #[test]
    fn threads_lose_nothing_of_each_other_and_see_no_hint_that_none_gave() {
        let hints = MemoryHints::new(number);
        thread::scope(|scope| {
            for thread in 0..4 {
                let hints = &hints;
                scope.spawn(move || {
                    for i in (thread..8_000).step_by(4) {
                        learn(hints, |i| i, i);
                    }
                    for i in 0..8_000 {
                        let Some(place) = hints.look_up(&i, None) else { continue };
                        for hint in list(hints, place) {
                            assert!([next(1 + i / 2), next(1 + i / 3)].contains(&hint), "{i}");
                        }
                    }
                });
            }
        });
        assert_eq!(hints.len(), 8_000);
        assert_known(&hints, |i| i, 8_000);
    }

    proptest! {
        #[test]
        fn lists_are_touched_as_the_model_is(
            most in 0..=MAX_NEXT + 1,
            touched in prop::collection::vec((0..3_u32, 1..20_u32, any::<[u8; 4]>()), 0..80),
        ) {
            let hints = MemoryHints::with_next(number, most);
            let places = [0, 1, 2].map(|i| hints.learn(&i, true).unwrap());
            let mut models = [NextChunks::new(); 3];
            for (i, len, marker) in touched {
                let i = i as usize;
                let kept = places[len as usize % 3];
                hints.learn_next(places[i], NextChunk::new(len, marker), kept);
                models[i].touch(NextChunk::new(len, marker), most);
            }
            for (place, model) in places.into_iter().zip(models) {
                prop_assert_eq!(&list(&hints, place)[..], model.as_slice());
                for position in 0..model.as_slice().len() {
                    let (next, guess) = hints.next(place, position).unwrap();
                    prop_assert_eq!(guess, Some(places[next.len() as usize % 3]));
                }
            }
        }
    }

    #[test]
    fn a_guess_is_followed_only_to_the_chunk_that_is_meant() {
        let hints = MemoryHints::new(number);
        let places: Vec<_> = (0..3_000).map(|i| hints.learn(&i, true).unwrap()).collect();
        let wild = [FIRST_ENTRY, FIRST_ENTRY + 3_000, FIRST_ENTRY << 4, u32::MAX];
        let wild = wild.map(|number| MemoryPlace(NonZeroU32::new(number).unwrap()));
        for guess in wild.into_iter().chain(places.iter().copied().step_by(97)) {
            for i in [0, 1, 1_023, 1_024, 2_999] {
                assert_eq!(hints.look_up(&i, Some(guess)), Some(places[i as usize]));
            }
            assert_eq!(hints.look_up(&3_000, Some(guess)), None);
        }
        // nothing is known of where no chunk is
        for place in wild {
            assert_eq!(hints.next(place, 0), None);
            assert_eq!(hints.is_by_rule(place), places.contains(&place));
        }
    }

    #[test]
    fn entries_have_a_segment_each_up_to_the_last_number() {
        let within = |number| Entries::<u32>::within(MemoryPlace(NonZeroU32::new(number).unwrap()));
        let mut expected = (0, 0);
        for number in FIRST_ENTRY..FIRST_ENTRY * 9 {
            assert_eq!(within(number), expected);
            expected.1 += 1;
            if expected.1 == (FIRST_ENTRY as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(within(u32::MAX), (SEGMENTS - 1, (1 << 31) - 1));
    }

    #[test]
    fn no_entry_is_made_once_the_numbers_have_run_out() {
        let hints = MemoryHints::new(number);
        let place = hints.learn(&7, false);
        hints.entries.free.store(0, Ordering::Relaxed);
        assert_eq!(hints.learn(&8, true), None);
        assert_eq!((hints.look_up(&8, None), hints.len()), (None, 1));
        // what is known is learned all the same
        assert_eq!(hints.learn(&7, true), place);
        assert!(hints.is_by_rule(place.unwrap()));
    }

    /// Writers that turn lists round all the time; readers who follow every number that they find.
    #[test]
    fn a_torn_hint_leads_to_no_other_chunk_and_out_of_no_bounds() {
        const CHUNKS: u32 = 1_500;
        let hints = MemoryHints::with_next(number, 5);
        let places: Vec<_> = (0..CHUNKS).map(|i| hints.learn(&i, true).unwrap()).collect();
        thread::scope(|scope| {
            for thread in 1..3 {
                let (hints, places) = (&hints, &places);
                scope.spawn(move || {
                    for step in 0..20_000 {
                        // chunk i is next(i + 1), wherever it comes after another
                        let next_one = step * thread * 7 % CHUNKS;
                        let from = places[(step % 3) as usize];
                        hints.learn_next(from, next(next_one + 1), places[next_one as usize]);
                        hints.learn(&(CHUNKS + step), false);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for step in 0..20_000_usize {
                        let from = places[step % 3];
                        let Some((hint, guess)) = hints.next(from, step % 5) else { continue };
                        let meant = hint.len() - 1;
                        assert_eq!(hint, next(hint.len()));
                        assert!(meant < CHUNKS);
                        let found = hints.look_up(&meant, guess);
                        assert_eq!(found, Some(places[meant as usize]));
                    }
                });
            }
        });
    }

    #[test]
    fn every_hint_is_unpacked_as_it_was_packed() {
        for len in [1, 255, 65_536, u32::MAX] {
            for marker in [[0; 4], [1, 2, 3, 4], [255, 0, 0, 128]] {
                let next = NextChunk::new(len, marker);
                assert_eq!(unpack(pack(next)), next);
            }
        }
    }
}

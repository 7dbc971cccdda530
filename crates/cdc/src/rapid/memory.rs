//! Hints in memory: hash tables that are read without a lock.
//!
//! A jump costs one look-up, so a look-up may not cost more than the cache line that it waits for:
//! readers take no lock, write nothing that threads share, and find the lists by the same number as
//! the fingerprints. Who writes holds the lock of one of many shards. Nothing is removed: a table
//! that is half full is copied into one twice as large and kept for those who still read it, so that
//! at any time all old tables together are as large as the one in use.

use std::array;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::{Hints, KnownChunk, MAX_NEXT, NextChunk, NextChunks};

/// Hints in memory, shared by threads: for research and tests. Forgets nothing, so that it grows
/// with the number of different chunks.
pub struct MemoryHints<K, F> {
    fingerprint: F,
    /// The longest list.
    most: usize,
    shards: Box<[Shard<K>]>,
    seed: u64,
}

/// Parts with a lock each, so that threads that write seldom meet. A power of two.
const SHARDS: usize = 64;

/// Slots of a shard's first table; the next ones have twice as many each. A power of two.
const FIRST_SLOTS: usize = 32;

/// How often a table can double.
const TABLES: usize = 32;

struct Shard<K> {
    tables: [OnceLock<Table<K>>; TABLES],
    /// The table in use.
    current: AtomicUsize,
    /// How many chunks are known. Held by the one thread that writes.
    count: Mutex<usize>,
}

/// Open addressing: a chunk is in the first slot that is its own, or free, from its hash on.
struct Table<K> {
    slots: Box<[Slot<K>]>,
    /// The list of each slot, `most` numbers of [`pack`]; 0 for nothing.
    next: Box<[AtomicU64]>,
}

struct Slot<K> {
    fingerprint: OnceLock<K>,
    by_rule: AtomicBool,
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
        let most = most.min(MAX_NEXT);
        let shards = (0..SHARDS).map(|_| Shard::new(most)).collect();
        Self { fingerprint, most, shards, seed: RandomState::new().hash_one(0) | 1 }
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
    fn shard(&self, fingerprint: &K) -> (&Shard<K>, usize) {
        let hash = hash(self.seed, fingerprint);
        (&self.shards[hash % SHARDS], hash / SHARDS)
    }
}

impl<K: Copy + Eq + Hash, F: Fn(&[u8]) -> K> Hints for MemoryHints<K, F> {
    type Fingerprint = K;

    fn fingerprint(&self, chunk: &[u8]) -> K {
        (self.fingerprint)(chunk)
    }

    fn look_up(&self, fingerprint: &K) -> Option<KnownChunk> {
        let (shard, hash) = self.shard(fingerprint);
        let table = shard.current();
        let place = table.find(hash, fingerprint).ok()?;
        Some(table.known(place, self.most))
    }

    fn learn(&self, fingerprint: &K, by_rule: bool) {
        let (shard, hash) = self.shard(fingerprint);
        let mut count = shard.lock();
        match shard.current().find(hash, fingerprint) {
            Ok(place) if by_rule => {
                shard.current().slots[place].by_rule.store(true, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) => {
                *count += 1;
                let table = shard.with_room_for(*count, self.most, |known| self.shard(known).1);
                table.insert(hash, fingerprint, by_rule);
            }
        }
    }

    fn learn_next(&self, fingerprint: &K, next: NextChunk) {
        let (shard, hash) = self.shard(fingerprint);
        let _writing = shard.lock();
        let table = shard.current();
        if let Ok(place) = table.find(hash, fingerprint) {
            let mut list = table.known(place, self.most).next;
            list.touch(next, self.most);
            table.set_next(place, &list, self.most);
        }
    }
}

impl<K: Copy + Eq + Hash> Shard<K> {
    fn new(most: usize) -> Self {
        let tables = array::from_fn(|_| OnceLock::new());
        let first = tables[0].get_or_init(|| Table::new(FIRST_SLOTS, most));
        debug_assert!(first.slots.len().is_power_of_two());
        Self { tables, current: AtomicUsize::new(0), count: Mutex::new(0) }
    }

    /// A thread that panicked left a table whole: none is ever taken apart.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> &Table<K> {
        let table = self.tables[self.current.load(Ordering::Acquire)].get();
        table.expect("a table is filled before it is current")
    }

    /// The table in use, at most half full with `count` chunks. For the thread that writes.
    fn with_room_for(&self, count: usize, most: usize, hash: impl Fn(&K) -> usize) -> &Table<K> {
        let table = self.current();
        if 2 * count <= table.slots.len() {
            return table;
        }
        let larger = Table::new(2 * table.slots.len(), most);
        for (place, slot) in table.slots.iter().enumerate() {
            if let Some(fingerprint) = slot.fingerprint.get() {
                let known = table.known(place, most);
                let place = larger.insert(hash(fingerprint), fingerprint, known.by_rule);
                larger.set_next(place, &known.next, most);
            }
        }
        let place = self.current.load(Ordering::Relaxed) + 1;
        let larger = self.tables[place].get_or_init(|| larger);
        self.current.store(place, Ordering::Release);
        larger
    }
}

impl<K: Copy + Eq> Table<K> {
    /// With `slots` free slots, a power of two.
    fn new(slots: usize, most: usize) -> Self {
        let slot = || Slot { fingerprint: OnceLock::new(), by_rule: AtomicBool::new(false) };
        Self {
            slots: (0..slots).map(|_| slot()).collect(),
            next: (0..slots * most).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The slot of a chunk, or the free one where it belongs.
    #[inline]
    fn find(&self, hash: usize, fingerprint: &K) -> Result<usize, usize> {
        let mut place = hash;
        loop {
            place &= self.slots.len() - 1;
            match self.slots[place].fingerprint.get() {
                Some(found) if found == fingerprint => return Ok(place),
                Some(_) => place += 1,
                None => return Err(place),
            }
        }
    }

    /// Takes in a new chunk. For the thread that writes.
    fn insert(&self, hash: usize, fingerprint: &K, by_rule: bool) -> usize {
        let place = self.find(hash, fingerprint).unwrap_or_else(|free| free);
        let slot = &self.slots[place];
        slot.by_rule.store(by_rule, Ordering::Relaxed);
        let placed = slot.fingerprint.set(*fingerprint);
        debug_assert!(placed.is_ok(), "one thread writes, and only what is new");
        place
    }

    /// What is known of the chunk in a slot. While another thread writes there, some of the list
    /// may be of before and some of after.
    #[inline]
    fn known(&self, place: usize, most: usize) -> KnownChunk {
        let mut next = NextChunks::new();
        for packed in &self.next[place * most..][..most] {
            let packed = packed.load(Ordering::Relaxed);
            if packed == 0 {
                break;
            }
            next.all[usize::from(next.count)] = unpack(packed);
            next.count += 1;
        }
        KnownChunk { by_rule: self.slots[place].by_rule.load(Ordering::Relaxed), next }
    }

    fn set_next(&self, place: usize, list: &NextChunks, most: usize) {
        for (to, &next) in self.next[place * most..][..most].iter().zip(list.as_slice()) {
            to.store(pack(next), Ordering::Relaxed);
        }
    }
}

/// Length and marker in one number, so that no reader sees the one without the other.
fn pack(next: NextChunk) -> u64 {
    u64::from(next.len) << 32 | u64::from(u32::from_le_bytes(next.marker))
}

fn unpack(packed: u64) -> NextChunk {
    NextChunk::new((packed >> 32) as u32, (packed as u32).to_le_bytes())
}

/// A hash of what is itself the outcome of a good one, as fingerprints are.
fn hash<K: Hash>(seed: u64, fingerprint: &K) -> usize {
    let mut sum = Sum(seed);
    fingerprint.hash(&mut sum);
    sum.finish() as usize
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

    use super::*;

    fn number(bytes: &[u8]) -> u32 {
        bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte))
    }

    fn next(len: u32) -> NextChunk {
        NextChunk::new(len, len.to_be_bytes())
    }

    /// What is known of chunks 0 to `count` if each was followed by those of a third and of half
    /// its number, and the even ones are by the rule.
    fn assert_known<K, F>(hints: &MemoryHints<K, F>, key: impl Fn(u32) -> K, count: u32)
    where
        K: Copy + Eq + Hash,
        F: Fn(&[u8]) -> K,
    {
        for i in 0..count {
            let known = hints.look_up(&key(i)).expect("a chunk that was learned");
            assert_eq!(known.by_rule, i.is_multiple_of(2));
            let [half, third] = [next(1 + i / 2), next(1 + i / 3)];
            let expected = if half == third { vec![half] } else { vec![half, third] };
            assert_eq!(known.next.as_slice(), expected);
        }
        assert_eq!(hints.look_up(&key(count)), None);
    }

    fn learn<K, F>(hints: &MemoryHints<K, F>, key: impl Fn(u32) -> K, i: u32)
    where
        K: Copy + Eq + Hash,
        F: Fn(&[u8]) -> K,
    {
        hints.learn(&key(i), i.is_multiple_of(2));
        hints.learn_next(&key(i), next(1 + i / 3));
        hints.learn_next(&key(i), next(1 + i / 2));
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
                        let known = hints.look_up(&i).unwrap_or_default();
                        for &hint in known.next.as_slice() {
                            assert!([next(1 + i / 2), next(1 + i / 3)].contains(&hint), "{i}");
                        }
                    }
                });
            }
        });
        assert_eq!(hints.len(), 8_000);
        assert_known(&hints, |i| i, 8_000);
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

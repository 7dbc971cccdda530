//! What lies in containers that were used lately: their fingerprints, within bounded memory.
//!
//! The directories of these containers share one hash table, so that a look-up costs the same however many
//! there are. An entry has the whole fingerprint and a link to the next one of its chain, 36 bytes, and its
//! place says which page it is. If memory is short, the directory goes that was used longest ago.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_fingerprint::Fingerprint;
use onefold_index::prefetch;

use crate::ids::Handle;

/// Bits of a link that select an entry of a directory: as many as a container may have pages.
const SLOT_BITS: u32 = 19;

/// Directories at most, so that no link is [`Link::END`].
const MOST: usize = (1 << (u32::BITS - SLOT_BITS)) - 1;

/// So many directories stay beside a new one, whatever memory they take.
const LEAST: usize = 1;

/// Bytes of memory for each head of a chain, so that there is about one head for each entry.
const BYTES_A_HEAD: usize = size_of::<Entry>() + size_of::<Link>();

/// Fingerprints whose memory is asked for together.
const TOGETHER: usize = 32;

/// An entry: the place of a directory, and one of its entries.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link(u32);

impl Link {
    const END: Self = Self(u32::MAX);

    fn new(place: usize, entry: usize) -> Self {
        Self((place as u32) << SLOT_BITS | entry as u32)
    }

    /// The place and the entry; `None` at the end of a chain.
    fn get(self) -> Option<(usize, usize)> {
        let entry = self.0 & ((1 << SLOT_BITS) - 1);
        (self != Self::END).then_some(((self.0 >> SLOT_BITS) as usize, entry as usize))
    }
}

struct Entry {
    fingerprint: Fingerprint,
    next: Link,
}

/// The pages of a container from one slot on.
struct Listed {
    number: u32,
    /// The slot of the first entry.
    first: u32,
    entries: Vec<Entry>,
    /// The look-up that found something here last.
    used: AtomicU64,
}

impl Listed {
    /// The slot after the last one.
    fn end(&self) -> u32 {
        self.first + self.entries.len() as u32
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

/// Directories of containers, by the fingerprints in them.
pub(crate) struct Directories {
    /// Bytes that they may take.
    most_bytes: usize,
    /// Bytes that entries take.
    bytes: usize,
    /// The first entry of each chain; empty until something is added.
    heads: Vec<Link>,
    all: Vec<Option<Listed>>,
    /// Where each container's directory is.
    places: HashMap<u32, usize>,
    /// Look-ups until now.
    clock: AtomicU64,
    /// Odd and random, so that nobody can choose pages that make long chains.
    factor: u64,
}

impl Directories {
    /// None yet. They may take `most_bytes` bytes, and more if two alone do.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            bytes: 0,
            heads: Vec::new(),
            all: Vec::new(),
            places: HashMap::new(),
            clock: AtomicU64::new(1),
            factor: RandomState::new().hash_one(most_bytes) | 1,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.heads.capacity() * size_of::<Link>()
    }

    /// Whether all pages of container `number` that were there when it was added are known.
    pub(crate) fn has_whole(&self, number: u32) -> bool {
        self.places.get(&number).is_some_and(|place| self.listed(*place).first == 0)
    }

    /// Drops the directory that was used longest ago, if container `number` cannot have `count` pages more
    /// otherwise; whether it did.
    pub(crate) fn make_room(&mut self, number: u32, count: usize) -> bool {
        let others = self.count() - usize::from(self.places.contains_key(&number));
        let is_over = self.bytes() + count * size_of::<Entry>() > self.most_bytes;
        if !(is_over && others > LEAST || others >= MOST) {
            return false;
        }
        let others = self.all.iter().flatten().filter(|one| one.number != number);
        let last = others.min_by_key(|one| one.used.load(Ordering::Relaxed));
        if let Some(number) = last.map(|one| one.number) {
            self.remove(number);
        }
        true
    }

    /// Adds pages of container `number`, which lie in consecutive slots from `first` on. Those that are
    /// known of it stay if `first` follows them, and go otherwise.
    pub(crate) fn add(
        &mut self,
        number: u32,
        first: u32,
        fingerprints: impl ExactSizeIterator<Item = Fingerprint>,
    ) {
        if fingerprints.len() == 0 || first as usize + fingerprints.len() > 1 << SLOT_BITS {
            return;
        }
        if self.places.get(&number).is_some_and(|place| self.listed(*place).end() != first) {
            self.remove(number);
        }
        while self.make_room(number, fingerprints.len()) {}
        if self.heads.is_empty() {
            self.heads = vec![Link::END; (self.most_bytes / BYTES_A_HEAD).max(64)];
        }
        let place = *self.places.entry(number).or_insert_with(|| {
            let free = self.all.iter().position(Option::is_none);
            let listed = Listed { number, first, entries: Vec::new(), used: AtomicU64::new(0) };
            match free {
                Some(free) => self.all[free] = Some(listed),
                None => self.all.push(Some(listed)),
            }
            free.unwrap_or(self.all.len() - 1)
        });
        let listed = self.all[place].as_mut().expect("its number has this place");
        let before = listed.bytes();
        listed.entries.reserve(fingerprints.len());
        listed.used = AtomicU64::new(self.clock.load(Ordering::Relaxed));
        for fingerprint in fingerprints {
            let head = head(self.factor, self.heads.len(), &fingerprint);
            let this = Link::new(place, listed.entries.len());
            let next = std::mem::replace(&mut self.heads[head], this);
            listed.entries.push(Entry { fingerprint, next });
        }
        self.bytes += listed.bytes() - before;
    }

    /// Drops what is known of container `number`.
    pub(crate) fn remove(&mut self, number: u32) {
        let Some(place) = self.places.remove(&number) else { return };
        let listed = self.all[place].take().expect("its number has this place");
        self.bytes -= listed.bytes();
        // An entry is behind those that were added to its chain later. So from the last one on the rest
        // of the directory's own entries in a chain are found by their links.
        for (entry, removed) in listed.entries.iter().enumerate().rev() {
            let this = Link::new(place, entry);
            let head = head(self.factor, self.heads.len(), &removed.fingerprint);
            let mut at = self.heads[head];
            if at == this {
                self.heads[head] = removed.next;
                continue;
            }
            while let Some((place, entry)) = at.get() {
                let listed = self.all[place].as_mut().expect("a chain leads to entries");
                let before = &mut listed.entries[entry];
                if before.next == this {
                    before.next = removed.next;
                    break;
                }
                at = before.next;
            }
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most_bytes);
    }

    /// Sets those of `hints` that are `None` to the pages with these fingerprints, as far as they are
    /// known. Of a page that is kept several times to the one that was added last. Calls `found` with the
    /// number of pages that followed in the container when it was added, for each page.
    pub(crate) fn find(
        &self,
        fingerprints: &[Fingerprint],
        hints: &mut [Option<u64>],
        mut found: impl FnMut(Handle, u32),
    ) {
        if self.heads.is_empty() {
            return;
        }
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        for (fingerprints, hints) in fingerprints.chunks(TOGETHER).zip(hints.chunks_mut(TOGETHER)) {
            let unknown = || fingerprints.iter().enumerate().filter(|(at, _)| hints[*at].is_none());
            let mut heads = [Link::END; TOGETHER];
            let place = |one| head(self.factor, self.heads.len(), one);
            unknown().for_each(|(_, one)| prefetch(&self.heads[place(one)]));
            for (at, one) in unknown() {
                heads[at] = self.heads[place(one)];
                if let Some((place, entry)) = heads[at].get() {
                    prefetch(&self.listed(place).entries[entry]);
                }
            }
            for ((one, hint), mut at) in fingerprints.iter().zip(hints).zip(heads) {
                while hint.is_none()
                    && let Some((place, entry)) = at.get()
                {
                    let listed = self.listed(place);
                    let Entry { fingerprint, next } = &listed.entries[entry];
                    at = *next;
                    if fingerprint == one {
                        let slot = listed.first + entry as u32;
                        let page = Handle::new(listed.number, slot);
                        *hint = Some(page.to_u64());
                        // looked at first, so that readers leave each other's caches alone
                        if listed.used.load(Ordering::Relaxed) != now {
                            listed.used.store(now, Ordering::Relaxed);
                        }
                        found(page, listed.end() - slot - 1);
                    }
                }
            }
        }
    }

    fn listed(&self, place: usize) -> &Listed {
        self.all[place].as_ref().expect("chains and numbers lead to directories")
    }
}

/// The chain of a fingerprint, one of `count`.
fn head(factor: u64, count: usize, fingerprint: &Fingerprint) -> usize {
    let [.., last] = fingerprint.as_bytes().as_chunks::<8>().0 else {
        unreachable!("a fingerprint has four words")
    };
    let mixed = u64::from_le_bytes(*last).wrapping_mul(factor);
    ((u128::from(mixed) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onefold_testkit::SplitMix64;

    use super::*;

    fn page(n: u64) -> Fingerprint {
        let mut bytes = [0; Fingerprint::LEN];
        let mut numbers = SplitMix64::new(n);
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = numbers.next_u64().to_le_bytes();
        }
        Fingerprint::from_bytes(bytes)
    }

    fn pages(numbers: std::ops::Range<u64>) -> impl ExactSizeIterator<Item = Fingerprint> {
        numbers.map(page).collect::<Vec<_>>().into_iter()
    }

    fn find(directories: &Directories, pages: &[Fingerprint]) -> Vec<Option<Handle>> {
        let mut hints = vec![None; pages.len()];
        directories.find(pages, &mut hints, |_, _| {});
        hints.into_iter().map(|hint| hint.map(Handle::from_u64)).collect()
    }

    #[test]
    fn pages_of_directories_are_found_as_in_a_map() {
        let asked: Vec<_> = (0..300).map(page).collect();
        for seed in 0..50 {
            let mut numbers = SplitMix64::new(seed);
            let mut below = |bound: u64| numbers.next_u64() % bound;
            // room for all, in few chains
            let mut directories = Directories::new(16 << 10);
            directories.heads = vec![Link::END; 16];
            directories.most_bytes = usize::MAX;
            // of each container the slot of the first page, and the pages
            let mut map: BTreeMap<u32, (u32, Vec<u64>)> = BTreeMap::new();
            for _ in 0..60 {
                let number = 1 + below(8) as u32;
                match below(5) {
                    0 => {
                        directories.remove(number);
                        map.remove(&number);
                    }
                    kind => {
                        let count = below(20);
                        let first = match map.get(&number) {
                            Some((first, pages)) if kind > 1 => first + pages.len() as u32,
                            _ => below(3) as u32,
                        };
                        let from = below(280);
                        directories.add(number, first, pages(from..from + count));
                        let follows = |(begin, pages): &mut (u32, Vec<u64>)| {
                            *begin + pages.len() as u32 == first
                        };
                        if count > 0 && !map.get_mut(&number).is_some_and(follows) {
                            map.insert(number, (first, Vec::new()));
                        }
                        if let Some((_, pages)) = map.get_mut(&number) {
                            pages.extend(from..from + count);
                        }
                    }
                }
                let found = find(&directories, &asked);
                for (n, found) in (0..).zip(found) {
                    let has = |page: Handle| {
                        let (first, pages) = map.get(&page.container())?;
                        pages.get(page.slot().checked_sub(*first)? as usize).copied()
                    };
                    match found {
                        Some(page) => assert_eq!(has(page), Some(n), "seed {seed}"),
                        None => assert!(!map.values().any(|(_, pages)| pages.contains(&n))),
                    }
                }
                assert_eq!(directories.count(), map.len());
                for number in 1..9 {
                    let is_whole = map.get(&number).is_some_and(|(first, _)| *first == 0);
                    assert_eq!(directories.has_whole(number), is_whole, "seed {seed}");
                }
            }
            for number in 1..9 {
                directories.remove(number);
            }
            assert_eq!((directories.count(), directories.bytes), (0, 0));
            assert!(directories.heads.iter().all(|head| *head == Link::END));
        }
    }

    #[test]
    fn memory_is_bounded_and_what_was_used_lately_stays() {
        const MOST_BYTES: usize = 40_000;
        let mut directories = Directories::new(MOST_BYTES);
        assert_eq!(directories.bytes(), 0, "nothing is taken before it is needed");
        for number in 1..200 {
            let from = 100 * u64::from(number);
            directories.add(number, 0, pages(from..from + 100));
            assert!(directories.bytes() <= MOST_BYTES, "{}", directories.bytes());
            // the first one is asked for again and again
            assert_eq!(find(&directories, &[page(142)]), [Some(Handle::new(1, 42))]);
        }
        assert!(directories.count() >= 8, "{}", directories.count());
        assert_eq!(find(&directories, &[page(19_900)]), [Some(Handle::new(199, 0))]);
        assert_eq!(find(&directories, &[page(300), page(10_000)]), [None, None]);
        directories.clear();
        assert_eq!((directories.count(), directories.bytes()), (0, 0));
        assert_eq!(find(&directories, &[page(142)]), [None]);
    }

    #[test]
    fn two_directories_stay_however_long_they_are() {
        let mut directories = Directories::new(100);
        for number in 1..5 {
            let from = 1000 * u64::from(number);
            directories.add(number, 0, pages(from..from + 1000));
        }
        assert_eq!(directories.count(), 2);
        assert_eq!(find(&directories, &[page(4000)]), [Some(Handle::new(4, 0))]);
    }

    #[test]
    fn the_pages_that_follow_are_counted() {
        let mut directories = Directories::new(10_000);
        directories.add(7, 3, pages(0..10));
        let mut follow = Vec::new();
        let asked = [page(0), page(20), page(9)];
        directories.find(&asked, &mut [None; 3], |page, count| follow.push((page.slot(), count)));
        assert_eq!(follow, [(3, 9), (12, 0)]);
    }
}

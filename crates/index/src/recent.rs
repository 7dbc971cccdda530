//! A cache of recently read pages of lists, searched by the fingerprints on them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_fingerprint::Fingerprint;

use crate::lists::{ListPage, ROOM};
use crate::page::PAGE;

/// The memory of a page in bytes, with the map of its keys, which may be half empty.
pub(crate) const PAGE_COST: usize = PAGE + 40 * ROOM;

/// Keys are uniform and need no hashing.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are integers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn write_u32(&mut self, page: u32) {
        // Spread over all bits: the map looks at the highest and at the lowest.
        self.0 = u64::from(page).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;

/// The entry of a chunk on a page of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) object: u32,
    pub(crate) slot: u32,
    pub(crate) len: u32,
    /// The page to read ahead: the stream has reached this page, and the next ones are not cached.
    pub(crate) next: Option<u32>,
}

/// The recently read pages. When there are too many, a page is evicted that was not used since the clock hand
/// last passed it (CLOCK).
pub(crate) struct Recent {
    capacity: usize,
    pages: RwLock<Held>,
}

#[derive(Default)]
struct Held {
    /// The position in `pages` of a key's page.
    by_key: KeyMap<u64, u32>,
    by_page: KeyMap<u32, u32>,
    pages: Vec<Page>,
    hand: usize,
}

struct Page {
    number: u32,
    bytes: Box<[u8; PAGE]>,
    is_used: AtomicBool,
    /// Whether the read-ahead of the next pages was requested.
    is_followed: AtomicBool,
}

impl Recent {
    /// A cache of up to `capacity` pages, but at least a few.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(16), pages: RwLock::default() }
    }

    /// Looks up `fingerprint` in the cached pages.
    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> Option<Found> {
        let held = self.pages.read().expect("no thread panics with the pages locked");
        let at = *held.by_key.get(&fingerprint.prefix_u64())?;
        let page = &held.pages[at as usize];
        let list = ListPage::new(&page.bytes[..]);
        let (slot, len) = list.find(fingerprint)?;
        page.is_used.store(true, Ordering::Relaxed);
        let follows = !page.is_followed.swap(true, Ordering::Relaxed);
        let next = page.number.wrapping_add(1);
        let next = (follows && !held.by_page.contains_key(&next)).then_some(next);
        Some(Found { object: list.object(), slot, len, next })
    }

    /// Whether page `number` is cached.
    pub(crate) fn has(&self, number: u32) -> bool {
        let held = self.pages.read().expect("no thread panics with the pages locked");
        held.by_page.contains_key(&number)
    }

    /// Adds the pages from `first` on.
    pub(crate) fn add(&self, first: u32, bytes: &[u8]) {
        let mut held = self.pages.write().expect("no thread panics with the pages locked");
        for (number, bytes) in (first..).zip(bytes.chunks_exact(PAGE)) {
            held.add(number, bytes.try_into().expect("a page"), self.capacity);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.pages.read().unwrap().pages.len()
    }
}

impl Held {
    fn add(&mut self, number: u32, bytes: &[u8; PAGE], capacity: usize) {
        if self.by_page.contains_key(&number) {
            return;
        }
        let at = match self.pages.len() < capacity {
            true => {
                self.pages.push(Page {
                    number,
                    bytes: Box::new(*bytes),
                    is_used: AtomicBool::new(false),
                    is_followed: AtomicBool::new(false),
                });
                self.pages.len() - 1
            }
            false => {
                let at = self.make_room();
                let page = &mut self.pages[at];
                page.number = number;
                page.bytes.copy_from_slice(bytes);
                page.is_used = AtomicBool::new(false);
                page.is_followed = AtomicBool::new(false);
                at
            }
        };
        self.by_page.insert(number, at as u32);
        for (fingerprint, _) in ListPage::new(bytes).chunks() {
            self.by_key.insert(fingerprint.prefix_u64(), at as u32);
        }
    }

    /// Evicts a page that was not used recently, and returns its position.
    fn make_room(&mut self) -> usize {
        let at = loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.pages.len();
            if !std::mem::take(self.pages[at].is_used.get_mut()) {
                break at;
            }
        };
        let page = &self.pages[at];
        self.by_page.remove(&page.number);
        for (fingerprint, _) in ListPage::new(&page.bytes[..]).chunks() {
            let key = fingerprint.prefix_u64();
            // Another page may have the key too, and have come later.
            if self.by_key.get(&key) == Some(&(at as u32)) {
                self.by_key.remove(&key);
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryPages;
    use onefold_seal::ObjectId;

    use super::*;
    use crate::lists::{self, Lists};
    use crate::page::Sealed;

    fn fingerprint(n: u64) -> Fingerprint {
        let mut bytes = [n as u8; 32];
        bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Fingerprint::from_bytes(bytes)
    }

    /// Lists of pages of 100 chunks each, page `p` from fingerprint 100 `p` on.
    fn page(number: u32) -> Vec<u8> {
        let file = Sealed::new(
            Box::new(MemoryPages::new(PAGE)),
            ObjectId::from_bytes([0; 16]),
            lists::NAME.into(),
        );
        let lists = Lists::new(file);
        let first = u64::from(number) * 100;
        let chunks: Vec<_> = (0..100).map(|n| (fingerprint(first + u64::from(n)), n + 1)).collect();
        assert_eq!(lists.write(0, number, &chunks).unwrap(), 1);
        let mut bytes = vec![0; PAGE];
        lists.read(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn chunks_of_pages_that_are_here_are_found() {
        let recent = Recent::new(16);
        recent.add(3, &page(3));
        let found = recent.find(&fingerprint(342)).unwrap();
        assert_eq!((found.object, found.slot, found.len), (3, 42, 43));
        assert_eq!(recent.find(&fingerprint(299)), None);
        assert!(recent.has(3) && !recent.has(4));
    }

    #[test]
    fn what_follows_is_asked_for_once_and_only_if_it_is_not_here() {
        let recent = Recent::new(16);
        recent.add(3, &page(3));
        assert_eq!(recent.find(&fingerprint(300)).unwrap().next, Some(4));
        assert_eq!(recent.find(&fingerprint(301)).unwrap().next, None);
        recent.add(5, &page(5));
        recent.add(4, &page(4));
        assert_eq!(recent.find(&fingerprint(400)).unwrap().next, None);
    }

    #[test]
    fn no_more_pages_are_held_than_allowed_and_used_ones_stay() {
        let recent = Recent::new(16);
        for number in 0..200 {
            recent.add(number, &page(number));
            assert!(recent.find(&fingerprint(0)).is_some(), "{number}");
            assert!(recent.has(number));
            assert!(recent.len() <= 16);
        }
        let held = recent.pages.read().unwrap();
        assert_eq!(held.by_key.len(), 16 * 100);
        assert_eq!(held.by_page.len(), 16);
    }
}

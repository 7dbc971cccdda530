//! Pages found beside the hooks of a sampled table.
//!
//! A table that keeps a sample of fingerprints ([`HookTable`](onefold_index::HookTable)) knows one of some
//! dozens of the pages that are kept. Pages that were written together lie in one container, and are likely
//! to be written together again. So a hook that is hit brings the directory of its container into memory
//! ([directories](crate::containers::directories)), where the pages that the table does not know are looked
//! up. Pages that are appended are known there without being read. All of it is hints, which
//! [`State::found`](crate::state::State::found) verifies; nothing is done while the table is exact.
//!
//! **When a directory is read.** It takes one read of about 64 bytes a page, a quarter of a megabyte for
//! pages of 4 KiB, so hits of pages in no order must not each cause one. A container is worth a read when two
//! of its hooks were hit, in one batch or lately. One hit is enough for a batch of which [`WORTH`] pages are
//! unknown, while at least half of the credit is left. To reach the end of the container before counts as a
//! hit: a stream goes on. Every read spends credit, which each page that is found earns, and at a sixteenth
//! of that each page that is not. So streams are followed from their first hooks on. Where reads find fewer
//! than 16 pages each, they soon are one for each [`PRICE`] unknown pages at most, which costs less than
//! storing those pages does.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use onefold_fingerprint::Fingerprint;

use crate::containers::directories::Directories;
use crate::ids::Handle;

/// Unknown pages that are worth reading a directory.
const WORTH: usize = 8;

/// Places for containers that were hit once, which later ones take over.
const NOTED: usize = 1024;

/// What a page that is found earns; one that is not earns 1.
const FOUND: u32 = 16;

/// What a read costs.
const PRICE: u32 = 16 * FOUND;

/// Credit at the start, and at most.
const CREDIT: u32 = 64 * PRICE;

/// A stream is at the end of a container if it finds a page of its last eighth, and one of so many last
/// ones: those of a batch.
const LAST: u32 = 256;

/// Directories of containers, and which containers are worth being read.
pub(crate) struct Neighbours {
    directories: RwLock<Directories>,
    /// Containers of which one hook was hit.
    noted: Box<[AtomicU32]>,
    credit: AtomicU32,
}

/// What one batch hit of a container: hooks, and the end of the one before.
struct Hit {
    container: u32,
    times: u32,
}

/// Containers that a batch hit.
#[derive(Default)]
pub(crate) struct Hits(Vec<Hit>);

impl Hits {
    /// Those in which the pages lie that the table knows.
    pub(crate) fn of(hints: &[Option<u64>]) -> Self {
        let mut hits = Self::default();
        hints.iter().flatten().for_each(|hint| hits.add(Handle::from_u64(*hint).container()));
        hits
    }

    fn add(&mut self, container: u32) {
        match self.0.iter_mut().find(|one| one.container == container) {
            Some(one) => one.times += 1,
            None => self.0.push(Hit { container, times: 1 }),
        }
    }

    /// Those that were hit most often first.
    fn sorted(mut self) -> Vec<Hit> {
        self.0.sort_by_key(|one| Reverse(one.times));
        self.0
    }
}

impl Neighbours {
    /// No directories yet; they may take `directory_bytes`.
    pub(crate) fn new(directory_bytes: usize) -> Self {
        Self {
            directories: RwLock::new(Directories::new(directory_bytes)),
            noted: (0..NOTED).map(|_| AtomicU32::new(0)).collect(),
            credit: AtomicU32::new(CREDIT),
        }
    }

    /// How many directories there are, and the bytes that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let directories = self.read();
        (directories.count(), directories.bytes())
    }

    /// Forgets all directories.
    pub(crate) fn clear(&self) {
        self.write().clear();
    }

    /// Forgets container `number`, which is gone.
    pub(crate) fn forget(&self, number: u32) {
        if self.read().count() > 0 {
            self.write().remove(number);
        }
    }

    /// Sets those of `hints` that are `None` to pages in directories that are there, and returns how many
    /// it found.
    pub(crate) fn find(&self, fingerprints: &[Fingerprint], hints: &mut [Option<u64>]) -> usize {
        let mut found = 0;
        self.read().find(fingerprints, hints, |_, _| found += 1);
        self.earn(FOUND.saturating_mul(found));
        found as usize
    }

    /// The same, and reads directories of containers in which neighbours may lie, as `hits` tell. `sealed`
    /// returns the file of a container that has a footer, and `read` the fingerprints of all of its pages,
    /// by slot, if it can be read.
    pub(crate) fn find_beside<F, I: ExactSizeIterator<Item = Fingerprint>>(
        &self,
        mut hits: Hits,
        fingerprints: &[Fingerprint],
        hints: &mut [Option<u64>],
        sealed: impl Fn(u32) -> Option<F>,
        read: impl Fn(F) -> Option<I>,
    ) -> usize {
        let unknown = hints.iter().filter(|hint| hint.is_none()).count();
        let (mut found, mut ended) = (0, 0);
        self.read().find(fingerprints, hints, |page, follow| {
            found += 1;
            let pages = page.slot() + 1 + follow;
            if follow < LAST.min(pages / 8) && ended != page.container() {
                ended = page.container();
                hits.add(ended.saturating_add(1));
            }
        });
        self.earn(FOUND.saturating_mul(found));
        let mut left = unknown - found as usize;
        let mut reads = left.div_ceil(WORTH).max(1);
        for hit in hits.sorted() {
            if self.read().has_whole(hit.container) {
                continue;
            }
            let Some(file) = sealed(hit.container) else { continue };
            if self.is_worth_reading(&hit, left)
                && let Some(all) = read(file)
            {
                self.add(hit.container, 0, all);
                left -= self.find(fingerprints, hints);
                reads -= 1;
                if reads == 0 {
                    break;
                }
            }
        }
        self.earn(left as u32);
        unknown - left
    }

    fn earn(&self, more: u32) {
        let earn = |credit: u32| Some(credit.saturating_add(more).min(CREDIT));
        if more > 0 {
            let _ = self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn);
        }
    }

    /// Pays for a read, if at least `least` is left.
    fn pay(&self, least: u32) -> bool {
        let pay = |credit: u32| credit.checked_sub(PRICE).filter(|_| credit >= least);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_ok()
    }

    /// Whether reading the directory of a container that was hit is worth it for a batch with so many
    /// unknown pages, which is paid for then. A hit that is not is noted.
    fn is_worth_reading(&self, hit: &Hit, unknown: usize) -> bool {
        let noted = &self.noted[hit.container as usize % NOTED];
        let is_second = hit.times > 1 || noted.load(Ordering::Relaxed) == hit.container;
        let is_worth = is_second && self.pay(PRICE) || unknown >= WORTH && self.pay(CREDIT / 2);
        noted.store(if is_worth { 0 } else { hit.container }, Ordering::Relaxed);
        is_worth
    }

    /// Adds pages of container `number`, which lie in consecutive slots from `first` on.
    pub(crate) fn add(
        &self,
        number: u32,
        first: u32,
        fingerprints: impl ExactSizeIterator<Item = Fingerprint>,
    ) {
        // others look up pages in between
        while self.write().make_room(number, fingerprints.len()) {}
        self.write().add(number, first, fingerprints);
    }

    fn read(&self) -> RwLockReadGuard<'_, Directories> {
        self.directories.read().expect("nobody panics with it")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Directories> {
        self.directories.write().expect("nobody panics with it")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Page `slot` of container `number`, of which each has a hundred.
    fn page(number: u32, slot: u32) -> Fingerprint {
        let mut bytes = [9; Fingerprint::LEN];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[24..28].copy_from_slice(&slot.to_be_bytes());
        Fingerprint::from_bytes(bytes)
    }

    struct Scene {
        neighbours: Neighbours,
        reads: Cell<u32>,
    }

    impl Scene {
        fn new() -> Self {
            Self { neighbours: Neighbours::new(1 << 20), reads: Cell::new(0) }
        }

        /// Looks up a page of container `number`, which the table knows, with `others` of container
        /// `of`, which it does not; returns how many were found, and how many reads there were.
        fn batch(&self, number: u32, of: u32, others: u32) -> (usize, u32) {
            let asked = (0..others).map(|slot| page(of, 40 + slot));
            let fingerprints: Vec<_> = std::iter::once(page(number, 30)).chain(asked).collect();
            let mut hints = vec![None; fingerprints.len()];
            hints[0] = Some(Handle::new(number, 30).to_u64());
            let before = self.reads.get();
            let sealed = |number| (number < 1_000_000).then_some(number);
            let read = |number| {
                self.reads.set(self.reads.get() + 1);
                Some((0..100).map(|slot| page(number, slot)).collect::<Vec<_>>().into_iter())
            };
            let hits = Hits::of(&hints);
            let found = self.neighbours.find_beside(hits, &fingerprints, &mut hints, sealed, read);
            for (at, hint) in hints.iter().enumerate().filter(|(at, _)| *at > 0) {
                let expected = Handle::new(of, 39 + at as u32).to_u64();
                assert!(hint.is_none_or(|hint| hint == expected));
            }
            assert_eq!(hints.iter().flatten().count(), found + 1);
            (found, self.reads.get() - before)
        }
    }

    #[test]
    fn a_directory_is_read_for_a_second_hit_or_for_many_unknown_pages() {
        let scene = Scene::new();
        assert_eq!(scene.batch(1, 1, 3), (0, 0));
        assert_eq!(scene.batch(2, 2, 3), (0, 0));
        assert_eq!(scene.batch(1, 1, 3), (3, 1));
        assert_eq!(scene.batch(1, 1, 40), (40, 0));
        assert_eq!(scene.batch(3, 3, WORTH as u32), (WORTH, 1));
        // also for what comes next
        assert_eq!(scene.batch(2, 9, 0), (0, 1));
        // nothing of it has a footer
        assert_eq!(scene.batch(1_000_000, 1_000_000, 50), (0, 0));
        assert_eq!(scene.neighbours.size().0, 3);
        scene.neighbours.forget(1);
        assert_eq!(scene.batch(7, 1, 3), (0, 0));
    }

    #[test]
    fn the_end_of_a_container_brings_the_next_one() {
        let scene = Scene::new();
        assert_eq!(scene.batch(1, 1, 3), (0, 0));
        assert_eq!(scene.batch(1, 1, 57), (57, 1));
        assert!(scene.neighbours.read().has_whole(1) && !scene.neighbours.read().has_whole(2));
        assert_eq!(scene.batch(1, 1, 60), (60, 0));
        assert_eq!(scene.batch(1, 2, 20), (0, 0));
        assert_eq!(scene.batch(1, 1, 60), (60, 1));
        assert_eq!(scene.batch(1, 2, 20), (20, 0));
    }

    #[test]
    fn reads_that_find_nothing_become_few() {
        let scene = Scene::new();
        const BATCHES: u32 = 20_000;
        let of = 500_000;
        for number in 1..=BATCHES {
            assert_eq!(scene.batch(number, of, WORTH as u32).0, 0);
        }
        let (reads, earned) = (scene.reads.get(), BATCHES * WORTH as u32 / PRICE);
        assert!((earned..=earned + CREDIT / PRICE).contains(&reads), "{reads} reads");
        // and a stream is followed all the same
        for _ in 0..2 {
            scene.batch(of, of, 40);
        }
        assert_eq!(scene.batch(of, of, 40), (40, 0));
    }
}

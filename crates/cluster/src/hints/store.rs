//! The hints of the slices that this gateway holds, in bounded memory.
//!
//! Each slice has an equal share of the memory: a ring of entries, of which the oldest is overwritten when it is
//! full, and a [`CompactTable`] from fingerprints to places in the ring. Fingerprints are uniform, so equal shares
//! fill alike. When gateways come or go the shares change, and each slice keeps its newest entries.
//!
//! Names of containers are interned, as entries of 32 bytes would not have room for them. They have an eighth of
//! the memory; a page whose container's name finds no room is passed over.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use onefold_index::{CompactTable, Inserted, Table, TableError};

use super::{ContainerName, Hint, KEY_LEN, Key, SLICES, Slice, fingerprint_of};

/// The least memory of a store, in bytes: two pages of memory for each slice, and names.
pub const MIN_MEMORY: usize = (SLICES * 2 * PAGE) / 7 * 8 + PAGE;

/// The system gives memory to a table in these units, in bytes.
const PAGE: usize = 4096;
/// A table of the index: bytes and entries of a bucket.
const BUCKET: (usize, usize) = (128, 5);
/// An interned name in bytes: in the list, and with its number in the map, which may be half empty.
const NAME_LEN: usize = 40 + 2 * 40;

/// An entry of a ring.
#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    /// The number of the container's name; [`FREE`] if there is no entry.
    name: u32,
    offset: u32,
    stored_len: u32,
    check: u32,
}

const FREE: u32 = u32::MAX;

/// Hints in bounded memory.
pub struct Store {
    memory: usize,
    slices: Vec<RwLock<Option<Part>>>,
    names: RwLock<Names>,
    passed_over: AtomicU64,
}

/// A slice that is held, or was held a moment ago.
pub(crate) struct Part {
    capacity: usize,
    ring: Vec<Entry>,
    /// The place in the ring that is written next, once the ring is full: its oldest entry.
    oldest: usize,
    table: CompactTable,
    /// Whether pages were added since the last dump.
    is_changed: bool,
}

/// Names of containers by number, with how many entries have each.
struct Names {
    most: usize,
    all: Vec<(ContainerName, u32)>,
    free: Vec<u32>,
    numbers: HashMap<ContainerName, u32>,
}

impl Names {
    /// The number of `name`, which one more entry has; none if there is no room.
    fn take(&mut self, name: ContainerName) -> Option<u32> {
        if let Some(number) = self.numbers.get(&name) {
            self.all[*number as usize].1 += 1;
            return Some(*number);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.all.len() < self.most => self.all.len() as u32,
            None => return None,
        };
        match self.all.get_mut(number as usize) {
            Some(place) => *place = (name, 1),
            None => self.all.push((name, 1)),
        }
        self.numbers.insert(name, number);
        Some(number)
    }

    /// One entry less has the name of this number.
    fn give_up(&mut self, number: u32) {
        let (name, entries) = &mut self.all[number as usize];
        *entries -= 1;
        if *entries == 0 {
            self.numbers.remove(name);
            self.free.push(number);
        }
    }
}

impl Part {
    /// An empty one in `bytes` of memory.
    fn new(bytes: usize) -> Result<Self, TableError> {
        let (bucket, entries) = BUCKET;
        let table_bytes = (bytes / 2 / PAGE * PAGE).max(PAGE);
        // a table takes nine tenths of its entries before it refuses one; below, hardly ever
        let findable = table_bytes / bucket * entries * 17 / 20;
        let capacity = findable.min(bytes.saturating_sub(table_bytes) / size_of::<Entry>()).max(1);
        let table = CompactTable::new(table_bytes)?;
        let ring = Vec::with_capacity(capacity);
        Ok(Self { capacity, ring, oldest: 0, table, is_changed: false })
    }

    fn get(&self, key: &Key) -> Option<&Entry> {
        let place = self.table.get(&fingerprint_of(key))?;
        self.ring.get(place as usize).filter(|entry| entry.key == *key && entry.name != FREE)
    }

    /// The place for a new entry, after the oldest has left it if the ring is full.
    fn make_room(&mut self, names: &mut Names) -> usize {
        if self.ring.len() < self.capacity {
            let key = [0; KEY_LEN];
            self.ring.push(Entry { key, name: FREE, offset: 0, stored_len: 0, check: 0 });
            return self.ring.len() - 1;
        }
        let place = self.oldest;
        let entry = &mut self.ring[place];
        if entry.name != FREE {
            self.table.remove(&fingerprint_of(&entry.key));
            names.give_up(entry.name);
            entry.name = FREE;
        }
        self.oldest = (place + 1) % self.capacity;
        place
    }

    /// Enters a page, in place of what was known of it. False if there was no room for its name or in the table.
    fn add(&mut self, key: &Key, hint: &Hint, names: &mut Names) -> bool {
        let known = self.table.get(&fingerprint_of(key)).map(|place| place as usize);
        let Some(name) = names.take(hint.container) else { return false };
        let place = match known {
            Some(place) => {
                names.give_up(self.ring[place].name);
                place
            }
            None => {
                let place = self.make_room(names);
                if self.table.insert(&fingerprint_of(key), place as u64) == Inserted::Full {
                    names.give_up(name);
                    return false;
                }
                place
            }
        };
        let Hint { offset, stored_len, check, .. } = *hint;
        self.ring[place] = Entry { key: *key, name, offset, stored_len, check };
        self.is_changed = true;
        true
    }

    /// The entries, oldest first.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let (newer, older) = self.ring.split_at(self.oldest.min(self.ring.len()));
        older.iter().chain(newer).filter(|entry| entry.name != FREE)
    }

    /// The same in `bytes` of memory, with the newest entries that fit.
    fn resized(&self, bytes: usize, names: &mut Names) -> Result<Self, TableError> {
        let mut part = Self::new(bytes)?;
        let surplus = self.entries().count().saturating_sub(part.capacity);
        for (at, entry) in self.entries().enumerate() {
            let place = part.ring.len();
            let fits = at >= surplus
                && part.table.insert(&fingerprint_of(&entry.key), place as u64) != Inserted::Full;
            match fits {
                true => part.ring.push(*entry),
                false => names.give_up(entry.name),
            }
        }
        part.is_changed = self.is_changed;
        Ok(part)
    }
}

/// What changed when the slices of a store did.
#[derive(Default)]
pub(crate) struct Moved {
    /// Slices that are held now, and are empty.
    pub(crate) gained: Vec<Slice>,
    /// Slices that are not held any more. The caller must [unload](Store::unload) each, which frees its names.
    pub(crate) lost: Vec<(Slice, Part)>,
    /// The system had no memory for a slice, which is not held.
    pub(crate) failed: Option<TableError>,
}

impl Store {
    /// An empty store in at most `memory` bytes, which holds no slice yet.
    ///
    /// # Errors
    /// [`TableError::TooSmall`] if that is less than [`MIN_MEMORY`].
    pub fn new(memory: usize) -> Result<Self, TableError> {
        if memory < MIN_MEMORY {
            return Err(TableError::TooSmall { bytes: memory, least: MIN_MEMORY });
        }
        let most = (memory / 8 / NAME_LEN).min(FREE as usize - 1);
        let names = Names { most, all: Vec::new(), free: Vec::new(), numbers: HashMap::new() };
        Ok(Self {
            memory,
            slices: Slice::all().map(|_| RwLock::new(None)).collect(),
            names: RwLock::new(names),
            passed_over: AtomicU64::new(0),
        })
    }

    fn read(&self, slice: Slice) -> RwLockReadGuard<'_, Option<Part>> {
        self.slices[slice.index()].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, slice: Slice) -> RwLockWriteGuard<'_, Option<Part>> {
        self.slices[slice.index()].write().unwrap_or_else(PoisonError::into_inner)
    }

    // taken after the lock of a slice
    fn names(&self) -> RwLockWriteGuard<'_, Names> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store holds `slice`.
    pub fn holds(&self, slice: Slice) -> bool {
        self.read(slice).is_some()
    }

    /// The hint of a page.
    pub(crate) fn find(&self, key: &Key) -> Option<Hint> {
        let part = self.read(Slice::of_key(key));
        let entry = part.as_ref()?.get(key)?;
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        Some(hint(entry, &names))
    }

    /// Enters pages, in place of what was known of them. The oldest pages of a slice leave if it is full. Pages of
    /// slices that are not held are passed over, and counted.
    pub(crate) fn add(&self, pages: &[(Key, Hint)]) {
        for (key, hint) in pages {
            let mut part = self.write(Slice::of_key(key));
            let is_added = part.as_mut().is_some_and(|part| part.add(key, hint, &mut self.names()));
            self.passed_over.fetch_add(u64::from(!is_added), Ordering::Relaxed);
        }
    }

    /// Enters pages of `slice` that are older than all that the store has, the newest of them last: those that it
    /// does not know, and of these the newest that there is room for. How many these were.
    pub(crate) fn fill(&self, slice: Slice, pages: &[(Key, Hint)]) -> usize {
        let mut part = self.write(slice);
        let Some(part) = part.as_mut() else { return 0 };
        let is_new = |key: &Key| Slice::of_key(key) == slice && part.get(key).is_none();
        let unknown: Vec<_> = pages.iter().filter(|(key, _)| is_new(key)).collect();
        let room = part.capacity - part.ring.len();
        let newest = &unknown[unknown.len().saturating_sub(room)..];
        let enter = |(key, hint): &&(Key, Hint)| part.add(key, hint, &mut self.names());
        newest.iter().copied().filter(enter).count()
    }

    /// Holds `slices` from now on, and no others.
    pub(crate) fn hold(&self, slices: &[Slice]) -> Moved {
        let mut is_held = vec![false; SLICES];
        slices.iter().for_each(|slice| is_held[slice.index()] = true);
        let share = self.memory / 8 * 7 / slices.len().max(1);
        let mut moved = Moved::default();
        for slice in Slice::all().filter(|slice| !is_held[slice.index()]) {
            moved.lost.extend(self.write(slice).take().map(|part| (slice, part)));
        }
        // those that are held shrink before others are made
        for slice in slices {
            let mut part = self.write(*slice);
            let Some(before) = part.take() else { continue };
            match before.resized(share, &mut self.names()) {
                Ok(resized) => *part = Some(resized),
                Err(error) => {
                    before.entries().for_each(|entry| self.names().give_up(entry.name));
                    moved.failed = Some(error);
                }
            }
        }
        for slice in slices {
            let mut part = self.write(*slice);
            if part.is_some() {
                continue;
            }
            match Part::new(share) {
                Ok(empty) => {
                    *part = Some(empty);
                    moved.gained.push(*slice);
                }
                Err(error) => moved.failed = Some(error),
            }
        }
        moved
    }

    /// The pages of a slice that is not held any more, oldest first. Frees its memory, and names of containers.
    pub(crate) fn unload(&self, part: Part) -> Vec<(Key, Hint)> {
        let pages = self.pages_of(&part);
        let mut names = self.names();
        part.entries().for_each(|entry| names.give_up(entry.name));
        pages
    }

    fn pages_of(&self, part: &Part) -> Vec<(Key, Hint)> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        part.entries().map(|entry| (entry.key, hint(entry, &names))).collect()
    }

    /// The pages of a slice, oldest first, if any were added since this was last called.
    pub(crate) fn changed(&self, slice: Slice) -> Option<Vec<(Key, Hint)>> {
        let mut part = self.write(slice);
        let part = part.as_mut()?;
        std::mem::take(&mut part.is_changed).then(|| self.pages_of(part))
    }

    /// The slice is to be dumped again, as its dump was not written.
    pub(crate) fn mark_changed(&self, slice: Slice) {
        if let Some(part) = self.write(slice).as_mut() {
            part.is_changed = true;
        }
    }

    /// How many pages it knows. Concurrent changes may be counted or not.
    pub fn count(&self) -> usize {
        let count = |slice| self.read(slice).as_ref().map_or(0, |part| part.entries().count());
        Slice::all().map(count).sum()
    }

    /// Pages that were passed over: of slices that are not held, or without room for their container's name.
    pub fn passed_over(&self) -> u64 {
        self.passed_over.load(Ordering::Relaxed)
    }
}

fn hint(entry: &Entry, names: &Names) -> Hint {
    let Entry { name, offset, stored_len, check, .. } = *entry;
    Hint { container: names.all[name as usize].0, offset, stored_len, check }
}

#[cfg(test)]
mod tests {
    use super::super::encoding::tests::made;
    use super::*;

    fn store() -> Store {
        let store = Store::new(MIN_MEMORY).unwrap();
        let moved = store.hold(&Slice::all().collect::<Vec<_>>());
        assert_eq!((moved.gained.len(), moved.lost.len()), (SLICES, 0));
        store
    }

    /// The pages, all of slice 0.
    fn of_one_slice(seed: u64, count: usize) -> Vec<(Key, Hint)> {
        let mut pages = made(seed, count);
        pages.iter_mut().for_each(|(key, _)| key[..2].copy_from_slice(&[0, 7]));
        pages
    }

    fn found(store: &Store, pages: &[(Key, Hint)]) -> usize {
        pages.iter().filter(|(key, hint)| store.find(key) == Some(*hint)).count()
    }

    #[test]
    fn the_last_hint_of_a_page_is_found() {
        let store = store();
        let mut pages = made(1, 5_000);
        store.add(&pages);
        assert_eq!((found(&store, &pages), store.count()), (5_000, 5_000));
        assert_eq!(found(&store, &made(2, 100)), 0);
        pages.iter_mut().for_each(|(_, hint)| hint.container.number += 9);
        store.add(&pages);
        assert_eq!((found(&store, &pages), store.count()), (5_000, 5_000));
        assert_eq!(store.passed_over(), 0);
    }

    #[test]
    fn the_oldest_leave_when_it_is_full() {
        let store = store();
        let pages = of_one_slice(3, 10_000);
        store.add(&pages);
        let kept = store.count();
        assert!((100..200).contains(&kept), "{kept}");
        let lost = store.passed_over() as usize;
        assert!(lost < 100, "{lost} did not fit the table");
        assert!(found(&store, &pages[10_000 - kept..]) + lost >= kept);
        assert_eq!(found(&store, &pages[..10_000 - 2 * kept]), 0);
    }

    #[test]
    fn names_leave_with_their_last_page() {
        let store = store();
        for round in 0..50 {
            let mut pages = of_one_slice(round, 1_000);
            pages.iter_mut().for_each(|(_, hint)| hint.container.writer = round);
            store.add(&pages);
        }
        let names = store.names().numbers.len();
        assert!(names <= 14, "{names}: of the last round and the one before");
        let moved = store.hold(&[]);
        moved.lost.into_iter().for_each(|(_, part)| drop(store.unload(part)));
        assert!(store.names().numbers.is_empty() && store.count() == 0);
    }

    #[test]
    fn names_take_no_more_memory_than_they_may() {
        let store = store();
        let mut pages = made(5, 100_000);
        pages.iter_mut().enumerate().for_each(|(at, (_, hint))| hint.container.writer = at as u64);
        store.add(&pages);
        let most = MIN_MEMORY / 8 / NAME_LEN;
        assert_eq!(store.names().all.len(), most);
        assert!(found(&store, &pages) <= most && store.passed_over() > 0);
    }

    #[test]
    fn slices_that_stay_keep_their_newest_pages() {
        let store = store();
        let half: Vec<_> = Slice::all().filter(|slice| slice.index() % 2 == 0).collect();
        store.hold(&half);
        let pages = of_one_slice(6, 10_000);
        store.add(&pages);
        let before = store.count();
        assert!(before > 200, "{before}: a larger share");
        let all: Vec<_> = Slice::all().collect();
        let moved = store.hold(&all);
        assert_eq!(moved.gained.len(), SLICES / 2);
        let kept = store.count();
        assert!(kept < before);
        let expected = &pages[10_000 - kept..];
        assert!(found(&store, expected) > kept * 9 / 10, "{} of {kept}", found(&store, expected));
    }

    #[test]
    fn what_is_lost_is_handed_out_oldest_first() {
        let store = store();
        let pages = of_one_slice(7, 50);
        store.add(&pages);
        let mut moved = store.hold(&Slice::all().skip(1).collect::<Vec<_>>());
        assert_eq!(moved.lost.len(), 1);
        let (slice, part) = moved.lost.pop().unwrap();
        assert_eq!(slice.index(), 0);
        assert_eq!(store.unload(part), pages);
        store.add(&pages);
        assert_eq!(store.passed_over(), 50);
    }

    #[test]
    fn a_dump_is_due_after_a_change_only() {
        let store = store();
        let slice = Slice::all().next().unwrap();
        assert!(store.changed(slice).is_none());
        let pages = of_one_slice(8, 3);
        store.add(&pages);
        assert_eq!(store.changed(slice), Some(pages));
        assert!(store.changed(slice).is_none());
        store.mark_changed(slice);
        assert!(store.changed(slice).is_some());
    }

    #[test]
    fn old_pages_fill_what_is_free() {
        let store = store();
        let slice = Slice::all().next().unwrap();
        let (old, new) = (of_one_slice(9, 500), of_one_slice(10, 20));
        store.add(&new);
        let mut stale = new[..5].to_vec();
        stale.iter_mut().for_each(|(_, hint)| hint.offset += 1);
        assert_eq!(store.fill(slice, &stale), 0);
        let filled = store.fill(slice, &old);
        assert!(filled > 80 && store.count() == filled + 20);
        assert_eq!(found(&store, &new), 20);
        assert_eq!(found(&store, &old[500 - filled..]), filled, "the newest of them");
        assert_eq!(store.fill(Slice::all().last().unwrap(), &old), 0, "of another slice");
    }

    #[test]
    fn too_little_memory_is_refused() {
        assert!(matches!(Store::new(MIN_MEMORY - 1), Err(TableError::TooSmall { .. })));
    }
}

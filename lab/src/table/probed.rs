//! The table that StreamDedup is compared with: open addressing, linear probing, one array.

use std::sync::Mutex;

use anyhow::{Result, ensure};
use onefold_fingerprint::Fingerprint;
use onefold_index::{Inserted, Table, TableCounters};

/// 40 bytes a place.
#[derive(Clone, Copy)]
struct Slot {
    fingerprint: Fingerprint,
    /// One larger, zero if the place is free.
    handle: u64,
}

const FREE: Slot = Slot { fingerprint: Fingerprint::from_bytes([0; 32]), handle: 0 };

/// Places in a row; a fingerprint lies at its own or behind it, with none free in between.
///
/// One lock around all of it: it is measured by one thread.
pub struct ProbedTable(Mutex<Slots>);

struct Slots {
    slots: Vec<Slot>,
    refused: u64,
}

impl ProbedTable {
    /// A table of so many places.
    pub fn new(places: usize) -> Result<Self> {
        ensure!(places > 0, "a table needs a place");
        Ok(Self(Mutex::new(Slots { slots: vec![FREE; places], refused: 0 })))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Slots) -> T) -> T {
        work(&mut self.0.lock().expect("nobody panics with it"))
    }
}

impl Slots {
    fn own_place(&self, fingerprint: &Fingerprint) -> usize {
        let bytes = fingerprint.as_bytes().last_chunk().expect("32 bytes");
        ((u128::from(u64::from_le_bytes(*bytes)) * self.slots.len() as u128) >> 64) as usize
    }

    fn next(&self, place: usize) -> usize {
        if place + 1 == self.slots.len() { 0 } else { place + 1 }
    }

    /// Where `fingerprint` is, or the free place where it would be; nothing in a full table without
    /// it.
    fn find(&self, fingerprint: &Fingerprint) -> Option<usize> {
        let mut place = self.own_place(fingerprint);
        for _ in 0..self.slots.len() {
            let slot = &self.slots[place];
            if slot.handle == 0 || slot.fingerprint == *fingerprint {
                return Some(place);
            }
            place = self.next(place);
        }
        None
    }

    fn get(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.slots[self.find(fingerprint)?].handle.checked_sub(1)
    }

    fn insert(&mut self, fingerprint: &Fingerprint, handle: u64) -> Inserted {
        let Some(place) = self.find(fingerprint) else {
            self.refused += 1;
            return Inserted::Full;
        };
        let before = self.slots[place].handle;
        self.slots[place] = Slot { fingerprint: *fingerprint, handle: handle + 1 };
        before.checked_sub(1).map_or(Inserted::New, Inserted::Replaced)
    }

    /// Frees the place, and moves up what lies behind it and may lie there (Knuth, 6.4 R).
    fn remove(&mut self, fingerprint: &Fingerprint) -> Option<u64> {
        let mut free = self.find(fingerprint)?;
        let handle = self.slots[free].handle.checked_sub(1)?;
        let mut place = self.next(free);
        while place != free && self.slots[place].handle != 0 {
            let own = self.own_place(&self.slots[place].fingerprint);
            // whether `own` lies behind `free` and not behind `place`, around the end
            let stays = match free < place {
                true => free < own && own <= place,
                false => free < own || own <= place,
            };
            if !stays {
                self.slots[free] = self.slots[place];
                free = place;
            }
            place = self.next(place);
        }
        self.slots[free] = FREE;
        Some(handle)
    }
}

impl Table for ProbedTable {
    fn get(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.with(|slots| slots.get(fingerprint))
    }

    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        self.with(|slots| {
            for (fingerprint, handle) in fingerprints.iter().zip(handles) {
                *handle = slots.get(fingerprint);
            }
        });
    }

    fn insert(&self, fingerprint: &Fingerprint, handle: u64) -> Inserted {
        self.with(|slots| slots.insert(fingerprint, handle))
    }

    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize {
        self.with(|slots| {
            let entered = entries.iter().map(|(one, handle)| slots.insert(one, *handle));
            entered.filter(|entered| *entered == Inserted::Full).count()
        })
    }

    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.with(|slots| slots.remove(fingerprint))
    }

    fn bucket_count(&self) -> usize {
        self.capacity()
    }

    fn capacity(&self) -> usize {
        self.with(|slots| slots.slots.len())
    }

    fn count(&self) -> usize {
        self.with(|slots| slots.slots.iter().filter(|slot| slot.handle != 0).count())
    }

    fn bytes(&self) -> usize {
        self.capacity() * size_of::<Slot>()
    }

    fn counters(&self) -> TableCounters {
        self.with(|slots| TableCounters { refused: slots.refused, ..TableCounters::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::index::{fingerprint, mixed};

    #[test]
    fn a_full_row_of_places_answers_as_a_map_does() {
        let table = ProbedTable::new(50).unwrap();
        let mut map = HashMap::new();
        for step in 0..40_000 {
            let key = fingerprint(mixed(step) % 60);
            match mixed(step + (1 << 40)) % 3 {
                0 => assert_eq!(table.remove(&key), map.remove(&key)),
                1 => assert_eq!(table.get(&key), map.get(&key).copied()),
                _ if map.len() == 50 && !map.contains_key(&key) => {
                    assert_eq!(table.insert(&key, step), Inserted::Full);
                }
                _ => {
                    let before = map.insert(key, step);
                    let expected = before.map_or(Inserted::New, Inserted::Replaced);
                    assert_eq!(table.insert(&key, step), expected);
                }
            }
        }
        assert_eq!(table.count(), map.len());
    }
}

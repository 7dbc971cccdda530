//! Things by number where most numbers may have none: leaves of neighbours, found in a tree.
//!
//! The tree has an entry for each 4096 numbers, so that it is one node for most volumes and pools,
//! and finding one of millions at random costs one read of memory.

use std::collections::BTreeMap;

/// Numbers that share a leaf.
const LEAF: u32 = 4096;

/// At most one `T` for each number.
#[derive(Debug, Clone)]
pub(crate) struct Sparse<T> {
    leaves: BTreeMap<u32, Leaf<T>>,
}

#[derive(Debug, Clone)]
struct Leaf<T> {
    /// Entries that are there, at least one.
    count: u32,
    /// As many as were needed so far.
    entries: Vec<Option<T>>,
}

impl<T> Default for Leaf<T> {
    fn default() -> Self {
        Self { count: 0, entries: Vec::new() }
    }
}

impl<T> Leaf<T> {
    /// The entry at `place`, for who puts something there.
    fn entry(&mut self, place: usize) -> &mut Option<T> {
        if place >= self.entries.len() {
            self.entries.resize_with(place + 1, || None);
        }
        &mut self.entries[place]
    }
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { leaves: BTreeMap::new() }
    }
}

fn place(number: u32) -> usize {
    (number % LEAF) as usize
}

impl<T> Sparse<T> {
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.leaves.get(&(number / LEAF))?.entries.get(place(number))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.leaves.get_mut(&(number / LEAF))?.entries.get_mut(place(number))?.as_mut()
    }

    /// What `number` has; what `make` makes if it has nothing yet.
    pub(crate) fn get_or_insert(&mut self, number: u32, make: impl FnOnce() -> T) -> &mut T {
        let leaf = self.leaves.entry(number / LEAF).or_default();
        leaf.count += u32::from(leaf.entry(place(number)).is_none());
        leaf.entry(place(number)).get_or_insert_with(make)
    }

    /// Gives `number` another `value`; returns what it had.
    pub(crate) fn insert(&mut self, number: u32, value: T) -> Option<T> {
        let leaf = self.leaves.entry(number / LEAF).or_default();
        let before = leaf.entry(place(number)).replace(value);
        leaf.count += u32::from(before.is_none());
        before
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let leaf = self.leaves.get_mut(&(number / LEAF))?;
        let before = leaf.entries.get_mut(place(number))?.take()?;
        leaf.count -= 1;
        if leaf.count == 0 {
            self.leaves.remove(&(number / LEAF));
        }
        Some(before)
    }

    /// Takes out what the first number has that has anything.
    pub(crate) fn pop_first(&mut self) -> Option<T> {
        let mut leaf = self.leaves.first_entry()?;
        let first = leaf.get_mut().entries.iter_mut().find_map(Option::take);
        leaf.get_mut().count -= 1;
        if leaf.get().count == 0 {
            leaf.remove();
        }
        first
    }

    /// Takes out what numbers from `first` on have.
    pub(crate) fn split_off(&mut self, first: u32) -> Self {
        let mut leaves = self.leaves.split_off(&(first / LEAF));
        let mut kept = Sparse::default();
        if place(first) > 0
            && let Some(leaf) = leaves.get_mut(&(first / LEAF))
        {
            for at in 0..place(first).min(leaf.entries.len()) {
                if let Some(value) = leaf.entries[at].take() {
                    leaf.count -= 1;
                    kept.insert(first / LEAF * LEAF + at as u32, value);
                }
            }
            if leaf.count == 0 {
                leaves.remove(&(first / LEAF));
            }
        }
        self.leaves.append(&mut kept.leaves);
        Self { leaves }
    }

    /// All that there is, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// The same from number `first` on.
    pub(crate) fn iter_from(&self, first: u32) -> impl Iterator<Item = (u32, &T)> {
        self.leaves.range(first / LEAF..).flat_map(move |(leaf, of_it)| {
            let start = if *leaf == first / LEAF { place(first) } else { 0 };
            let entries = of_it.entries.iter().enumerate().skip(start);
            entries.filter_map(move |(at, one)| Some((leaf * LEAF + at as u32, one.as_ref()?)))
        })
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.leaves.values().flat_map(|leaf| leaf.entries.iter().flatten())
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.leaves.values_mut().flat_map(|leaf| leaf.entries.iter_mut().flatten())
    }
}

#[cfg(test)]
mod tests {
    use onefold_testkit::SplitMix64;

    use super::*;

    /// Whether each leaf counts what it has, and none is empty.
    fn counts_hold<T>(sparse: &Sparse<T>) -> bool {
        let has = |leaf: &Leaf<T>| leaf.entries.iter().flatten().count();
        sparse.leaves.values().all(|leaf| leaf.count > 0 && leaf.count as usize == has(leaf))
    }

    #[test]
    fn it_is_a_map_of_numbers() {
        let mut numbers = SplitMix64::new(1);
        let (mut sparse, mut map) = (Sparse::default(), BTreeMap::new());
        for step in 0..20_000_u32 {
            // few leaves, which fill up and become empty
            let number = u32::MAX - (numbers.next_u64() % 900) as u32 * (LEAF / 64);
            match numbers.next_u64() % 40 {
                0 => {
                    let (one, other) = (sparse.split_off(number), map.split_off(&number));
                    assert!(one.iter().eq(other.iter().map(|(n, v)| (*n, v))));
                    assert!(counts_hold(&one) && counts_hold(&sparse), "step {step}");
                }
                1..20 => assert_eq!(sparse.insert(number, step), map.insert(number, step)),
                20..25 => {
                    let value = *sparse.get_or_insert(number, || step);
                    assert_eq!(value, *map.entry(number).or_insert(step));
                }
                25 => {
                    sparse.values_mut().for_each(|value| *value += 1);
                    map.values_mut().for_each(|value| *value += 1);
                }
                26 => {
                    let first = map.pop_first().map(|(_, value)| value);
                    assert_eq!(sparse.pop_first(), first);
                }
                _ => assert_eq!(sparse.remove(number), map.remove(&number)),
            }
            assert_eq!(sparse.get(number), map.get(&number));
            assert_eq!(sparse.get_mut(number), map.get_mut(&number));
            if step % 100 == 0 {
                assert!(sparse.iter().eq(map.iter().map(|(n, v)| (*n, v))));
                let later = map.range(number..).map(|(n, v)| (*n, v));
                assert!(sparse.iter_from(number).eq(later));
                assert!(sparse.values().eq(map.values()));
                assert!(counts_hold(&sparse), "step {step}");
            }
        }
    }
}

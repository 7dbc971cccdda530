//! A set of pages, in a bit for each page of the containers that it has any of.

use crate::ids::Handle;
use crate::state::sparse::Sparse;

/// Bits of a word.
const WORD: u32 = 64;

/// Pages, of containers by number.
#[derive(Default)]
pub(crate) struct Bits(Sparse<Vec<u64>>);

impl Bits {
    /// Takes up a page that is there: its slot bounds the memory that this takes.
    pub(crate) fn set(&mut self, page: Handle) {
        let (word, bit) = place(page.slot());
        let words = self.0.get_or_insert(page.container(), Vec::new);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= bit;
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
    }

    pub(crate) fn has(&self, page: Handle) -> bool {
        let (word, bit) = place(page.slot());
        let words = self.0.get(page.container());
        words.and_then(|words| words.get(word)).is_some_and(|word| word & bit != 0)
    }

    /// Each container of which there are any, with the slots of its pages, in order.
    pub(crate) fn containers(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = u32>)> {
        self.0.iter().map(|(container, words)| {
            let slots = (0..).zip(words).flat_map(|(at, word)| {
                let set = (0..WORD).filter(move |bit| (word >> bit) & 1 == 1);
                set.map(move |bit| at * WORD + bit)
            });
            (container, slots)
        })
    }
}

fn place(slot: u32) -> (usize, u64) {
    ((slot / WORD) as usize, 1 << (slot % WORD))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use onefold_testkit::SplitMix64;

    use super::*;

    #[test]
    fn they_are_a_set_of_pages() {
        let mut numbers = SplitMix64::new(1);
        let (mut bits, mut set) = (Bits::default(), BTreeSet::new());
        assert!(bits.is_empty());
        let mut draw = || {
            let n = numbers.next_u64();
            Handle::new(1 + (n % 300) as u32, (n >> 32) as u32 % 500)
        };
        for _ in 0..5000 {
            let (one, other) = (draw(), draw());
            bits.set(one);
            set.insert(one);
            assert!(bits.has(one));
            assert_eq!(bits.has(other), set.contains(&other));
        }
        assert!(!bits.is_empty());
        let found = bits.containers().flat_map(|(container, slots)| {
            slots.map(move |slot| Handle::new(container, slot)).collect::<Vec<_>>()
        });
        assert!(found.eq(set));
    }
}

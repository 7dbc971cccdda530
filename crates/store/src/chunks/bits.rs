//! A few bits for each chunk, by where the index says that it is.
//!
//! What a walk through trees has seen is noted so: half a byte for each slot of a container, however
//! many directories there are.

use crate::Place;

/// Some of the four bits of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Bits(u8);

impl Bits {
    /// Bit `number`, from 0 to 3.
    pub(crate) const fn nth(number: u8) -> Self {
        assert!(number < 4, "a slot has four bits");
        Self(1 << number)
    }

    /// Sets them in `bits`; whether they were not set before.
    pub(crate) const fn set(self, bits: &mut u8) -> bool {
        let is_new = *bits & self.0 == 0;
        *bits |= self.0;
        is_new
    }
}

/// Four bits for each slot of each container.
#[derive(Default)]
pub(crate) struct ChunkBits(Vec<Vec<u8>>);

impl ChunkBits {
    /// Whether `bits` are set of the chunk in `slot` of `container`.
    pub(crate) fn has(&self, container: u32, slot: u32, bits: Bits) -> bool {
        let slots = self.0.get(container as usize);
        let byte = slots.and_then(|slots| slots.get(slot as usize / 2)).copied();
        (byte.unwrap_or_default() >> (4 * (slot % 2))) & bits.0 != 0
    }

    /// The slots of `container` of which `bits` are set, in ascending order.
    pub(crate) fn slots(&self, container: u32, bits: Bits) -> impl Iterator<Item = u32> + '_ {
        let bytes = self.0.get(container as usize).map_or(0, Vec::len);
        (0..2 * bytes as u32).filter(move |slot| self.has(container, *slot, bits))
    }

    /// Sets `bits`; whether they were not set before.
    pub(crate) fn set(&mut self, place: Place, bits: Bits) -> bool {
        let (container, at) = (place.container as usize, place.slot as usize / 2);
        if self.0.len() <= container {
            self.0.resize(container + 1, Vec::new());
        }
        let slots = &mut self.0[container];
        if slots.len() <= at {
            slots.resize(at + 1, 0);
        }
        Bits(bits.0 << (4 * (place.slot % 2))).set(&mut slots[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_of_each_slot_is_its_own() {
        let all = [0, 1, 2, 3].map(Bits::nth);
        let mut slots = ChunkBits::default();
        for (container, slot) in [(0, 0), (0, 1), (2, 0), (2, 5)] {
            for bits in all {
                assert!(!slots.has(container, slot, bits));
                let place = Place { container, slot, len: 1 };
                assert!(slots.set(place, bits) && !slots.set(place, bits));
            }
        }
        for (container, slot) in (0..4).flat_map(|container| (0..8).map(move |n| (container, n))) {
            let expected = matches!((container, slot), (0, 0 | 1) | (2, 0 | 5));
            assert!(all.iter().all(|bits| slots.has(container, slot, *bits) == expected));
        }
        assert!(slots.slots(2, all[1]).eq([0, 5]));
        let unknown = [1, 3].map(|container| slots.slots(container, all[1]).count());
        assert_eq!(unknown, [0, 0]);
    }
}

//! Maps that belong to no volume any more, until their references are released.

use std::collections::BTreeMap;

use crate::ids::VolumeId;
use crate::state::map::{Map, References};

/// Segments that are let go at a time, while others wait: so many blocks as an erase takes at a time.
const RELEASED: usize = 8;

/// By a number that is not used again, with the volume that each was of.
#[derive(Default)]
pub(crate) struct Dying {
    maps: BTreeMap<u64, (VolumeId, Map)>,
    next: u64,
}

impl Dying {
    /// Takes up what `volume` had; its number.
    pub(crate) fn add(&mut self, volume: VolumeId, map: Map) -> u64 {
        let number = self.next;
        self.next += 1;
        self.maps.insert(number, (volume, map));
        number
    }

    /// The maps from number `first` on.
    pub(crate) fn from(&self, first: u64) -> impl Iterator<Item = (u64, VolumeId, &Map)> {
        self.maps.range(first..).map(|(number, (volume, map))| (*number, *volume, map))
    }

    /// All maps, to be changed.
    pub(crate) fn maps_mut(&mut self) -> impl Iterator<Item = &mut Map> {
        self.maps.values_mut().map(|(_, map)| map)
    }

    /// Lets go of some segments of map `number`; whether there are more.
    pub(crate) fn release_some(&mut self, number: u64, references: &mut impl References) -> bool {
        let Some((_, map)) = self.maps.get_mut(&number) else { return false };
        let is_left = (0..RELEASED).all(|_| map.release_first(references)) && !map.is_empty();
        if !is_left {
            self.maps.remove(&number);
        }
        is_left
    }
}

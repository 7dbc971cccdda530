//! Maps that belong to no volume any more, until their references are released.

use std::collections::BTreeMap;

use crate::ids::VolumeId;
use crate::state::map::{Map, References};
use crate::state::nodes::Missing;

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

    /// How many segments all maps have.
    pub(crate) fn segments(&self) -> usize {
        self.maps().map(|map| map.segments().count()).sum()
    }

    /// All maps.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &Map> {
        self.maps.values().map(|(_, map)| map)
    }

    /// The same, to be changed.
    pub(crate) fn maps_mut(&mut self) -> impl Iterator<Item = &mut Map> {
        self.maps.values_mut().map(|(_, map)| map)
    }

    /// Lets go of some segments of map `number`; whether there are more. Those before a node that is
    /// missing are let go.
    pub(crate) fn release_some(
        &mut self,
        number: u64,
        references: &mut impl References,
    ) -> Result<bool, Missing> {
        let Some((_, map)) = self.maps.get_mut(&number) else { return Ok(false) };
        for _ in 0..RELEASED {
            if !map.release_first(references)? {
                break;
            }
        }
        let is_left = !map.is_empty();
        if !is_left {
            self.maps.remove(&number);
        }
        Ok(is_left)
    }
}

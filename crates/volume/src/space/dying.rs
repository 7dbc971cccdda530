//! Maps that no volume has any more: of volumes that were deleted, and of what lay beyond the end of
//! one that became shorter. What they refer to is let go some segments at a time.
//!
//! The record of the deletion, or of the new size, waits before the first of these steps, so that
//! no batch tells of a container that a step made dead before it tells why. After a crash the volume is
//! there whole or nothing of it is: references are counted by the volumes that there are then.
//!
//! Until then such a map is one like any other: a compaction forwards it, a check counts it, and a
//! segment that a volume shares with it is shared. A checkpoint does not tell of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::VolumeError;
use crate::engine::parts::{Engine, State};
use crate::ids::VolumeId;
use crate::journal::record::Record;
use crate::pool::open::Between;
use crate::seeded::{self, Bug};
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
    fn release_some(&mut self, number: u64, references: &mut impl References) -> bool {
        let Some((_, map)) = self.maps.get_mut(&number) else { return false };
        let is_left = (0..RELEASED).all(|_| map.release_first(references)) && !map.is_empty();
        if !is_left {
            self.maps.remove(&number);
        }
        is_left
    }
}

/// A map that is to be let go, unless it has no segments, and the records that say why.
pub(crate) struct Dead {
    number: Option<u64>,
    records: Vec<Record>,
}

impl State {
    /// `volume` no longer has `map`, as `records` say, which are durable together.
    pub(crate) fn let_die(&mut self, volume: VolumeId, map: Map, records: Vec<Record>) -> Dead {
        let is_empty = map.is_empty();
        if is_empty || !seeded::active(Bug::ReleasedUntold) {
            self.waiting.push_together(&records);
        }
        let number = (!is_empty).then(|| self.dying.add(volume, map));
        Dead { number, records }
    }
}

impl Engine {
    /// Makes durable that a map is no volume's any more, lets go of what it refers to, and gives back
    /// the space of what is dead then.
    pub(crate) fn settle(self: &Arc<Self>, dead: Dead) -> Result<(), VolumeError> {
        let told = self.commit();
        let Some(number) = dead.number else { return told };
        // whether that could be told or not: nobody can get at the map any more
        self.release(number);
        if seeded::active(Bug::ReleasedUntold) {
            self.state().waiting.push_together(&dead.records);
        }
        told?;
        self.commit()
    }

    /// Lets go of all that map `number` refers to; others have their turns meanwhile.
    fn release(self: &Arc<Self>, number: u64) {
        self.between(Between::Releases);
        while self.release_some(number) {
            self.state.let_others();
            self.between(Between::Releases);
        }
    }

    /// The same of all maps that are dying, whoever else is at it.
    pub(crate) fn release_all(&self) {
        loop {
            let Some(number) = self.state().dying.from(0).next().map(|(number, ..)| number) else {
                return;
            };
            while self.release_some(number) {
                self.state.let_others();
            }
        }
    }

    fn release_some(&self, number: u64) -> bool {
        let mut state = self.state();
        let State { dying, pages, .. } = &mut *state;
        dying.release_some(number, pages)
    }
}

//! All segments of all maps, some at a time: the pool goes on in between.

use std::sync::Arc;

use crate::engine::parts::Engine;
use crate::ids::VolumeId;
use crate::journal::record::SEGMENT;
use crate::state::map::{Map, Segment};

/// Segments that are taken at a time. Who writes to one of them meanwhile copies it.
const TAKEN: usize = 256;

/// Each volume that is there all the while is walked whole, and so is one that is made meanwhile,
/// because it comes last. Maps that are dying come after the volumes that they were of, so that no
/// segment that is there all the while is passed by on its way from a volume to them.
pub(crate) struct Walk {
    /// Where it is; `None` behind the last.
    at: Option<Place>,
    with_dying: bool,
}

/// The next segment is one of this map, of this index or after it, or one of a later map.
#[derive(Clone, Copy)]
enum Place {
    Volume(VolumeId, u32),
    Dying(u64, u32),
}

/// A segment as it was a moment ago.
pub(crate) struct Step {
    /// Which had it last, if its map is dying.
    pub(crate) volume: VolumeId,
    /// The first of its blocks.
    pub(crate) first_block: u64,
    pub(crate) segment: Arc<Segment>,
}

impl Walk {
    /// Along the maps of all volumes.
    pub(crate) fn of_volumes() -> Self {
        Self { at: Some(Place::Volume(VolumeId(0), 0)), with_dying: false }
    }

    /// The same, and then along those that are dying: along all that refers to pages.
    pub(crate) fn of_all() -> Self {
        Self { with_dying: true, ..Self::of_volumes() }
    }

    /// The segments that come next; `None` behind the last.
    pub(crate) fn next(&mut self, engine: &Engine) -> Option<Vec<Step>> {
        let mut at = self.at?;
        let mut steps = Vec::with_capacity(TAKEN);
        let state = engine.state();
        if let Place::Volume(first, from) = at {
            for (volume, one) in state.volumes.range(first..) {
                let from = if *volume == first { from } else { 0 };
                if let Some(index) = take(&mut steps, *volume, &one.map, from) {
                    self.at = Some(Place::Volume(*volume, index));
                    return Some(steps);
                }
            }
            at = Place::Dying(0, 0);
        }
        if let Place::Dying(first, from) = at
            && self.with_dying
        {
            for (number, volume, map) in state.dying.from(first) {
                let from = if number == first { from } else { 0 };
                if let Some(index) = take(&mut steps, volume, map, from) {
                    self.at = Some(Place::Dying(number, index));
                    return Some(steps);
                }
            }
        }
        self.at = None;
        Some(steps)
    }
}

/// Takes the segments of a map from index `from` on. Where there are too many: the index of the next.
fn take(steps: &mut Vec<Step>, volume: VolumeId, map: &Map, from: u32) -> Option<u32> {
    for (index, segment) in map.segments_from(from) {
        if steps.len() == TAKEN {
            return Some(index);
        }
        let first_block = u64::from(index) * SEGMENT as u64;
        steps.push(Step { volume, first_block, segment: Arc::clone(segment) });
    }
    None
}

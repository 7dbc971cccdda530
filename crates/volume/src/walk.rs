//! All segments of all maps, some at a time: the pool goes on in between.

use std::sync::Arc;

use crate::engine::Engine;
use crate::handle::VolumeId;
use crate::map::Segment;
use crate::record::SEGMENT;

/// Segments that are taken at a time. Who writes to one of them meanwhile copies it.
const TAKEN: usize = 256;

/// Where a walk is: each volume that is there all the while is walked whole, and so is one that is
/// made meanwhile, because it comes last.
pub(crate) struct Walk(Option<(VolumeId, u32)>);

/// A segment as it was a moment ago.
pub(crate) struct Step {
    pub(crate) volume: VolumeId,
    /// The first of its blocks.
    pub(crate) first_block: u64,
    pub(crate) segment: Arc<Segment>,
}

impl Walk {
    /// Before the first segment.
    pub(crate) fn new() -> Self {
        Self(Some((VolumeId(0), 0)))
    }

    /// The segments that come next; `None` behind the last.
    pub(crate) fn next(&mut self, engine: &Engine) -> Option<Vec<Step>> {
        let (first, from) = self.0?;
        let mut steps = Vec::with_capacity(TAKEN);
        let state = engine.state();
        for (volume, one) in state.volumes.range(first..) {
            let from = if *volume == first { from } else { 0 };
            for (index, segment) in one.map.segments_from(from) {
                if steps.len() == TAKEN {
                    self.0 = Some((*volume, index));
                    return Some(steps);
                }
                let first_block = u64::from(index) * SEGMENT as u64;
                steps.push(Step { volume: *volume, first_block, segment: Arc::clone(segment) });
            }
        }
        self.0 = None;
        Some(steps)
    }
}

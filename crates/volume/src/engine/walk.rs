//! All segments of all maps, some at a time: the pool goes on in between.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::parts::Engine;
use crate::error::{VolumeError, told};
use crate::ids::VolumeId;
use crate::journal::record::SEGMENT;
use crate::nodes::format::Node;
use crate::nodes::table::NodeAddress;
use crate::state::State;
use crate::state::map::Map;
use crate::state::nodes::NodeId;
use crate::state::pages::Pages;

/// Segments that are taken at a time. A thread that writes to one of them meanwhile copies it.
const TAKEN: usize = 256;

/// Each volume that is there all the while is walked whole, and so is one that is made meanwhile,
/// because it comes last. Maps that are dying come after the volumes that they were of, so that no
/// segment that is there all the while is passed by on its way from a volume to them.
pub(crate) struct Walk {
    /// Where it is; `None` behind the last.
    at: Option<Place>,
    with_dying: bool,
    /// The only volume of which maps are walked, if it is one.
    only: Option<VolumeId>,
    /// Segments that cannot be read, where they are passed by: where each is stored, and why.
    unreadable: Option<HashMap<NodeId, (NodeAddress, Arc<str>)>>,
    /// Those that were passed by.
    passed: Vec<Unread>,
}

/// A segment that cannot be read.
pub(crate) struct Unread {
    /// Which had it last, if its map is dying.
    pub(crate) volume: VolumeId,
    /// The first of its blocks.
    pub(crate) first_block: u64,
    /// The same for all maps that have it.
    pub(crate) id: NodeId,
    /// Whether several have it.
    pub(crate) is_shared: bool,
    /// How many of its blocks are no holes.
    pub(crate) mapped: u32,
    /// The error, and what it came from.
    pub(crate) problem: Arc<str>,
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
    /// Its pages, where they are.
    pub(crate) segment: Arc<Node>,
    /// The same for all maps that have it.
    pub(crate) id: NodeId,
    /// Whether several have it.
    pub(crate) is_shared: bool,
}

/// Segments that are taken together.
struct Taking<'a> {
    pages: &'a Pages,
    steps: Vec<Step>,
    /// Those that are not in memory, and that the steps lack.
    missing: Vec<NodeId>,
    unreadable: Option<&'a HashMap<NodeId, (NodeAddress, Arc<str>)>>,
    passed: Vec<Unread>,
}

impl Taking<'_> {
    fn count(&self) -> usize {
        self.steps.len() + self.missing.len() + self.passed.len()
    }

    /// Why segment `id` cannot be read, if that is known.
    fn problem(&self, id: NodeId) -> Option<&Arc<str>> {
        let (address, problem) = self.unreadable?.get(&id)?;
        (self.pages.nodes.to_read(id) == Some(*address)).then_some(problem)
    }

    /// Takes the segments of a map from index `from` on. Where there are too many: the index of the
    /// next.
    fn take(&mut self, volume: VolumeId, map: &Map, from: u32) -> Option<u32> {
        for (index, id) in map.segments_from(from) {
            if self.count() == TAKEN {
                return Some(index);
            }
            let first_block = u64::from(index) * SEGMENT as u64;
            let is_shared = self.pages.nodes.owners(id) > 1;
            match self.pages.nodes.share(id) {
                Ok(segment) => {
                    let segment = self.pages.resolved(segment);
                    self.steps.push(Step { volume, first_block, segment, id, is_shared });
                }
                Err(_) => match self.problem(id).map(Arc::clone) {
                    Some(problem) => {
                        let mapped = self.pages.nodes.mapped(id);
                        let unread = Unread { volume, first_block, id, is_shared, mapped, problem };
                        self.passed.push(unread);
                    }
                    None => self.missing.push(id),
                },
            }
        }
        None
    }
}

impl Walk {
    /// Along the maps of all volumes.
    pub(crate) fn of_volumes() -> Self {
        Self {
            at: Some(Place::Volume(VolumeId(0), 0)),
            with_dying: false,
            only: None,
            unreadable: None,
            passed: Vec::new(),
        }
    }

    /// Along the map of one volume.
    pub(crate) fn of_volume(volume: VolumeId) -> Self {
        Self { at: Some(Place::Volume(volume, 0)), only: Some(volume), ..Self::of_volumes() }
    }

    /// Along the maps of all volumes, and then along those that are dying: along all that refers to
    /// pages.
    pub(crate) fn of_all() -> Self {
        Self { with_dying: true, ..Self::of_volumes() }
    }

    /// The same, and passes by segments that cannot be read instead of failing.
    pub(crate) fn past_unreadable(self) -> Self {
        Self { unreadable: Some(HashMap::new()), ..self }
    }

    /// Takes the segments that were passed by since the last call.
    pub(crate) fn take_passed(&mut self) -> Vec<Unread> {
        std::mem::take(&mut self.passed)
    }

    /// The segments that come next; `None` behind the last.
    ///
    /// # Errors
    /// Why a segment cannot be read, unless those are passed by; and that another process has the pool.
    pub(crate) fn next(&mut self, engine: &Engine) -> Result<Option<Vec<Step>>, VolumeError> {
        let Some(at) = self.at else { return Ok(None) };
        for misses in 0.. {
            let missing = {
                let state = engine.state();
                let pages = &state.pages;
                let mut taking = Taking {
                    pages,
                    steps: Vec::new(),
                    missing: Vec::new(),
                    unreadable: self.unreadable.as_ref(),
                    passed: Vec::new(),
                };
                let next = self.take(at, &state, &mut taking);
                let Taking { steps, missing, passed, .. } = taking;
                if missing.is_empty() {
                    self.at = next;
                    self.passed.extend(passed);
                    return Ok(Some(steps));
                }
                missing
            };
            let brought = engine.bring_again(&missing, misses);
            let Some(unreadable) = &mut self.unreadable else {
                brought?;
                continue;
            };
            if brought.is_err() {
                for (id, address, error) in engine.bring_each(&missing)? {
                    unreadable.insert(id, (address, told(&error).into()));
                }
            }
        }
        unreachable!("it does not end but by what it returns")
    }

    /// Takes segments from `at` on; where to go on.
    fn take(&self, mut at: Place, state: &State, taking: &mut Taking<'_>) -> Option<Place> {
        if let Place::Volume(first, from) = at {
            for (volume, one) in state.volumes.range(first..) {
                if self.only.is_some_and(|only| *volume != only) {
                    break;
                }
                let from = if *volume == first { from } else { 0 };
                if let Some(index) = taking.take(*volume, &one.map, from) {
                    return Some(Place::Volume(*volume, index));
                }
            }
            at = Place::Dying(0, 0);
        }
        if let Place::Dying(first, from) = at
            && self.with_dying
        {
            for (number, volume, map) in state.dying.from(first) {
                let from = if number == first { from } else { 0 };
                if let Some(index) = taking.take(volume, map, from) {
                    return Some(Place::Dying(number, index));
                }
            }
        }
        None
    }
}

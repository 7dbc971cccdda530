//! Reading what lies in many places by one plan.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::chunks::reader::{ChunkReader, Chunks};
use crate::reading::fetch::{Keep, fetch};
use crate::{Place, Recipe, threads};

/// Neighbours are read ahead together, up to so many bytes at least.
const READ_TOGETHER: u64 = 4 << 20;
/// Stretches of containers that are read ahead by one plan, at most.
const MAX_STRETCHES: usize = 32;

impl ChunkReader<'_> {
    /// Reads the groups that hold `range` of `recipe` by one plan, unless they are kept already, and
    /// keeps them. If they lie in many places, only the first are read: more would push each other out.
    /// What cannot be had is reported to whoever needs it.
    pub(crate) fn read_ahead(&self, recipe: &Recipe, range: &Range<u64>) {
        let mut places = Vec::new();
        // What cannot be visited is read by whoever needs it.
        let _ = self.visit_leaves(recipe, 0, range, &mut |_, leaf| {
            places.extend(self.place_of(&leaf.root));
            Ok(())
        });
        self.keep_groups(first_together(&places), usize::MAX);
    }

    /// Reads the groups that hold the chunks at `places` by one plan, unless they are kept already, and
    /// keeps them, until they have about `most` bytes. Gives how many they have. What cannot be had is
    /// reported to whoever needs it.
    pub(crate) fn keep_groups(&self, mut places: Vec<Place>, most: usize) -> usize {
        places.sort_unstable_by_key(|place| (place.container, place.slot));
        let plan = (threads::cores(), READ_TOGETHER);
        let kept = AtomicUsize::new(0);
        let _ = fetch(self, &places, plan, Keep::Decoded, &|_, group| {
            let len = group.map_or(0, |group| group.len());
            match kept.fetch_add(len, Ordering::Relaxed) + len < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        kept.into_inner()
    }
}

/// As many of the first of `places` as lie in few stretches of containers, in their order.
fn first_together(places: &[Place]) -> Vec<Place> {
    let mut first = places.to_vec();
    loop {
        let len = first.len();
        first.sort_unstable_by_key(|place| (place.container, place.slot));
        let follows = |a: &Place, b: &Place| a.container == b.container && b.slot <= a.slot + 1;
        if first.chunk_by(follows).count() <= MAX_STRETCHES {
            return first;
        }
        first = places[..len / 2].to_vec();
    }
}

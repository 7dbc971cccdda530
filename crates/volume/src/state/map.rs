//! Which page each block of a volume is: in segments that volumes share until one of them writes.
//!
//! A page is referred to once by each segment entry that has it, however many volumes share the
//! segment. So a snapshot costs a pointer a segment, and no page is touched.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use onefold_index::prefetch;

use crate::ids::Handle;
use crate::journal::record::SEGMENT;
use crate::state::sparse::Sparse;

/// Who counts the references to pages.
pub(crate) trait References {
    /// One more segment entry has the page.
    fn gain(&mut self, page: Handle);
    /// One less has it.
    fn release(&mut self, page: Handle);
}

/// Counts nothing: what a recovery replays is counted at its end.
pub(crate) struct Uncounted;

impl References for Uncounted {
    fn gain(&mut self, _: Handle) {}
    fn release(&mut self, _: Handle) {}
}

/// The pages of neighbouring blocks.
///
/// A clone takes the place of the segment in all maps that have it; who writes a checkpoint
/// meanwhile holds the other.
///
/// What is beside the pages stands first, in the cache line of the reference counts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Segment {
    identity: u64,
    /// Maps that have it.
    owners: AtomicU32,
    /// Pages that are no holes.
    mapped: u32,
    pages: [Handle; SEGMENT],
}

impl Clone for Segment {
    fn clone(&self) -> Self {
        let owners = AtomicU32::new(self.owners());
        Self { identity: self.identity, owners, mapped: self.mapped, pages: self.pages }
    }
}

/// The identity of the next segment.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Segment {
    pub(crate) fn new(pages: &[Handle]) -> Self {
        let mut all = [Handle::HOLE; SEGMENT];
        all.copy_from_slice(pages);
        let identity = NEXT.fetch_add(1, Ordering::Relaxed);
        let mapped = all.iter().filter(|page| !page.is_hole()).count() as u32;
        Self { identity, owners: AtomicU32::new(0), mapped, pages: all }
    }

    pub(crate) fn pages(&self) -> &[Handle; SEGMENT] {
        &self.pages
    }

    /// Pages that are no holes.
    pub(crate) fn present(&self) -> impl Iterator<Item = Handle> {
        self.pages.iter().copied().filter(|page| !page.is_hole())
    }

    /// The same for all clones of one segment, and for no other segment.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// Whether several maps have it. Who asks has the pool's lock.
    pub(crate) fn is_shared(&self) -> bool {
        self.owners() > 1
    }

    fn owners(&self) -> u32 {
        // all changes are made under the pool's lock
        self.owners.load(Ordering::Relaxed)
    }
}

/// The pages of a volume's blocks.
#[derive(Debug, Default)]
pub(crate) struct Map {
    segments: Sparse<Arc<Segment>>,
    /// Blocks that are no holes.
    mapped: u64,
}

impl Map {
    pub(crate) fn get(&self, block: u64) -> Handle {
        let (index, place) = split(block);
        self.segments.get(index).map_or(Handle::HOLE, |segment| segment.pages[place])
    }

    /// Asks memory for what [`get`](Self::get) and [`set`](Self::set) will read.
    pub(crate) fn prefetch(&self, block: u64) {
        let (index, place) = split(block);
        if let Some(segment) = self.segments.get(index) {
            prefetch(&**segment);
            prefetch(&segment.pages[place]);
        }
    }

    /// How many blocks from the first of `blocks` on are holes alike, or are none alike; and whether
    /// they are holes. There may be more of them behind: looked at is one segment, however many there
    /// are not.
    ///
    /// # Panics
    ///
    /// If `blocks` is empty.
    pub(crate) fn alike(&self, blocks: Range<u64>) -> (u64, bool) {
        let count = blocks.end.checked_sub(blocks.start).filter(|count| *count > 0);
        let count = count.expect("there is a block");
        let (index, place) = split(blocks.start);
        let next = self.segments.iter_from(index).next();
        let Some((found, segment)) = next else { return (count, true) };
        let first = u64::from(found) * SEGMENT as u64;
        if first > blocks.start {
            return (count.min(first - blocks.start), true);
        }
        let pages = &segment.pages[place..];
        let is_hole = pages[0].is_hole();
        let alike = pages.iter().take_while(|page| page.is_hole() == is_hole).count();
        (count.min(alike as u64), is_hole)
    }

    /// Blocks that are no holes.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Maps `block` to `to`.
    pub(crate) fn set(&mut self, block: u64, to: Handle, references: &mut impl References) {
        let (index, place) = split(block);
        if to.is_hole() && self.segments.get(index).is_none() {
            return;
        }
        // The new one first: it may be the old one, which must not be without references.
        if !to.is_hole() {
            references.gain(to);
        }
        let own = self.own(index, references);
        let before = std::mem::replace(&mut own.pages[place], to);
        let (gained, lost) = (!to.is_hole(), !before.is_hole());
        own.mapped = own.mapped + u32::from(gained) - u32::from(lost);
        self.mapped = self.mapped + u64::from(gained) - u64::from(lost);
        if lost {
            references.release(before);
        }
    }

    /// Makes holes of the blocks from `blocks` on.
    pub(crate) fn truncate(&mut self, blocks: u64, references: &mut impl References) {
        self.split_off(blocks, references).release(references);
    }

    /// Makes holes of the blocks from `blocks` on. Those of whole segments go to the map that this
    /// returns, which still refers to their pages. Looks at each of these segments, and at no page of
    /// theirs.
    pub(crate) fn split_off(&mut self, blocks: u64, references: &mut impl References) -> Self {
        let (index, place) = split(blocks);
        let whole = if place == 0 { index } else { index + 1 };
        let segments = self.segments.split_off(whole);
        let mapped = segments.values().map(|segment| u64::from(segment.mapped)).sum();
        self.mapped -= mapped;
        if place > 0 && self.segments.get(index).is_some() {
            let first = blocks - place as u64;
            for block in blocks..first + SEGMENT as u64 {
                self.set(block, Handle::HOLE, references);
            }
        }
        Self { segments, mapped }
    }

    /// The same map for another volume.
    pub(crate) fn share(&self) -> Self {
        for segment in self.segments.values() {
            segment.owners.fetch_add(1, Ordering::Relaxed);
        }
        Self { segments: self.segments.clone(), mapped: self.mapped }
    }

    /// Lets go of everything.
    pub(crate) fn release(mut self, references: &mut impl References) {
        while self.release_first(references) {}
    }

    /// Lets go of the first segment; false if there is none.
    pub(crate) fn release_first(&mut self, references: &mut impl References) -> bool {
        let Some(segment) = self.segments.pop_first() else { return false };
        self.mapped -= u64::from(segment.mapped);
        if segment.owners.fetch_sub(1, Ordering::Relaxed) == 1 {
            segment.present().for_each(|page| references.release(page));
        }
        true
    }

    /// Whether it has no segments.
    pub(crate) fn is_empty(&self) -> bool {
        self.next_index(0).is_none()
    }

    /// The index of the first segment from `index` on.
    pub(crate) fn next_index(&self, index: u32) -> Option<u32> {
        self.segments_from(index).next().map(|(index, _)| index)
    }

    /// The segments that there are, by their index.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u32, &Arc<Segment>)> {
        self.segments.iter()
    }

    /// The same from `index` on.
    pub(crate) fn segments_from(&self, index: u32) -> impl Iterator<Item = (u32, &Arc<Segment>)> {
        self.segments.iter_from(index)
    }

    /// Puts a segment into its place, which is empty.
    pub(crate) fn place(&mut self, index: u32, segment: Arc<Segment>) {
        segment.owners.fetch_add(1, Ordering::Relaxed);
        self.mapped += u64::from(segment.mapped);
        self.segments.insert(index, segment);
    }

    /// Replaces each page by what `forward` says; `None` leaves it. References are those of the same
    /// pages as before, so nobody counts.
    ///
    /// A segment that several volumes share becomes the same new one for all of them, which
    /// `replaced` has by identity.
    pub(crate) fn forward(
        &mut self,
        forward: impl Fn(Handle) -> Option<Handle>,
        replaced: &mut HashMap<u64, Arc<Segment>>,
    ) {
        let segments = self.segments.values_mut();
        segments.for_each(|segment| forward_segment(segment, &forward, replaced));
    }

    /// The same of segment `index` alone, if there is one. Maps share segments of the same index only,
    /// and all of them have to have done this before anybody changes one of them.
    pub(crate) fn forward_at(
        &mut self,
        index: u32,
        forward: impl Fn(Handle) -> Option<Handle>,
        replaced: &mut HashMap<u64, Arc<Segment>>,
    ) {
        if let Some(segment) = self.segments.get_mut(index) {
            forward_segment(segment, &forward, replaced);
        }
    }

    /// The segment `index`, of this map alone.
    fn own(&mut self, index: u32, references: &mut impl References) -> &mut Segment {
        let segment = self.segments.get_or_insert(index, || {
            let empty = Segment::new(&[Handle::HOLE; SEGMENT]);
            empty.owners.store(1, Ordering::Relaxed);
            Arc::new(empty)
        });
        if segment.owners() > 1 {
            segment.owners.fetch_sub(1, Ordering::Relaxed);
            segment.present().for_each(|page| references.gain(page));
            let own = Segment::new(&segment.pages[..]);
            own.owners.store(1, Ordering::Relaxed);
            *segment = Arc::new(own);
        }
        Arc::make_mut(segment)
    }
}

fn forward_segment(
    segment: &mut Arc<Segment>,
    forward: &impl Fn(Handle) -> Option<Handle>,
    replaced: &mut HashMap<u64, Arc<Segment>>,
) {
    if let Some(new) = replaced.get(&segment.identity()) {
        *segment = Arc::clone(new);
        return;
    }
    if segment.pages.iter().all(|page| forward(*page).is_none()) {
        return;
    }
    // the clone has the same owners, and takes the place of the old one with all of them
    let mut new = Segment::clone(segment);
    for page in new.pages.iter_mut() {
        *page = forward(*page).unwrap_or(*page);
    }
    let new = Arc::new(new);
    replaced.insert(segment.identity(), Arc::clone(&new));
    *segment = new;
}

/// The segment of a block, of which no volume has more than a number of 32 bits can tell apart, and
/// its place in there.
fn split(block: u64) -> (u32, usize) {
    ((block / SEGMENT as u64) as u32, (block % SEGMENT as u64) as usize)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[derive(Default, Debug, PartialEq)]
    struct Counted(HashMap<Handle, i64>);

    impl References for Counted {
        fn gain(&mut self, page: Handle) {
            *self.0.entry(page).or_default() += 1;
        }

        fn release(&mut self, page: Handle) {
            let count = self.0.get_mut(&page).expect("was gained");
            *count -= 1;
            if *count == 0 {
                self.0.remove(&page);
            }
        }
    }

    const HOLE: Handle = Handle::HOLE;

    fn page(n: u32) -> Handle {
        Handle::new(1, n)
    }

    /// What the segments of `maps` refer to. Each must know how many of its blocks are no holes.
    fn recount(maps: &[&Map]) -> Counted {
        for map in maps {
            let present = |segment: &Arc<Segment>| segment.present().count() as u32;
            assert!(map.segments.values().all(|segment| segment.mapped == present(segment)));
            assert_eq!(
                map.mapped(),
                map.segments.values().map(present).map(u64::from).sum::<u64>()
            );
        }
        let mut counted = Counted::default();
        let mut seen = HashSet::new();
        for (_, segment) in maps.iter().flat_map(|map| map.segments()) {
            if seen.insert(segment.identity()) {
                segment.present().for_each(|page| counted.gain(page));
            }
        }
        counted
    }

    #[test]
    fn shared_maps_part_where_one_is_written() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        for block in 0..1500 {
            map.set(block, page(block as u32 % 7), &mut counted);
        }
        let mut snapshot = map.share();
        assert_eq!(counted, recount(&[&map]));
        map.set(3, page(100), &mut counted);
        map.set(4, Handle::HOLE, &mut counted);
        assert_eq!((snapshot.get(3), snapshot.get(4)), (page(3), page(4)));
        assert_eq!((map.get(3), map.get(4)), (page(100), Handle::HOLE));
        assert_eq!(counted, recount(&[&map, &snapshot]));
        snapshot.truncate(5, &mut counted);
        assert_eq!((snapshot.get(4), snapshot.get(5)), (page(4), Handle::HOLE));
        assert_eq!((map.get(5), map.get(1499)), (page(5), page(1499 % 7)));
        assert_eq!(counted, recount(&[&map, &snapshot]));
        snapshot.release(&mut counted);
        assert_eq!(counted, recount(&[&map]));
        map.release(&mut counted);
        assert_eq!(counted, Counted::default());
    }

    #[test]
    fn what_was_split_off_is_let_go_segment_by_segment() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        for block in 0..5000 {
            map.set(block, page(block as u32 % 700), &mut counted);
        }
        let mut snapshot = map.share();
        let mut beyond = map.split_off(1000, &mut counted);
        assert_eq!((map.mapped(), beyond.mapped()), (1000, 5000 - 1024));
        assert_eq!((map.get(1000), beyond.get(1023), beyond.get(1024)), (HOLE, HOLE, page(324)));
        let mut snapshot_beyond = snapshot.split_off(1024, &mut counted);
        let mut steps = 0;
        while beyond.release_first(&mut counted) {
            // which another map has as well, and has alone where it was let go
            snapshot_beyond.set(2000 + steps, page(900), &mut counted);
            steps += 1;
            assert_eq!(counted, recount(&[&map, &beyond, &snapshot, &snapshot_beyond]));
        }
        assert_eq!((steps, beyond.mapped()), (8, 0));
        while snapshot_beyond.release_first(&mut counted) {
            assert_eq!(counted, recount(&[&map, &snapshot, &snapshot_beyond]));
        }
        assert_eq!(counted, recount(&[&map, &snapshot]));
    }

    #[test]
    fn a_checkpoint_keeps_what_it_holds() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        map.set(1, page(1), &mut counted);
        let held: Vec<Arc<Segment>> = map.segments().map(|(_, one)| Arc::clone(one)).collect();
        map.set(1, page(2), &mut counted);
        assert_eq!(held[0].pages()[1], page(1));
        assert_eq!(map.get(1), page(2));
        assert_eq!(counted, recount(&[&map]));
    }

    #[test]
    fn forwarded_segments_stay_shared() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        map.set(1, page(1), &mut counted);
        map.set(600, page(2), &mut counted);
        let mut other = map.share();
        let mut replaced = HashMap::new();
        let forward = |from: Handle| (from == page(1)).then_some(page(9));
        map.forward(forward, &mut replaced);
        other.forward(forward, &mut replaced);
        assert_eq!((map.get(1), other.get(1), other.get(600)), (page(9), page(9), page(2)));
        let identities =
            |map: &Map| map.segments().map(|(_, one)| one.identity()).collect::<Vec<_>>();
        assert_eq!(identities(&map), identities(&other));
        // one after the other, and what is there once is not made anew
        let again = |from: Handle| (from == page(2)).then_some(page(8));
        replaced.clear();
        assert_eq!(
            (map.next_index(0), map.next_index(1), map.next_index(2)),
            (Some(0), Some(1), None)
        );
        for index in [0, 1, 2] {
            map.forward_at(index, again, &mut replaced);
            other.forward_at(index, again, &mut replaced);
        }
        assert_eq!((map.get(1), map.get(600), other.get(600)), (page(9), page(8), page(8)));
        assert_eq!((replaced.len(), identities(&map)), (1, identities(&other)));
        // and part again
        let mut counted = recount(&[&map, &other]);
        other.set(1, page(3), &mut counted);
        assert_eq!((map.get(1), other.get(1)), (page(9), page(3)));
        assert_eq!(counted, recount(&[&map, &other]));
    }

    #[test]
    fn blocks_alike_are_those_of_the_map_and_nobody_steps_through_what_is_not_there() {
        const BLOCKS: u64 = 1 << 38;
        let (mut map, mut counted) = (Map::default(), Counted::default());
        let written = [0, 1, 511, 512, 513, 2000, 1 << 20, (1 << 30) + 77, BLOCKS - 1];
        for block in written {
            map.set(block, page(1), &mut counted);
        }
        map.set(513, Handle::HOLE, &mut counted);
        for bounds in [0..BLOCKS, 1..BLOCKS, 512..514, 513..3000, 77..78, BLOCKS - 1..BLOCKS] {
            let (mut at, mut steps, mut found) = (bounds.start, 0, Vec::new());
            while at < bounds.end {
                let (count, is_hole) = map.alike(at..bounds.end);
                assert!((1..=bounds.end - at).contains(&count));
                assert_eq!(map.get(at).is_hole(), is_hole, "{at}");
                assert_eq!(map.get(at + count - 1).is_hole(), is_hole, "{at} {count}");
                if !is_hole {
                    found.extend(at..at + count);
                }
                (at, steps) = (at + count, steps + 1);
            }
            let expected = written.into_iter().filter(|at| *at != 513 && bounds.contains(at));
            assert_eq!(found, expected.collect::<Vec<_>>());
            // each segment has at most three stretches here, and a gap behind it
            assert!(steps <= 4 * map.segments().count(), "{steps}");
        }
    }

    #[test]
    fn holes_take_no_segment() {
        let mut map = Map::default();
        map.set(1 << 20, Handle::HOLE, &mut Counted::default());
        assert_eq!(map.segments().count(), 0);
        assert_eq!(map.get(1 << 20), Handle::HOLE);
    }
}

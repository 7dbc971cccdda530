//! Which page each block of a volume is: in segments that volumes share until one of them writes.
//!
//! A page is referred to once by each segment entry that has it, however many volumes share the
//! segment. So a snapshot costs a few bytes a segment, and no page is touched.
//!
//! A segment is a node, with a page for each of 512 neighbouring blocks. What needs a segment that is
//! not in memory fails with [`Missing`] and changes nothing.

use std::ops::Range;

use crate::ids::Handle;
use crate::journal::record::SEGMENT;
use crate::nodes::format::{NODE, Node};
use crate::state::nodes::{Missing, NodeId, Nodes};
use crate::state::sparse::Sparse;

const _: () = assert!(SEGMENT == NODE);

/// Who has the nodes, and counts the references to pages.
pub(crate) trait References {
    fn nodes(&self) -> &Nodes;
    fn nodes_mut(&mut self) -> &mut Nodes;
    /// One more segment entry has the page.
    fn gain(&mut self, page: Handle);
    /// One less has it.
    fn release(&mut self, page: Handle);
}

/// The pages of a segment that are no holes.
pub(crate) fn present(segment: &Node) -> impl Iterator<Item = Handle> {
    segment.iter().map(|page| Handle::from_u64(*page)).filter(|page| !page.is_hole())
}

/// The pages of a segment, holes among them.
pub(crate) fn pages(segment: &Node) -> impl ExactSizeIterator<Item = Handle> {
    segment.iter().map(|page| Handle::from_u64(*page))
}

/// A segment of these pages, which no map has yet.
pub(crate) fn add_segment(nodes: &mut Nodes, pages: &[Handle]) -> NodeId {
    let mut segment = [Handle::HOLE.to_u64(); SEGMENT];
    for (place, page) in segment.iter_mut().zip(pages) {
        *place = page.to_u64();
    }
    let mapped = present(&segment).count() as u32;
    let id = nodes.add(segment);
    nodes.set_mapped(id, mapped);
    id
}

/// The pages of a volume's blocks.
#[derive(Debug, Default)]
pub(crate) struct Map {
    segments: Sparse<NodeId>,
    /// Blocks that are no holes.
    mapped: u64,
}

impl Map {
    pub(crate) fn get(&self, block: u64, nodes: &Nodes) -> Result<Handle, Missing> {
        let (index, place) = split(block);
        match self.segments.get(index) {
            None => Ok(Handle::HOLE),
            Some(segment) => Ok(Handle::from_u64(nodes.get(*segment)?[place])),
        }
    }

    /// Fails if [`set`](Self::set) of this block would.
    pub(crate) fn ensure_here(&self, block: u64, nodes: &Nodes) -> Result<(), Missing> {
        let (index, _) = split(block);
        self.segments.get(index).map_or(Ok(()), |segment| nodes.ensure_here(*segment))
    }

    /// Asks memory for what [`get`](Self::get) and [`set`](Self::set) will read.
    pub(crate) fn prefetch(&self, block: u64, nodes: &Nodes) {
        let (index, place) = split(block);
        if let Some(segment) = self.segments.get(index) {
            nodes.prefetch(*segment, place);
        }
    }

    /// How many blocks from the first of `blocks` on are holes alike, or are none alike; and whether
    /// they are holes. There may be more of them behind: looked at is one segment, however many there
    /// are not.
    ///
    /// # Panics
    ///
    /// If `blocks` is empty.
    pub(crate) fn alike(&self, blocks: Range<u64>, nodes: &Nodes) -> Result<(u64, bool), Missing> {
        let count = blocks.end.checked_sub(blocks.start).filter(|count| *count > 0);
        let count = count.expect("there is a block");
        let (index, place) = split(blocks.start);
        let next = self.segments.iter_from(index).next();
        let Some((found, &segment)) = next else { return Ok((count, true)) };
        let first = u64::from(found) * SEGMENT as u64;
        if first > blocks.start {
            return Ok((count.min(first - blocks.start), true));
        }
        if nodes.mapped(segment) as usize == SEGMENT {
            return Ok((count.min((SEGMENT - place) as u64), false));
        }
        let pages = &nodes.get(segment)?[place..];
        let is_hole = |page: &u64| Handle::from_u64(*page).is_hole();
        let first_is_hole = is_hole(&pages[0]);
        let alike = pages.iter().take_while(|page| is_hole(page) == first_is_hole).count();
        Ok((count.min(alike as u64), first_is_hole))
    }

    /// Blocks that are no holes.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Maps `block` to `to`.
    pub(crate) fn set(
        &mut self,
        block: u64,
        to: Handle,
        references: &mut impl References,
    ) -> Result<(), Missing> {
        let (index, place) = split(block);
        if to.is_hole() && self.segments.get(index).is_none() {
            return Ok(());
        }
        self.ensure_here(block, references.nodes())?;
        // The new one first: it may be the old one, which must not be without references.
        if !to.is_hole() {
            references.gain(to);
        }
        let own = self.own(index, references)?;
        let nodes = references.nodes_mut();
        let before = std::mem::replace(&mut nodes.get_mut(own)?[place], to.to_u64());
        let before = Handle::from_u64(before);
        let (gained, lost) = (!to.is_hole(), !before.is_hole());
        let mapped = nodes.mapped(own) + u32::from(gained) - u32::from(lost);
        nodes.set_mapped(own, mapped);
        self.mapped = self.mapped + u64::from(gained) - u64::from(lost);
        if lost {
            references.release(before);
        }
        Ok(())
    }

    /// Makes holes of the blocks from `blocks` on. Those of whole segments go to the map that this
    /// returns, which still refers to their pages. Looks at each of these segments, and at no page of
    /// theirs.
    pub(crate) fn split_off(
        &mut self,
        blocks: u64,
        references: &mut impl References,
    ) -> Result<Self, Missing> {
        let (index, place) = split(blocks);
        if place > 0 {
            self.ensure_here(blocks, references.nodes())?;
        }
        let whole = if place == 0 { index } else { index + 1 };
        let segments = self.segments.split_off(whole);
        let nodes = references.nodes();
        let mapped = segments.values().map(|segment| u64::from(nodes.mapped(*segment))).sum();
        self.mapped -= mapped;
        if place > 0 && self.segments.get(index).is_some() {
            let first = blocks - place as u64;
            for block in blocks..first + SEGMENT as u64 {
                self.set(block, Handle::HOLE, references)?;
            }
        }
        Ok(Self { segments, mapped })
    }

    /// The same map for another volume.
    pub(crate) fn share(&self, nodes: &mut Nodes) -> Self {
        for segment in self.segments.values() {
            nodes.set_owners(*segment, nodes.owners(*segment) + 1);
        }
        Self { segments: self.segments.clone(), mapped: self.mapped }
    }

    /// Lets go of the first segment; false if there is none.
    pub(crate) fn release_first(
        &mut self,
        references: &mut impl References,
    ) -> Result<bool, Missing> {
        let Some((_, &segment)) = self.segments.iter().next() else { return Ok(false) };
        let owners = references.nodes().owners(segment);
        if owners == 1 {
            // nobody else has it, so nobody changes it
            let content = references.nodes().share(segment)?;
            present(&content).for_each(|page| references.release(page));
        }
        self.segments.pop_first();
        let nodes = references.nodes_mut();
        self.mapped -= u64::from(nodes.mapped(segment));
        match owners {
            1 => nodes.remove(segment),
            _ => nodes.set_owners(segment, owners - 1),
        }
        Ok(true)
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
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u32, NodeId)> {
        self.segments_from(0)
    }

    /// The same from `index` on.
    pub(crate) fn segments_from(&self, index: u32) -> impl Iterator<Item = (u32, NodeId)> {
        self.segments.iter_from(index).map(|(index, segment)| (index, *segment))
    }

    /// The segment `index`.
    pub(crate) fn segment(&self, index: u32) -> Option<NodeId> {
        self.segments.get(index).copied()
    }

    /// Puts a segment into its place, which is empty.
    pub(crate) fn place(&mut self, index: u32, segment: NodeId, nodes: &mut Nodes) {
        nodes.set_owners(segment, nodes.owners(segment) + 1);
        self.mapped += u64::from(nodes.mapped(segment));
        self.segments.insert(index, segment);
    }

    /// Counts anew how many blocks are no holes, as its segments say.
    pub(crate) fn count_mapped(&mut self, nodes: &Nodes) {
        let segments = self.segments.values();
        self.mapped = segments.map(|segment| u64::from(nodes.mapped(*segment))).sum();
    }

    /// The segment `index`, of this map alone.
    fn own(&mut self, index: u32, references: &mut impl References) -> Result<NodeId, Missing> {
        let Some(segment) = self.segment(index) else {
            let nodes = references.nodes_mut();
            let empty = add_segment(nodes, &[]);
            nodes.set_owners(empty, 1);
            self.segments.insert(index, empty);
            return Ok(empty);
        };
        let owners = references.nodes().owners(segment);
        if owners == 1 {
            return Ok(segment);
        }
        let content = references.nodes().share(segment)?;
        present(&content).for_each(|page| references.gain(page));
        let nodes = references.nodes_mut();
        let own = nodes.add(*content);
        nodes.set_mapped(own, nodes.mapped(segment));
        nodes.set_owners(own, 1);
        nodes.set_owners(segment, owners - 1);
        self.segments.insert(index, own);
        Ok(own)
    }
}

/// Replaces each page of a segment by what `forward` says; `None` leaves it. References are those of the
/// same pages as before, so nobody counts. All maps that have the segment have it as it is then.
pub(crate) fn forward(
    segment: NodeId,
    forward: impl Fn(Handle) -> Option<Handle>,
    nodes: &mut Nodes,
) -> Result<(), Missing> {
    if pages(nodes.get(segment)?).all(|page| forward(page).is_none()) {
        return Ok(());
    }
    for page in nodes.get_mut(segment)? {
        *page = forward(Handle::from_u64(*page)).map_or(*page, Handle::to_u64);
    }
    Ok(())
}

/// The segment of a block, of which no volume has more than a number of 32 bits can tell apart, and
/// its place in there.
fn split(block: u64) -> (u32, usize) {
    ((block / SEGMENT as u64) as u32, (block % SEGMENT as u64) as usize)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[derive(Default)]
    struct Counted {
        nodes: Nodes,
        of: HashMap<Handle, i64>,
    }

    impl References for Counted {
        fn nodes(&self) -> &Nodes {
            &self.nodes
        }

        fn nodes_mut(&mut self) -> &mut Nodes {
            &mut self.nodes
        }

        fn gain(&mut self, page: Handle) {
            *self.of.entry(page).or_default() += 1;
        }

        fn release(&mut self, page: Handle) {
            let count = self.of.get_mut(&page).expect("was gained");
            *count -= 1;
            if *count == 0 {
                self.of.remove(&page);
            }
        }
    }

    const HOLE: Handle = Handle::HOLE;

    fn page(n: u32) -> Handle {
        Handle::new(1, n)
    }

    fn get(map: &Map, block: u64, counted: &Counted) -> Handle {
        map.get(block, &counted.nodes).unwrap()
    }

    fn release(mut map: Map, counted: &mut Counted) {
        while map.release_first(counted).unwrap() {}
    }

    /// Counts what the segments of `maps` refer to. Each must know how many of its blocks are no holes.
    fn expect_counts(counted: &Counted, maps: &[&Map]) {
        let nodes = &counted.nodes;
        for map in maps {
            let present = |id: NodeId| present(nodes.get(id).unwrap()).count() as u32;
            assert!(map.segments().all(|(_, segment)| nodes.mapped(segment) == present(segment)));
            let sum: u64 = map.segments().map(|(_, segment)| u64::from(present(segment))).sum();
            assert_eq!(map.mapped(), sum);
        }
        let mut expected = HashMap::new();
        let mut seen = HashSet::new();
        for (_, segment) in maps.iter().flat_map(|map| map.segments()) {
            if seen.insert(segment) {
                present(nodes.get(segment).unwrap())
                    .for_each(|page| *expected.entry(page).or_default() += 1);
            }
        }
        assert_eq!(counted.of, expected);
        assert_eq!(nodes.counts().nodes, seen.len() as u64);
    }

    #[test]
    fn shared_maps_part_where_one_is_written() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        for block in 0..1500 {
            map.set(block, page(block as u32 % 7), &mut counted).unwrap();
        }
        let mut snapshot = map.share(&mut counted.nodes);
        expect_counts(&counted, &[&map, &snapshot]);
        map.set(3, page(100), &mut counted).unwrap();
        map.set(4, HOLE, &mut counted).unwrap();
        let both = |map| (get(map, 3, &counted), get(map, 4, &counted));
        assert_eq!((both(&snapshot), both(&map)), ((page(3), page(4)), (page(100), HOLE)));
        expect_counts(&counted, &[&map, &snapshot]);
        let beyond = snapshot.split_off(5, &mut counted).unwrap();
        release(beyond, &mut counted);
        assert_eq!(get(&snapshot, 4, &counted), page(4));
        assert_eq!(get(&snapshot, 5, &counted), HOLE);
        assert_eq!(get(&map, 5, &counted), page(5));
        assert_eq!(get(&map, 1499, &counted), page(1499 % 7));
        expect_counts(&counted, &[&map, &snapshot]);
        release(snapshot, &mut counted);
        expect_counts(&counted, &[&map]);
        release(map, &mut counted);
        expect_counts(&counted, &[]);
    }

    #[test]
    fn what_was_split_off_is_let_go_segment_by_segment() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        for block in 0..5000 {
            map.set(block, page(block as u32 % 700), &mut counted).unwrap();
        }
        let mut snapshot = map.share(&mut counted.nodes);
        let mut beyond = map.split_off(1000, &mut counted).unwrap();
        assert_eq!((map.mapped(), beyond.mapped()), (1000, 5000 - 1024));
        assert_eq!(get(&map, 1000, &counted), HOLE);
        assert_eq!(get(&beyond, 1023, &counted), HOLE);
        assert_eq!(get(&beyond, 1024, &counted), page(324));
        let mut snapshot_beyond = snapshot.split_off(1024, &mut counted).unwrap();
        let mut steps = 0;
        while beyond.release_first(&mut counted).unwrap() {
            // which another map has as well, and has alone where it was let go
            snapshot_beyond.set(2000 + steps, page(900), &mut counted).unwrap();
            steps += 1;
            expect_counts(&counted, &[&map, &beyond, &snapshot, &snapshot_beyond]);
        }
        assert_eq!((steps, beyond.mapped()), (8, 0));
        while snapshot_beyond.release_first(&mut counted).unwrap() {
            expect_counts(&counted, &[&map, &snapshot, &snapshot_beyond]);
        }
        expect_counts(&counted, &[&map, &snapshot]);
    }

    #[test]
    fn a_checkpoint_keeps_what_it_holds() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        map.set(1, page(1), &mut counted).unwrap();
        let segment = map.segment(0).unwrap();
        let held = counted.nodes.share(segment).unwrap();
        map.set(1, page(2), &mut counted).unwrap();
        assert_eq!(held[1], page(1).to_u64());
        assert_eq!(get(&map, 1, &counted), page(2));
        expect_counts(&counted, &[&map]);
    }

    #[test]
    fn forwarded_segments_stay_shared() {
        let mut counted = Counted::default();
        let mut map = Map::default();
        map.set(1, page(1), &mut counted).unwrap();
        map.set(600, page(2), &mut counted).unwrap();
        let mut other = map.share(&mut counted.nodes);
        let all: Vec<NodeId> = map.segments().map(|(_, segment)| segment).collect();
        for (from, to) in [(page(1), page(9)), (page(2), page(8))] {
            for segment in &all {
                forward(*segment, |page| (page == from).then_some(to), &mut counted.nodes).unwrap();
            }
        }
        for map in [&map, &other] {
            assert_eq!(get(map, 1, &counted), page(9));
            assert_eq!(get(map, 600, &counted), page(8));
            assert!(map.segments().map(|(_, segment)| segment).eq(all.iter().copied()));
        }
        counted.of = HashMap::from([(page(9), 1), (page(8), 1)]);
        // and part again
        other.set(1, page(3), &mut counted).unwrap();
        assert_eq!((get(&map, 1, &counted), get(&other, 1, &counted)), (page(9), page(3)));
        expect_counts(&counted, &[&map, &other]);
    }

    #[test]
    fn blocks_alike_are_those_of_the_map_and_nobody_steps_through_what_is_not_there() {
        const BLOCKS: u64 = 1 << 38;
        let (mut map, mut counted) = (Map::default(), Counted::default());
        let written = [0, 1, 511, 512, 513, 2000, 1 << 20, (1 << 30) + 77, BLOCKS - 1];
        let full = (1 << 12)..(1 << 12) + 512;
        for block in written.into_iter().chain(full.clone()) {
            map.set(block, page(1), &mut counted).unwrap();
        }
        map.set(513, HOLE, &mut counted).unwrap();
        for bounds in [0..BLOCKS, 1..BLOCKS, 512..514, 513..3000, 77..78, BLOCKS - 1..BLOCKS] {
            let (mut at, mut steps, mut found) = (bounds.start, 0, Vec::new());
            while at < bounds.end {
                let (count, is_hole) = map.alike(at..bounds.end, &counted.nodes).unwrap();
                assert!((1..=bounds.end - at).contains(&count));
                assert_eq!(get(&map, at, &counted).is_hole(), is_hole, "{at}");
                assert_eq!(get(&map, at + count - 1, &counted).is_hole(), is_hole, "{at} {count}");
                if !is_hole {
                    found.extend(at..at + count);
                }
                (at, steps) = (at + count, steps + 1);
            }
            let mut expected: Vec<u64> = written.into_iter().chain(full.clone()).collect();
            expected.retain(|at| *at != 513 && bounds.contains(at));
            expected.sort_unstable();
            assert_eq!(found, expected);
            // each segment has at most three stretches here, and a gap behind it
            assert!(steps <= 4 * map.segments().count(), "{steps}");
        }
    }

    #[test]
    fn holes_take_no_segment() {
        let (mut map, mut counted) = (Map::default(), Counted::default());
        map.set(1 << 20, HOLE, &mut counted).unwrap();
        assert_eq!(map.segments().count(), 0);
        assert_eq!(get(&map, 1 << 20, &counted), HOLE);
    }
}

//! What an open pool is in memory, under one lock: its volumes, its pages, and queued records.

pub(crate) mod bits;
pub(crate) mod container;
pub(crate) mod dying;
pub(crate) mod foreign;
pub(crate) mod map;
pub(crate) mod nodes;
pub(crate) mod pages;
pub(crate) mod paging;
pub(crate) mod pending;
pub(crate) mod registrations;
pub(crate) mod sparse;
pub(crate) mod volume;
pub(crate) mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Handle, VolumeId};
use crate::journal::record::Record;
use crate::seeded::fault;
use crate::state::dying::Dying;
use crate::state::map::{Map, forward};
use crate::state::nodes::{Missing, NodeId};
use crate::state::pages::Pages;
use crate::state::volume::VolumeState;
use crate::state::waiting::Waiting;

/// Segments that are told at a time where pages went, while others wait; at least those of all maps
/// that have the same index.
const FORWARDED: usize = 256;

/// So many pages that maps name where they were take some MiB of memory.
const WORTH_FORWARDING: usize = 1 << 16;

/// What changes under one lock.
pub(crate) struct State {
    pub(crate) volumes: BTreeMap<VolumeId, VolumeState>,
    pub(crate) next_volume: u32,
    pub(crate) dying: Dying,
    pub(crate) pages: Pages,
    pub(crate) waiting: Waiting,
}

impl State {
    /// The page that a hint leads to, if it is there.
    pub(crate) fn found(&self, hint: Option<u64>) -> Option<Handle> {
        let page = self.pages.resolve(Handle::from_u64(hint?));
        self.pages.has(page).then_some(page)
    }

    /// Fails if [`map`](Self::map) of one of these blocks would panic.
    pub(crate) fn ensure_here(
        &self,
        volume: VolumeId,
        mut blocks: impl Iterator<Item = u64>,
    ) -> Result<(), Missing> {
        let Some(one) = self.volumes.get(&volume) else { return Ok(()) };
        blocks.try_for_each(|block| one.map.ensure_here(block, &self.pages.nodes))
    }

    /// The segments of these blocks that are not in memory.
    pub(crate) fn missing_segments(
        &self,
        volume: VolumeId,
        blocks: impl Iterator<Item = u64>,
    ) -> Vec<NodeId> {
        let Some(one) = self.volumes.get(&volume) else { return Vec::new() };
        let mut missing: Vec<NodeId> = blocks
            .filter_map(|block| one.map.ensure_here(block, &self.pages.nodes).err())
            .map(|Missing(node)| node)
            .collect();
        missing.dedup();
        missing
    }

    /// Maps all of `blocks`, as [`map`](Self::map) does; how many they are.
    pub(crate) fn map_all(
        &mut self,
        volume: VolumeId,
        blocks: impl Iterator<Item = u64>,
        to: Handle,
    ) -> usize {
        let mut count = 0;
        for block in blocks {
            self.map(volume, block, to);
            count += 1;
        }
        count
    }

    /// Maps a block, and notes it. A block that is beyond the end by now is as if it had been written
    /// before the volume became shorter.
    ///
    /// # Panics
    ///
    /// If the block's segment is not in memory.
    pub(crate) fn map(&mut self, volume: VolumeId, block: u64, to: Handle) {
        let Some(one) = self.volumes.get_mut(&volume) else { return };
        if block >= one.size.get() / u64::from(one.block_size.bytes()) {
            return;
        }
        const HERE: &str = "the caller made sure that the segment is in memory";
        if to.is_hole() && one.map.get(block, &self.pages.nodes).expect(HERE).is_hole() {
            return;
        }
        let to = self.pages.resolve(to);
        one.map.set(block, to, &mut self.pages).expect(HERE);
        self.waiting.push(&Record::Map { volume, block, to });
    }

    /// `volume` no longer has `map`, as `records` say, which are durable together. Returns the
    /// number of the dying map, unless it has no segments.
    pub(crate) fn let_die(
        &mut self,
        volume: VolumeId,
        map: Map,
        records: &[Record],
    ) -> Option<u64> {
        self.waiting.push_together(records);
        (!map.is_empty()).then(|| self.dying.add(volume, map))
    }

    /// Whether so many pages were moved that it is worth a look at all maps to let them know; or that
    /// takes no look at a file.
    pub(crate) fn is_worth_forwarding(&self) -> bool {
        let forwarded = self.pages.forwarded();
        forwarded > 0 && (forwarded >= WORTH_FORWARDING || self.pages.nodes.are_all_here())
    }

    /// Lets the segments from `index` on know where pages were moved, as many as may be told at a time;
    /// where to go on, if there are more. What was told before a node was missing is told.
    ///
    /// All maps are told of one index after another, because volumes share segments of the same index:
    /// one that is told is told for all of them. Where it was told no page is mapped to where it was
    /// any more, because whoever maps one looks where it is, and a segment that is copied has the pages
    /// of another one of the same index.
    pub(crate) fn forward_some(&mut self, mut index: u32) -> Result<Option<u32>, Missing> {
        let State { pages, volumes, dying, .. } = self;
        let mut nodes = std::mem::take(&mut pages.nodes);
        let told = (|| {
            let mut maps: Vec<&Map> = volumes.values().map(|one| &one.map).collect();
            maps.extend(dying.maps().filter(|_| !fault!(DyingUnforwarded)));
            let mut told = 0;
            while told < FORWARDED {
                let next = maps.iter().filter_map(|map| map.next_index(index)).min();
                let Some(next) = next else { return Ok(None) };
                let same: BTreeSet<NodeId> =
                    maps.iter().filter_map(|map| map.segment(next)).collect();
                for segment in same {
                    forward(segment, |page| pages.moved(page), &mut nodes)?;
                }
                told += maps.len();
                index = match next.checked_add(1) {
                    Some(index) => index,
                    None => return Ok(None),
                };
            }
            Ok(Some(index))
        })();
        pages.nodes = nodes;
        told
    }

    /// Asks for the places of blocks in their map.
    pub(crate) fn prefetch_blocks(&self, volume: VolumeId, blocks: impl Iterator<Item = u64>) {
        if let Some(one) = self.volumes.get(&volume) {
            blocks.for_each(|block| one.map.prefetch(block, &self.pages.nodes));
        }
    }

    /// Asks for the references of the pages that blocks have now.
    pub(crate) fn prefetch_mapped(&self, volume: VolumeId, blocks: impl Iterator<Item = u64>) {
        if let Some(one) = self.volumes.get(&volume) {
            let page = |block| one.map.get(block, &self.pages.nodes);
            blocks.filter_map(|block| page(block).ok()).for_each(|page| self.pages.prefetch(page));
        }
    }

    /// Asks for the references of the pages that hints lead to.
    pub(crate) fn prefetch_hinted(&self, hints: &[Option<u64>]) {
        hints.iter().flatten().for_each(|hint| self.pages.prefetch(Handle::from_u64(*hint)));
    }
}

//! Reads ahead of who reads one block after another: when a read misses a node, those that the next
//! reads will miss are read with it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::VolumeId;
use crate::journal::record::SEGMENT;
use crate::state::State;
use crate::state::nodes::{Missing, NodeId};

/// A read that begins so many blocks from where the one before ended goes on from there: requests of
/// one reader overtake one another.
const NEAR: u64 = 512;

/// As many blocks are looked ahead as were read in sequence, at most so many: sixteen segments.
const MOST: u64 = 16 * SEGMENT as u64;

/// What is read ahead takes at most this share of the nodes that may be in memory.
const SHARE: usize = 8;

/// Where the last read of a volume ended, and how many blocks were read in sequence by then. Two
/// readers at once may hide from each other that they read in sequence.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    end: AtomicU64,
    blocks: AtomicU64,
}

impl Sequence {
    /// Notes a read of `blocks`; which blocks are likely to be read next.
    pub(crate) fn note(&self, blocks: &Range<u64>) -> Range<u64> {
        let end = self.end.load(Ordering::Relaxed);
        let is_next = blocks.start.abs_diff(end) <= NEAR;
        let before = if is_next { self.blocks.load(Ordering::Relaxed) } else { 0 };
        let end = if is_next { end.max(blocks.end) } else { blocks.end };
        self.end.store(end, Ordering::Relaxed);
        self.blocks.store(before + (blocks.end - blocks.start), Ordering::Relaxed);
        blocks.end..blocks.end + before.min(MOST)
    }
}

impl Engine {
    /// Brings in the segments of `blocks` that are not in memory, and with them those of `ahead`.
    pub(super) fn bring_segments(
        &self,
        volume: VolumeId,
        blocks: &Range<u64>,
        ahead: &Range<u64>,
    ) -> Result<(), VolumeError> {
        for misses in 0.. {
            let mut missing = self.state().missing_segments(volume, blocks.clone());
            if missing.is_empty() {
                return Ok(());
            }
            missing.extend(self.segments_ahead(volume, ahead));
            self.bring_again(&missing, misses)?;
        }
        unreachable!("it does not end but by what it returns")
    }

    /// Brings in the nodes that say where the pages of `blocks` are, and with them segments and such
    /// nodes of `ahead`. The caller missed `missed`, and others `misses` times before.
    pub(super) fn bring_places(
        &self,
        volume: VolumeId,
        blocks: Range<u64>,
        ahead: &Range<u64>,
        Missing(missed): Missing,
        misses: u32,
    ) -> Result<(), VolumeError> {
        let segments = self.segments_ahead(volume, ahead);
        if !segments.is_empty() {
            self.bring_again(&segments, misses)?;
        }
        // if there is little room, what was missed may be a segment
        let mut missing = vec![missed];
        {
            let state = self.state();
            missing.extend(state.missing_places(volume, blocks, usize::MAX));
            missing.extend(state.missing_places(volume, ahead.clone(), self.most_ahead()));
        }
        self.bring_again(&missing, misses)
    }

    /// The segments of `ahead` that are not in memory, as many as may be read ahead.
    fn segments_ahead(&self, volume: VolumeId, ahead: &Range<u64>) -> Vec<NodeId> {
        let segment = |block: u64| block / SEGMENT as u64;
        let segments = segment(ahead.start)..segment(ahead.end.next_multiple_of(SEGMENT as u64));
        let firsts = segments.map(|one| one * SEGMENT as u64);
        let mut missing = match ahead.is_empty() {
            true => Vec::new(),
            false => self.state().missing_segments(volume, firsts),
        };
        missing.truncate(self.most_ahead());
        missing
    }

    /// How many nodes may be read ahead.
    fn most_ahead(&self) -> usize {
        self.paging.as_ref().map_or(0, |paging| paging.most(0) / SHARE)
    }
}

impl State {
    /// The nodes that are not in memory and say where the pages of `blocks` are, `most` at most. The
    /// blocks of segments that are not in memory are left out.
    fn missing_places(&self, volume: VolumeId, blocks: Range<u64>, most: usize) -> Vec<NodeId> {
        let Some(one) = self.volumes.get(&volume) else { return Vec::new() };
        let mut missing = Vec::new();
        for block in blocks {
            if missing.len() == most {
                break;
            }
            let Ok(page) = one.map.get(block, &self.pages.nodes) else { continue };
            if page.is_hole() {
                continue;
            }
            if let Err(Missing(node)) = self.pages.locate(page)
                && missing.last() != Some(&node)
            {
                missing.push(node);
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_looked_ahead_as_was_read_in_sequence() {
        let sequence = Sequence::default();
        // nobody knows yet whether it goes on
        assert_eq!(sequence.note(&(1000..1008)), 1008..1008);
        assert_eq!(sequence.note(&(1008..1016)), 1016..1024);
        // one that was overtaken, and the one that overtook it
        assert_eq!(sequence.note(&(1024..1032)), 1032..1048);
        assert_eq!(sequence.note(&(1016..1024)), 1024..1048);
        assert_eq!(sequence.note(&(1032..1040)), 1040..1072);
        // elsewhere
        assert_eq!(sequence.note(&(0..8)), 8..8);
        let mut window = 0..0;
        for at in 0..2 * MOST {
            window = sequence.note(&(at..at + 1));
        }
        assert_eq!(window, 2 * MOST..3 * MOST);
    }
}

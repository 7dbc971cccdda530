//! How often maps name pages, counted in passes: each pass walks all maps, and counts the pages of as
//! many containers as its memory has counters for.

use crate::engine::parts::Engine;
use crate::engine::walk::Step;
use crate::ids::Handle;
use crate::state::map::pages;
use crate::state::nodes::NodeId;
use crate::state::sparse::Sparse;

/// The share of the bytes for nodes that counters take for a while.
const SHARE: u64 = 4;

/// Counters may take so many bytes, however few there are for nodes: those of the longest container.
const LEAST: u64 = COUNTER * crate::containers::entry::MOST_PAGES as u64;

/// Bytes of a counter.
const COUNTER: u64 = size_of::<u32>() as u64;

/// A container, and how many of its pages are counted.
pub(super) type Counted = (u32, u32);

impl Engine {
    /// Bytes of counters of one pass.
    pub(super) fn counter_bytes(&self) -> u64 {
        let bytes = self.paging.as_ref().map_or(u64::MAX, |paging| paging.bytes());
        (bytes / SHARE).max(LEAST)
    }
}

/// How many of `containers` a pass counts, whose counters take at most `bytes`: at least one.
pub(super) fn fitting(containers: &[Counted], bytes: u64) -> usize {
    let mut left = bytes;
    let fits = |(_, pages): &&Counted| match left.checked_sub(counters_len(*pages)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    containers.iter().take_while(fits).count().max(1).min(containers.len())
}

/// Bytes of the counters of so many pages.
fn counters_len(pages: u32) -> u64 {
    COUNTER * u64::from(pages)
}

/// How often the maps name each page of some containers.
pub(super) struct Counts {
    of: Sparse<Box<[u32]>>,
    bytes: u64,
    seen: Seen,
}

/// A block whose page is none of those that are counted.
pub(super) struct Elsewhere<'a> {
    pub(super) step: &'a Step,
    pub(super) place: usize,
    pub(super) page: Handle,
}

/// Segments that were counted, a bit each: one that several volumes share counts once.
#[derive(Default)]
struct Seen(Vec<u64>);

impl Seen {
    /// Whether it was not seen before.
    fn insert(&mut self, id: NodeId) -> bool {
        let (word, bit) = (id.at() / 64, 1 << (id.at() % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

impl Counts {
    /// Counters for the pages of these containers.
    pub(super) fn new(containers: &[Counted]) -> Self {
        let (mut of, mut bytes) = (Sparse::default(), 0);
        for (number, pages) in containers {
            of.insert(*number, vec![0; *pages as usize].into_boxed_slice());
            bytes += counters_len(*pages);
        }
        Self { of, bytes, seen: Seen::default() }
    }

    /// Bytes of all counters.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How often each page of container `number` was named.
    pub(super) fn of(&self, number: u32) -> &[u32] {
        self.of.get(number).map_or(&[], |counts| counts)
    }

    /// Whether a segment was not counted before, which it is from now on.
    pub(super) fn is_first(&mut self, id: NodeId) -> bool {
        self.seen.insert(id)
    }

    /// Counts the segments; what they name beside the pages that have counters.
    pub(super) fn count<'a>(&mut self, steps: &'a [Step]) -> Vec<Elsewhere<'a>> {
        let mut elsewhere = Vec::new();
        for step in steps {
            if !self.seen.insert(step.id) {
                continue;
            }
            for (place, page) in pages(&step.segment).enumerate() {
                if page.is_hole() {
                    continue;
                }
                let of_it = self.of.get_mut(page.container());
                match of_it.and_then(|of_it| of_it.get_mut(page.slot() as usize)) {
                    Some(count) => *count = count.saturating_add(1),
                    None => elsewhere.push(Elsewhere { step, place, page }),
                }
            }
        }
        elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_counts_what_fits_and_one_container_at_least() {
        let containers = [(1, 10), (2, 20), (5, 30), (9, 1)];
        let passes = |bytes: u64| {
            let (mut rest, mut passes) = (&containers[..], Vec::new());
            while !rest.is_empty() {
                let now;
                (now, rest) = rest.split_at(fitting(rest, bytes));
                let counts = Counts::new(now);
                assert!(counts.bytes() <= bytes || now.len() == 1, "{bytes}: {now:?}");
                assert!(
                    now.iter().all(|(number, pages)| counts.of(*number).len() as u32 == *pages)
                );
                passes.push(now.len());
            }
            passes
        };
        assert_eq!(passes(u64::MAX), [4]);
        assert_eq!(passes(4 * 61), [4]);
        assert_eq!(passes(4 * 60), [3, 1]);
        assert_eq!(passes(4 * 50), [2, 2]);
        assert_eq!(passes(4 * 30), [2, 1, 1]);
        assert_eq!(passes(0), [1, 1, 1, 1]);
        assert_eq!(fitting(&[], 100), 0);
    }
}

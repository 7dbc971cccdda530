//! Cut-points from what a device found: one after another, on the host.
//!
//! The list of candidates is walked in order, once. A cut-point depends on the one before, and a list
//! of one candidate in some thousand bytes takes the host less time than a pass of the device takes to
//! start.

use std::collections::VecDeque;
use std::ops::Range;

use onefold_cdc::{ChunkSizes, Chunker, LeastHash, Tables};

use crate::STRIP;
use crate::kernel::STRICT;
use crate::work::Marks;

/// Selects the cut-points of one input, buffer by buffer.
///
/// Each buffer holds the bytes of the chunk that is not decided yet: those before its new ones.
pub(crate) struct Selector {
    sizes: ChunkSizes,
    rule: Rule,
    /// The last cut-point.
    start: u64,
}

enum Rule {
    First(Candidates),
    Least(LeastHash),
}

struct Candidates {
    /// Of candidates before avg only the strict ones count.
    is_normalised: bool,
    /// Those after the last cut-point that may yet end a chunk, with whether they are strict.
    pending: VecDeque<(u64, bool)>,
}

impl Selector {
    /// Of an input whose first chunk begins at byte `start`.
    pub(crate) fn new(sizes: ChunkSizes, tables: &Tables, is_normalised: bool, start: u64) -> Self {
        let rule = match tables {
            Tables::Window(_) => {
                Rule::First(Candidates { is_normalised, pending: VecDeque::new() })
            }
            Tables::Least(hash) => Rule::Least(hash.clone()),
        };
        Self { sizes, rule, start }
    }

    /// The last cut-point.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Appends to `cuts` the cut-points that `marks` decide: those found of bytes `base` to `until` of
    /// the input. Nothing follows if this `is_end`. Minima need the `bytes`, candidates do not.
    pub(crate) fn advance(
        &mut self,
        marks: &Marks,
        bytes: &[u8],
        Range { start: base, end: until }: Range<u64>,
        is_end: bool,
        cuts: &mut Vec<u64>,
    ) {
        if let (Rule::First(candidates), Marks::Candidates(list)) = (&mut self.rule, marks) {
            let each = |&one: &u32| (base + u64::from(one & !STRICT), one & STRICT != 0);
            candidates.pending.extend(list.iter().map(each));
        }
        while self.start < until {
            let left = until - self.start;
            let max = self.sizes.max() as u64;
            let is_decided = left >= max || is_end;
            let found = match (&mut self.rule, marks) {
                (Rule::First(candidates), _) => {
                    let found = candidates.next(self.start, until, self.sizes);
                    found.or_else(|| is_decided.then(|| self.start + left.min(max)))
                }
                (Rule::Least(hash), Marks::Minima(minima)) if is_decided => {
                    let from = (self.start - base) as usize;
                    let reach = left.min(max) as usize;
                    let local = least(hash, minima, bytes, from, reach);
                    Some(base + local as u64)
                }
                _ => None,
            };
            let Some(cut) = found else { break };
            self.start = cut;
            cuts.push(cut);
        }
    }

    /// The same by the CPU alone.
    pub(crate) fn advance_on_cpu(
        &mut self,
        chunker: &Chunker,
        bytes: &[u8],
        base: u64,
        is_end: bool,
        cuts: &mut Vec<u64>,
    ) {
        let until = base + bytes.len() as u64;
        while self.start < until {
            let rest = &bytes[(self.start - base) as usize..];
            let found = if is_end { chunker.last_cut(rest) } else { chunker.next_cut(rest) };
            let Some(len) = found else { break };
            self.start += len as u64;
            cuts.push(self.start);
        }
        // what was found before no chunk can end at: none did in all bytes so far
        if let Rule::First(candidates) = &mut self.rule {
            candidates.pending.clear();
        }
    }
}

impl Candidates {
    /// The first candidate that ends the chunk from `start` on, if there is one up to `until`.
    fn next(&mut self, start: u64, until: u64, sizes: ChunkSizes) -> Option<u64> {
        let first = start + sizes.min() as u64;
        let normal = start + sizes.avg() as u64;
        let last = until.min(start + sizes.max() as u64);
        while self.pending.front().is_some_and(|&(at, _)| at < first) {
            self.pending.pop_front();
        }
        let ends = |&&(at, strict): &&(u64, bool)| !self.is_normalised || strict || at >= normal;
        let up_to_last = self.pending.iter().take_while(|&&(at, _)| at <= last);
        up_to_last.filter(|one| ends(one)).map(|&(at, _)| at).next()
    }
}

/// The cut-point of the chunk that begins with byte `from` of `bytes` and covers no more than `reach`
/// bytes: the first position with the least hash. Whole strips are looked up in `minima`.
fn least(hash: &LeastHash, minima: &[u64], bytes: &[u8], from: usize, reach: usize) -> usize {
    if reach <= hash.first {
        return from + reach;
    }
    let (first, last) = (from + hash.first, from + reach);
    let key = |at: usize| {
        let four = u32::from_le_bytes([bytes[at - 4], bytes[at - 3], bytes[at - 2], bytes[at - 1]]);
        let hashed = four.wrapping_mul(hash.factor).wrapping_add(hash.addend);
        u64::from(hashed) << 32 | at as u64
    };
    // strip s has positions s STRIP + 1 to (s + 1) STRIP
    let (whole_from, whole_to) = ((first - 1).div_ceil(STRIP), last / STRIP);
    let found = if whole_from < whole_to {
        let head = (first..=whole_from * STRIP).map(key).min();
        let tail = (whole_to * STRIP + 1..=last).map(key).min();
        let whole = minima[whole_from..whole_to].iter().copied().min();
        head.into_iter().chain(whole).chain(tail).min()
    } else {
        (first..=last).map(key).min()
    };
    found.map_or(last, |key| key as u32 as usize)
}

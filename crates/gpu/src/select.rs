//! Cut-points from what a device found: one after another, on the host.
//!
//! Candidates are walked in order, once. A cut-point depends on the one before, and a list of one candidate in
//! some thousand bytes takes the host less time than a pass of the device takes to start.
//!
//! Chains are joined: where one has a cut-point of the next, the next goes on.

use std::ops::Range;

use onefold_cdc::{ChunkSizes, Chunker};

use crate::kernel::STRICT;
use crate::work::Marks;

/// Selects the cut-points of one input, buffer by buffer.
///
/// Each buffer holds the bytes of the chunk that is not decided yet: those before its new ones.
pub(crate) struct Selector {
    sizes: ChunkSizes,
    /// Of candidates before avg only the strict ones count.
    is_normalised: bool,
    /// Candidates after the last cut-point that may yet end a chunk, with whether they are strict.
    pending: Vec<(u64, bool)>,
    /// The last cut-point.
    start: u64,
}

impl Selector {
    /// Of an input whose first chunk begins at byte `start`.
    pub(crate) const fn new(sizes: ChunkSizes, is_normalised: bool, start: u64) -> Self {
        Self { sizes, is_normalised, pending: Vec::new(), start }
    }

    /// The last cut-point.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Appends to `cuts` the cut-points that `marks` decide: those found of bytes `base` to `until` of
    /// the input. Nothing follows if this `is_end`. `alone` finds the end of the chunk that begins with a byte of the
    /// buffer, where chains have no cut-point in common.
    pub(crate) fn advance(
        &mut self,
        marks: &Marks,
        alone: impl Fn(usize) -> Option<usize>,
        place: Range<u64>,
        is_end: bool,
        cuts: &mut Vec<u64>,
    ) {
        match marks {
            Marks::Candidates(list) => self.first_candidates(list, place, is_end, cuts),
            Marks::Chains(chains) => self.joined(chains, alone, place, is_end, cuts),
        }
    }

    fn first_candidates(
        &mut self,
        list: &[u32],
        Range { start: base, end: until }: Range<u64>,
        is_end: bool,
        cuts: &mut Vec<u64>,
    ) {
        let each = |&one: &u32| (base + u64::from(one & !STRICT), one & STRICT != 0);
        self.pending.extend(list.iter().map(each));
        let (min, avg, max) =
            (self.sizes.min() as u64, self.sizes.avg() as u64, self.sizes.max() as u64);
        let mut from = 0;
        while self.start < until {
            let (first, last) = (self.start + min, until.min(self.start + max));
            while self.pending.get(from).is_some_and(|&(at, _)| at < first) {
                from += 1;
            }
            let normal = if self.is_normalised { self.start + avg } else { 0 };
            let ends = |&&(at, strict): &&(u64, bool)| at > last || strict || at >= normal;
            let found = self.pending[from..].iter().find(ends).filter(|&&(at, _)| at <= last);
            let left = until - self.start;
            self.start = match found {
                Some(&(at, _)) => at,
                None if left >= max || is_end => last,
                None => break,
            };
            cuts.push(self.start);
        }
        self.pending.drain(..from);
    }

    fn joined(
        &mut self,
        chains: &Chains,
        alone: impl Fn(usize) -> Option<usize>,
        Range { start: base, end: until }: Range<u64>,
        is_end: bool,
        cuts: &mut Vec<u64>,
    ) {
        let mut join = chains.join();
        while self.start < until && (until - self.start >= self.sizes.max() as u64 || is_end) {
            let at = (self.start - base) as usize;
            let Some(cut) = join.after(at).or_else(|| alone(at)) else { break };
            self.start = base + cut as u64;
            cuts.push(self.start);
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
            let at = (self.start - base) as usize;
            let Some(cut) = cut_on_cpu(chunker, bytes, at, is_end) else { break };
            self.start = base + cut as u64;
            cuts.push(self.start);
        }
        // what was found before no chunk can end at: none did in all bytes so far
        self.pending.clear();
    }
}

/// Where in `bytes` the chunk ends that begins at `at`, if they decide it.
pub(crate) fn cut_on_cpu(
    chunker: &Chunker,
    bytes: &[u8],
    at: usize,
    is_end: bool,
) -> Option<usize> {
    let rest = &bytes[at..];
    let len = if is_end { chunker.last_cut(rest) } else { chunker.next_cut(rest) };
    len.map(|len| at + len)
}

/// Chains of cut-points. Each begins at a stretch of its own, as if a chunk began there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chains {
    /// For each chain the count of its cut-points, and those, in `room` numbers.
    found: Vec<u32>,
    room: usize,
    start: usize,
    stretch: usize,
}

impl Chains {
    /// Cut-points of a chain behind its stretch. On random data two chains meet with 0.75 a chunk (MinCDC's
    /// documentation in onefold-cdc).
    pub(crate) const MORE: usize = 8;

    /// Bytes of a stretch in a buffer of `len`, for chunks of up to `max`. In a longer stretch, less is searched
    /// twice; with shorter ones, more groups are at work.
    pub(crate) fn stretch(max: usize, len: usize) -> usize {
        (32 * max).min(len.max(1))
    }

    /// # Errors
    /// What no device finds.
    pub(crate) fn new(
        found: Vec<u32>,
        Range { start, end: len }: Range<usize>,
        max: usize,
        room: usize,
    ) -> Result<Self, String> {
        let stretch = Self::stretch(max, len);
        let chains = Self { found, room, start, stretch };
        for (number, chain) in chains.found.chunks(room).enumerate() {
            let mut before = start + number * stretch;
            let is_chunk = |&cut: &u32| {
                let last = std::mem::replace(&mut before, cut as usize);
                (last + 1..=len.min(last + max)).contains(&(cut as usize))
            };
            let cuts = chain[1..].get(..chain[0] as usize);
            if !cuts.is_some_and(|cuts| cuts.iter().all(is_chunk)) {
                return Err(format!(
                    "{} cut-points after byte {} of {len}, expected at most {}, up to {max} bytes apart",
                    chain[0],
                    start + number * stretch,
                    room - 1
                ));
            }
        }
        Ok(chains)
    }

    /// The cut-points of the first chain.
    pub(crate) fn first(&self) -> &[u32] {
        self.chain(0)
    }

    fn chain(&self, number: usize) -> &[u32] {
        let chain = &self.found[number * self.room..][..self.room];
        &chain[1..][..chain[0] as usize]
    }

    pub(crate) const fn join(&self) -> Join<'_> {
        Join { chains: self, on: None }
    }
}

/// Follows chains from cut-point to cut-point.
pub(crate) struct Join<'a> {
    chains: &'a Chains,
    /// The chain that has the last cut-point, and the number of the one after it.
    on: Option<(usize, usize)>,
}

impl Join<'_> {
    /// The cut-point after `at`, which is the last or none of a chain.
    pub(crate) fn after(&mut self, at: usize) -> Option<usize> {
        self.meets(at);
        let (number, next) = self.on?;
        let cut = self.chains.chain(number).get(next).copied();
        self.on = cut.map(|_| (number, next + 1));
        cut.map(|cut| cut as usize)
    }

    /// Whether a chain goes on after `at`: that of its stretch if it can.
    pub(crate) fn meets(&mut self, at: usize) -> bool {
        let Chains { start, stretch, .. } = *self.chains;
        let number = at.saturating_sub(start) / stretch;
        let is_behind = self.on.is_none_or(|(on, _)| on < number);
        if is_behind && number < self.chains.found.len() / self.chains.room {
            let chain = self.chains.chain(number);
            let next = match at == start + number * stretch {
                true => Some(0),
                false => chain.binary_search(&(at as u32)).ok().map(|place| place + 1),
            };
            self.on = next.map(|next| (number, next)).or(self.on);
        }
        self.on.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 50;

    /// Chains from bytes 0, 320 and 640 of 700, of chunks of up to 10 bytes. The first two meet at 333.
    fn chains() -> Chains {
        let every_ten = |from: u32, to: u32| (from..=to).step_by(10);
        let mut found = Vec::new();
        for chain in [
            every_ten(7, 327).chain([333]).collect::<Vec<u32>>(),
            [326].into_iter().chain(every_ten(333, 653)).collect(),
            every_ten(645, 695).collect(),
        ] {
            found.push(chain.len() as u32);
            found.extend(chain);
            found.resize(found.len().next_multiple_of(ROOM), 0);
        }
        Chains::new(found, 0..700, 10, ROOM).unwrap()
    }

    #[test]
    fn a_chain_goes_on_with_the_next_where_they_meet() {
        let chains = chains();
        let mut join = chains.join();
        let mut cuts = vec![0];
        while let Some(cut) = join.after(cuts[cuts.len() - 1]) {
            cuts.push(cut);
        }
        // the second has none in common with the third
        let ends = |from: usize, to: usize| (from..=to).step_by(10);
        assert!(cuts.iter().copied().eq([0].into_iter().chain(ends(7, 327)).chain(ends(333, 653))));
        assert!(!join.meets(653));
        assert!(join.meets(645));
        assert_eq!(join.after(645), Some(655));
        assert_eq!(chains.join().after(695), None);
    }

    #[test]
    fn a_chain_that_no_cut_point_is_in_is_not_followed() {
        let chains = chains();
        assert_eq!(chains.join().after(20), None);
        assert_eq!(chains.join().after(320), Some(326));
        assert_eq!(chains.join().after(699), None);
    }

    #[test]
    fn chains_that_no_device_finds_are_refused() {
        let refused = |found: Vec<u32>| Chains::new(found, 10..300, 50, 4).is_err();
        assert!(!refused(vec![2, 40, 90, 7]) && !refused(vec![0, 7, 7, 7]));
        assert!(!refused(vec![3, 60, 110, 160]));
        for found in
            [[4, 40, 90, 95], [2, 10, 40, 0], [2, 40, 40, 0], [1, 61, 0, 0], [2, 60, 111, 0]]
        {
            assert!(refused(found.to_vec()), "{found:?}");
        }
        let beyond = Chains::new(vec![1, 301, 0, 0], 299..300, 50, 4);
        assert!(beyond.unwrap_err().contains("1 cut-points after byte 299 of 300"));
    }
}

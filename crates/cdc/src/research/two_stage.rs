//! SS-CDC: F. Ni, X. Lin, S. Jiang, "SS-CDC: A Two-stage Parallel Content-Defined Chunking for
//! Deduplicating Backup Storage", SYSTOR 2019.
//!
//! **Stage one** tests every position, wherever chunks start, and marks the candidates in a bitmap.
//! **Stage two** goes through the bitmap and selects the cut-points under min and max. The hashes of
//! stage one do not wait for cut-points, so that several places are hashed at once.
//!
//! **Which rules.** Those whose test of a position sees the last bytes only, a window of them, if
//! min ≥ window: otherwise the first windows of a chunk would be cut short by its start. FastCDC and
//! TTTD have two thresholds and get two bitmaps, the stricter being a part of the other.
//! **Cut-points.** Those of the rule itself, [`Chunker::cut_points`].
//! **Cost.** Bytes that the rule skips below min are hashed, too. A bit a byte is kept of the input,
//! two with two thresholds.
//! **Departures.** SS-CDC gives a lane of a vector to each of 16 segments of the input and gathers
//! bytes and table entries. That was tried for Gear in 32 bits and CRC and left out: on Zen 5 the
//! four streams here, in plain instructions, took about half its time (no record). Rules that have a
//! vector kernel search by it instead. Stage two takes 64 bits a step where SS-CDC takes 512.

use std::array;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::descriptor::{DecidedBy, FromParams};
use crate::rolling::Rolling;
use crate::{ChunkSizes, Chunker, Kernel, ParamError, Params};

/// Places that are hashed at once: with more, their state no longer fits the registers.
const STREAMS: usize = 4;

/// Bytes that a loop is unrolled for.
const STEP: usize = 64;

/// Finds cut-points in two stages: candidates first, selection second.
#[derive(Clone)]
pub struct TwoStage {
    sizes: ChunkSizes,
    /// Bytes that the test of a position sees.
    window: usize,
    search: Search,
    selection: Selection,
}

/// How candidates are found.
#[derive(Clone)]
enum Search {
    /// One at a time, by a chunker without a maximum.
    Chunker(Chunker),
    /// In several streams at once.
    Streams(Arc<dyn Mark>),
}

/// Which candidate a chunk ends at.
#[derive(Clone, Copy)]
pub(crate) enum Selection {
    /// The first.
    First,
    /// The first of the strict ones before avg, the first of all from there on.
    Normalised,
    /// The first of the strict ones, or the last of all where the chunk would reach max.
    Backup,
}

/// The positions of an input that are candidates.
///
/// Positions below the minimum chunk size end no chunk, and are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    len: usize,
    all: Bitmap,
    /// Those by the stricter threshold; empty if there is only one.
    strict: Bitmap,
}

impl Selection {
    /// The kernel to search by, `kernel` being the one asked for: other kernels than the scalar one
    /// find what ends chunks, and not what else there is to select from.
    fn kernel(self, kernel: Kernel, name: &'static str) -> Result<Kernel, ParamError> {
        match (self, kernel) {
            (Self::First, _) => Ok(kernel),
            (_, Kernel::Auto | Kernel::Scalar) => Ok(Kernel::Scalar),
            _ => Err(ParamError::KernelUnusable { kernel, name, usable: &[Kernel::Scalar] }),
        }
    }
}

impl TwoStage {
    /// On the fastest kernel. Refuses parameters that their algorithm cannot have, rules that look
    /// at more than a window, and a minimum below the window.
    pub fn new(params: &Params) -> Result<Self, ParamError> {
        Self::with_kernel(params, Kernel::Auto)
    }

    /// On the demanded kernel, which runs or is refused, never replaced.
    pub fn with_kernel(params: &Params, kernel: Kernel) -> Result<Self, ParamError> {
        let descriptor = params.descriptor();
        let (selection, mark) = descriptor.streams.unzip();
        let selection = selection.unwrap_or(Selection::First);
        let kernel = selection.kernel(kernel, descriptor.name)?;
        let chunker = Chunker::with_kernel(params, kernel)?;
        let window = match chunker.decided_by() {
            DecidedBy::Window(window) => window,
            DecidedBy::More { before, .. } if mark.is_some() => before,
            _ => return Err(ParamError::NotTwoStage { name: descriptor.name }),
        };
        let sizes = params.sizes;
        if sizes.min() < window {
            return Err(ParamError::TwoStageMin { min: sizes.min(), window });
        }
        let search = match mark {
            Some(mark) if chunker.kernel() == Kernel::Scalar => Search::Streams(mark(params)?),
            _ => {
                let sizes = ChunkSizes::unbounded(sizes.min(), sizes.avg())?;
                Search::Chunker(Chunker::with_kernel(&Params { sizes, ..*params }, kernel)?)
            }
        };
        Ok(Self { sizes, window, search, selection })
    }

    /// Stage one: the candidates of `data`, a whole input.
    pub fn candidates(&self, data: &[u8]) -> Candidates {
        let min = self.sizes.min();
        let mut candidates = Candidates::none(data.len());
        match &self.search {
            Search::Streams(rule) => {
                let unmarked = (min - self.window).min(data.len());
                let mut marks = Marks { candidates: &mut candidates, unmarked };
                rule.mark(&data[unmarked..], &mut marks);
            }
            Search::Chunker(chunker) => {
                // the test of a position needs no more than min bytes before it
                let mut start = 0;
                while let Some(found) = chunker.next_cut(&data[start..]) {
                    candidates.all.insert(start + found);
                    start += found + 1 - min;
                }
            }
        }
        candidates
    }

    /// Stage two: the cut-points of the input that has these `candidates`, which this found; the
    /// last is its length.
    pub fn select(&self, candidates: &Candidates) -> Vec<usize> {
        let mut cut_points = Vec::new();
        let mut start = 0;
        while start < candidates.len {
            start = self.next_cut(candidates, start);
            cut_points.push(start);
        }
        cut_points
    }

    /// Both stages: the cut-points of `data`, a whole input.
    pub fn cut_points(&self, data: &[u8]) -> Vec<usize> {
        self.select(&self.candidates(data))
    }

    /// Where the chunk from `start` on ends, if not at the end of the input.
    fn next_cut(&self, candidates: &Candidates, start: usize) -> usize {
        let Candidates { len, all, strict } = candidates;
        let last = start.saturating_add(self.sizes.max()).min(*len);
        let first = start.saturating_add(self.sizes.min());
        let cut = match self.selection {
            Selection::First => all.first_in(first..=last),
            Selection::Normalised => {
                let normal = start + self.sizes.avg();
                strict
                    .first_in(first..=last.min(normal - 1))
                    .or_else(|| all.first_in(first.max(normal)..=last))
            }
            Selection::Backup => strict.first_in(first..=last).or_else(|| {
                let is_long = last - start == self.sizes.max();
                is_long.then(|| all.last_in(first..=last)).flatten()
            }),
        };
        cut.unwrap_or(last)
    }
}

impl Candidates {
    /// The bitmap: bit b of word w is set if position 64 w + b + 1 is a candidate, which ends a
    /// chunk with byte 64 w + b. As many words as hold a bit for every byte.
    ///
    /// Of rules with two thresholds those by the looser one, which the others are among.
    pub fn words(&self) -> &[u64] {
        &self.all.0
    }

    /// The candidates in ascending order.
    pub fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        let mut next = 1;
        std::iter::from_fn(move || {
            let found = self.all.first_in(next..=self.len)?;
            next = found + 1;
            Some(found)
        })
    }

    fn none(len: usize) -> Self {
        let empty = || Bitmap(vec![0; len.div_ceil(64)]);
        Self { len, all: empty(), strict: Bitmap(Vec::new()) }
    }
}

/// One bit a position, from position 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bitmap(Vec<u64>);

impl Bitmap {
    fn insert(&mut self, position: usize) {
        let bit = position - 1;
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// The first of `positions`, which start at 1 or later, that is set.
    fn first_in(&self, positions: RangeInclusive<usize>) -> Option<usize> {
        if positions.is_empty() {
            return None;
        }
        let (first, last) = (positions.start() - 1, positions.end() - 1);
        let mut word = first / 64;
        let mut bits = self.0[word] & u64::MAX << (first % 64);
        while bits == 0 {
            word += 1;
            if word > last / 64 {
                return None;
            }
            bits = self.0[word];
        }
        let found = word * 64 + bits.trailing_zeros() as usize;
        (found <= last).then_some(found + 1)
    }

    /// The last of `positions`, which start at 1 or later, that is set.
    fn last_in(&self, positions: RangeInclusive<usize>) -> Option<usize> {
        if positions.is_empty() {
            return None;
        }
        let (first, last) = (positions.start() - 1, positions.end() - 1);
        let mut word = last / 64;
        let mut bits = self.0[word] & u64::MAX >> (63 - last % 64);
        while bits == 0 {
            if word == first / 64 {
                return None;
            }
            word -= 1;
            bits = self.0[word];
        }
        let found = word * 64 + bits.ilog2() as usize;
        (found >= first).then_some(found + 1)
    }
}

/// A rule whose candidates are told by a window of bytes, found in several streams.
pub(crate) trait Mark: Send + Sync {
    /// Marks every position of `data`, from the first with a full window on, that qualifies.
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>);
}

/// The search of a rule of the type `R`: see [`Descriptor::streams`](crate::descriptor::Descriptor).
pub(crate) fn mark<R: Mark + FromParams>(params: &Params) -> Result<Arc<dyn Mark>, ParamError> {
    Ok(Arc::new(R::from_params(params)?))
}

/// Where the candidates of an input are noted that was handed over from a place on.
pub(crate) struct Marks<'a> {
    candidates: &'a mut Candidates,
    /// Bytes before that place.
    unmarked: usize,
}

impl Marks<'_> {
    /// Notes the candidates that have a `hash` of which `is_candidate` is true.
    pub(crate) fn of<H: Rolling>(
        &mut self,
        hash: &H,
        data: &[u8],
        is_candidate: impl Fn(H::Print) -> bool,
    ) {
        let Self { candidates, unmarked } = self;
        each_match(hash, data, is_candidate, &mut |position, _| {
            candidates.all.insert(*unmarked + position);
        });
    }

    /// The same with two thresholds: what `is_strict` is true of, `is_candidate` is true of.
    pub(crate) fn of_two<H: Rolling>(
        &mut self,
        hash: &H,
        data: &[u8],
        is_candidate: impl Fn(H::Print) -> bool,
        is_strict: impl Fn(H::Print) -> bool,
    ) {
        let Self { candidates, unmarked } = self;
        candidates.strict.0.resize(candidates.all.0.len(), 0);
        each_match(hash, data, is_candidate, &mut |position, print| {
            candidates.all.insert(*unmarked + position);
            if is_strict(print) {
                candidates.strict.insert(*unmarked + position);
            }
        });
    }
}

/// Calls `found` with every position of `data` whose window has a hash that `matches`, and with
/// that hash, in no order.
///
/// The positions are divided into streams of equal length. A hash waits for the one before it in
/// its stream, and meanwhile the others go on.
fn each_match<H: Rolling>(
    hash: &H,
    data: &[u8],
    matches: impl Fn(H::Print) -> bool,
    found: &mut dyn FnMut(usize, H::Print),
) {
    let window = hash.window();
    if data.len() < window {
        return;
    }
    let steps = (data.len() - window) / STREAMS / STEP;
    let stream = steps * STEP;
    let mut prints: [_; STREAMS] = array::from_fn(|k| {
        let warm = &data[k * stream..][..window];
        warm.iter().fold(H::Print::default(), |print, &byte| hash.push(print, byte))
    });
    if matches(prints[0]) {
        found(window, prints[0]);
    }

    let blocks_from = |start: usize| data[start..][..stream].as_chunks::<STEP>().0;
    let entering: [_; STREAMS] = array::from_fn(|k| blocks_from(window + k * stream));
    let leaving: [_; STREAMS] = array::from_fn(|k| blocks_from(k * stream));
    for step in 0..steps {
        let entering = entering.map(|blocks| &blocks[step]);
        let leaving = leaving.map(|blocks| &blocks[step]);
        for i in 0..STEP {
            for k in 0..STREAMS {
                prints[k] = hash.roll(prints[k], entering[k][i], leaving[k][i]);
                if matches(prints[k]) {
                    found(window + k * stream + step * STEP + i + 1, prints[k]);
                }
            }
        }
    }

    let mut print = prints[STREAMS - 1];
    let streamed = STREAMS * stream;
    let rest = data[window + streamed..].iter().zip(&data[streamed..]);
    for (i, (&entering, &leaving)) in rest.enumerate() {
        print = hash.roll(print, entering, leaving);
        if matches(print) {
            found(window + streamed + i + 1, print);
        }
    }
}

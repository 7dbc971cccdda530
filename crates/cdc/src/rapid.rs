//! RapidCDC: F. Ni, S. Jiang, "RapidCDC: Leveraging Duplicate Locality to Accelerate Chunking in
//! CDC-based Deduplication Systems", SoCC 2019; in front of any algorithm.
//!
//! **Rule.** With the fingerprint of a chunk go the lengths of the chunks that came after it, the
//! latest first. Behind a chunk whose fingerprint is known, these lengths are tried in turn; the
//! first that the [`Criterion`] accepts ends the chunk. Where none is accepted, or the chunk before
//! was new, the algorithm seeks the cut-point from the last one on. Each pair of neighbours goes
//! into the hints; a hint that was accepted goes to the front with the marker that it has.
//! **Cost.** A chunk that a hint ends costs its fingerprint, which deduplication needs anyway, and
//! one look-up, at the place that the hint tells. Apart from the fingerprint none of its bytes is
//! read but those that the criterion asks for: under FF none at all. Those that the chunks to come
//! will need are asked of memory some chunks ahead. Nothing is written unless the hint was not the
//! first, or tells a place where the chunk is not.
//! **First legal position.** The algorithm's min; a hint outside min to max or past the end of the
//! input is refused whatever the criterion.
//! **Tail.** What the end of the input cut short never goes into the hints, neither as a chunk nor
//! as a next one, since no rule put its end there.
//! **What depends on what.** With a fingerprint test, alone or behind the marker, cut-points are
//! those of the algorithm alone: history and threads change how fast they are found. With the other
//! criteria they depend on what the hints hold, hence on which inputs were cut before and in what order; where
//! several threads share hints, on the order in which they came by, so that two runs may differ.
//! **Departures.** The paper's fingerprint test rests on a pool without chunks that were forwarded
//! to; here each known chunk says whether the rule cut it, so that criteria may share hints. Rules
//! without a window have the fingerprint test alone, which is all that exactness takes. The marker
//! is the last byte or up to four, and may stand before the fingerprint test in the window's stead.

use std::ops::AddAssign;

use crate::simd::vector::prefetch;
use crate::{BoundaryTest, Chunker, Lookahead, ParamError};

/// The most next chunks that are kept for a chunk.
pub const MAX_NEXT: usize = 16;

/// How many chunks ahead the bytes that a test reads are asked of memory: enough that they have
/// come when it is their turn, few enough that most are read at all.
const CHUNKS_AHEAD: u32 = 8;

/// Bytes of a chunk's end that are kept of it.
const MARKER: usize = 4;

/// When a chunk may end where one like it ended before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Criterion {
    /// Always: the paper's FF.
    FastForward,
    /// If the rule's window there could end a chunk, or the chunk has the maximum length: FF+RWT.
    /// Refused for algorithms without a [`BoundaryTest`].
    WindowTest,
    /// If the last bytes are those of the chunk before: FF+MT.
    MarkerTest {
        /// How many are compared, 1 to 4; the paper has 1.
        bytes: u8,
    },
    /// If the chunk that it makes is one that the algorithm has made: FF+RWT+FPT. The cut-points are
    /// the algorithm's own, whatever the hints. Refused for algorithms with a
    /// [lookahead](Chunker::lookahead).
    FingerprintTest,
    /// If the last four bytes are those of the chunk before, and the chunk that it makes is one that
    /// the algorithm has made. As exact as [`FingerprintTest`](Self::FingerprintTest) and refused
    /// where that is; the marker, for which no window is needed, refuses most of what a fingerprint
    /// would be computed for in vain.
    MarkerFingerprintTest,
}

/// The end of a chunk that followed another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextChunk {
    len: u32,
    marker: [u8; MARKER],
}

impl NextChunk {
    /// What is kept of `chunk`, which is at most [`MAX_CHUNK`](crate::MAX_CHUNK) long.
    pub fn of(chunk: &[u8]) -> Self {
        let mut marker = [0; MARKER];
        for (kept, &byte) in marker.iter_mut().rev().zip(chunk.iter().rev()) {
            *kept = byte;
        }
        Self { len: u32::try_from(chunk.len()).unwrap_or(u32::MAX), marker }
    }

    /// A chunk of `len` bytes that ends with the bytes of `marker`, as stored.
    pub const fn new(len: u32, marker: [u8; MARKER]) -> Self {
        Self { len, marker }
    }

    /// Length in bytes.
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether the length is 0, which no chunk has and no criterion accepts.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The last four bytes; zeros stand before a shorter chunk.
    pub const fn marker(self) -> [u8; MARKER] {
        self.marker
    }
}

/// The next chunks of a chunk, the most recently seen first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextChunks {
    all: [NextChunk; MAX_NEXT],
    count: u8,
}

impl NextChunks {
    /// No chunks.
    pub const fn new() -> Self {
        Self { all: [NextChunk::new(0, [0; MARKER]); MAX_NEXT], count: 0 }
    }

    /// Puts `next` in front, of at most `most` (and [`MAX_NEXT`]) in all. The one of the same length
    /// moves there and takes the new marker; if there is none and no room, the last one goes.
    pub fn touch(&mut self, next: NextChunk, most: usize) {
        let most = most.min(MAX_NEXT);
        let count = usize::from(self.count).min(most);
        let known = self.all[..count].iter().position(|other| other.len == next.len);
        let behind = known.map_or((count + 1).min(most), |i| i + 1);
        self.count = count.max(behind) as u8;
        if behind > 0 {
            self.all[..behind].rotate_right(1);
            self.all[0] = next;
        }
    }

    /// The chunks, the most recently seen first.
    pub fn as_slice(&self) -> &[NextChunk] {
        &self.all[..usize::from(self.count)]
    }
}

/// Chunks that were seen, by fingerprint, and the chunks that came after them.
///
/// Belongs to one set of [`Params`](crate::Params): lengths are those that these cut, and whether
/// a chunk is by the rule speaks of their rule. Losing entries costs speed only. Methods are called
/// from all threads that cut.
///
/// **What is stored.** With each fingerprint one bit, whether the chunk is by the rule, and a list
/// of at most [`MAX_NEXT`] chunks that came after it, the latest first; two are enough as the paper
/// has it. Of each the length, of which [`MAX_CHUNK`](crate::MAX_CHUNK) takes 26 bits, the last four
/// bytes, and, where that is of use, the place where it is kept. Who wants
/// [`Criterion::FastForward`], [`Criterion::WindowTest`] or [`Criterion::FingerprintTest`] alone
/// need not store the four, and may give zeros. The bit may be left out, and be false always, if
/// nobody asks for a fingerprint test.
///
/// **What a chunk costs.** One [`look_up`](Self::look_up) of every chunk but one that the end of
/// the input cut short, and under a fingerprint test one more of each that was tested in vain; one
/// [`next`](Self::next) or a few; a [`learn`](Self::learn) of every new one; a
/// [`learn_next`](Self::learn_next) of every one whose next chunk was sought, was not the first of
/// the list, or was not where the guess said. In a series of like inputs nearly all calls are those that read, so these
/// should be cheap and need no lock that others hold.
pub trait Hints {
    /// Identifies a chunk: chunks with equal fingerprints count as equal.
    type Fingerprint: Copy;

    /// Where a known chunk is kept, good for as long as the hints are. The fingerprint does, where
    /// there is nothing shorter.
    type Place: Copy + PartialEq;

    /// The fingerprint of `chunk`.
    fn fingerprint(&self, chunk: &[u8]) -> Self::Fingerprint;

    /// Where the chunk is kept, or `None` if it is new. It may well be at `guess`, or not.
    fn look_up(
        &self,
        fingerprint: &Self::Fingerprint,
        guess: Option<Self::Place>,
    ) -> Option<Self::Place>;

    /// Whether the algorithm put the chunk's end where it is; a hint did otherwise.
    ///
    /// With a fingerprint test, alone or behind the marker, cut-points are exact as long as this is true only of
    /// chunks [learned](Self::learn) so: an index that also holds the ends of files must not say so
    /// of these.
    fn is_by_rule(&self, place: Self::Place) -> bool;

    /// What came after the chunk kept at `place`, by its position in the list, and a guess where it
    /// is kept. The guess may be wrong; not so the length with its marker.
    fn next(&self, place: Self::Place, position: usize)
    -> Option<(NextChunk, Option<Self::Place>)>;

    /// Takes note of a chunk, and of whether the algorithm put its end where it is; what was so
    /// once remains so. Where it is kept, or `None` if there is no room.
    fn learn(&self, fingerprint: &Self::Fingerprint, by_rule: bool) -> Option<Self::Place>;

    /// Takes note that `next`, not empty and kept at `kept`, came after the chunk at `place`: as
    /// [`NextChunks::touch`] does.
    fn learn_next(&self, place: Self::Place, next: NextChunk, kept: Self::Place);
}

impl<H: Hints + ?Sized> Hints for &H {
    type Fingerprint = H::Fingerprint;
    type Place = H::Place;

    fn fingerprint(&self, chunk: &[u8]) -> H::Fingerprint {
        (**self).fingerprint(chunk)
    }

    fn look_up(&self, fingerprint: &H::Fingerprint, guess: Option<H::Place>) -> Option<H::Place> {
        (**self).look_up(fingerprint, guess)
    }

    fn is_by_rule(&self, place: H::Place) -> bool {
        (**self).is_by_rule(place)
    }

    fn next(&self, place: H::Place, position: usize) -> Option<(NextChunk, Option<H::Place>)> {
        (**self).next(place, position)
    }

    fn learn(&self, fingerprint: &H::Fingerprint, by_rule: bool) -> Option<H::Place> {
        (**self).learn(fingerprint, by_rule)
    }

    fn learn_next(&self, place: H::Place, next: NextChunk, kept: H::Place) {
        (**self).learn_next(place, next, kept);
    }
}

/// A [`Chunker`] that jumps where hints allow it.
#[derive(Clone)]
pub struct Rapid {
    chunker: Chunker,
    test: Test,
    /// Whether the chunk must also be one that the algorithm has made.
    is_exact: bool,
}

/// What the bytes before a cut-point must be like.
#[derive(Clone)]
enum Test {
    None,
    Window(BoundaryTest),
    Marker(usize),
}

impl Rapid {
    /// Refuses a criterion that the chunker's algorithm has no test for, and unbounded sizes.
    pub fn new(chunker: Chunker, criterion: Criterion) -> Result<Self, ParamError> {
        let algorithm = chunker.params().algorithm;
        if !chunker.sizes().is_bounded() {
            return Err(ParamError::RapidNeedsMax);
        }
        let window = BoundaryTest::new(chunker.params())?;
        let test = match criterion {
            Criterion::FastForward => Test::None,
            Criterion::WindowTest => {
                Test::Window(window.ok_or(ParamError::NoWindowTest { algorithm })?)
            }
            Criterion::MarkerTest { bytes } => {
                let compared = usize::from(bytes);
                if !(1..=MARKER).contains(&compared) {
                    return Err(ParamError::MarkerBytes { bytes });
                }
                Test::Marker(compared)
            }
            Criterion::FingerprintTest => window.map_or(Test::None, Test::Window),
            Criterion::MarkerFingerprintTest => Test::Marker(MARKER),
        };
        let is_exact =
            matches!(criterion, Criterion::FingerprintTest | Criterion::MarkerFingerprintTest);
        if is_exact && chunker.lookahead() != Lookahead::None {
            return Err(ParamError::InexactFingerprintTest { algorithm });
        }
        Ok(Self { chunker, test, is_exact })
    }

    /// What cuts where no hint is accepted.
    pub fn chunker(&self) -> &Chunker {
        &self.chunker
    }

    /// Starts on an input, with `hints` that other inputs and threads may share.
    pub fn start<H: Hints>(&self, hints: H) -> RapidInput<'_, H> {
        RapidInput {
            rapid: self,
            hints,
            previous: None,
            scout: None,
            counters: RapidCounters::default(),
        }
    }

    /// All cut-points of `data`, a whole input; the last is its length. And what they took.
    pub fn cut_points<H: Hints>(&self, hints: H, data: &[u8]) -> (Vec<usize>, RapidCounters) {
        let mut input = self.start(hints);
        let mut cut_points = Vec::new();
        let mut start = 0;
        while let Some(chunk) = input.next(&data[start..]) {
            start += chunk.len;
            cut_points.push(start);
        }
        (cut_points, input.counters)
    }
}

/// A chunk with what became known of it on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RapidChunk<F> {
    /// Length in bytes.
    pub len: usize,
    /// The fingerprint, so that it is not computed again.
    pub fingerprint: F,
    /// The hint that ended it, as a position in the list; `None` if the algorithm did.
    pub hint: Option<usize>,
}

/// One input that is being cut, from its first byte to its last.
pub struct RapidInput<'a, H: Hints> {
    rapid: &'a Rapid,
    hints: H,
    /// The chunk before; `None` if none is known.
    previous: Option<H::Place>,
    scout: Option<Scout<H::Place>>,
    counters: RapidCounters,
}

/// Who goes from first hint to first hint ahead of the cut-points, so that memory is asked in time
/// for what will be read there. What it believes decides nothing.
struct Scout<P> {
    place: P,
    /// Bytes between the last cut-point and where it is.
    ahead: usize,
    /// Chunks in these.
    chunks: u32,
}

impl<P> Scout<P> {
    /// The same one, seen from behind a chunk of `len` bytes; `None` if it is not that far.
    #[inline]
    fn behind(self, len: usize) -> Option<Self> {
        let ahead = self.ahead.checked_sub(len)?;
        Some(Self { ahead, chunks: self.chunks.checked_sub(1)?, ..self })
    }
}

/// A hint that was accepted.
struct Hit<H: Hints> {
    position: usize,
    hint: NextChunk,
    guess: Option<H::Place>,
    tested: Tested<H>,
}

/// What the fingerprint test found out, if it was made: only chunks by the rule pass it.
type Tested<H> = Option<(<H as Hints>::Fingerprint, <H as Hints>::Place)>;

impl<H: Hints> RapidInput<'_, H> {
    /// The next chunk; `None` once all are cut.
    ///
    /// `data` is what follows the last chunk: at least max bytes of it, or all up to the end of the
    /// input. Bytes behind max make no difference, but where they are given memory is asked in time
    /// for those that will be read.
    #[inline]
    pub fn next(&mut self, data: &[u8]) -> Option<RapidChunk<H::Fingerprint>> {
        let reach = &data[..data.len().min(self.rapid.chunker.sizes().max())];
        if let Some(previous) = self.previous
            && !reach.is_empty()
        {
            if !matches!(self.rapid.test, Test::None) {
                self.look_ahead(previous, data);
            }
            if let Some(hit) = self.hit(previous, reach) {
                return Some(self.forward(previous, reach, hit));
            }
        }
        self.seek(reach)
    }

    /// The chunk that the algorithm ends.
    fn seek(&mut self, reach: &[u8]) -> Option<RapidChunk<H::Fingerprint>> {
        let chunker = &self.rapid.chunker;
        let (len, by_rule) = match chunker.next_cut(reach) {
            Some(len) => (len, true),
            None => (chunker.last_cut(reach)?, false),
        };
        let chunk = &reach[..len];
        self.counters.scanned_bytes += len as u64;
        let fingerprint = self.hints.fingerprint(chunk);
        let previous = self.previous.take();
        self.scout = None;
        // where the input cut one short there may be a second, of a rule that chooses anew at the end
        if by_rule {
            let known = self.hints.look_up(&fingerprint, None);
            self.previous = self.kept(&fingerprint, known, true);
            if let (Some(previous), Some(kept)) = (previous, self.previous) {
                self.hints.learn_next(previous, NextChunk::of(chunk), kept);
            }
        }
        Some(RapidChunk { len, fingerprint, hint: None })
    }

    /// The chunk that a hint ends. Nothing of it is read but to make its fingerprint.
    #[inline]
    fn forward(
        &mut self,
        previous: H::Place,
        reach: &[u8],
        Hit { position, hint, guess, tested }: Hit<H>,
    ) -> RapidChunk<H::Fingerprint> {
        let len = hint.len as usize;
        self.counters.hits[position] += 1;
        self.counters.forwarded_bytes += len as u64;
        let (fingerprint, known) = match tested {
            Some((fingerprint, place)) => (fingerprint, Some(place)),
            None => {
                let fingerprint = self.hints.fingerprint(&reach[..len]);
                (fingerprint, self.hints.look_up(&fingerprint, guess))
            }
        };
        let by_rule = tested.is_some();
        self.previous = self.kept(&fingerprint, known, by_rule);
        let led_astray = guess.is_some() && guess != self.previous;
        // what is in front already stays there
        if (position > 0 || led_astray)
            && let Some(kept) = self.previous
        {
            self.hints.learn_next(previous, hint, kept);
        }
        let is_foreseen = position == 0 && !led_astray;
        self.scout = self.scout.take().filter(|_| is_foreseen).and_then(|scout| scout.behind(len));
        RapidChunk { len, fingerprint, hint: Some(position) }
    }

    /// Where a chunk is kept, which is learned if it must be.
    #[inline]
    fn kept(
        &self,
        fingerprint: &H::Fingerprint,
        known: Option<H::Place>,
        by_rule: bool,
    ) -> Option<H::Place> {
        match known {
            Some(place) if !by_rule || self.hints.is_by_rule(place) => Some(place),
            _ => self.hints.learn(fingerprint, by_rule),
        }
    }

    /// Asks memory for the lines in which the chunks to come end, where their tests begin to read,
    /// if the first hints are right. `data` begins behind the chunk at `previous`.
    #[inline]
    fn look_ahead(&mut self, previous: H::Place, data: &[u8]) {
        let mut scout = self.scout.take().unwrap_or(Scout { place: previous, ahead: 0, chunks: 0 });
        while scout.chunks < CHUNKS_AHEAD
            && let Some((next, Some(place))) = self.hints.next(scout.place, 0)
            && let Some(last) = scout.ahead.saturating_add(next.len as usize).checked_sub(1)
            && last < data.len()
        {
            prefetch(data[last..].as_ptr(), 0);
            scout = Scout { place, ahead: last + 1, chunks: scout.chunks + 1 };
        }
        self.scout = Some(scout);
    }

    /// What the chunks so far took.
    pub fn counters(&self) -> &RapidCounters {
        &self.counters
    }

    /// The first of the hints behind the chunk at `previous` that is accepted.
    #[inline]
    fn hit(&mut self, previous: H::Place, reach: &[u8]) -> Option<Hit<H>> {
        for position in 0..MAX_NEXT {
            let Some((hint, guess)) = self.hints.next(previous, position) else {
                self.counters.misses += u64::from(position > 0);
                return None;
            };
            if let Some(tested) = self.accept(reach, hint, guess) {
                return Some(Hit { position, hint, guess, tested });
            }
            self.counters.refused += 1;
        }
        self.counters.misses += 1;
        None
    }

    /// What the fingerprint test found out, if there was one, of a chunk that may end where `hint`
    /// says; `None` if it may not.
    #[inline]
    fn accept(
        &mut self,
        reach: &[u8],
        hint: NextChunk,
        guess: Option<H::Place>,
    ) -> Option<Tested<H>> {
        let len = hint.len as usize;
        if !(self.rapid.chunker.sizes().min()..=reach.len()).contains(&len) {
            return None;
        }
        let chunk = &reach[..len];
        let passes = match &self.rapid.test {
            Test::None => true,
            Test::Window(test) => test.accepts(reach, len),
            &Test::Marker(bytes) => {
                let compared = bytes.min(len);
                chunk[len - compared..] == hint.marker[MARKER - compared..]
            }
        };
        if !passes {
            return None;
        }
        if !self.rapid.is_exact {
            return Some(None);
        }
        let fingerprint = self.hints.fingerprint(chunk);
        let known = self.hints.look_up(&fingerprint, guess);
        let known = known.filter(|&place| self.hints.is_by_rule(place));
        if known.is_none() {
            self.counters.fingerprinted_in_vain += len as u64;
        }
        known.map(|place| Some((fingerprint, place)))
    }
}

/// What cutting took. Counters of several inputs can be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RapidCounters {
    /// Chunks that ended where a hint said, by its position in the list.
    pub hits: [u64; MAX_NEXT],
    /// Chunks for which there were hints and none was accepted.
    pub misses: u64,
    /// Hints that were tried and not accepted.
    pub refused: u64,
    /// Bytes of the chunks that ended where a hint said, in which no cut-point was sought.
    pub forwarded_bytes: u64,
    /// Bytes of all other chunks.
    pub scanned_bytes: u64,
    /// Bytes whose fingerprint was computed to test a hint that was then refused.
    pub fingerprinted_in_vain: u64,
}

impl AddAssign for RapidCounters {
    fn add_assign(&mut self, other: Self) {
        for (hits, more) in self.hits.iter_mut().zip(other.hits) {
            *hits += more;
        }
        self.misses += other.misses;
        self.refused += other.refused;
        self.forwarded_bytes += other.forwarded_bytes;
        self.scanned_bytes += other.scanned_bytes;
        self.fingerprinted_in_vain += other.fingerprinted_in_vain;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chunk_is_known_by_its_length_and_its_last_bytes() {
        assert_eq!(NextChunk::of(b"abcdef"), NextChunk::new(6, *b"cdef"));
        assert_eq!(NextChunk::of(b"ab"), NextChunk::new(2, *b"\0\0ab"));
        assert!(NextChunk::of(b"").is_empty());
    }

    #[test]
    fn the_least_recently_seen_goes() {
        let mut next = NextChunks::new();
        let lens = |next: &NextChunks| next.as_slice().iter().map(|n| n.len()).collect::<Vec<_>>();
        for (len, expected) in
            [(1, vec![1]), (2, vec![2, 1]), (1, vec![1, 2]), (3, vec![3, 1]), (3, vec![3, 1])]
        {
            next.touch(NextChunk::new(len, [0; 4]), 2);
            assert_eq!(lens(&next), expected);
        }
        next.touch(NextChunk::new(1, *b"mark"), 2);
        assert_eq!(next.as_slice()[0], NextChunk::new(1, *b"mark"));
    }

    proptest! {
        #[test]
        fn lists_of_any_length_hold_the_last_different_ones(
            lens in prop::collection::vec(1..12_u32, 0..60),
            most in 0..12_usize,
        ) {
            let mut next = NextChunks::new();
            let mut expected: Vec<u32> = Vec::new();
            for len in lens {
                next.touch(NextChunk::new(len, [0; 4]), most);
                expected.retain(|&other| other != len);
                expected.insert(0, len);
                expected.truncate(most.min(MAX_NEXT));
                let held: Vec<u32> = next.as_slice().iter().map(|next| next.len()).collect();
                prop_assert_eq!(&held, &expected);
            }
        }
    }
}

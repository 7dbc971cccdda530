//! One input cut by several threads, with the cut-points of one.
//!
//! The input is divided into as many segments as there are threads. The first thread starts at a
//! cut-point, the others at the first byte of their segment *as if* it were one. Where a chunk ends
//! depends on nothing before its start, so from the first cut-point that a thread shares with the
//! true ones on all of its cut-points are true. Behind each segment the true cut-points are continued
//! by one thread until they meet those of the next segment; these bytes are *stitched*.
//!
//! **By candidates.** Where a [window](Chunker::window) tells whether a position is a candidate, a
//! segment's cut-points are a list of its candidates, though cut as if from a wrong start: each is
//! one, and there are no others but where the minimum was skipped. The true cut-points are selected
//! from this list, and the gaps in it are searched when the selection comes to them. So no position
//! is tested twice, whatever the data, and the threads skip minima as one does.
//! **By speculation.** With other rules the bytes are cut anew until the cuttings meet.
//!
//! **Cost.** With rules that re-synchronise soon a few chunks are stitched a segment. AE and RAM
//! with large chunks take long to, which their files state; constant and periodic data may never let
//! cuttings meet. Then all segments but the first are stitched. By candidates, that takes a search
//! of the minima at most: of constant data, for one, a sixteenth where max is 16 times min. By
//! speculation each byte is cut twice, the first time by many threads at once, and the whole takes
//! as long as with one thread, the start of the threads aside. Without a maximum chunk size a thread
//! may look for the end of a chunk far behind its segment.

use std::num::NonZero;
use std::thread;

use crate::Chunker;

/// The least a segment holds: a thread takes about as long to start as this to be cut.
const LEAST_SEGMENT: usize = 256 << 10;

/// Chunks of the mean size that a segment holds at least, so that most of it is behind the place
/// where cuttings meet.
const LEAST_CHUNKS: usize = 16;

/// Cut-points that several threads found, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelCuts {
    /// The ends of all chunks; the last is the length of the input.
    pub cut_points: Vec<usize>,
    /// Into how many segments the input was divided: as many as threads, but fewer if it is short.
    pub segments: usize,
    /// Bytes that a single thread searched at the end, since the cut-points of their segment were not
    /// yet true.
    pub stitched: usize,
}

/// All cut-points of `data`, a whole input, by up to `threads` threads: those that
/// [`Chunker::cut_points`] finds, in its order.
///
/// Short data is cut by fewer threads. In the worst case, of a rule without a
/// [window](Chunker::window) whose cuttings never meet, this takes as long as one thread does and the
/// time to start the others.
///
/// Panics if the system cannot start a thread.
pub fn cut_points_parallel(chunker: &Chunker, data: &[u8], threads: NonZero<usize>) -> Vec<usize> {
    parallel_cuts(chunker, data, threads).cut_points
}

/// As [`cut_points_parallel`], with an account of the work.
pub fn parallel_cuts(chunker: &Chunker, data: &[u8], threads: NonZero<usize>) -> ParallelCuts {
    let starts = segment_starts(chunker, data.len(), threads);
    cut(chunker, data, &starts)
}

/// Where the segments of `len` bytes start: 0 and then evenly.
fn segment_starts(chunker: &Chunker, len: usize, threads: NonZero<usize>) -> Vec<usize> {
    let avg = chunker.sizes().avg();
    let most = len / LEAST_SEGMENT.max(LEAST_CHUNKS * avg);
    let segments = threads.get().min(most).max(1);
    // chunks of one size never meet unless they start at a multiple of it
    let step = if chunker.params().algorithm.is_content_defined() { 1 } else { avg };
    (0..segments).map(|i| i * (len / segments) / step * step).collect()
}

/// The cut-points of `data`, by a thread for each of the segments that begin at `starts`: 0 and then
/// not falling.
fn cut(chunker: &Chunker, data: &[u8], starts: &[usize]) -> ParallelCuts {
    let has_candidates = chunker.window().is_some_and(|window| window <= chunker.sizes().min());
    let ends = starts[1..].iter().copied().chain([data.len()]);
    let mut segments = starts.iter().copied().zip(ends);
    let (first_start, first_end) = segments.next().unwrap_or((0, data.len()));
    thread::scope(|scope| {
        let assumed: Vec<_> = segments
            .map(|(start, end)| scope.spawn(move || Segment::cut(chunker, data, start, end)))
            .collect();

        let mut cut_points = Segment::cut(chunker, data, first_start, first_end).cut_points;
        let mut stitched = 0;
        for thread in assumed {
            let segment = match thread.join() {
                Ok(segment) => segment,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            stitched += if has_candidates {
                let (start, ends) = (segment.start, &segment.cut_points[..]);
                segment.stitch(&mut cut_points, Selection { chunker, data, start, ends })
            } else {
                segment.stitch(&mut cut_points, Anew { chunker, data })
            };
        }
        ParallelCuts { cut_points, segments: starts.len(), stitched }
    })
}

/// A part of the input, cut as if from a cut-point.
struct Segment {
    start: usize,
    end: usize,
    /// From the first behind `start` to the first at or behind `end`.
    cut_points: Vec<usize>,
}

impl Segment {
    fn cut(chunker: &Chunker, data: &[u8], start: usize, end: usize) -> Self {
        let mut cut_points = Vec::new();
        let mut at = start;
        while at < end
            && let Some(len) = chunker.last_cut(&data[at..])
        {
            at += len;
            cut_points.push(at);
        }
        Self { start, end, cut_points }
    }

    /// Continues the true `cut_points` to the first at or behind the end of the segment, by its own
    /// as soon as they are true. How many bytes were searched for that.
    fn stitch(&self, cut_points: &mut Vec<usize>, mut continuation: impl Continue) -> usize {
        let mut at = cut_points.last().copied().unwrap_or(0);
        let mut searched = 0;
        let mut next = 0;
        while at < self.end {
            next += self.cut_points[next..].iter().take_while(|&&cut| cut < at).count();
            if at == self.start {
                cut_points.extend_from_slice(&self.cut_points);
                break;
            }
            if self.cut_points.get(next) == Some(&at) {
                cut_points.extend_from_slice(&self.cut_points[next + 1..]);
                break;
            }
            at = continuation.next_cut(at, &mut searched);
            cut_points.push(at);
        }
        searched
    }
}

/// A way to find the true cut-points in a segment where the assumed ones are not.
trait Continue {
    /// The cut-point behind the one at `from`, which is the last that was found and not the end.
    /// Adds the bytes that are searched to `searched`.
    fn next_cut(&mut self, from: usize, searched: &mut usize) -> usize;
}

/// By speculation: the bytes are cut anew.
struct Anew<'a> {
    chunker: &'a Chunker,
    data: &'a [u8],
}

impl Continue for Anew<'_> {
    fn next_cut(&mut self, from: usize, searched: &mut usize) -> usize {
        let len = self.chunker.last_cut(&self.data[from..]);
        let len = len.expect("the last cut-point is the end of the input");
        *searched += len;
        from + len
    }
}

/// By candidates: the cut-points are selected from what a segment's own cutting tells of them.
struct Selection<'a> {
    chunker: &'a Chunker,
    data: &'a [u8],
    /// The chunk of the segment that was reached, and those behind it.
    start: usize,
    ends: &'a [usize],
}

impl Continue for Selection<'_> {
    fn next_cut(&mut self, from: usize, searched: &mut usize) -> usize {
        let sizes = self.chunker.sizes();
        let forced = from.saturating_add(sizes.max()).min(self.data.len());
        // whether that is a candidate makes no difference
        self.first_candidate(from + sizes.min(), forced - 1, searched).unwrap_or(forced)
    }
}

impl Selection<'_> {
    /// The first candidate from position `first` to `last`; `first` never falls.
    fn first_candidate(
        &mut self,
        mut first: usize,
        last: usize,
        searched: &mut usize,
    ) -> Option<usize> {
        let sizes = self.chunker.sizes();
        while first <= last {
            let Some(end) = self.chunk_up_to(first) else {
                return self.search(first, last, searched);
            };
            let skipped = (self.start + sizes.min() - 1).min(last);
            if first <= skipped {
                let found = self.search(first, skipped, searched);
                if found.is_some() {
                    return found;
                }
            }
            // the chunk would have ended at a candidate before its end
            if last < end {
                return None;
            }
            let is_forced = end - self.start == sizes.max();
            if !is_forced || self.search(end, end, searched).is_some() {
                return Some(end);
            }
            first = end + 1;
        }
        None
    }

    /// Goes on to the segment's chunk that has byte `position - 1`: where it ends.
    fn chunk_up_to(&mut self, position: usize) -> Option<usize> {
        while let [end, rest @ ..] = self.ends {
            if position <= *end {
                return Some(*end);
            }
            (self.start, self.ends) = (*end, rest);
        }
        None
    }

    /// The first candidate from position `first` to `last`. `first` is at least min, and from min
    /// before it to `last` it is less than max.
    fn search(&self, first: usize, last: usize, searched: &mut usize) -> Option<usize> {
        let start = first - self.chunker.sizes().min();
        let found = self.chunker.next_cut(&self.data[start..last]).map(|len| start + len);
        *searched += found.unwrap_or(last) + 1 - first;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, ChunkSizes, Params};
    use onefold_testkit::{any_bytes, cycle, low_entropy, random, text};
    use proptest::prelude::*;

    fn any_input() -> impl Strategy<Value = Vec<u8>> {
        any_bytes(0..4000, 2..3, 1..80)
    }

    /// The means of all algorithms, and any bounds for those that have candidates.
    fn any_params() -> impl Strategy<Value = Params> {
        const WINDOWED: [Algorithm; 9] = [
            Algorithm::Rabin,
            Algorithm::Gear,
            Algorithm::Crc,
            Algorithm::Buzhash,
            Algorithm::Gear32,
            Algorithm::Gear16,
            Algorithm::Mii,
            Algorithm::Pci,
            Algorithm::Bfbc,
        ];
        let of_mean = (prop::sample::select(Algorithm::ALL), 1..200_usize)
            .prop_map(|(algorithm, avg)| Params::for_mean(algorithm, avg).unwrap());
        let bounds = (1..150_usize, 0..100_usize, 0..300_usize);
        let of_bounds = (prop::sample::select(&WINDOWED[..]), bounds, 1..100_usize).prop_map(
            |(algorithm, (min, to_avg, to_max), window)| {
                let avg = min + to_avg;
                let sizes = ChunkSizes::new(min, avg, avg + to_max).unwrap();
                Params { window, ..Params::new(algorithm, sizes) }
            },
        );
        prop_oneof![of_mean, of_bounds]
    }

    proptest! {
        #[test]
        fn segments_of_any_lengths_give_the_serial_cut_points(
            params in any_params(),
            data in any_input(),
            places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut starts: Vec<usize> =
                places.iter().map(|place| place.index(data.len() + 1)).chain([0]).collect();
            starts.sort_unstable();
            assert_serial(&params, &data, &starts);
        }
    }

    /// How many bytes are stitched.
    fn assert_serial(params: &Params, data: &[u8], starts: &[usize]) -> usize {
        let chunker = Chunker::new(params).unwrap();
        let serial: Vec<usize> = chunker.cut_points(data).collect();
        let cuts = cut(&chunker, data, starts);
        assert_eq!(cuts.cut_points, serial, "{params:?} {starts:?}");
        assert!(cuts.stitched <= data.len());
        cuts.stitched
    }

    #[test]
    fn one_border_anywhere_gives_the_serial_cut_points() {
        let len = 260;
        let ramp: Vec<u8> = (0..=255).collect();
        let inputs = [
            random(1, len),
            text(2, len),
            low_entropy(3, len, 2),
            cycle(&[0], len),
            cycle(&[255], len),
            cycle(&ramp, len),
            cycle(&random(4, 19), len),
        ];
        for algorithm in [Algorithm::Crc, Algorithm::Gear16, Algorithm::Bfbc, Algorithm::FastCdc] {
            for (min, avg, max) in [(32, 33, 34), (32, 40, 50), (33, 60, 1000)] {
                let sizes = ChunkSizes::new(min, avg, max).unwrap();
                let params = Params { window: 32, ..Params::new(algorithm, sizes) };
                for data in &inputs {
                    for border in 0..=len {
                        assert_serial(&params, data, &[0, border]);
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_without_a_maximum_are_selected_by_candidates() {
        let sizes = ChunkSizes::unbounded(64, 500).unwrap();
        for algorithm in [Algorithm::Gear, Algorithm::Rabin, Algorithm::Pci] {
            let params = Params::new(algorithm, sizes);
            for data in [random(5, 20_000), text(5, 20_000), cycle(&[0], 20_000)] {
                assert_serial(&params, &data, &[0, 1, 4000, 4001, 9999, 10_000, 20_000]);
            }
        }
    }

    #[test]
    fn candidates_are_sought_where_the_minimum_was_skipped_and_nowhere_else() {
        // no candidates: chunks of max in every segment, never in step with the true ones
        let sizes = ChunkSizes::new(64, 1000, 1024).unwrap();
        let data = cycle(&[0], 100 * 1024);
        let params = Params::new(Algorithm::Gear, sizes);
        let stitched = assert_serial(&params, &data, &[0, 513]);
        // 99 chunks' minima and their ends, which might have been candidates
        assert!((99 * 64..=100 * 65).contains(&stitched), "{stitched}");
        let stitched = assert_serial(&params, &data, &[0, 1024]);
        assert_eq!(stitched, 0);
    }

    #[test]
    fn segments_are_as_many_as_threads_unless_they_would_be_short() {
        let starts = |avg, len, threads| {
            let chunker = Chunker::new(&Params::for_mean(Algorithm::Gear, avg).unwrap()).unwrap();
            segment_starts(&chunker, len, NonZero::new(threads).unwrap())
        };
        assert_eq!(starts(64, 0, 8), [0]);
        assert_eq!(starts(64, LEAST_SEGMENT * 2 - 1, 8), [0]);
        assert_eq!(starts(64, LEAST_SEGMENT * 2, 8), [0, LEAST_SEGMENT]);
        assert_eq!(starts(64, 4 << 20, 4), [0, 1 << 20, 2 << 20, 3 << 20]);
        assert_eq!(starts(1 << 20, 4 << 20, 4), [0]);
    }
}

//! One input cut by several threads, with the cut-points of one.
//!
//! The input is divided into as many segments as there are threads. The first thread starts at a
//! cut-point, the others at the first byte of their segment *as if* it were one. Where a chunk ends
//! depends on nothing before its start, so from the first cut-point that a thread shares with the
//! true ones on all of its cut-points are true. Behind each segment the true cut-points are continued
//! by one thread until they meet those of the next segment; these bytes are *stitched*.
//!
//! **Cost.** With rules that re-synchronise soon a few chunks are stitched a segment. AE and RAM
//! with large chunks take long to, which their files state; constant and periodic data may never let
//! cuttings meet. Then all segments but the first are stitched: each byte is cut twice, the first
//! time by many threads at once, and the whole takes as long as with one thread, the start of the
//! threads aside. Without a maximum chunk size a thread may look for the end of a chunk far behind
//! its segment.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read};
use std::num::NonZero;
use std::{iter, thread};

use crate::{Chunker, Stream};

/// The least a segment holds: a thread takes about as long to start as this to be cut.
const LEAST_SEGMENT: u64 = 256 << 10;

/// Chunks of the mean size that a segment holds at least, so that most of it is behind the place
/// where cuttings meet.
const LEAST_CHUNKS: u64 = 16;

/// Cut-points that several threads found, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelCuts<P> {
    /// The ends of all chunks; the last is the length of the input.
    pub cut_points: Vec<P>,
    /// Into how many segments the input was divided: as many as threads, but fewer if it is short.
    pub segments: usize,
    /// Bytes that were cut once more by a single thread, since the cut-points of their segment were
    /// not yet true.
    pub stitched: u64,
}

/// All cut-points of `data`, a whole input, by up to `threads` threads: those that
/// [`Chunker::cut_points`] finds, in its order.
///
/// Short data is cut by fewer threads. In the worst case, where cuttings never meet, this takes as
/// long as one thread does and the time to start the others.
///
/// Panics if the system cannot start a thread.
pub fn cut_points_parallel(chunker: &Chunker, data: &[u8], threads: NonZero<usize>) -> Vec<usize> {
    parallel_cuts(chunker, data, threads).cut_points
}

/// As [`cut_points_parallel`], with an account of the work.
pub fn parallel_cuts(
    chunker: &Chunker,
    data: &[u8],
    threads: NonZero<usize>,
) -> ParallelCuts<usize> {
    let starts = segment_starts(chunker, data.len() as u64, threads);
    cut_slice(chunker, data, &starts)
}

/// All cut-points of the first `len` bytes of `file`, by up to `threads` threads that each read
/// their segment: those of a [`Stream`] over the same bytes.
///
/// Each thread holds the buffer of one stream. The first error of a read ends the cutting, as does
/// [`ErrorKind::UnexpectedEof`] if the file ends before `len`.
///
/// Panics if the chunker's sizes are unbounded, as [`Stream::new`] does.
pub fn parallel_file_cuts<F: ReadAt + ?Sized>(
    chunker: &Chunker,
    file: &F,
    len: u64,
    threads: NonZero<usize>,
) -> io::Result<ParallelCuts<u64>> {
    let starts = segment_starts(chunker, len, threads);
    cut_file(chunker, file, len, &starts)
}

/// Bytes that several threads read at once, each at a place of its own.
pub trait ReadAt: Sync {
    /// Reads into `buffer` what lies from `offset` on, and tells how many bytes that were; 0 only at
    /// the end or if `buffer` is empty.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

#[cfg(unix)]
impl ReadAt for std::fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }
}

#[cfg(windows)]
impl ReadAt for std::fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        rest.unwrap_or(&[]).read(buffer)
    }
}

/// A reader of `file` from `at` up to `end`, which the file must reach.
struct Section<'a, F: ?Sized> {
    file: &'a F,
    at: u64,
    end: u64,
}

impl<F: ReadAt + ?Sized> Read for Section<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.file.read_at(&mut buffer[..wanted], self.at)?;
        if read == 0 {
            let message = format!("ends at {}, expected {} bytes", self.at, self.end);
            return Err(io::Error::new(ErrorKind::UnexpectedEof, message));
        }
        self.at += read as u64;
        Ok(read)
    }
}

/// Where the segments of `len` bytes start: 0 and then evenly.
fn segment_starts(chunker: &Chunker, len: u64, threads: NonZero<usize>) -> Vec<u64> {
    let avg = chunker.sizes().avg() as u64;
    let most = len / LEAST_SEGMENT.max(LEAST_CHUNKS * avg);
    let segments = (threads.get() as u64).min(most).max(1);
    // chunks of one size never meet unless they start at a multiple of it
    let step = if chunker.params().algorithm.is_content_defined() { 1 } else { avg };
    (0..segments).map(|i| i * (len / segments) / step * step).collect()
}

fn cut_slice(chunker: &Chunker, data: &[u8], starts: &[u64]) -> ParallelCuts<usize> {
    let cuts_from = |start: u64| {
        let mut start = start as usize;
        iter::from_fn(move || {
            start += chunker.last_cut(&data[start..])?;
            Some(Ok::<_, Infallible>(start as u64))
        })
    };
    let Ok(cuts) = cut(starts, data.len() as u64, cuts_from);
    ParallelCuts {
        cut_points: cuts.cut_points.into_iter().map(|cut| cut as usize).collect(),
        segments: cuts.segments,
        stitched: cuts.stitched,
    }
}

fn cut_file<F: ReadAt + ?Sized>(
    chunker: &Chunker,
    file: &F,
    len: u64,
    starts: &[u64],
) -> io::Result<ParallelCuts<u64>> {
    cut(starts, len, |start| {
        let mut stream = Stream::new(chunker.clone(), Section { file, at: start, end: len });
        iter::from_fn(move || match stream.next() {
            Ok(Some(_)) => Some(Ok(start + stream.offset())),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        })
    })
}

/// The cut-points of an input of `end` bytes, by a thread for each of the segments that begin at
/// `starts`: 0 and then not falling. `cuts_from` gives the cut-points behind a start as if that were
/// one, the last of them at `end`.
fn cut<I, E>(
    starts: &[u64],
    end: u64,
    cuts_from: impl Fn(u64) -> I + Sync,
) -> Result<ParallelCuts<u64>, E>
where
    I: Iterator<Item = Result<u64, E>>,
    E: Send,
{
    let ends = starts[1..].iter().copied().chain([end]);
    let mut segments = starts.iter().copied().zip(ends);
    let (first_start, first_end) = segments.next().unwrap_or((0, end));
    thread::scope(|scope| {
        let cuts_from = &cuts_from;
        let speculative: Vec<_> = segments
            .map(|(start, end)| {
                let thread = scope.spawn(move || cut_segment(cuts_from(start), start, end));
                (start, end, thread)
            })
            .collect();

        let mut cut_points = cut_segment(cuts_from(first_start), first_start, first_end)?;
        let mut stitched = 0;
        for (start, end, thread) in speculative {
            let assumed = match thread.join() {
                Ok(assumed) => assumed?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            stitched += stitch(&mut cut_points, start, end, &assumed, cuts_from)?;
        }
        Ok(ParallelCuts { cut_points, segments: starts.len(), stitched })
    })
}

/// The cut-points from `start`, up to the first at or behind `end`.
fn cut_segment<E>(
    cuts: impl Iterator<Item = Result<u64, E>>,
    start: u64,
    end: u64,
) -> Result<Vec<u64>, E> {
    let mut cut_points = Vec::new();
    if start < end {
        for cut in cuts {
            let cut = cut?;
            cut_points.push(cut);
            if cut >= end {
                break;
            }
        }
    }
    Ok(cut_points)
}

/// Continues the true `cut_points` to the first at or behind `end`, by those that were `assumed` in
/// the segment from `start` on as soon as they are true. How many bytes that took.
fn stitch<I, E>(
    cut_points: &mut Vec<u64>,
    start: u64,
    end: u64,
    assumed: &[u64],
    cuts_from: impl Fn(u64) -> I,
) -> Result<u64, E>
where
    I: Iterator<Item = Result<u64, E>>,
{
    let from = cut_points.last().copied().unwrap_or(0);
    if from == start {
        cut_points.extend_from_slice(assumed);
        return Ok(0);
    }
    let mut at = from;
    let mut cuts = None;
    let mut next = 0;
    while at < end {
        next += assumed[next..].iter().take_while(|&&cut| cut < at).count();
        if assumed.get(next) == Some(&at) {
            cut_points.extend_from_slice(&assumed[next + 1..]);
            break;
        }
        let Some(cut) = cuts.get_or_insert_with(|| cuts_from(from)).next() else {
            break;
        };
        at = cut?;
        cut_points.push(at);
    }
    Ok(at - from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Params};
    use onefold_testkit::{cycle, low_entropy, random, text};
    use proptest::prelude::*;

    fn any_input() -> impl Strategy<Value = Vec<u8>> {
        let len = 0..4000_usize;
        prop_oneof![
            (any::<u64>(), len.clone()).prop_map(|(seed, len)| random(seed, len)),
            (any::<u64>(), len.clone()).prop_map(|(seed, len)| text(seed, len)),
            (any::<u64>(), len.clone()).prop_map(|(seed, len)| low_entropy(seed, len, 2)),
            (prop::collection::vec(any::<u8>(), 1..80), len)
                .prop_map(|(pattern, len)| cycle(&pattern, len)),
        ]
    }

    proptest! {
        #[test]
        fn segments_of_any_lengths_give_the_serial_cut_points(
            algorithm in prop::sample::select(Algorithm::ALL),
            avg in 1..200_usize,
            data in any_input(),
            places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let chunker = Chunker::new(&Params::for_mean(algorithm, avg).unwrap()).unwrap();
            let serial: Vec<usize> = chunker.cut_points(&data).collect();

            let mut starts: Vec<u64> =
                places.iter().map(|place| place.index(data.len() + 1) as u64).chain([0]).collect();
            starts.sort_unstable();
            let cuts = cut_slice(&chunker, &data, &starts);
            prop_assert_eq!(&cuts.cut_points, &serial);
            prop_assert!(cuts.stitched <= data.len() as u64);

            let of_file = cut_file(&chunker, &data[..], data.len() as u64, &starts).unwrap();
            prop_assert_eq!(of_file.stitched, cuts.stitched);
            let of_file: Vec<usize> =
                of_file.cut_points.into_iter().map(|cut| cut as usize).collect();
            prop_assert_eq!(of_file, serial);
        }
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

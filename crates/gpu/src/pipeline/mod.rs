//! From a reader to chunks with fingerprints: read, copy, search, select, fingerprint, store, each at
//! work on another segment.
//!
//! The ring of pinned memory is the inputs of the lanes. A thread reads into free lanes; each lane has
//! a thread that copies, searches and fingerprints; the calling thread takes the chunks in order and
//! frees the lane. Cut-points are selected in the order of the segments, by the lanes' threads in turn.
//!
//! One thread reads far slower than a bus copies. So an input that can be read at any place is read by the lanes'
//! threads, each its own segment.
//!
//! Each segment begins with the last bytes of the one before, as many as the longest chunk has: so every
//! chunk is whole in the segment where it ends, whatever the cut-points are, and no copy waits for
//! them.

mod line;
mod reading;
mod segment;

use std::io::{self, Read};
use std::time::Duration;

use onefold_cdc::Chunker;
use onefold_fingerprint::{Fingerprint, Fingerprinter};

use self::line::Line;
use crate::input::Input;
use crate::work::MOST;
use crate::{Device, GpuError, Memory, ReadAt, Trace, Work};

/// What to do when the device fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// End with the error.
    Fail,
    /// Go on with the CPU, with the segment that the device failed at.
    UseCpu,
}

/// How a run uses the device.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of a segment; `None` for what suits the largest chunk.
    pub segment: Option<usize>,
    /// Segments at work at the same time, at least 1; `None` for what suits the input.
    pub lanes: Option<usize>,
    /// Memory that segments are read into.
    pub memory: Memory,
    /// What fingerprints chunks, if anything.
    pub fingerprinter: Option<Fingerprinter>,
    /// What to do when the device fails.
    pub on_loss: OnLoss,
    /// Search without tiles of shared memory where that is possible, for comparison.
    pub without_tiles: bool,
    /// Wait for each copy, so that the trace tells it from the search that follows.
    pub trace_copies: bool,
}

impl Settings {
    /// Lanes of pinned memory; a device that fails is an error.
    pub const fn new(fingerprinter: Option<Fingerprinter>) -> Self {
        Self {
            segment: None,
            lanes: None,
            memory: Memory::Pinned,
            fingerprinter,
            on_loss: OnLoss::Fail,
            without_tiles: false,
            trace_copies: false,
        }
    }

    /// What a device is to find.
    pub(crate) fn work(&self, chunker: &Chunker) -> Result<Work, GpuError> {
        let work = Work::new(chunker, self.fingerprinter.as_ref())?;
        Ok(if self.without_tiles { work.without_tiles() } else { work })
    }

    /// Bytes of a segment for chunks of up to `max` bytes.
    fn segment(&self, max: usize) -> Result<usize, GpuError> {
        const COMMON: usize = 16 << 20;
        let segment = self.segment.unwrap_or(COMMON.max(8 * max));
        let least = 2 * max;
        if segment < least || segment > MOST {
            return Err(GpuError::Segment { segment, least, most: MOST });
        }
        Ok(segment)
    }
}

/// A chunk of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its first byte, counted from the start of the input.
    pub start: u64,
    /// The offset just after its last byte.
    pub end: u64,
    /// Its fingerprint, if one was wanted.
    pub fingerprint: Option<Fingerprint>,
}

/// The chunks that end in one segment.
#[derive(Debug)]
pub struct Piece<'a> {
    bytes: &'a [u8],
    base: u64,
    chunks: &'a [Chunk],
}

impl Piece<'_> {
    /// The chunks in order; the first begins where the last of the piece before ended.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = Chunk> {
        self.chunks.iter().copied()
    }

    /// The bytes of `chunk`, which is one of these.
    pub fn bytes(&self, chunk: Chunk) -> &[u8] {
        &self.bytes[(chunk.start - self.base) as usize..(chunk.end - self.base) as usize]
    }
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Bytes that were read.
    pub bytes: u64,
    /// Chunks that were handed over.
    pub chunks: u64,
    /// Segments that the device did.
    pub on_device: u64,
    /// Segments that the CPU did after the device had failed.
    pub on_cpu: u64,
    /// Why the device failed, if it did.
    pub lost: Option<GpuError>,
    /// How long all took.
    pub elapsed: Duration,
    /// Each stage of each segment.
    pub trace: Trace,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The device cannot do it, or failed.
    #[error(transparent)]
    Device(#[from] GpuError),
    /// The input cannot be read.
    #[error("cannot read the input")]
    Read(#[source] io::Error),
    /// Whatever takes the chunks failed.
    #[error("cannot store the chunks")]
    Store(#[source] io::Error),
}

/// Cuts what `reader` yields at the cut-points of `chunker`, by `device`, and hands the chunks to
/// `store` in order.
///
/// # Errors
/// Work that no device can do is refused before anything is read. When the device fails later,
/// [`Settings::on_loss`] decides. Chunks that were handed over before an error are right.
pub fn run<R: Read + Send>(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    reader: R,
    store: impl FnMut(Piece<'_>) -> io::Result<()>,
) -> Result<Summary, RunError> {
    run_input(device, chunker, settings, Input::Stream(reader), store)
}

/// The same for an input that can be read at any place: several threads read it.
///
/// # Errors
/// As [`run`]; also an input that became shorter.
pub fn run_at(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    source: &dyn ReadAt,
    store: impl FnMut(Piece<'_>) -> io::Result<()>,
) -> Result<Summary, RunError> {
    run_input(device, chunker, settings, Input::<io::Empty>::Places(source), store)
}

fn run_input<R: Read + Send>(
    device: &dyn Device,
    chunker: &Chunker,
    settings: &Settings,
    input: Input<'_, R>,
    store: impl FnMut(Piece<'_>) -> io::Result<()>,
) -> Result<Summary, RunError> {
    let work = settings.work(chunker)?;
    let segment = settings.segment(work.sizes().max())?;
    let lanes = settings.lanes.unwrap_or_else(|| input.lanes());
    let line = Line::new(chunker, settings, work, segment);
    let seats = line.seats(device, lanes)?;
    line.run(seats, input, store)
}

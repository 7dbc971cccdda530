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

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::ops::Range as Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use onefold_cdc::Chunker;
use onefold_fingerprint::{Fingerprint, Fingerprinter};

use crate::input::{FromPlace, Input, fill};
use crate::select::{Selector, cut_on_cpu};
use crate::trace::Clock;
use crate::work::{MOST, Marks, Room};
use crate::{Device, GpuError, Lane, Memory, Range, ReadAt, Stage, Trace, Work};

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

/// A lane and what becomes of it when the device fails: memory of the host.
struct Seat {
    lane: Option<Box<dyn Lane>>,
    /// Used without a lane.
    buffer: Vec<u8>,
    room: Room,
}

impl Seat {
    fn input(&mut self) -> &mut [u8] {
        match &mut self.lane {
            Some(lane) => lane.input(),
            None => &mut self.buffer,
        }
    }
}

/// A segment in a seat.
struct Segment {
    seat: Seat,
    number: u64,
    /// Where in the input the seat's first byte is.
    base: u64,
    /// Bytes that the segment before had as well.
    known: usize,
    len: usize,
    is_end: bool,
}

/// A segment whose chunks are known.
struct Done {
    segment: Segment,
    chunks: Vec<Chunk>,
}

/// Whose turn it is to select cut-points.
struct Turn {
    next: u64,
    selector: Selector,
    /// No segment will come to an end any more.
    stopped: bool,
}

/// All that the threads of a run share.
struct Line<'a> {
    chunker: &'a Chunker,
    settings: &'a Settings,
    work: Work,
    /// Bytes of a segment.
    segment: usize,
    /// The number of the last segment, as far as the threads that read know.
    last: AtomicU64,
    turn: Mutex<Turn>,
    turned: Condvar,
    lost: Mutex<Option<GpuError>>,
    clock: Clock,
}

impl<'a> Line<'a> {
    fn new(chunker: &'a Chunker, settings: &'a Settings, work: Work, segment: usize) -> Self {
        let turn = Turn { next: 0, selector: work.selector(0), stopped: false };
        Self {
            chunker,
            settings,
            work,
            segment,
            last: AtomicU64::new(u64::MAX),
            turn: Mutex::new(turn),
            turned: Condvar::new(),
            lost: Mutex::new(None),
            clock: Clock::start(),
        }
    }

    /// A seat for each of `lanes`.
    fn seats(&self, device: &dyn Device, lanes: usize) -> Result<Vec<Seat>, GpuError> {
        let segment = self.segment;
        let mut seats = Vec::new();
        for _ in 0..lanes.max(1) {
            let lane = device.lane(segment, self.settings.memory).and_then(|mut lane| {
                self.work.prepare(&mut *lane)?;
                Ok(lane)
            });
            let room = Room::of(segment);
            seats.push(match lane {
                Ok(lane) => Seat { lane: Some(lane), buffer: Vec::new(), room },
                // fewer lanes are slower, but they are what the device has memory for
                Err(GpuError::NoMemory { .. }) if !seats.is_empty() => break,
                Err(error) => {
                    self.lose(error)?;
                    Seat { lane: None, buffer: vec![0; segment], room }
                }
            });
        }
        Ok(seats)
    }

    /// Notes that the device failed, or returns the error if that ends the run.
    fn lose(&self, error: GpuError) -> Result<(), GpuError> {
        if self.settings.on_loss == OnLoss::Fail {
            return Err(error);
        }
        self.lost().get_or_insert(error);
        Ok(())
    }

    fn lost(&self) -> MutexGuard<'_, Option<GpuError>> {
        self.lost.lock().expect("no one panics while it notes a loss")
    }

    fn run<R: Read + Send>(
        self,
        seats: Vec<Seat>,
        input: Input<'_, R>,
        mut store: impl FnMut(Piece<'_>) -> io::Result<()>,
    ) -> Result<Summary, RunError> {
        let count = seats.len();
        let (free, frees) = bounded(count);
        let (filled, fills) = bounded(count);
        let (done, dones) = bounded(count);
        for seat in seats {
            free.send(seat).expect("there is room for every seat");
        }
        let line = &self;
        let mut totals = Totals::default();
        let outcome = thread::scope(|scope| {
            let source = match &input {
                Input::Stream(_) => None,
                Input::Places(source) => Some(*source),
            };
            let read = scope.spawn(move || match input {
                Input::Stream(reader) => line.read(reader, &frees, &filled),
                Input::Places(_) => {
                    line.number(&frees, &filled);
                    Ok(())
                }
            });
            for _ in 0..count {
                let (fills, done) = (fills.clone(), done.clone());
                scope.spawn(move || line.work(source, &fills, &done));
            }
            // the threads' ends of the channels alone keep them open
            drop((fills, done));
            let stored = line.store(&dones, free, &mut store, &mut totals);
            line.stop();
            drop(dones);
            let read = read.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // an error of a segment comes before the error of a read behind it
            stored.and(read)
        });
        outcome?;
        let elapsed = self.clock.elapsed();
        Ok(Summary {
            bytes: totals.bytes,
            chunks: totals.chunks,
            on_device: totals.on_device,
            on_cpu: totals.on_cpu,
            lost: self.lost.into_inner().expect("no one panics while it notes a loss"),
            elapsed,
            trace: self.clock.into_trace(),
        })
    }

    /// Fills free seats until the input ends. Ends early if no one takes what is filled.
    fn read<R: Read>(
        &self,
        mut reader: R,
        free: &Receiver<Seat>,
        filled: &Sender<Segment>,
    ) -> Result<(), RunError> {
        let (room, overlap) = (self.segment, self.work.sizes().max());
        let mut tail = Vec::new();
        let (mut number, mut base) = (0, 0);
        loop {
            let Ok(mut seat) = self.clock.time(number, Stage::Lane, || free.recv()) else {
                return Ok(());
            };
            let known = tail.len();
            let input = &mut seat.input()[..room];
            input[..known].copy_from_slice(&tail);
            let read =
                self.clock.time(number, Stage::Read, || fill(&mut reader, &mut input[known..]));
            let (read, is_end) = read.map_err(RunError::Read)?;
            let len = known + read;
            let kept = len.min(overlap);
            tail.clear();
            tail.extend_from_slice(&input[len - kept..len]);
            let segment = Segment { seat, number, base, known, len, is_end };
            if filled.send(segment).is_err() || is_end {
                return Ok(());
            }
            base += (len - kept) as u64;
            number += 1;
        }
    }

    /// Gives each free seat the number of a segment, until the last segment is known. The thread that takes the seat
    /// reads the segment.
    fn number(&self, free: &Receiver<Seat>, filled: &Sender<Segment>) {
        let (room, overlap) = (self.segment, self.work.sizes().max());
        for number in 0.. {
            let Ok(seat) = self.clock.time(number, Stage::Lane, || free.recv()) else { return };
            let known = if number == 0 { 0 } else { overlap };
            let base = number * (room - overlap) as u64;
            let segment = Segment { seat, number, base, known, len: 0, is_end: false };
            if number > self.last.load(Ordering::Acquire) || filled.send(segment).is_err() {
                return;
            }
        }
    }

    /// Reads `segment`, whose place is known. The first that is not full is the last.
    fn read_at(&self, source: &dyn ReadAt, segment: &mut Segment) -> io::Result<()> {
        let &mut Segment { ref mut seat, number, base, known, .. } = segment;
        let input = &mut seat.input()[..self.segment];
        let mut reader = FromPlace { source, at: base };
        let read = self.clock.time(number, Stage::Read, || fill(&mut reader, input));
        let is_end = read.as_ref().map_or(true, |&(_, is_end)| is_end);
        if is_end {
            self.last.fetch_min(number, Ordering::AcqRel);
        }
        segment.is_end = is_end;
        segment.len = read?.0;
        if segment.len < known {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                format!("it ends before byte {}, which was read before", base + known as u64),
            ));
        }
        Ok(())
    }

    /// Does segments until none comes, or one fails, whose error it hands over. Those that were not read are read
    /// from `source`.
    fn work(
        &self,
        source: Option<&dyn ReadAt>,
        fills: &Receiver<Segment>,
        done: &Sender<Result<Done, RunError>>,
    ) {
        // a panic must not leave others waiting for their turn
        let _stop = StopOnPanic(self);
        for mut segment in fills {
            let read = source.map_or(Ok(()), |source| self.read_at(source, &mut segment));
            let outcome = match read {
                Ok(()) => self.do_segment(segment).map_err(RunError::Device),
                Err(error) => self.fail_in_turn(segment.number, error),
            };
            let Some(outcome) = outcome.transpose() else { return };
            let failed = outcome.is_err();
            if done.send(outcome).is_err() || failed {
                return;
            }
        }
    }

    /// The error of the segment `number`, which comes after those before it; `None` if there is no such segment.
    fn fail_in_turn(&self, number: u64, error: io::Error) -> Result<Option<Done>, RunError> {
        if self.turn(number).is_none() {
            return Ok(None);
        }
        self.stop();
        Err(RunError::Read(error))
    }

    /// Waits until cut-points of the segments before `number` are selected; `None` if there is no such segment, or
    /// if the run was stopped.
    fn turn(&self, number: u64) -> Option<MutexGuard<'_, Turn>> {
        let exists = || number <= self.last.load(Ordering::Acquire);
        let turn = self.clock.time(number, Stage::Turn, || {
            let turn = self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let waits = |turn: &mut Turn| turn.next != number && !turn.stopped && exists();
            self.turned.wait_while(turn, waits).unwrap_or_else(|poisoned| poisoned.into_inner())
        });
        (!turn.stopped && exists()).then_some(turn)
    }

    /// The chunks that end in `segment`; `None` if there is no such segment, or if the run was stopped.
    fn do_segment(&self, mut segment: Segment) -> Result<Option<Done>, GpuError> {
        let number = segment.number;
        let marks = match self.search(&mut segment) {
            Ok(marks) => Some(marks),
            Err(None) => None,
            Err(Some(error)) => {
                self.lose(error).inspect_err(|_| self.stop())?;
                segment.seat.give_up();
                None
            }
        };
        let Some((start, cuts)) = self.select(&mut segment, marks.as_ref()) else {
            return Ok(None);
        };
        let mut chunk_start = start;
        let mut chunks: Vec<Chunk> = cuts
            .into_iter()
            .map(|end| {
                let chunk = Chunk { start: chunk_start, end, fingerprint: None };
                chunk_start = end;
                chunk
            })
            .collect();
        let fingerprints =
            self.clock.time(number, Stage::Fingerprint, || self.fingerprint(&mut segment, &chunks));
        for (chunk, fingerprint) in
            chunks.iter_mut().zip(fingerprints.inspect_err(|_| self.stop())?)
        {
            chunk.fingerprint = Some(fingerprint);
        }
        Ok(Some(Done { segment, chunks }))
    }

    /// What the device finds of a segment; no error if there is no device any more.
    fn search(&self, segment: &mut Segment) -> Result<Marks, Option<GpuError>> {
        let &mut Segment { ref mut seat, number, known, len, is_end, .. } = segment;
        if self.lost().is_some() {
            seat.give_up();
        }
        let Seat { lane, room, .. } = seat;
        let lane = lane.as_deref_mut().filter(|_| len > 0).ok_or(None)?;
        let copied = self.clock.time(number, Stage::Upload, || {
            lane.upload(len)?;
            if self.settings.trace_copies { lane.wait() } else { Ok(()) }
        });
        copied.map_err(Some)?;
        let search = || self.work.marks(lane, known, len, is_end, room);
        self.clock.time(number, Stage::Search, search).map_err(Some)
    }

    /// The cut before the segment's first, and the segment's cuts; `None` as [`turn`](Self::turn).
    fn select(&self, segment: &mut Segment, marks: Option<&Marks>) -> Option<(u64, Vec<u64>)> {
        let &mut Segment { ref mut seat, number, base, len, is_end, .. } = segment;
        let mut turn = self.turn(number)?;
        let start = turn.selector.start();
        let mut cuts = Vec::new();
        self.clock.time(number, Stage::Select, || {
            let bytes = &seat.input()[..len];
            match marks {
                Some(marks) => {
                    let place = base..base + len as u64;
                    let alone = |at| cut_on_cpu(self.chunker, bytes, at, is_end);
                    turn.selector.advance(marks, alone, place, is_end, &mut cuts);
                }
                None => {
                    turn.selector.advance_on_cpu(self.chunker, bytes, base, is_end, &mut cuts);
                }
            }
        });
        turn.next += 1;
        self.turned.notify_all();
        Some((start, cuts))
    }

    /// The fingerprints of `chunks`, none if none are wanted.
    fn fingerprint(
        &self,
        segment: &mut Segment,
        chunks: &[Chunk],
    ) -> Result<Vec<Fingerprint>, GpuError> {
        let &mut Segment { ref mut seat, base, number, len, is_end, .. } = segment;
        let of = |chunk: &Chunk| Bytes {
            start: (chunk.start - base) as usize,
            end: (chunk.end - base) as usize,
        };
        if let Some(lane) = &mut seat.lane {
            let ranges: Vec<Range> = chunks
                .iter()
                .map(|chunk| Range { start: of(chunk).start, len: of(chunk).len() })
                .collect();
            let device = lane.device().to_owned();
            let found = self.work.fingerprints(&mut **lane, &ranges);
            let bytes = &seat.input()[..len];
            let compared = found.and_then(|found| {
                let one = sample(number, &ranges).map(|one| (ranges[one], found.get(one)));
                let differs =
                    one.and_then(|(range, found)| self.differs(bytes, is_end, range, found));
                differs.map_or(Ok(found), |what| Err(GpuError::Wrong { device, what }))
            });
            match compared {
                Ok(fingerprints) => return Ok(fingerprints),
                Err(error) => self.lose(error)?,
            }
            seat.give_up();
        }
        let Some(fingerprinter) = &self.settings.fingerprinter else { return Ok(Vec::new()) };
        let input = seat.input();
        let bytes: Vec<&[u8]> = chunks.iter().map(|chunk| &input[of(chunk)]).collect();
        let mut fingerprints = Vec::with_capacity(bytes.len());
        fingerprinter.fingerprint_many(&bytes, &mut fingerprints);
        Ok(fingerprints)
    }

    /// What the CPU finds otherwise of the chunk `range` of a segment: its end, or its fingerprint.
    fn differs(
        &self,
        bytes: &[u8],
        is_end: bool,
        range: Range,
        found: Option<&Fingerprint>,
    ) -> Option<String> {
        let Range { start, len } = range;
        let cut = cut_on_cpu(self.chunker, bytes, start, is_end);
        if cut != Some(start + len) {
            let expected = cut.unwrap_or(bytes.len()) - start;
            return Some(format!("a chunk of {len} bytes, expected {expected}"));
        }
        let fingerprinter = self.settings.fingerprinter.as_ref()?;
        let expected = fingerprinter.fingerprint(&bytes[start..][..len]);
        (found != Some(&expected)).then(|| "a fingerprint that the CPU does not find".into())
    }

    /// Hands the chunks of each segment over in order, and frees its seat.
    fn store(
        &self,
        dones: &Receiver<Result<Done, RunError>>,
        free: Sender<Seat>,
        store: &mut impl FnMut(Piece<'_>) -> io::Result<()>,
        totals: &mut Totals,
    ) -> Result<(), RunError> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        for done in dones {
            let done = done?;
            early.insert(done.segment.number, done);
            while let Some(Done { mut segment, chunks }) = early.remove(&next) {
                let Segment { base, len, known, .. } = segment;
                totals.add(&segment, len - known, chunks.len());
                let bytes = &segment.seat.input()[..len];
                let piece = Piece { bytes, base, chunks: &chunks };
                self.clock.time(next, Stage::Store, || store(piece)).map_err(RunError::Store)?;
                next += 1;
                // after the end no one waits for it
                let _ = free.send(segment.seat);
            }
        }
        Ok(())
    }

    /// Lets no thread wait for its turn any more.
    fn stop(&self) {
        self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).stopped = true;
        self.turned.notify_all();
    }
}

impl Seat {
    /// Does without the lane from now on; what was read into it is kept.
    fn give_up(&mut self) {
        if let Some(mut lane) = self.lane.take() {
            self.buffer = lane.input().to_vec();
        }
    }
}

/// The chunk of segment `number` that is compared with the CPU's: each time at another place.
fn sample(number: u64, chunks: &[Range]) -> Option<usize> {
    // the golden ratio spreads consecutive numbers
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (spread as usize).checked_rem(chunks.len())
}

struct StopOnPanic<'a>(&'a Line<'a>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[derive(Default)]
struct Totals {
    bytes: u64,
    chunks: u64,
    on_device: u64,
    on_cpu: u64,
}

impl Totals {
    fn add(&mut self, segment: &Segment, bytes: usize, chunks: usize) {
        self.bytes += bytes as u64;
        self.chunks += chunks as u64;
        match segment.seat.lane {
            Some(_) => self.on_device += 1,
            None => self.on_cpu += 1,
        }
    }
}

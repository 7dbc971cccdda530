//! The threads of a run, and what they share.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use onefold_cdc::Chunker;

use super::segment::{Done, Seat, Segment};
use super::{OnLoss, Piece, RunError, Settings, Summary};
use crate::input::Input;
use crate::select::Selector;
use crate::trace::Clock;
use crate::work::Room;
use crate::{Device, GpuError, ReadAt, Stage, Work};

/// Whose turn it is to select cut-points.
pub(super) struct Turn {
    pub(super) next: u64,
    pub(super) selector: Selector,
    /// No segment will come to an end any more.
    stopped: bool,
}

/// All that the threads of a run share.
pub(super) struct Line<'a> {
    pub(super) chunker: &'a Chunker,
    pub(super) settings: &'a Settings,
    pub(super) work: Work,
    /// Bytes of a segment.
    pub(super) segment: usize,
    /// The number of the last segment, as far as the threads that read know.
    pub(super) last: AtomicU64,
    turn: Mutex<Turn>,
    pub(super) turned: Condvar,
    lost: Mutex<Option<GpuError>>,
    pub(super) clock: Clock,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        chunker: &'a Chunker,
        settings: &'a Settings,
        work: Work,
        segment: usize,
    ) -> Self {
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
    pub(super) fn seats(&self, device: &dyn Device, lanes: usize) -> Result<Vec<Seat>, GpuError> {
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
    pub(super) fn lose(&self, error: GpuError) -> Result<(), GpuError> {
        if self.settings.on_loss == OnLoss::Fail {
            return Err(error);
        }
        self.lost().get_or_insert(error);
        Ok(())
    }

    pub(super) fn lost(&self) -> MutexGuard<'_, Option<GpuError>> {
        self.lost.lock().expect("no one panics while it notes a loss")
    }

    pub(super) fn run<R: Read + Send>(
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
    pub(super) fn turn(&self, number: u64) -> Option<MutexGuard<'_, Turn>> {
        let exists = || number <= self.last.load(Ordering::Acquire);
        let turn = self.clock.time(number, Stage::Turn, || {
            let turn = self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let waits = |turn: &mut Turn| turn.next != number && !turn.stopped && exists();
            self.turned.wait_while(turn, waits).unwrap_or_else(|poisoned| poisoned.into_inner())
        });
        (!turn.stopped && exists()).then_some(turn)
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
    pub(super) fn stop(&self) {
        self.turn.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).stopped = true;
        self.turned.notify_all();
    }
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

//! A device whose calls are counted and timed.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{BlockDevice, BlockError, BlockSize, Durability, Extent, Zeroes};

/// Upper bounds of the latency buckets; one more bucket counts longer calls.
pub const LATENCIES: [Duration; 18] = [
    Duration::from_micros(5),
    Duration::from_micros(10),
    Duration::from_micros(20),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(200),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// The number of threads that can count without sharing a cache line.
const SHARDS: usize = 16;

/// Operations that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`BlockDevice::read`].
    Read,
    /// [`BlockDevice::write`].
    Write,
    /// [`BlockDevice::erase`].
    Erase,
    /// [`BlockDevice::write_zeroes`].
    WriteZeroes,
    /// [`BlockDevice::flush`].
    Flush,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 5] = [
        Operation::Read,
        Operation::Write,
        Operation::Erase,
        Operation::WriteZeroes,
        Operation::Flush,
    ];
}

/// Kinds of failures of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// [`BlockError::NoSpace`].
    NoSpace,
    /// [`BlockError::Io`].
    Io,
    /// All other errors: this device cannot execute the request.
    Other,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 3] = [Refusal::NoSpace, Refusal::Io, Refusal::Other];

    fn of(error: &BlockError) -> Self {
        match error {
            BlockError::NoSpace { .. } => Refusal::NoSpace,
            BlockError::Io { .. } => Refusal::Io,
            _ => Refusal::Other,
        }
    }
}

/// The counters of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Completed calls by latency: one number for each bucket of [`LATENCIES`] (not cumulative), and one
    /// for longer calls.
    pub buckets: [u64; LATENCIES.len() + 1],
    /// The total time of all calls.
    pub time: Duration,
    /// Bytes of successful calls.
    pub bytes: u64,
    /// Failed calls, in the order of [`Refusal::ALL`].
    pub errors: [u64; Refusal::ALL.len()],
}

impl Measured {
    /// The number of completed calls.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Counters of calls of one or several devices. Counting never blocks.
#[derive(Default)]
pub struct Measurements {
    shards: [Shard; SHARDS],
}

/// The counters of some of the threads.
#[derive(Default)]
#[repr(align(128))]
struct Shard([Counts; Operation::ALL.len()]);

#[derive(Default)]
struct Counts {
    buckets: [AtomicU64; LATENCIES.len() + 1],
    nanoseconds: AtomicU64,
    bytes: AtomicU64,
    errors: [AtomicU64; Refusal::ALL.len()],
}

impl Measurements {
    /// The counters of `operation`. A call that completes concurrently may be counted fully, partly or
    /// not at all.
    pub fn of(&self, operation: Operation) -> Measured {
        let mut sum = Measured::default();
        for shard in &self.shards {
            let counts = &shard.0[operation as usize];
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            for (sum, counter) in sum.buckets.iter_mut().zip(&counts.buckets) {
                *sum += load(counter);
            }
            for (sum, counter) in sum.errors.iter_mut().zip(&counts.errors) {
                *sum += load(counter);
            }
            sum.time += Duration::from_nanos(load(&counts.nanoseconds));
            sum.bytes += load(&counts.bytes);
        }
        sum
    }

    /// Counts a request for `operation` that was refused before a device was called: as a failure,
    /// [`Refusal::Other`], but not as a call.
    pub fn refuse(&self, operation: Operation) {
        let errors = &self.shards[shard()].0[operation as usize].errors;
        errors[Refusal::Other as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn note(&self, operation: Operation, took: Duration, outcome: Result<u64, Refusal>) {
        let counts = &self.shards[shard()].0[operation as usize];
        let add = |counter: &AtomicU64, by| counter.fetch_add(by, Ordering::Relaxed);
        let bucket = LATENCIES.partition_point(|bound| *bound < took);
        add(&counts.buckets[bucket], 1);
        add(&counts.nanoseconds, took.as_nanos() as u64);
        match outcome {
            Ok(bytes) => add(&counts.bytes, bytes),
            Err(refusal) => add(&counts.errors[refusal as usize], 1),
        };
    }
}

/// The shard of this thread.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            own.set(Some(next));
            next
        })
    })
}

/// Called for each failed call, with the operation, the bytes and the error.
pub type OnError = dyn Fn(Operation, Range<u64>, &BlockError) + Send + Sync;

/// A device whose calls are counted, if they are an [`Operation`].
pub struct MeasuredDevice<D> {
    device: D,
    measurements: Arc<Measurements>,
    on_error: Box<OnError>,
}

impl<D: BlockDevice> MeasuredDevice<D> {
    /// Counts the calls of `device` in `measurements`, and calls `on_error` for each failed call.
    pub fn new(
        device: D,
        measurements: Arc<Measurements>,
        on_error: impl Fn(Operation, Range<u64>, &BlockError) + Send + Sync + 'static,
    ) -> Self {
        Self { device, measurements, on_error: Box::new(on_error) }
    }

    fn measure(
        &self,
        operation: Operation,
        range: Range<u64>,
        call: impl FnOnce(&D) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let bytes = range.end.saturating_sub(range.start);
        let start = Instant::now();
        let outcome = call(&self.device);
        let took = start.elapsed();
        let noted = outcome.as_ref().map(|()| bytes).map_err(Refusal::of);
        self.measurements.note(operation, took, noted);
        if let Err(error) = &outcome {
            (self.on_error)(operation, range, error);
        }
        outcome
    }
}

fn range_of(offset: u64, len: usize) -> Range<u64> {
    offset..offset.saturating_add(len as u64)
}

impl<D: BlockDevice> BlockDevice for MeasuredDevice<D> {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn block_size(&self) -> BlockSize {
        self.device.block_size()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError> {
        let range = range_of(offset, buffer.len());
        self.measure(Operation::Read, range, |device| device.read(offset, buffer))
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError> {
        let range = range_of(offset, data.len());
        self.measure(Operation::Write, range, |device| device.write(offset, data, durability))
    }

    /// On success each write is counted with the time of the whole call. On error none is counted,
    /// because the caller then repeats each write singly.
    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        let start = Instant::now();
        self.device.write_many(writes, durability)?;
        let took = start.elapsed();
        for (_, data) in writes {
            self.measurements.note(Operation::Write, took, Ok(data.len() as u64));
        }
        Ok(())
    }

    fn writes_at_once(&self) -> usize {
        self.device.writes_at_once()
    }

    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError> {
        self.measure(Operation::Erase, range.clone(), |device| device.erase(range, durability))
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.measure(Operation::WriteZeroes, range.clone(), |device| {
            device.write_zeroes(range, zeroes, durability)
        })
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.measure(Operation::Flush, 0..0, |device| device.flush())
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.device.cache(range)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        self.device.extents(range, max)
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        self.device.resize(size)
    }
}

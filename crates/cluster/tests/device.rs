//! Volumes as clients of a gateway see them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use onefold_backend::rados::{MemoryRados, RadosPool};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Extent, MemoryDevice, Zeroes};
use onefold_cluster::{BootClock, Claim, Lease, LeaseClock, LeaseHold, LeasedDevice};
use onefold_seal::ObjectId;

const BLOCK: usize = 4096;

/// A device whose writes are there at once, and durable when a test lets them.
struct Slow {
    inner: MemoryDevice,
    written: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<Result<(), BlockError>>>,
    flushes: Arc<AtomicU64>,
}

impl BlockDevice for Slow {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn block_size(&self) -> BlockSize {
        self.inner.block_size()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError> {
        assert_eq!(durability, Durability::OnReturn);
        self.inner.write(offset, data, durability)?;
        self.written.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap()
    }

    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError> {
        self.inner.erase(range, durability)
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.inner.write_zeroes(range, zeroes, durability)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.inner.flush()
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.inner.cache(range)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        self.inner.extents(range, max)
    }
}

fn lease() -> Arc<Lease> {
    let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    let clock: Arc<dyn LeaseClock> = Arc::new(BootClock);
    match LeaseHold::claim(&pool, &clock, ObjectId::random(), "a", false, || true).unwrap() {
        Claim::Taken(hold) => Arc::new(Lease::start(hold, |_| ())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_read_shows_no_write_that_is_not_durable() {
    let (written, is_written) = mpsc::channel();
    let (let_go_on, go_on) = mpsc::channel();
    let flushes = Arc::new(AtomicU64::new(0));
    let slow = Slow {
        inner: MemoryDevice::new(16 * BLOCK as u64, BlockSize::B4096).unwrap(),
        written,
        go_on: Mutex::new(go_on),
        flushes: Arc::clone(&flushes),
    };
    let device = Arc::new(LeasedDevice::new(slow, Some(lease())));
    let flushes_of_a_read = |block: u64| {
        let before = flushes.load(Ordering::Relaxed);
        let mut found = [0; BLOCK];
        device.read(block * BLOCK as u64, &mut found).unwrap();
        (found[0], flushes.load(Ordering::Relaxed) - before)
    };
    for (outcome, after) in [
        (Ok(()), 0),
        // it may be there, so the next read makes it so, or not
        (Err(BlockError::NoSpace { object: "the pool".into() }), 1),
    ] {
        let is_kept = outcome.is_ok();
        let writer = {
            let device = Arc::clone(&device);
            thread::spawn(move || device.write(0, &[7; BLOCK], Durability::OnFlush))
        };
        is_written.recv().unwrap();
        assert_eq!(flushes_of_a_read(0), (7, 1));
        assert_eq!(flushes_of_a_read(1), (0, 0));
        let_go_on.send(outcome).unwrap();
        assert_eq!(writer.join().unwrap().is_ok(), is_kept);
        assert_eq!(flushes_of_a_read(0), (7, after));
        assert_eq!(flushes_of_a_read(0), (7, 0));
    }
}

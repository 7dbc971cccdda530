//! Writes at once: those of whole blocks go side by side, those of parts of a block one by one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use onefold_backend::{
    BackendError, Folder, Log, LogReader, MemoryFolder, Pages, Reserved, Syncer,
};
use onefold_block::{BlockDevice, BlockSize, Durability, Zeroes};
use onefold_fingerprint::Fingerprint;
use onefold_index::{ChainedTable, Inserted, Table, TableCounters};
use onefold_testkit::{SplitMix64, random};
use onefold_volume::{Hash, Options, Pool};

use crate::pass_on::pass_on;

const BLOCK: usize = 4096;

/// A folder in memory whose logs are synced while another thread writes.
struct SyncsBesideWrites<T> {
    inner: T,
    writer: Arc<Writer>,
}

/// Somebody who writes over and over, and whom syncs wait for.
#[derive(Default)]
struct Writer {
    is_at_work: AtomicBool,
    /// While it is set no sync ends.
    holds: AtomicBool,
    written: AtomicUsize,
}

impl Writer {
    /// Returns when one of its writes began and ended since the call.
    fn wait_for_a_write(&self) {
        wait_until(|| !self.holds.load(Ordering::SeqCst));
        let before = self.written.load(Ordering::SeqCst);
        wait_until(|| {
            let written = self.written.load(Ordering::SeqCst);
            written >= before + 2 || !self.is_at_work.load(Ordering::SeqCst)
        });
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_micros(100));
    }
}

impl<T> SyncsBesideWrites<T> {
    fn around<U>(&self, inner: U) -> SyncsBesideWrites<U> {
        SyncsBesideWrites { inner, writer: self.writer.clone() }
    }
}

impl Folder for SyncsBesideWrites<MemoryFolder> {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        Ok(Box::new(self.around(self.inner.log(name)?)))
    }

    pass_on!(reader, pages, names, remove, rename);
}

impl Log for SyncsBesideWrites<Box<dyn Log + Sync>> {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.writer.wait_for_a_write();
        self.inner.sync()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.inner.truncate(len)
    }

    fn reserve(&mut self, bytes: u64) -> Reserved {
        self.inner.reserve(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.inner.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(self.around(self.inner.syncer()))
    }
}

impl Syncer for SyncsBesideWrites<Arc<dyn Syncer>> {
    fn sync(&self) -> Result<(), BackendError> {
        self.writer.wait_for_a_write();
        self.inner.sync()
    }
}

#[test]
fn durable_writes_that_wait_for_a_commit_share_the_next() {
    // Whether a write waits when another one's commit begins is the scheduler's choice, hence trials.
    assert!((0..100).any(|_| commits_of_durable_writes(3) <= 2));
}

/// The commits of `count` durable writes, which all came before the first commit ended. During each
/// commit somebody else's write comes, so that a commit by each would have something to do.
fn commits_of_durable_writes(count: usize) -> u64 {
    let writer = Arc::new(Writer::default());
    let folder = SyncsBesideWrites { inner: MemoryFolder::new(), writer: writer.clone() };
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::new(folder), Options::default()).unwrap();
    pool.create_volume("a", 16 * BLOCK as u64, BlockSize::B4096).unwrap();
    let volume = pool.volume("a").unwrap();
    let bytes = random(1, BLOCK);
    let write = |block: usize, durability| {
        volume.write((block * BLOCK) as u64, &bytes, durability).unwrap();
    };
    let is_written = |block: usize| {
        let mut read = vec![0; BLOCK];
        volume.read((block * BLOCK) as u64, &mut read).unwrap();
        read == bytes
    };
    let before = pool.statistics().commits;
    writer.is_at_work.store(true, Ordering::SeqCst);
    writer.holds.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            while writer.is_at_work.load(Ordering::SeqCst) {
                write(count, Durability::OnFlush);
                writer.written.fetch_add(1, Ordering::SeqCst);
            }
        });
        let durable: Vec<_> = (0..count)
            .map(|block| scope.spawn(move || write(block, Durability::OnReturn)))
            .collect();
        wait_until(|| (0..count).all(is_written));
        writer.holds.store(false, Ordering::SeqCst);
        let ended: Vec<_> = durable.into_iter().map(|thread| thread.join()).collect();
        writer.is_at_work.store(false, Ordering::SeqCst);
        ended.into_iter().for_each(|write| write.unwrap());
    });
    pool.statistics().commits - before
}

fn pool_of(blocks: usize) -> Pool {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(folder, Options::default()).unwrap();
    pool.create_volume("a", (blocks * BLOCK) as u64, BlockSize::B4096).unwrap();
    pool
}

/// A table in which whoever looks up many waits for a second one who does, for as long as a minute.
struct Slow {
    table: ChainedTable,
    came: Mutex<usize>,
    comes: Condvar,
    /// How many waited in vain.
    alone: AtomicUsize,
}

impl Table for Slow {
    fn get_many(&self, fingerprints: &[Fingerprint], handles: &mut [Option<u64>]) {
        let mut came = self.came.lock().unwrap();
        *came += 1;
        self.comes.notify_all();
        let minute = Duration::from_secs(60);
        let waited = self.comes.wait_timeout_while(came, minute, |came| *came < 2).unwrap();
        self.alone.fetch_add(usize::from(waited.1.timed_out()), Ordering::Relaxed);
        drop(waited);
        self.table.get_many(fingerprints, handles);
    }

    fn get(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.table.get(fingerprint)
    }

    fn insert(&self, fingerprint: &Fingerprint, handle: u64) -> Inserted {
        self.table.insert(fingerprint, handle)
    }

    fn insert_many(&self, entries: &[(Fingerprint, u64)]) -> usize {
        self.table.insert_many(entries)
    }

    fn remove(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.table.remove(fingerprint)
    }

    fn capacity(&self) -> usize {
        self.table.capacity()
    }

    fn bucket_count(&self) -> usize {
        self.table.bucket_count()
    }

    fn count(&self) -> usize {
        self.table.count()
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn counters(&self) -> TableCounters {
        self.table.counters()
    }
}

#[test]
fn two_writes_of_a_mebibyte_of_whole_blocks_are_under_way_at_once() {
    let pool = pool_of(512);
    let slow = Arc::new(Slow {
        table: ChainedTable::new(1 << 20).unwrap(),
        came: Mutex::new(0),
        comes: Condvar::new(),
        alone: AtomicUsize::new(0),
    });
    pool.use_table(Arc::clone(&slow) as Arc<dyn Table>, false);
    let written = [random(1, 1 << 20), random(2, 1 << 20)];
    thread::scope(|scope| {
        for (at, bytes) in (0..).zip(&written) {
            let volume = pool.volume("a").unwrap();
            scope.spawn(move || volume.write(at << 20, bytes, Durability::OnFlush).unwrap());
        }
    });
    assert_eq!(slow.alone.load(Ordering::Relaxed), 0, "one waited for the other to end");
    let mut found = vec![0; 2 << 20];
    pool.volume("a").unwrap().read(0, &mut found).unwrap();
    assert!(found == written.concat());
}

#[test]
fn parts_of_a_block_that_are_written_at_once_are_all_there() {
    const PART: usize = 300;
    const WRITERS: usize = 8;
    let pool = pool_of(3);
    let (barrier, lost) = (&Barrier::new(WRITERS), &AtomicUsize::new(0));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let volume = pool.volume("a").unwrap();
            scope.spawn(move || {
                // all in the middle block, and one of them across its beginning, another its end
                let start = BLOCK - PART / 2 + writer * (BLOCK / (WRITERS - 1));
                for n in 0..400_u64 {
                    let bytes = random(1000 * writer as u64 + n, PART);
                    barrier.wait();
                    match n % 5 {
                        0 => volume
                            .write_zeroes(
                                start as u64..(start + PART) as u64,
                                Zeroes { keep_space: false, only_if_fast: false },
                                Durability::OnFlush,
                            )
                            .unwrap(),
                        _ => volume.write(start as u64, &bytes, Durability::OnFlush).unwrap(),
                    }
                    barrier.wait();
                    let mut found = vec![1; PART];
                    volume.read(start as u64, &mut found).unwrap();
                    let expected = if n % 5 == 0 { vec![0; PART] } else { bytes };
                    // who panics here would leave the others waiting
                    lost.fetch_add(usize::from(found != expected), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(lost.load(Ordering::Relaxed), 0, "parts were lost");
}

#[test]
fn whole_blocks_that_are_written_at_once_are_each_what_one_wrote() {
    const WRITERS: u64 = 3;
    let pool = pool_of(300);
    let page = |writer: u64, n: u64, block: u64| random(writer << 40 | n << 20 | block, BLOCK);
    let all = Barrier::new(WRITERS as usize);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (volume, all) = (pool.volume("a").unwrap(), &all);
            scope.spawn(move || {
                let mut numbers = SplitMix64::new(writer);
                for n in 1..40 {
                    let first = numbers.next_u64() % 40;
                    let pages = (first..first + 256).flat_map(|block| page(writer, n, block));
                    let bytes: Vec<u8> = pages.collect();
                    volume.write(first * BLOCK as u64, &bytes, Durability::OnFlush).unwrap();
                }
                let bytes: Vec<u8> = (0..300).flat_map(|block| page(writer, 0, block)).collect();
                all.wait();
                volume.write(0, &bytes, Durability::OnFlush).unwrap();
            });
        }
    });
    pool.flush().unwrap();
    let mut found = vec![0; 300 * BLOCK];
    pool.volume("a").unwrap().read(0, &mut found).unwrap();
    for (block, found) in (0..).zip(found.chunks(BLOCK)) {
        assert!((0..WRITERS).any(|writer| found == page(writer, 0, block)), "{block}");
    }
    assert_eq!(pool.check(), Vec::<String>::new());
    assert_eq!(pool.scrub().bad, []);
    // what was written over has gone
    assert_eq!(pool.statistics().pages, 300);
}

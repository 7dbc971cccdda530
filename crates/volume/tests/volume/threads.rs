//! Many threads at once: each finds what it wrote last, whatever the others do to the pool.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use onefold_backend::{BackendError, Folder, Log, LogReader, MemoryFolder, Pages, Syncer};
use onefold_block::{BlockDevice, BlockSize, Durability, Zeroes};
use onefold_testkit::SplitMix64;
use onefold_volume::{Hash, IndexLayout, Options, Pool};

use crate::gate::Gate;
use crate::over::Over;
use crate::pass_on::pass_on;

const BLOCK: u64 = 4096;
const WRITERS: u64 = 3;
const BLOCKS: u64 = 60;

fn options() -> Options {
    Options {
        table_bytes: 64 << 10,
        container_len: 40_000,
        commit_len: 4000,
        open_files: 1,
        node_bytes: 0,
        least_nodes: 60,
        ..Options::default()
    }
}

fn block(n: u64) -> Vec<u8> {
    let mut numbers = SplitMix64::new(n);
    (0..BLOCK / 8).flat_map(|_| numbers.next_u64().to_le_bytes()).collect()
}

/// Has each writer write again what each of its blocks is, and does `meanwhile` beside them. How many
/// pages of these were new.
fn write_again(pool: &Pool, last: &[Vec<u64>], meanwhile: impl FnOnce()) -> u64 {
    let before = pool.statistics().new_pages;
    thread::scope(|scope| {
        for (writer, last) in (0..).zip(last) {
            scope.spawn(move || {
                let volume = pool.volume("a").unwrap();
                for (i, n) in (0..).zip(last).filter(|(_, n)| **n > 0) {
                    let at = (i * WRITERS + writer) * BLOCK;
                    volume.write(at, &block(*n), Durability::OnFlush).unwrap();
                    let mut found = vec![1; BLOCK as usize];
                    volume.read(at, &mut found).unwrap();
                    assert!(found == block(*n), "writer {writer}, block {i}");
                }
            });
        }
        meanwhile();
    });
    pool.statistics().new_pages - before
}

/// However the table was lost, what is written after that is found again, and kept once.
fn expect_recovery(pool: &Pool, last: &[Vec<u64>]) {
    let distinct = last.iter().flatten().filter(|n| **n > 0).collect::<BTreeSet<_>>().len() as u64;
    let pages = || pool.statistics().pages;
    // some may be there twice, since the table was lost before
    assert!(pages() >= distinct);
    pool.drop_table(true).unwrap();
    assert_eq!(write_again(pool, last, || ()), 0);
    assert_eq!(pages(), distinct);
    pool.drop_table(false).unwrap();
    assert_eq!(write_again(pool, last, || ()), distinct);
    assert_eq!(write_again(pool, last, || ()), 0);
    // in the middle of writes; those after it do not find what was written before it
    for refill in [false, true, false] {
        let new = write_again(pool, last, || {
            thread::sleep(Duration::from_millis(1));
            pool.drop_table(refill).unwrap();
        });
        let later = write_again(pool, last, || ());
        assert!(refill || new + later == distinct, "{new} and {later} of {distinct}");
        assert_eq!(write_again(pool, last, || ()), 0);
        assert_eq!(pages(), distinct);
    }
    assert_eq!(pool.check(), Vec::<String>::new());
}

fn reopen(folder: Arc<dyn Folder>) -> Pool {
    let (pool, damage) = Pool::open(folder, options()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(pool.check(), Vec::<String>::new());
    pool
}

#[test]
fn writers_beside_snapshots_compactions_checkpoints_and_resizes_find_what_they_wrote() {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    let len = WRITERS * BLOCKS * BLOCK;
    pool.create_volume("a", len, BlockSize::B4096).unwrap();
    let is_over = AtomicBool::new(false);
    let (shared, is_over) = (&pool, &is_over);
    let last: Vec<Vec<u64>> = thread::scope(|scope| {
        let _over = Over(is_over);
        scope.spawn(move || {
            let pool = shared;
            let volume = pool.volume("a").unwrap();
            let mut numbers = SplitMix64::new(99);
            while !is_over.load(Ordering::Relaxed) {
                match numbers.next_u64() % 6 {
                    0 => pool.clone_volume("a", "s", false).unwrap(),
                    1 => drop(pool.delete_volume("s")),
                    2 => drop(pool.compact().unwrap()),
                    3 => pool.checkpoint().unwrap(),
                    4 => pool.drop_table(numbers.next_u64().is_multiple_of(2)).unwrap(),
                    // longer, and back to where nobody writes beyond
                    _ => {
                        volume.resize(len + BLOCK * (numbers.next_u64() % 900)).unwrap();
                        volume.resize(len).unwrap();
                    }
                }
                let _ = pool.delete_volume("s");
            }
        });
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(shared.check(), Vec::<String>::new());
                let scrubbed = shared.scrub();
                assert_eq!((scrubbed.bad, scrubbed.more), (Vec::new(), 0));
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let volume = shared.volume("a").unwrap();
                    let mut numbers = SplitMix64::new(writer);
                    let mut last = vec![0; BLOCKS as usize];
                    for step in 0..6000 {
                        // neighbours of other writers share stripes, segments and pages
                        let i = numbers.next_u64() % BLOCKS;
                        let at = (i * WRITERS + writer) * BLOCK;
                        if step % 7 == 0 {
                            volume.erase(at..at + BLOCK, Durability::OnFlush).unwrap();
                            last[i as usize] = 0;
                        } else {
                            let n = 1 + numbers.next_u64() % 40;
                            volume.write(at, &block(n), Durability::OnFlush).unwrap();
                            last[i as usize] = n;
                        }
                        let i = numbers.next_u64() % BLOCKS;
                        let mut found = vec![1; BLOCK as usize];
                        volume.read((i * WRITERS + writer) * BLOCK, &mut found).unwrap();
                        let n = last[i as usize];
                        let expected = if n == 0 { vec![0; BLOCK as usize] } else { block(n) };
                        assert!(found == expected, "writer {writer}, step {step}, block {i}");
                    }
                    last
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    pool.flush().unwrap();
    assert_eq!(pool.check(), Vec::<String>::new());
    assert_eq!(pool.scrub().bad, []);
    let verify = |pool: &Pool| {
        let volume = pool.volume("a").unwrap();
        for (writer, last) in last.iter().enumerate() {
            for (i, n) in last.iter().enumerate() {
                let mut found = vec![1; BLOCK as usize];
                let at = (i as u64 * WRITERS + writer as u64) * BLOCK;
                volume.read(at, &mut found).unwrap();
                let expected = if *n == 0 { vec![0; BLOCK as usize] } else { block(*n) };
                assert!(found == expected, "writer {writer}, block {i}");
            }
        }
    };
    verify(&pool);
    expect_recovery(&pool, &last);
    verify(&pool);
    drop(pool);
    verify(&reopen(folder));
}

#[test]
fn writes_beside_a_volume_that_becomes_shorter_leave_a_pool_that_opens() {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    pool.create_volume("a", 1000 * BLOCK, BlockSize::B4096).unwrap();
    let device = pool.volume("a").unwrap();
    let volume = &device;
    thread::scope(|scope| {
        for writer in 0..2 {
            scope.spawn(move || {
                let mut numbers = SplitMix64::new(writer);
                for _ in 0..10_000 {
                    // beyond the end now and then
                    let at = numbers.next_u64() % 1000 * BLOCK;
                    let _ = volume.write(at, &block(numbers.next_u64() % 9), Durability::OnFlush);
                }
            });
        }
        scope.spawn(move || {
            for step in 0..3000 {
                volume.resize((1 + step * 37 % 1000) * BLOCK).unwrap();
            }
        });
    });
    volume.flush().unwrap();
    assert_eq!(pool.check(), Vec::<String>::new());
    let size = device.size();
    drop((device, pool));
    assert_eq!(reopen(folder).volume("a").unwrap().size(), size);
}

#[test]
fn threads_that_bring_the_same_new_pages_at_once_keep_each_once() {
    let pool = bring_the_same_at_once(Options { table_bytes: 1 << 20, ..options() }, 0);
    assert_eq!(pool.statistics().unindexed_pages, 0);
}

#[test]
fn so_they_do_when_the_table_keeps_a_sample() {
    let (index, table_bytes) = (IndexLayout::Hooks, 32 << 10);
    // more than it has room for
    let pool = bring_the_same_at_once(Options { index, table_bytes, ..options() }, 2000);
    let found = pool.statistics();
    assert!(found.table_one_in > 1 && found.neighbour_pages > 0, "{found:?}");
}

/// Has each writer write the same pages step by step, of which some are new, to a pool that has `others`
/// already; returns the pool.
fn bring_the_same_at_once(options: Options, others: u64) -> Pool {
    const STEPS: u64 = 400;
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Sha3).unwrap();
    let (opened, _) = Pool::open(folder, options).unwrap();
    opened.create_volume("a", WRITERS * BLOCKS * BLOCK, BlockSize::B4096).unwrap();
    opened.create_volume("others", (others + 1) * BLOCK, BlockSize::B4096).unwrap();
    let volume = opened.volume("others").unwrap();
    for n in 0..others {
        volume.write(n * BLOCK, &block(1_000_000 + n), Durability::OnFlush).unwrap();
    }
    let (pool, barrier) = (&opened, &Barrier::new(WRITERS as usize));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let volume = pool.volume("a").unwrap();
                for step in 0..STEPS {
                    // some that the step before had, some that are new, and one of them twice
                    let pages: Vec<u64> = (4 * step..4 * step + 8).chain([4 * step + 6]).collect();
                    let bytes: Vec<Vec<u8>> = pages.iter().map(|n| block(*n)).collect();
                    let first = writer * BLOCKS + step % 5 * 10;
                    let offsets = (first..).map(|block| block * BLOCK);
                    let writes: Vec<(u64, &[u8])> =
                        offsets.zip(bytes.iter().map(|page| &page[..])).collect();
                    barrier.wait();
                    volume.write_many(&writes, Durability::OnFlush).unwrap();
                    for (offset, page) in writes {
                        let mut found = vec![0; BLOCK as usize];
                        volume.read(offset, &mut found).unwrap();
                        assert!(found == page, "writer {writer}, step {step}");
                    }
                }
            });
        }
    });
    let counted = pool.statistics();
    let new = 4 * STEPS + 4;
    assert_eq!((counted.new_pages, counted.known_pages), (others + new, 9 * STEPS * WRITERS - new));
    assert_eq!(pool.check(), Vec::<String>::new());
    opened
}

#[test]
fn what_a_volume_has_alone_is_told_beside_compactions() {
    const KEPT: u64 = 300;
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(folder, Options { table_bytes: 1 << 20, ..options() }).unwrap();
    pool.create_volume("kept", KEPT * BLOCK, BlockSize::B4096).unwrap();
    pool.create_volume("gone", 2 * KEPT * BLOCK, BlockSize::B4096).unwrap();
    let (kept, gone) = (pool.volume("kept").unwrap(), pool.volume("gone").unwrap());
    for round in 0..10 {
        // a third of each container is of the one that stays
        for n in 0..KEPT {
            let pages = [0, 1, 2].map(|i| block(1 + 3 * (round * KEPT + n) + i));
            kept.write(n * BLOCK, &pages[0], Durability::OnFlush).unwrap();
            gone.write(2 * n * BLOCK, &pages[1..].concat(), Durability::OnFlush).unwrap();
        }
        gone.erase(0..2 * KEPT * BLOCK, Durability::OnReturn).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _over = Over(&is_over);
                let mut count = 0;
                while pool.compact().unwrap() {
                    count += 1;
                }
                assert!(count > 50, "{count}");
            });
            while !is_over.load(Ordering::Relaxed) {
                let told = pool.details("kept").unwrap();
                assert_eq!((told.own_pages, told.shared_pages), (KEPT, 0));
                assert_eq!((told.own_bytes, told.shared_bytes), (KEPT * BLOCK, 0));
            }
        });
    }
}

/// A folder in memory whose containers and journals are synced as fast as the gates let them.
#[derive(Default)]
struct Slow {
    inner: MemoryFolder,
    containers: Arc<Gate>,
    journals: Arc<Gate>,
}

struct SlowLog {
    inner: Box<dyn Log + Sync>,
    containers: Arc<Gate>,
    journals: Arc<Gate>,
}

struct SlowSyncer(Arc<Gate>);

impl Syncer for SlowSyncer {
    fn sync(&self) -> Result<(), BackendError> {
        self.0.pass();
        Ok(())
    }
}

impl Log for SlowLog {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.journals.pass();
        self.inner.sync()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.inner.truncate(len)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.inner.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(SlowSyncer(Arc::clone(&self.containers)))
    }
}

impl Folder for Slow {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        let (containers, journals) = (Arc::clone(&self.containers), Arc::clone(&self.journals));
        Ok(Box::new(SlowLog { inner: self.inner.log(name)?, containers, journals }))
    }

    pass_on!(reader, pages, names, remove, rename);
}

#[test]
fn writes_and_reads_go_on_while_a_flush_waits_for_the_disk() {
    let gate = Arc::new(Gate::default());
    let folder = Slow { containers: Arc::clone(&gate), ..Slow::default() };
    let folder: Arc<dyn Folder> = Arc::new(folder);
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    pool.create_volume("a", 100 * BLOCK, BlockSize::B4096).unwrap();
    let volume = pool.volume("a").unwrap();
    volume.write(0, &block(1), Durability::OnFlush).unwrap();
    thread::scope(|scope| {
        let _closed = gate.close();
        let flush = scope.spawn(|| volume.flush().unwrap());
        gate.wait_for_one();
        // more than begins a commit, and than a container has
        for n in 1..50 {
            volume.write(n * BLOCK, &block(1 + n), Durability::OnFlush).unwrap();
            let mut found = vec![0; BLOCK as usize];
            volume.read((n - 1) * BLOCK, &mut found).unwrap();
            assert!(found == block(n));
        }
        assert!(!flush.is_finished());
    });
    volume.flush().unwrap();
    drop((volume, pool));
    let volume = reopen(folder).volume("a").unwrap();
    for n in 0..50 {
        let mut found = vec![0; BLOCK as usize];
        volume.read(n * BLOCK, &mut found).unwrap();
        assert!(found == block(1 + n));
    }
}

#[test]
fn no_container_goes_before_the_journal_durably_says_so() {
    let gate = Arc::new(Gate::default());
    let folder = Slow { journals: Arc::clone(&gate), ..Slow::default() };
    let folder: Arc<dyn Folder> = Arc::new(folder);
    let containers = || -> BTreeSet<String> {
        let names = folder.names().unwrap().into_iter();
        names.filter(|name| name.starts_with("container-")).collect()
    };
    Pool::create(&folder, Hash::Blake3).unwrap();
    let roomy = Options { commit_len: 1 << 20, ..options() };
    let (pool, _) = Pool::open(Arc::clone(&folder), roomy).unwrap();
    // many blocks: who asks which of them are holes has the state again and again
    pool.create_volume("many", 3000 * 512, BlockSize::B512).unwrap();
    pool.volume("many").unwrap().write(0, &[7; 3000 * 512], Durability::OnReturn).unwrap();
    pool.create_volume("a", 1000 * BLOCK, BlockSize::B4096).unwrap();
    let volume = pool.volume("a").unwrap();
    let is_over = AtomicBool::new(false);
    // whether a container goes before its time, and whether one goes then
    let goes = |round: u64| {
        let dead: Vec<u8> = (0..30).flat_map(|n| block(round * 100 + n)).collect();
        volume.write(0, &dead, Durability::OnReturn).unwrap();
        thread::scope(|scope| {
            let _closed = gate.close();
            volume
                .write((100 + round) * BLOCK, &block(1 << 40 | round), Durability::OnFlush)
                .unwrap();
            let first = scope.spawn(|| volume.flush().unwrap());
            gate.wait_for_one();
            volume.erase(0..30 * BLOCK, Durability::OnFlush).unwrap();
            let before = containers();
            let second = scope.spawn(|| volume.flush().unwrap());
            thread::sleep(Duration::from_millis(2));
            gate.let_one_through();
            first.join().unwrap();
            gate.wait_for_one();
            // the frame that drops some is not durable
            let went_early = !before.is_subset(&containers());
            gate.let_one_through();
            second.join().unwrap();
            (went_early, !before.is_subset(&containers()))
        })
    };
    let went: Vec<(bool, bool)> = thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..2 {
            scope.spawn(|| {
                let many = pool.volume("many").unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(many.extents(0..3000 * 512, 2).unwrap().len(), 1);
                }
            });
        }
        (0..30).map(goes).collect()
    });
    assert_eq!(went, [(false, true); 30]);
}

#[test]
fn what_an_erase_of_many_blocks_leaves_to_be_written_is_bounded() {
    let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    let len = 50_000 * 512;
    pool.create_volume("a", len, BlockSize::B512).unwrap();
    let volume = pool.volume("a").unwrap();
    volume.write(0, &vec![7; len as usize], Durability::OnReturn).unwrap();
    let before = pool.statistics().commits;
    volume.erase(0..len, Durability::OnFlush).unwrap();
    assert_eq!(pool.statistics().mapped_blocks, 0);
    // a commit before each step but the first
    assert_eq!(pool.statistics().commits - before, 50_000 / 4096);
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn writes_go_on_while_an_erase_or_zeroes_wait_for_the_disk() {
    const BLOCKS: u64 = 4 * 4096;
    let gate = Arc::new(Gate::default());
    let folder: Arc<dyn Folder> = Arc::new(Slow { journals: Arc::clone(&gate), ..Slow::default() });
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    pool.create_volume("a", (BLOCKS + 8) * 512, BlockSize::B512).unwrap();
    pool.create_volume("b", 1 << 20, BlockSize::B4096).unwrap();
    let (volume, other) = (pool.volume("a").unwrap(), pool.volume("b").unwrap());
    for with_zeroes in [false, true] {
        volume.write(0, &vec![7; (BLOCKS + 8) as usize * 512], Durability::OnReturn).unwrap();
        thread::scope(|scope| {
            let closed = gate.close();
            let erase = scope.spawn(|| {
                let range = 0..BLOCKS * 512;
                match with_zeroes {
                    false => volume.erase(range, Durability::OnFlush).unwrap(),
                    true => {
                        let zeroes = Zeroes::default();
                        volume.write_zeroes(range, zeroes, Durability::OnFlush).unwrap();
                    }
                }
            });
            // while each of its commits waits
            for commit in 0..3 {
                gate.wait_for_one();
                let (done, is_done) = mpsc::channel();
                let (volume, other) = (&volume, &other);
                scope.spawn(move || {
                    // a part of a block that is erased by now, and one that is not
                    volume.write(commit * 512 + 5, &[7; 7], Durability::OnFlush).unwrap();
                    volume.write((BLOCKS + commit) * 512, &[0; 512], Durability::OnFlush).unwrap();
                    other.write(commit * BLOCK, &[7; 100], Durability::OnFlush).unwrap();
                    done.send(()).unwrap();
                });
                let went_on = is_done.recv_timeout(Duration::from_secs(60)).is_ok();
                assert!(went_on, "commit {commit}, zeroes: {with_zeroes}");
                gate.let_one_through();
            }
            drop(closed);
            erase.join().unwrap();
        });
        let mut found = vec![1; (BLOCKS + 8) as usize * 512];
        volume.read(0, &mut found).unwrap();
        for (at, block) in (0..).zip(found.chunks(512)) {
            let mut expected = vec![0; 512];
            match at {
                0..3 => expected[5..12].fill(7),
                _ if at >= BLOCKS + 3 => expected.fill(7),
                _ => {}
            }
            assert!(block == expected, "block {at}, zeroes: {with_zeroes}");
        }
    }
    assert_eq!(pool.check(), Vec::<String>::new());
}

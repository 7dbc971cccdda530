//! A pool against a plain array for each volume, over snapshots, clones, compactions and restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use onefold_backend::crash::CrashDisk;
use onefold_backend::{BackendError, Folder, MemoryFolder};
use onefold_block::{BlockDevice, BlockSize, Durability, Extent, Zeroes};
use onefold_testkit::SplitMix64;
use onefold_volume::{Between, Codec, Hash, IndexLayout, Options, Pool, VolumeError};

use crate::common::shards::Shards;

/// Has room for sixty thousand pages, which is more than a run writes.
const LARGE_TABLE: usize = 4 << 20;

/// Small enough that containers fill up, and records are written, every few operations.
fn options() -> Options {
    Options {
        table_bytes: 64 << 10,
        container_len: 30_000,
        commit_len: 3000,
        open_files: 2,
        ..Options::default()
    }
}

fn is_unanswered(error: &(dyn Error + 'static)) -> bool {
    let of_pool = error.downcast_ref().or_else(|| error.source()?.downcast_ref());
    matches!(of_pool, Some(VolumeError::Unanswered { .. }))
}

/// What happens between the steps in which a volume goes, or maps are told where pages are.
fn disturb(pool: &Pool, between: Between) {
    assert_eq!(pool.check(), Vec::<String>::new());
    // there may be no answer, and of what is done by then or not the model says the same
    let _ = match (between, pool.statistics().commits % 4) {
        (_, 0) => pool.flush(),
        (Between::Releases, 1) => pool.compact().map(drop),
        (Between::Releases, 2) => pool.checkpoint(),
        _ => Ok(()),
    };
    assert_eq!(pool.check(), Vec::<String>::new());
}

struct Fixture {
    folder: Arc<dyn Folder>,
    options: Options,
    pool: Option<Pool>,
    /// What each volume has to hold, and whether it is a snapshot.
    model: BTreeMap<String, (Vec<u8>, BlockSize, bool)>,
    numbers: SplitMix64,
    /// Who keeps what the pool knows, if that is not its folder.
    shards: Option<Arc<Shards>>,
    /// Whether the table has always known every page, so that none is kept twice.
    knows_all: bool,
}

impl Fixture {
    fn new(seed: u64, hash: Hash, options: Options) -> Self {
        Self::with(seed, hash, options, None)
    }

    fn with(seed: u64, hash: Hash, options: Options, shards: Option<Arc<Shards>>) -> Self {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        Pool::create(&folder, hash).unwrap();
        let numbers = SplitMix64::new(seed);
        let model = BTreeMap::new();
        // for more pages than are ever in the containers
        let knows_all = options.table_bytes >= LARGE_TABLE;
        let mut fixture = Self { folder, options, pool: None, model, numbers, shards, knows_all };
        fixture.reopen();
        fixture
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.numbers.next_u64() % bound
    }

    fn reopen(&mut self) {
        if let Some(pool) = self.pool.take() {
            self.answered(|| pool.flush());
        }
        let (folder, options) = (&self.folder, &self.options);
        let (pool, damage) = self.answered(|| match &self.shards {
            None => Pool::open(Arc::clone(folder), options.clone()),
            Some(shards) => {
                Pool::open_with(Arc::clone(folder), Arc::clone(shards) as _, options.clone())
            }
        });
        assert!(damage.is_empty(), "{damage:?}");
        pool.between_steps(disturb);
        self.pool = Some(pool);
    }

    /// Tries again what got no answer, as it may where answers are lost.
    fn answered<T, E: Error + 'static>(&self, mut call: impl FnMut() -> Result<T, E>) -> T {
        loop {
            match call() {
                Ok(done) => return done,
                Err(error) => assert!(self.shards.is_some() && is_unanswered(&error), "{error}"),
            }
        }
    }

    /// The same of what is done, though no answer came.
    fn done(&self, result: Result<(), VolumeError>) {
        if result.as_ref().is_err_and(|error| is_unanswered(error)) {
            return self.answered(|| self.pool().flush());
        }
        result.unwrap();
    }

    fn create(&mut self, name: &str, size: u64, block_size: BlockSize) {
        self.done(self.pool().create_volume(name, size, block_size));
        self.model.insert(name.into(), (vec![0; size as usize], block_size, false));
    }

    /// Bytes of which many blocks come again.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 512);
        while bytes.len() < len {
            let block = match self.below(8) {
                0 => vec![0; 512],
                1 => vec![self.below(4) as u8; 4096],
                n => {
                    let mut page = SplitMix64::new(if n < 6 {
                        self.below(12)
                    } else {
                        self.numbers.next_u64()
                    });
                    (0..512).flat_map(|_| page.next_u64().to_le_bytes()).collect()
                }
            };
            bytes.extend(block);
        }
        bytes.truncate(len);
        bytes
    }

    /// A name, if there is a volume at all.
    fn any(&mut self) -> Option<String> {
        let count = self.model.len() as u64;
        (count > 0).then(|| {
            let nth = self.below(count) as usize;
            self.model.keys().nth(nth).unwrap().clone()
        })
    }

    /// The first snapshot with blocks as `name` has, if there is one.
    fn snapshot_like(&self, name: &str) -> Option<String> {
        let block_size = self.model[name].1;
        let is_like = |(_, size, is_snapshot): &(Vec<u8>, BlockSize, bool)| {
            *is_snapshot && *size == block_size
        };
        self.model.iter().find(|(_, one)| is_like(one)).map(|(name, _)| name.clone())
    }

    /// A range of a volume, often of whole blocks.
    fn range(&mut self, size: u64) -> (u64, u64) {
        let (offset, len) = (self.below(size), self.below(60_000));
        let round = |n: u64, whole: bool| if whole { n / 4096 * 4096 } else { n };
        let whole = self.below(3) > 0;
        let offset = round(offset, whole);
        (offset, round(len, whole).min(size - offset))
    }

    fn step(&mut self) {
        let Some(name) = self.any() else {
            let size = 4096 * (1 + self.below(400));
            let block_size = if self.below(3) == 0 { BlockSize::B512 } else { BlockSize::B4096 };
            self.create("first", size, block_size);
            return;
        };
        let (size, is_snapshot) = {
            let (bytes, _, is_snapshot) = &self.model[&name];
            (bytes.len() as u64, *is_snapshot)
        };
        let device = self.pool().volume(&name).unwrap();
        let (offset, len) = self.range(size);
        let range = offset as usize..(offset + len) as usize;
        let durability =
            if self.below(6) == 0 { Durability::OnReturn } else { Durability::OnFlush };
        match self.below(30) {
            0..12 if !is_snapshot => {
                let bytes = self.bytes(len as usize);
                // in one piece or in several, the last first
                let (mut writes, mut from) = (Vec::new(), 0);
                while from < bytes.len() && writes.len() < 4 {
                    let to = from + 1 + self.below((bytes.len() - from) as u64) as usize;
                    writes.insert(0, (offset + from as u64, &bytes[from..to]));
                    from = to;
                }
                writes.insert(0, (offset + from as u64, &bytes[from..]));
                match writes.len() {
                    3 => self.answered(|| device.write(offset, &bytes, durability)),
                    _ => self.answered(|| device.write_many(&writes, durability)),
                }
                self.model.get_mut(&name).unwrap().0[range].copy_from_slice(&bytes);
            }
            12..14 if !is_snapshot => {
                self.answered(|| device.erase(offset..offset + len, durability));
                let (bytes, block_size, _) = self.model.get_mut(&name).unwrap();
                let block = block_size.bytes() as usize;
                let (from, to) = (range.start.div_ceil(block) * block, range.end / block * block);
                if from < to {
                    bytes[from..to].fill(0);
                }
            }
            14..16 if !is_snapshot => {
                let zeroes = Zeroes::default();
                let within = offset..offset + len;
                self.answered(|| device.write_zeroes(within.clone(), zeroes, durability));
                self.model.get_mut(&name).unwrap().0[range].fill(0);
            }
            16 if !is_snapshot => {
                let size = 4096 * (1 + self.below(400));
                self.answered(|| device.resize(size));
                self.model.get_mut(&name).unwrap().0.resize(size as usize, 0);
            }
            17 | 18 if self.model.len() < 7 => {
                let (new, is_snapshot) = (format!("v{}", self.below(1 << 40)), self.below(2) == 0);
                self.done(self.pool().clone_volume(&name, &new, is_snapshot));
                let (bytes, block_size, _) = self.model[&name].clone();
                self.model.insert(new, (bytes, block_size, is_snapshot));
            }
            19 => {
                drop(device);
                self.done(self.pool().delete_volume(&name));
                self.model.remove(&name);
            }
            20 => self.answered(|| device.flush()),
            21 => self.answered(|| self.pool().checkpoint()),
            22 | 23 => drop(self.answered(|| self.pool().compact())),
            24 => {
                let refill = self.below(2) == 0 || self.knows_all;
                self.pool().drop_table(refill).unwrap();
            }
            25 => {
                drop(device);
                self.reopen();
            }
            26 => {
                let new = format!("v{}", self.below(1 << 40));
                self.done(self.pool().rename_volume(&name, &new));
                let renamed = self.model.remove(&name).unwrap();
                self.model.insert(new, renamed);
            }
            27 if !is_snapshot => {
                let Some(snapshot) = self.snapshot_like(&name) else { return };
                self.done(self.pool().roll_back_volume(&name, &snapshot));
                let bytes = self.model[&snapshot].0.clone();
                self.model.get_mut(&name).unwrap().0 = bytes;
            }
            _ => {
                let mut found = vec![7; len as usize];
                device.read(offset, &mut found).unwrap();
                assert!(found == self.model[&name].0[range], "{name}, {len} bytes at {offset}");
            }
        }
    }

    /// The blocks of all arrays that are not zeros: how many, and how many different ones.
    fn blocks(&self) -> (u64, u64) {
        let (mut count, mut distinct) = (0, BTreeSet::new());
        for (bytes, block_size, _) in self.model.values() {
            let zeros = [0; 4096];
            for block in bytes.chunks(block_size.bytes() as usize) {
                if *block != zeros[..block.len()] {
                    count += 1;
                    distinct.insert(block);
                }
            }
        }
        (count, distinct.len() as u64)
    }

    /// The pool counts what is in the arrays, whatever it thinks of its own references.
    fn expect_counts(&self) {
        let (count, distinct) = self.blocks();
        let found = self.pool().statistics();
        assert_eq!(found.mapped_blocks, count);
        assert!(found.pages >= distinct, "{} pages of {distinct}", found.pages);
        if self.knows_all {
            assert_eq!((found.pages, found.unindexed_pages), (distinct, 0));
        }
    }

    fn verify(&self) {
        // before: it counts the references that are pending
        assert_eq!(self.pool().check(), Vec::<String>::new());
        self.expect_counts();
        let scrubbed = self.pool().scrub();
        assert_eq!(scrubbed.bad, []);
        let volumes = self.pool().volumes();
        assert_eq!(volumes.len(), self.model.len());
        for info in volumes {
            let (bytes, block_size, is_snapshot) = &self.model[&info.name];
            assert_eq!((info.size, info.is_read_only), (bytes.len() as u64, *is_snapshot));
            let device = self.pool().volume(&info.name).unwrap();
            let mut found = vec![7; bytes.len()];
            device.read(0, &mut found).unwrap();
            assert!(found == *bytes, "{}", info.name);
            // holes are exactly the blocks of zeros
            let mut at = 0;
            while at < bytes.len() as u64 {
                for extent in device.extents(at..bytes.len() as u64, 3).unwrap() {
                    let block = block_size.bytes() as usize;
                    let part = &bytes[at as usize..][..extent.len() as usize];
                    let is_hole = matches!(extent, Extent::Hole(_));
                    for block in part.chunks(block) {
                        assert_eq!(block.iter().all(|&byte| byte == 0), is_hole, "at {at}");
                    }
                    at += extent.len();
                }
            }
        }
    }
}

fn run(seed: u64, hash: Hash, options: Options, steps: u32) {
    run_to_the_end(seed, Fixture::new(seed, hash, options), steps);
}

fn run_to_the_end(seed: u64, mut fixture: Fixture, steps: u32) {
    for step in 0..steps {
        fixture.step();
        if step % 10 == 9 {
            fixture.verify();
        }
    }
    fixture.verify();
    fixture.reopen();
    fixture.verify();
    if seed % 2 == 1 {
        erase_everything(&mut fixture);
    }
    for name in fixture.model.keys().cloned().collect::<Vec<_>>() {
        fixture.done(fixture.pool().delete_volume(&name));
    }
    fixture.model.clear();
    fixture.reopen();
    fixture.verify();
    // with everything deleted nothing takes space any more
    let statistics = fixture.pool().statistics();
    assert_eq!((statistics.pages, statistics.page_bytes), (0, 0));
    fixture.answered(|| fixture.pool().flush());
    assert_eq!(fixture.pool().statistics().container_bytes, 0, "seed {seed}");
}

/// Erases what can be written and deletes what cannot, which leaves volumes that take no space.
fn erase_everything(fixture: &mut Fixture) {
    let (snapshots, writable): (Vec<String>, Vec<String>) =
        fixture.model.keys().cloned().partition(|name| fixture.model[name].2);
    for name in writable {
        let device = fixture.pool().volume(&name).unwrap();
        let size = device.size();
        fixture.answered(|| device.erase(0..size, Durability::OnReturn));
        fixture.model.get_mut(&name).unwrap().0.fill(0);
    }
    fixture.verify();
    for name in snapshots {
        fixture.done(fixture.pool().delete_volume(&name));
        fixture.model.remove(&name);
    }
    fixture.verify();
    let empty = || {
        let pool = fixture.pool();
        fixture.answered(|| pool.maintain());
        let found = pool.statistics();
        (found.mapped_blocks, found.pages, found.page_bytes, found.container_bytes)
    };
    assert_eq!(empty(), (0, 0, 0, 0), "{} volumes are left", fixture.model.len());
}

#[test]
fn a_pool_holds_what_arrays_hold() {
    for seed in 0..12 {
        run(seed, Hash::Blake3, options(), 400);
    }
}

#[test]
fn each_distinct_block_is_one_page_while_the_table_has_them_all() {
    for seed in 20..26 {
        run(seed, Hash::Blake3, Options { table_bytes: LARGE_TABLE, ..options() }, 400);
    }
}

#[test]
fn so_it_does_where_answers_are_lost() {
    for seed in 0..6 {
        let shards = Arc::new(Shards::new(seed, 3));
        let fixture = Fixture::with(seed, Hash::Blake3, options(), Some(Arc::clone(&shards)));
        run_to_the_end(seed, fixture, 300);
        assert!(shards.troubles() > 20, "seed {seed}: {}", shards.troubles());
    }
}

#[test]
fn so_it_does_in_memory_for_few_nodes() {
    for seed in 200..206 {
        let few = Options { node_bytes: 0, least_nodes: 60, ..options() };
        run(seed, Hash::Blake3, Options { table_bytes: LARGE_TABLE, ..few }, 300);
    }
}

#[test]
fn so_it_does_with_every_option() {
    run(100, Hash::Sha3, options(), 300);
    run(101, Hash::Blake3, Options { codec: Some(Codec::Raw), ..options() }, 300);
    run(105, Hash::Blake3, Options { codec: Some(Codec::Lz4), ..options() }, 300);
    run(106, Hash::Blake3, Options { codec: Some(Codec::Deflate), ..options() }, 300);
    run(102, Hash::Blake3, Options { verify: true, ..options() }, 300);
    run(103, Hash::Blake3, Options { index: IndexLayout::Compact, ..options() }, 300);
    // a table that is full at once
    run(104, Hash::Blake3, Options { table_bytes: 4300, ..options() }, 300);
    for (seed, table_bytes) in [(107, 64 << 10), (108, 4300), (109, 300)] {
        let index = IndexLayout::Hooks;
        run(seed, Hash::Blake3, Options { index, table_bytes, ..options() }, 300);
    }
    let (index, table_bytes) = (IndexLayout::Hooks, 300);
    run(110, Hash::Blake3, Options { index, table_bytes, verify: true, ..options() }, 300);
}

#[test]
fn a_page_is_kept_once_whoever_writes_it() {
    let mut fixture = Fixture::new(1, Hash::Blake3, options());
    fixture.create("a", 1 << 20, BlockSize::B4096);
    fixture.create("b", 1 << 20, BlockSize::B4096);
    let bytes = onefold_testkit::random(5, 40 * 4096);
    for (name, offset) in [("a", 0), ("a", 50 * 4096), ("b", 4096)] {
        let device = fixture.pool().volume(name).unwrap();
        device.write(offset, &bytes, Durability::OnFlush).unwrap();
    }
    let statistics = fixture.pool().statistics();
    assert_eq!((statistics.pages, statistics.mapped_bytes), (40, 3 * 40 * 4096));
    assert_eq!((statistics.new_pages, statistics.known_pages), (40, 80));
    // also without the table, once it was made anew
    fixture.pool().drop_table(true).unwrap();
    let device = fixture.pool().volume("b").unwrap();
    device.write(100 * 4096, &bytes, Durability::OnFlush).unwrap();
    assert_eq!(fixture.pool().statistics().pages, 40);
}

#[test]
fn a_table_that_is_filled_again_leads_to_pages_that_are_used() {
    let mut fixture = Fixture::new(1, Hash::Blake3, options());
    fixture.create("a", 1 << 20, BlockSize::B4096);
    let pages = onefold_testkit::random(5, 20 * 4096);
    let write = |fixture: &Fixture, at: u64, page: usize, count: usize| {
        let bytes = &pages[page * 4096..(page + count) * 4096];
        let device = fixture.pool().volume("a").unwrap();
        device.write(at * 4096, bytes, Durability::OnReturn).unwrap();
    };
    write(&fixture, 0, 0, 1);
    // kept twice, the second time in a container that is closed and of which little is used
    fixture.pool().drop_table(false).unwrap();
    write(&fixture, 50, 10, 8);
    write(&fixture, 1, 0, 1);
    write(&fixture, 60, 1, 9);
    let device = fixture.pool().volume("a").unwrap();
    device.erase(4096..2 * 4096, Durability::OnReturn).unwrap();
    fixture.pool().drop_table(true).unwrap();
    // that one goes, and the page that is used is found all the same
    device.erase(50 * 4096..70 * 4096, Durability::OnReturn).unwrap();
    assert_eq!(fixture.pool().statistics().pages, 1);
    let before = fixture.pool().statistics().new_pages;
    write(&fixture, 2, 0, 1);
    assert_eq!(fixture.pool().statistics().new_pages, before);
}

#[test]
fn pages_of_all_codecs_are_read_side_by_side_and_moved_as_they_are() {
    let mut fixture = Fixture::new(1, Hash::Blake3, options());
    fixture.create("a", 1 << 20, BlockSize::B4096);
    let page = |n: usize| onefold_testkit::text(n as u64, 4096);
    let mut kept = Vec::new();
    // of each codec twenty pages in containers that they share
    for n in 0..80 {
        let codec = Codec::ALL[n % 4];
        if fixture.options.codec != Some(codec) {
            fixture.options.codec = Some(codec);
            fixture.reopen();
        }
        let before = fixture.pool().statistics().page_bytes;
        let device = fixture.pool().volume("a").unwrap();
        device.write(n as u64 * 4096, &page(n), Durability::OnFlush).unwrap();
        kept.push(fixture.pool().statistics().page_bytes - before);
    }
    for (n, bytes) in kept.iter().enumerate() {
        assert_eq!(*bytes == 4096, n % 4 == 0, "page {n} takes {bytes} bytes");
    }
    let [raw, zstd, lz4, deflate] =
        [0, 1, 2, 3].map(|codec: usize| -> u64 { kept.iter().skip(codec).step_by(4).sum() });
    // LZ4 has no entropy coding, the other two have
    assert!(raw > lz4 && lz4 > zstd && lz4 > deflate && zstd != deflate, "{kept:?}");
    let verify = |fixture: &Fixture, from: usize| {
        let device = fixture.pool().volume("a").unwrap();
        for n in (from..80).step_by(4).flat_map(|n| [n, n + 1]) {
            let mut found = vec![0; 4096];
            device.read(n as u64 * 4096, &mut found).unwrap();
            assert!(found == page(n), "page {n}");
        }
        assert_eq!(fixture.pool().scrub().bad, []);
    };
    verify(&fixture, 0);
    verify(&fixture, 2);
    // what is left of each container moves to another one, by the codecs it has
    let device = fixture.pool().volume("a").unwrap();
    for n in (0..80_u64).step_by(4) {
        device.erase(n * 4096..(n + 2) * 4096, Durability::OnFlush).unwrap();
    }
    let mut compacted = 0;
    while fixture.pool().compact().unwrap() {
        compacted += 1;
    }
    assert!(compacted > 0);
    let left: u64 = (0..80).filter(|n| n % 4 >= 2).map(|n| kept[n]).sum();
    assert_eq!(fixture.pool().statistics().page_bytes, left);
    verify(&fixture, 2);
    fixture.reopen();
    verify(&fixture, 2);
}

#[test]
fn a_pool_remembers_how_it_compresses() {
    let page = onefold_testkit::text(1, 4096);
    for codec in Codec::ALL {
        let folder: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
        Pool::create_with(&folder, Hash::Sha3, codec).unwrap();
        let write = |options: Options| {
            let (pool, _) = Pool::open(Arc::clone(&folder), options).unwrap();
            assert_eq!(pool.own_codec(), codec);
            let name = format!("v{}", pool.volumes().len());
            pool.create_volume(&name, 4096, BlockSize::B4096).unwrap();
            pool.volume(&name).unwrap().write(0, &page, Durability::OnReturn).unwrap();
            let bytes = pool.statistics().page_bytes;
            // nothing is left that another one could find
            pool.delete_volume(&name).unwrap();
            bytes
        };
        let own = write(options());
        assert_eq!(own == 4096, codec == Codec::Raw);
        assert_eq!(write(Options { codec: Some(Codec::Raw), ..options() }), 4096);
        assert_eq!(write(options()), own);
    }
}

#[test]
fn writes_of_the_same_block_at_once_leave_one_of_them() {
    for verify in [false, true] {
        let mut fixture = Fixture::new(1, Hash::Blake3, Options { verify, ..options() });
        fixture.create("a", 1 << 20, BlockSize::B4096);
        let pages: Vec<Vec<u8>> = (0..3).map(|seed| onefold_testkit::random(seed, 4096)).collect();
        let device = fixture.pool().volume("a").unwrap();
        device.write(0, &pages[0], Durability::OnFlush).unwrap();
        // one that is known, new ones, and the same ones again elsewhere
        let writes: Vec<(u64, &[u8])> = [(1, 1), (1, 0), (1, 2), (2, 1), (1, 1), (3, 2), (4, 1)]
            .map(|(block, page): (u64, usize)| (block * 4096, &pages[page][..]))
            .into();
        device.write_many(&writes, Durability::OnReturn).unwrap();
        let read = |block: u64| {
            let mut found = vec![0; 4096];
            device.read(block * 4096, &mut found).unwrap();
            found
        };
        assert!(pages.contains(&read(1)));
        assert!(read(2) == pages[1] && read(3) == pages[2] && read(4) == pages[1]);
        assert_eq!(fixture.pool().check(), Vec::<String>::new());
        assert_eq!(fixture.pool().statistics().pages, 3);
        // nothing is done of what reaches beyond the end in part
        let writes = [(0, &pages[1][..]), ((1 << 20) - 1, &pages[1][..])];
        device.write_many(&writes, Durability::OnFlush).unwrap_err();
        assert!(read(0) == pages[0]);
    }
}

#[test]
fn a_pool_is_had_by_one_at_a_time_and_made_once() {
    let folder: Arc<dyn Folder> = Arc::new(CrashDisk::new().folder());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::clone(&folder), options()).unwrap();
    let again = Pool::open(Arc::clone(&folder), options());
    let error = again.err().expect("somebody has it");
    assert!(matches!(error, VolumeError::Backend(BackendError::InUse { .. })), "{error}");
    drop(pool);
    Pool::open(Arc::clone(&folder), options()).unwrap();
    let made = Pool::create(&folder, Hash::Blake3);
    assert!(matches!(made, Err(VolumeError::NotEmpty { .. })), "{made:?}");
    let foreign: Arc<dyn Folder> = Arc::new(MemoryFolder::new());
    foreign.log("letter").unwrap();
    let made = Pool::create(&foreign, Hash::Blake3);
    assert!(matches!(made, Err(VolumeError::NotEmpty { found }) if found == "letter"));
    assert!(matches!(Pool::open(foreign, options()), Err(VolumeError::NoPool)));
}

#[test]
fn names_and_sizes_that_no_volume_can_have_are_refused() {
    let mut fixture = Fixture::new(1, Hash::Blake3, options());
    fixture.create("a", 4096, BlockSize::B4096);
    let pool = fixture.pool();
    let create = |name: &str, size| pool.create_volume(name, size, BlockSize::B4096);
    assert!(matches!(create("a", 4096), Err(VolumeError::VolumeExists { .. })));
    assert!(matches!(create("", 4096), Err(VolumeError::BadName { .. })));
    assert!(matches!(create("a\nb", 4096), Err(VolumeError::BadName { .. })));
    assert!(matches!(create(&"x".repeat(256), 4096), Err(VolumeError::BadName { .. })));
    for size in [0, 4095, 512, u64::MAX - 4095] {
        assert!(matches!(create("b", size), Err(VolumeError::BadSize { .. })), "{size}");
    }
    assert!(matches!(pool.delete_volume("b"), Err(VolumeError::NoVolume { .. })));
    assert!(matches!(pool.clone_volume("b", "c", true), Err(VolumeError::NoVolume { .. })));
    assert!(matches!(pool.clone_volume("a", "a", true), Err(VolumeError::VolumeExists { .. })));
    pool.clone_volume("a", "s", true).unwrap();
    let snapshot = pool.volume("s").unwrap();
    assert!(snapshot.write(0, &[1; 4096], Durability::OnFlush).is_err());
    assert!(snapshot.erase(0..4096, Durability::OnFlush).is_err());
    assert!(snapshot.resize(8192).is_err());
}

#[test]
fn a_volume_knows_what_it_has_alone_and_whom_it_is_from() {
    let mut fixture = Fixture::new(1, Hash::Blake3, options());
    fixture.create("a", 8 << 20, BlockSize::B4096);
    fixture.create("other", 8 << 20, BlockSize::B4096);
    let pages = onefold_testkit::random(1, 1000 * 4096);
    let write = |fixture: &Fixture, name: &str, at: usize, from: usize, count: usize| {
        let device = fixture.pool().volume(name).unwrap();
        let bytes = &pages[from * 4096..(from + count) * 4096];
        device.write(at as u64 * 4096, bytes, Durability::OnFlush).unwrap();
    };
    let counts = |fixture: &Fixture, name: &str| {
        let found = fixture.pool().details(name).unwrap();
        assert_eq!(
            (found.own_bytes, found.shared_bytes),
            (found.own_pages * 4096, found.shared_pages * 4096)
        );
        (found.info.mapped_blocks, found.own_pages, found.shared_pages)
    };
    write(&fixture, "a", 0, 0, 700);
    // twenty of them twice
    write(&fixture, "a", 1000, 0, 20);
    assert_eq!(counts(&fixture, "a"), (720, 700, 0));
    write(&fixture, "other", 5, 100, 50);
    write(&fixture, "other", 500, 800, 30);
    assert_eq!(counts(&fixture, "a"), (720, 650, 50));
    assert_eq!(counts(&fixture, "other"), (80, 30, 50));
    fixture.pool().clone_volume("a", "s", true).unwrap();
    fixture.pool().clone_volume("s", "c", false).unwrap();
    assert_eq!(counts(&fixture, "a"), (720, 0, 700));
    assert_eq!(counts(&fixture, "s"), (720, 0, 700));
    // in the clone the first segment is its own from now on, with one page that nobody else has
    write(&fixture, "c", 0, 900, 1);
    assert_eq!(counts(&fixture, "c"), (720, 1, 700));
    let check = |fixture: &Fixture| {
        let of = |name: &str| fixture.pool().details(name).unwrap();
        assert_eq!((of("a").source, of("a").copies), (None, vec!["s".to_owned()]));
        assert_eq!((of("s").source, of("s").copies), (Some("a".into()), vec!["c".to_owned()]));
        assert_eq!((of("c").source, of("c").copies), (Some("s".into()), vec![]));
        // the clock of this machine is beyond 2020
        assert!(of("c").info.made > 1_577_836_800);
    };
    check(&fixture);
    let made = fixture.pool().details("c").unwrap().info.made;
    fixture.reopen();
    check(&fixture);
    fixture.pool().checkpoint().unwrap();
    fixture.reopen();
    check(&fixture);
    assert_eq!(fixture.pool().details("c").unwrap().info.made, made);
    fixture.pool().delete_volume("s").unwrap();
    assert_eq!(fixture.pool().details("c").unwrap().source, None);
    assert_eq!(fixture.pool().details("a").unwrap().copies, Vec::<String>::new());
    fixture.pool().delete_volume("c").unwrap();
    assert_eq!(counts(&fixture, "a"), (720, 650, 50));
    assert!(matches!(fixture.pool().details("c"), Err(VolumeError::NoVolume { .. })));
}

#[test]
fn statistics_are_sums_of_what_was_done() {
    let mut fixture = Fixture::new(1, Hash::Blake3, options());
    fixture.create("a", 1 << 20, BlockSize::B4096);
    let device = fixture.pool().volume("a").unwrap();
    let text = onefold_testkit::text(1, 40 * 4096);
    device.write(0, &text, Durability::OnReturn).unwrap();
    device.write(50 * 4096, &text[..8 * 4096], Durability::OnReturn).unwrap();
    device.write(0, &[0; 2 * 4096], Durability::OnReturn).unwrap();
    fixture.pool().clone_volume("a", "s", true).unwrap();
    let found = fixture.pool().statistics();
    assert_eq!((found.volumes, found.snapshots), (2, 1));
    assert_eq!((found.new_pages, found.known_pages, found.zero_pages), (40, 8, 2));
    assert_eq!(found.mapped_blocks, 2 * 46);
    assert_eq!(found.new_bytes, 40 * 4096);
    assert_eq!(found.new_stored_bytes, found.page_bytes);
    assert!(found.page_bytes < found.container_bytes);
    assert_eq!((found.pages, fixture.pool().table_entries()), (40, 40));
    assert!(found.journal_bytes > 0);
    fixture.pool().checkpoint().unwrap();
    assert_eq!(fixture.pool().statistics().journal_bytes, 0);
    // three quarters go, of containers that are closed: what compacting gives back is told before
    fixture.pool().delete_volume("s").unwrap();
    let device = fixture.pool().volume("a").unwrap();
    device.erase(58 * 4096..1 << 20, Durability::OnReturn).unwrap();
    for block in (2..40_u64).filter(|block| block % 4 != 0) {
        device.erase(block * 4096..(block + 1) * 4096, Durability::OnReturn).unwrap();
    }
    let before = fixture.pool().statistics();
    assert!(before.reclaimable_bytes > 0);
    fixture.pool().maintain().unwrap();
    let after = fixture.pool().statistics();
    assert_eq!(after.reclaimable_bytes, 0);
    assert!(after.container_bytes + before.reclaimable_bytes <= before.container_bytes);
}

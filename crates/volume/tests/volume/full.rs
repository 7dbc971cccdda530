//! A disk that is full to its last byte: what is deleted or erased gives its space back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{
    BackendError, Folder, Log, LogReader, MemoryFolder, Operation, Pages, Reserved, Syncer,
};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
use onefold_testkit::{SplitMix64, random};
use onefold_volume::{Hash, Options, Pool, Volume};

use crate::pass_on::pass_on;

/// Bytes that the disk has.
const SIZE: u64 = 40 << 20;

/// A disk of so many bytes, in memory.
#[derive(Clone, Default)]
struct Disk {
    inner: Arc<MemoryFolder>,
    used: Arc<Mutex<Used>>,
    /// Whether it keeps room for logs that ask for it.
    keeps_room: bool,
    /// Whether it tells how much is free.
    tells_free: bool,
}

#[derive(Default)]
struct Used {
    /// What each log takes, with the room that it has.
    logs: BTreeMap<String, u64>,
    /// What somebody else takes.
    others: u64,
    /// Whether the next append to a journal fails, though there is room.
    is_broken: bool,
}

impl Used {
    fn free(&self) -> u64 {
        SIZE - self.others - self.logs.values().sum::<u64>()
    }

    /// Lets the log `name` take `bytes` if there are so many.
    fn take(&mut self, name: &str, bytes: u64) -> bool {
        let before = self.logs.get(name).copied().unwrap_or(0);
        let fits = bytes <= before + self.free();
        if fits {
            self.logs.insert(name.to_owned(), bytes);
        }
        fits
    }
}

impl Disk {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap()
    }

    /// Somebody else takes all that is left.
    fn fill_up(&self) {
        let mut used = self.used();
        used.others += used.free();
    }
}

struct Bounded {
    disk: Disk,
    name: String,
    log: Box<dyn Log + Sync>,
}

impl Log for Bounded {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        let mut used = self.disk.used();
        if self.name.starts_with("journal-") && std::mem::take(&mut used.is_broken) {
            // as a file is cut off behind what was written of it
            used.take(&self.name, self.log.len());
            return Err(BackendError::Io {
                name: self.name.clone(),
                operation: Operation::Append,
                place: "disk".into(),
                source: "input/output error".into(),
            });
        }
        let end = self.log.len() + bytes.len() as u64;
        let has = used.logs.get(&self.name).copied().unwrap_or(0);
        if !used.take(&self.name, has.max(end)) {
            // the same
            used.take(&self.name, self.log.len());
            return Err(BackendError::Full {
                name: self.name.clone(),
                operation: Operation::Append,
                place: "disk".into(),
                source: "no space left".into(),
            });
        }
        self.log.append(bytes)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.log.sync()
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.log.truncate(len)?;
        self.disk.used().take(&self.name, len);
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> Reserved {
        if !self.disk.keeps_room {
            return Reserved::Never;
        }
        match self.disk.used().take(&self.name, self.log.len() + bytes) {
            true => Reserved::Kept,
            false => Reserved::Full,
        }
    }

    fn len(&self) -> u64 {
        self.log.len()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.log.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        self.log.syncer()
    }
}

impl Folder for Disk {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        let log = self.inner.log(name)?;
        Ok(Box::new(Bounded { disk: self.clone(), name: name.to_owned(), log }))
    }

    pass_on!(reader, pages, names);

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        self.inner.remove(name)?;
        self.used().logs.remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        self.inner.rename(from, to)?;
        let mut used = self.used();
        let log = used.logs.remove(from);
        used.logs.remove(to);
        used.logs.extend(log.map(|log| (to.to_owned(), log)));
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.tells_free.then(|| self.used().free())
    }
}

const PIECE: usize = 256 << 10;

/// Writes pieces until the disk is full, and has somebody else take what is left; how many went well.
fn fill(pool: &Pool, disk: &Disk) -> u64 {
    let volume = pool.volume("a").unwrap();
    for at in 0.. {
        let written = volume.write(at * PIECE as u64, &random(at, PIECE), Durability::OnFlush);
        let Err(error) = written else { continue };
        assert!(matches!(error, BlockError::NoSpace { .. }), "{error}");
        disk.fill_up();
        return at;
    }
    unreachable!("a disk has an end");
}

fn open(disk: &Disk) -> Pool {
    open_in(Arc::new(disk.clone()))
}

fn open_in(folder: Arc<dyn Folder>) -> Pool {
    let options = Options {
        table_bytes: 4 << 20,
        container_len: 1 << 20,
        node_bytes: 0,
        least_nodes: 60,
        ..Options::default()
    };
    let (pool, damage) = Pool::open(folder, options).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    pool
}

/// A new pool with the volume `a`.
fn pool_in(folder: Arc<dyn Folder>) -> Pool {
    Pool::create(&folder, Hash::Blake3).unwrap();
    let pool = open_in(folder);
    pool.create_volume("a", 1 << 30, BlockSize::B4096).unwrap();
    pool
}

fn full_pool(disk: &Disk) -> (Pool, u64) {
    let pool = pool_in(Arc::new(disk.clone()));
    let pieces = fill(&pool, disk);
    assert!(pieces > 60, "{pieces}");
    assert_eq!(disk.used().free(), 0);
    (pool, pieces)
}

/// Fills the disk and deletes the volume `a`; how many bytes are free then.
fn fill_and_delete(pool: &Pool, disk: &Disk) -> u64 {
    fill(pool, disk);
    assert_eq!(disk.used().free(), 0);
    pool.delete_volume("a").unwrap();
    disk.used().free()
}

#[test]
fn a_full_disk_is_left_by_deleting_or_erasing() {
    for is_deleted in [true, false] {
        let disk = Disk { keeps_room: true, ..Disk::default() };
        let (pool, pieces) = full_pool(&disk);
        let volume = pool.volume("a").unwrap();
        // what waits can be told of, and what is there already can be written once more
        volume.flush().unwrap();
        volume.write(0, &random(1, PIECE), Durability::OnReturn).unwrap();
        match is_deleted {
            true => pool.delete_volume("a").unwrap(),
            false => volume.erase(0..1 << 30, Durability::OnReturn).unwrap(),
        }
        let free = disk.used().free();
        assert!(free > (pieces - 8) * PIECE as u64, "{free} of {pieces} pieces");
        // and all of it can be used again
        if is_deleted {
            pool.create_volume("a", 1 << 30, BlockSize::B4096).unwrap();
        }
        assert!(fill(&pool, &disk) > pieces - 8);
        pool.flush().unwrap();
        assert_eq!(pool.check(), Vec::<String>::new());
    }
}

#[test]
fn the_room_is_given_back_when_the_pool_is_closed_and_serves_the_next() {
    let disk = Disk { keeps_room: true, ..Disk::default() };
    let (pool, pieces) = full_pool(&disk);
    pool.flush().unwrap();
    drop(pool);
    assert!(disk.used().free() > 8 << 20, "{}", disk.used().free());
    let pool = open(&disk);
    pool.delete_volume("a").unwrap();
    assert!(disk.used().free() > (pieces - 8) * PIECE as u64);
}

#[test]
fn a_checkpoint_leaves_others_nothing_of_the_room_ahead() {
    for is_full in [false, true] {
        let disk = Disk { keeps_room: true, ..Disk::default() };
        let pool = pool_in(Arc::new(disk.clone()));
        let volume = pool.volume("a").unwrap();
        let mut pieces = 0;
        while disk.used().free() > 1 << 20 {
            let bytes = random(pieces, PIECE);
            volume.write(pieces * PIECE as u64, &bytes, Durability::OnFlush).unwrap();
            pieces += 1;
        }
        if is_full {
            disk.fill_up();
        }
        pool.flush().unwrap();
        pool.checkpoint().unwrap();
        // so that the journal is not written to, which would ask for room, they are not flushed
        let free = fill_and_delete(&pool, &disk);
        assert!(free > (pieces - 8) * PIECE as u64, "{free} of {pieces} pieces");
    }
}

#[test]
fn an_append_that_failed_leaves_others_nothing_of_the_room_ahead() {
    for is_full in [false, true] {
        let disk = Disk { keeps_room: true, ..Disk::default() };
        let pool = pool_in(Arc::new(disk.clone()));
        let volume = pool.volume("a").unwrap();
        volume.write(0, &random(0, 8 * PIECE), Durability::OnFlush).unwrap();
        if is_full {
            disk.fill_up();
        }
        disk.used().is_broken = true;
        pool.flush().unwrap_err();
        assert!(!disk.used().is_broken);
        let free = fill_and_delete(&pool, &disk);
        assert!(free > 4 * PIECE as u64, "{free}");
    }
}

#[test]
fn without_room_ahead_nothing_that_was_acknowledged_is_lost() {
    let disk = Disk::default();
    let (pool, _) = full_pool(&disk);
    assert!(pool.delete_volume("a").is_err(), "this disk keeps no room");
    drop(pool);
    disk.used().others = 0;
    let pool = open(&disk);
    assert_eq!(pool.check(), Vec::<String>::new());
    pool.delete_volume("a").unwrap();
}

#[test]
fn an_unused_container_for_whose_footer_there_is_no_room_stops_no_compaction_of_others() {
    let (disk, faults) = (Disk::default(), Faults::none());
    let pool = pool_in(Arc::new(Faulty::new(disk.clone(), "disk", &faults)));
    let containers = || {
        let names = disk.names().unwrap();
        names.into_iter().filter(|name| name.starts_with("container-")).collect::<Vec<_>>()
    };
    let volume = pool.volume("a").unwrap();
    // one container that is closed, and the beginning of another
    let bytes = random(1, 5 * PIECE);
    volume.write(0, &bytes, Durability::OnReturn).unwrap();
    assert_eq!(containers(), ["container-00000001", "container-00000002"]);
    // the end of the first is left, and nothing of the second
    let (left, second) = (3 * PIECE as u64 + 4096, 4 * PIECE as u64);
    volume.erase(0..left, Durability::OnReturn).unwrap();
    volume.erase(second..1 << 30, Durability::OnReturn).unwrap();
    let footer = Fault::new(Failure::Full).on(Operation::Append).named("container-00000002");
    faults.add(footer);
    let done = pool.maintain().unwrap();
    assert_eq!((done.compacted, done.left, faults.failed()), (1, 0, 1));
    assert_eq!(containers(), ["container-00000002"]);
    let mut found = vec![0; (second - left) as usize];
    volume.read(left, &mut found).unwrap();
    assert!(found == bytes[left as usize..second as usize]);
    assert_eq!(pool.check(), Vec::<String>::new());
    // and it goes on to be what new pages go to, until it can be closed
    volume.erase(0..1 << 30, Durability::OnReturn).unwrap();
    assert_eq!(pool.maintain().unwrap().compacted, 1);
    assert_eq!(containers(), Vec::<String>::new());
}

const BLOCK: u64 = 4096;

/// What the blocks of a volume must hold, each by the seed of its bytes; 0 is zeros.
struct Model {
    volume: Volume,
    seeds: Vec<u64>,
    numbers: SplitMix64,
}

impl Model {
    /// That of the new volume `name` of so many blocks.
    fn new(pool: &Pool, name: &str, blocks: u64) -> Self {
        pool.create_volume(name, blocks * BLOCK, BlockSize::B4096).unwrap();
        let numbers = SplitMix64::new(blocks);
        Self { volume: pool.volume(name).unwrap(), seeds: vec![0; blocks as usize], numbers }
    }

    fn put(&mut self, block: u64, seed: u64) -> Result<(), BlockError> {
        let bytes = random(seed, BLOCK as usize);
        self.volume.write(block * BLOCK, &bytes, Durability::OnFlush)?;
        self.seeds[block as usize] = seed;
        Ok(())
    }

    /// Overwrites a block, any of them, by bytes that were never there.
    fn overwrite(&mut self) -> Result<(), BlockError> {
        let (block, seed) = (self.numbers.next_u64(), self.numbers.next_u64());
        self.put(block % self.seeds.len() as u64, seed | 1)
    }

    fn erase(&mut self, block: u64) {
        self.volume.erase(block * BLOCK..(block + 1) * BLOCK, Durability::OnFlush).unwrap();
        self.seeds[block as usize] = 0;
    }

    fn expect(&self) {
        let mut found = vec![0; BLOCK as usize];
        for (block, seed) in (0..).zip(&self.seeds) {
            self.volume.read(block * BLOCK, &mut found).unwrap();
            match seed {
                0 => assert!(found.iter().all(|byte| *byte == 0), "block {block}"),
                seed => assert!(found == random(*seed, BLOCK as usize), "block {block}"),
            }
        }
    }
}

/// Overwrites at random, with a flush now and then, so many times.
fn overwrite(pool: &Pool, models: &mut [Model], times: usize) {
    for time in 0..times {
        let count = models.len();
        if let Err(error) = models[time % count].overwrite() {
            panic!("write {time}: {error}; {:?}", pool.statistics());
        }
        if time % 500 == 499 {
            models[0].volume.flush().unwrap();
        }
    }
    models.iter().for_each(Model::expect);
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn a_disk_of_four_times_the_volume_is_overwritten_without_end() {
    for tells_free in [false, true] {
        let disk = Disk { keeps_room: true, tells_free, ..Disk::default() };
        Pool::create(&disk, Hash::Blake3).unwrap();
        let pool = open(&disk);
        // what is left beside the room ahead of the journal and a next one's
        let mut models = [Model::new(&pool, "a", 1400)];
        overwrite(&pool, &mut models, 40_000);
        drop((models, pool));
        assert_eq!(open(&disk).check(), Vec::<String>::new());
    }
}

#[test]
fn a_quota_of_three_times_the_volumes_is_overwritten_without_end() {
    let folder = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let quota = Some(3 * 1400 * BLOCK);
    let options =
        Options { table_bytes: 4 << 20, container_len: 1 << 20, quota, ..Options::default() };
    let (pool, _) = Pool::open(folder, options).unwrap();
    let mut models = [Model::new(&pool, "a", 700), Model::new(&pool, "b", 700)];
    overwrite(&pool, &mut models, 20_000);
    assert_eq!(pool.over_quota_pages(), 0);
}

#[test]
fn many_writers_at_a_quota_are_slowed_and_none_is_refused() {
    let folder = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let quota = Some(3 * 8 * 200 * BLOCK);
    let options =
        Options { table_bytes: 4 << 20, container_len: 1 << 20, quota, ..Options::default() };
    let (pool, _) = Pool::open(folder, options).unwrap();
    let models: Vec<_> = (0..8).map(|n| Model::new(&pool, &format!("{n}"), 200)).collect();
    std::thread::scope(|scope| {
        for mut model in models {
            scope.spawn(move || {
                (0..4000).for_each(|_| model.overwrite().unwrap());
                model.expect();
            });
        }
    });
    assert_eq!(pool.check(), Vec::<String>::new());
}

/// A pool of which only every third page is left when somebody else takes all that is free.
fn full_of_garbage(disk: &Disk) -> (Pool, Model) {
    Pool::create(disk, Hash::Blake3).unwrap();
    let pool = open(disk);
    let mut model = Model::new(&pool, "a", 3000);
    (0..3000).for_each(|block| model.put(block, block + 1).unwrap());
    (0..3000).filter(|block| block % 3 > 0).for_each(|block| model.erase(block));
    pool.flush().unwrap();
    disk.fill_up();
    (pool, model)
}

#[test]
fn a_full_disk_is_compacted_with_the_reserve() {
    for is_reopened in [false, true] {
        let disk = Disk { keeps_room: true, ..Disk::default() };
        let (mut pool, mut model) = full_of_garbage(&disk);
        if is_reopened {
            let seeds = std::mem::take(&mut model.seeds);
            drop((model, pool));
            disk.fill_up();
            pool = open(&disk);
            let volume = pool.volume("a").unwrap();
            model = Model { volume, seeds, numbers: SplitMix64::new(1) };
        }
        assert!(pool.maintain().unwrap().compacted > 5);
        let free = disk.used().free();
        assert!(free > 5 << 20, "{free}");
        model.expect();
        assert_eq!(pool.check(), Vec::<String>::new());
    }
}

#[test]
fn a_write_on_a_full_disk_waits_for_a_compaction() {
    let disk = Disk { keeps_room: true, ..Disk::default() };
    let (pool, mut model) = full_of_garbage(&disk);
    // what was garbage can be written again, all of it
    for block in (0..2500).filter(|block| block % 3 > 0) {
        model.put(block, 10_000 + block).unwrap();
    }
    model.expect();
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn a_compaction_that_finds_no_room_refuses_the_write_and_loses_nothing() {
    // this disk keeps no room
    let disk = Disk::default();
    let (pool, mut model) = full_of_garbage(&disk);
    let refused = (1..3000).find_map(|block| model.put(block, 10_000 + block).err());
    assert!(matches!(refused, Some(BlockError::NoSpace { .. })), "{refused:?}");
    disk.used().others -= 4 << 20;
    assert!(pool.maintain().unwrap().compacted > 5);
    for block in (0..2500).filter(|block| block % 3 > 0) {
        model.put(block, 20_000 + block).unwrap();
    }
    model.expect();
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn containers_that_are_half_garbage_give_way_to_a_write() {
    let folder = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let quota = Some(10 << 20);
    let options =
        Options { table_bytes: 4 << 20, container_len: 1 << 20, quota, ..Options::default() };
    let (pool, _) = Pool::open(folder, options).unwrap();
    let mut model = Model::new(&pool, "a", 4000);
    let refused = (0..4000).find_map(|block| model.put(block, block + 1).err().map(|_| block));
    let written = refused.expect("a quota");
    // page by page in turn, so that each container is used by half
    (0..written).filter(|block| block % 2 == 0).for_each(|block| model.erase(block));
    pool.flush().unwrap();
    for block in (0..written).step_by(2).take(written as usize / 3) {
        model.put(block, 10_000 + block).unwrap();
    }
    model.expect();
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn garbage_that_is_all_in_the_open_container_gives_way_to_a_write() {
    let folder = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let quota = Some(300_000);
    let options =
        Options { table_bytes: 1 << 20, container_len: 1 << 20, quota, ..Options::default() };
    let (pool, _) = Pool::open(folder, options).unwrap();
    let mut model = Model::new(&pool, "a", 8);
    for _ in 0..1000 {
        model.overwrite().unwrap();
    }
    model.expect();
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn what_snapshots_have_is_no_garbage_and_a_write_beyond_is_refused_at_once() {
    for (quota, what) in [(Some(10 << 20), "raise the quota"), (None, "make room on the disk")] {
        let disk = Disk { keeps_room: true, ..Disk::default() };
        Pool::create(&disk, Hash::Blake3).unwrap();
        let table_bytes = 4 << 20;
        let options = Options { table_bytes, container_len: 1 << 20, quota, ..Options::default() };
        let (pool, _) = Pool::open(Arc::new(disk.clone()), options).unwrap();
        let mut model = Model::new(&pool, "a", 1000);
        let refused = (0..).find_map(|time| {
            if time % 500 == 0 {
                pool.clone_volume("a", &format!("snapshot {time}"), true).unwrap();
            }
            model.overwrite().err()
        });
        // nothing was overwritten twice between two snapshots but a few
        let begun = std::time::Instant::now();
        let again = (0..100).filter(|_| model.overwrite().is_err()).count();
        assert!(again > 50, "{again}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
        let told = refused.unwrap().to_string();
        assert!(told.contains("snapshots") && told.contains(what), "{told}");
        model.expect();
        // and what helps does
        for one in pool.volumes().iter().filter(|one| one.is_read_only) {
            pool.delete_volume(&one.name).unwrap();
        }
        (0..3000).for_each(|_| model.overwrite().unwrap());
        model.expect();
        assert_eq!(pool.check(), Vec::<String>::new());
    }
}

#[test]
fn a_write_whose_own_garbage_is_all_that_comes_back_is_refused() {
    let folder = Arc::new(MemoryFolder::new());
    Pool::create(&folder, Hash::Blake3).unwrap();
    let quota = Some(1100 * BLOCK);
    let options =
        Options { table_bytes: 4 << 20, container_len: 1 << 20, quota, ..Options::default() };
    let (pool, _) = Pool::open(folder, options).unwrap();
    let mut model = Model::new(&pool, "a", 1200);
    (0..900).for_each(|block| model.put(block, block + 1).unwrap());
    // the first 100 blocks come again and again, and the last ones are too many
    let pages: Vec<_> = (0..250).map(|page| random(1000 + page, BLOCK as usize)).collect();
    let block = |page: u64| if page < 100 { 900 } else { 900 + page };
    let writes: Vec<_> =
        (0..).zip(&pages).map(|(page, bytes)| (block(page) * BLOCK, &bytes[..])).collect();
    let error = model.volume.write_many(&writes, Durability::OnFlush).unwrap_err();
    assert!(error.to_string().contains("quota"), "{error}");
    (900..1200).for_each(|block| model.erase(block));
    model.expect();
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn after_a_restart_with_a_spent_reserve_compactions_come_before_writes() {
    let disk = Disk { keeps_room: true, ..Disk::default() };
    let (pool, model) = full_of_garbage(&disk);
    let seeds = model.seeds;
    drop((model.volume, pool));
    disk.used().logs.insert("reserve".into(), 0);
    disk.fill_up();
    // enough to empty a container, and less than the reserve
    disk.used().others -= 1 << 20;
    let pool = open(&disk);
    let volume = pool.volume("a").unwrap();
    let mut model = Model { volume, seeds, numbers: SplitMix64::new(1) };
    for block in (0..2000).filter(|block| block % 3 > 0) {
        model.put(block, 10_000 + block).unwrap();
    }
    model.expect();
    assert_eq!(pool.check(), Vec::<String>::new());
}

#[test]
fn erasing_on_a_full_disk_takes_the_reserve() {
    for keeps_room in [true, false] {
        let disk = Disk { keeps_room, ..Disk::default() };
        Pool::create(&disk, Hash::Blake3).unwrap();
        let options = Options {
            table_bytes: 4 << 20,
            container_len: 1 << 20,
            // each erase is told of before the next
            commit_len: 1,
            ..Options::default()
        };
        let (pool, _) = Pool::open(Arc::new(disk.clone()), options).unwrap();
        let mut model = Model::new(&pool, "a", 2000);
        (0..2000).for_each(|block| model.put(block, block + 1).unwrap());
        disk.fill_up();
        if keeps_room {
            // what is ahead of the journal is used up
            let mut used = disk.used();
            let journals: Vec<String> =
                used.logs.keys().filter(|name| name.starts_with("journal-")).cloned().collect();
            for name in journals {
                let len = disk.inner.reader(&name).unwrap().len();
                used.others += used.logs.insert(name, len).unwrap() - len;
            }
        }
        let erased = (0..100).try_for_each(|block| {
            model.volume.erase(block * BLOCK..(block + 1) * BLOCK, Durability::OnFlush)
        });
        assert_eq!(erased.is_ok(), keeps_room, "{erased:?}");
    }
}

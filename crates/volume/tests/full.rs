//! A disk that is full to its last byte: what is deleted or erased gives its space back.

#[macro_use]
#[path = "common/pass_on.rs"]
mod pass_on;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{
    BackendError, Folder, Log, LogReader, MemoryFolder, Operation, Pages, Syncer,
};
use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};
use onefold_testkit::random;
use onefold_volume::{Hash, Options, Pool};

/// Bytes that the disk has.
const SIZE: u64 = 40 << 20;

/// A disk of so many bytes, in memory.
#[derive(Clone, Default)]
struct Disk {
    inner: Arc<MemoryFolder>,
    used: Arc<Mutex<Used>>,
    /// Whether it keeps room for logs that ask for it.
    keeps_room: bool,
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

    fn reserve(&mut self, bytes: u64) -> bool {
        self.disk.keeps_room && self.disk.used().take(&self.name, self.log.len() + bytes)
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
    let options = Options { table_bytes: 4 << 20, container_len: 1 << 20, ..Options::default() };
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

//! A process loses its pool to another at every step, and does not know: the lock is forgotten while
//! it is stopped between two calls, another one opens the pool, works and ends, and the first goes on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use onefold_backend::{BackendError, Folder, Log, LogReader, MemoryFolder, Pages, Syncer};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::SplitMix64;
use onefold_volume::{Hash, Options, Pool};

const BLOCK: u64 = 4096;
/// The first process writes the first half, the second one the other.
const BLOCKS: u64 = 32;

fn options() -> Options {
    Options { table_bytes: 16 << 10, container_len: 20_000, ..Options::default() }
}

/// What one process calls, counted; before one of the calls something else happens.
#[derive(Clone)]
struct Process {
    folder: Arc<MemoryFolder>,
    calls: Arc<Mutex<Calls>>,
}

#[derive(Default)]
struct Calls {
    made: u64,
    /// Before which call, and what.
    stop: Option<(u64, Box<dyn FnOnce() + Send>)>,
    /// Whether that is over, and before which call on what it was.
    stopped_at: Option<String>,
}

impl Process {
    fn new(folder: &Arc<MemoryFolder>) -> Self {
        Self { folder: Arc::clone(folder), calls: Arc::default() }
    }

    fn calls(&self, call: &str, name: &str) {
        let stop = {
            let mut calls = self.calls.lock().unwrap();
            calls.made += 1;
            let made = calls.made;
            let stop = calls.stop.take_if(|(at, _)| *at == made);
            if stop.is_some() {
                calls.stopped_at = Some(format!("{call} {name}"));
            }
            stop
        };
        if let Some((_, other)) = stop {
            other();
        }
    }
}

impl Folder for Process {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        self.calls("open", name);
        let log = self.folder.log(name)?;
        let len = log.len();
        Ok(Box::new(Handle { process: self.clone(), name: name.to_owned(), log, len }))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        self.calls("open", name);
        self.folder.reader(name)
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        let pages = self.folder.pages(name, page_size)?;
        Ok(Box::new(Mark { process: self.clone(), pages }))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        self.calls("list", "");
        self.folder.names()
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        self.calls("remove", name);
        self.folder.remove(name)
    }
}

/// A log whose length is what this process knows of it, as that of a file is.
struct Handle {
    process: Process,
    name: String,
    log: Box<dyn Log + Sync>,
    len: u64,
}

impl Handle {
    fn bytes(&self, from: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.log.len().saturating_sub(from) as usize];
        self.log.read(from.min(self.log.len()), &mut bytes).expect("it is as long");
        bytes
    }
}

impl Log for Handle {
    fn append(&mut self, bytes: &[u8]) -> Result<u64, BackendError> {
        self.process.calls("append", &self.name);
        let (at, end) = (self.len, self.len + bytes.len() as u64);
        // over what another one wrote here
        let behind = self.bytes(end);
        self.log.truncate(at.min(self.log.len()))?;
        self.log.append(&vec![0; (at - self.log.len()) as usize])?;
        self.log.append(bytes)?;
        self.log.append(&behind)?;
        self.len = end;
        Ok(at)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.process.calls("sync", &self.name);
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<(), BackendError> {
        self.process.calls("truncate", &self.name);
        self.log.truncate(len.min(self.log.len()))?;
        self.len = len;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.log.read(offset, into)
    }

    fn syncer(&self) -> Arc<dyn Syncer> {
        Arc::new(Beside { process: self.process.clone(), name: self.name.clone() })
    }
}

struct Beside {
    process: Process,
    name: String,
}

impl Syncer for Beside {
    fn sync(&self) -> Result<(), BackendError> {
        self.process.calls("sync", &self.name);
        Ok(())
    }
}

struct Mark {
    process: Process,
    pages: Box<dyn Pages + Sync>,
}

impl Pages for Mark {
    fn page_size(&self) -> usize {
        self.pages.page_size()
    }

    fn count(&self) -> u64 {
        self.pages.count()
    }

    fn read(&self, page: u64, into: &mut [u8]) -> Result<(), BackendError> {
        self.process.calls("look at", "writer");
        self.pages.read(page, into)
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), BackendError> {
        self.process.calls("write", "writer");
        self.pages.write(page, bytes)
    }

    fn set_count(&mut self, count: u64) -> Result<(), BackendError> {
        self.pages.set_count(count)
    }

    fn sync(&mut self) -> Result<(), BackendError> {
        self.process.calls("sync", "writer");
        self.pages.sync()
    }
}

fn page(n: u64) -> Vec<u8> {
    if n == 0 { vec![0; BLOCK as usize] } else { onefold_testkit::random(n, BLOCK as usize) }
}

/// What each block may be: what it was when a flush was acknowledged last, and what was begun since.
type May = BTreeMap<u64, Vec<u64>>;

/// What a process did, and what it was told.
#[derive(Default, Clone)]
struct Did {
    may: May,
    now: BTreeMap<u64, u64>,
}

impl Did {
    fn writes(&mut self, at: u64, n: u64) {
        self.may.entry(at).or_insert_with(|| vec![0]).push(n);
        self.now.insert(at, n);
    }

    fn flushed(&mut self) {
        for (at, n) in &self.now {
            self.may.insert(*at, vec![*n]);
        }
    }
}

/// Writes, flushes, checkpoints and compacts as `seed` says, until that fails.
fn work(pool: &Pool, seed: u64, blocks: std::ops::Range<u64>, steps: u64, did: &Mutex<Did>) {
    let volume = pool.volume("a").expect("it was made");
    let mut numbers = SplitMix64::new(seed);
    let mut below = |bound: u64| numbers.next_u64() % bound;
    for step in 0..steps {
        let is_done = match below(8) {
            0..4 => {
                let at = blocks.start + below(blocks.end - blocks.start - 3);
                let ns: Vec<u64> = (0..1 + below(3)).map(|_| 1 + below(40)).collect();
                {
                    let mut did = did.lock().unwrap();
                    (at..).zip(&ns).for_each(|(at, n)| did.writes(at, *n));
                }
                let bytes: Vec<u8> = ns.iter().flat_map(|n| page(*n)).collect();
                volume.write(at * BLOCK, &bytes, Durability::OnFlush).is_ok()
            }
            4..6 => {
                let is_done = volume.flush().is_ok();
                if is_done {
                    did.lock().unwrap().flushed();
                }
                is_done
            }
            6 if step > 3 => pool.checkpoint().is_ok(),
            _ => pool.compact().is_ok(),
        };
        if !is_done {
            return;
        }
    }
    if volume.flush().is_ok() {
        did.lock().unwrap().flushed();
    }
}

/// What became of one play.
struct Played {
    /// Before which call the first process was stopped; none if it ended before.
    stopped_at: Option<String>,
    /// Whether pages of a container could not be read afterwards.
    is_damaged: bool,
}

/// The first process is stopped before call `at`; the second one does so many steps.
fn play(seed: u64, at: u64, steps: u64) -> Played {
    let context = format!("seed {seed}, call {at}, {steps} steps");
    let folder = Arc::new(MemoryFolder::new());
    let first = Process::new(&folder);
    Pool::create(&first, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::new(first.clone()), options()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK, BlockSize::B4096).unwrap();
    let (ours, theirs) = (Arc::<Mutex<Did>>::default(), Arc::<Mutex<Did>>::default());
    let second = {
        let (folder, theirs) = (Arc::clone(&folder), Arc::clone(&theirs));
        move || {
            let process = Process::new(&folder);
            let (pool, _) = Pool::open(Arc::new(process), options()).unwrap();
            work(&pool, seed + 1, BLOCKS / 2..BLOCKS, steps, &theirs);
        }
    };
    {
        let mut calls = first.calls.lock().unwrap();
        let now = calls.made;
        calls.stop = Some((now + at, Box::new(second)));
    }
    work(&pool, seed, 0..BLOCKS / 2, 24, &ours);
    let stopped_at = first.calls.lock().unwrap().stopped_at.clone();
    if stopped_at.is_some() {
        // it finds out, at the latest when it has something to be made durable
        let volume = pool.volume("a").unwrap();
        let written = volume.write(0, &page(99), Durability::OnReturn);
        let error = written.expect_err(&context);
        assert!(format!("{error:?}").contains("Superseded") || pool.stopped().is_some(), "{error}");
    }
    drop(pool);

    let in_container = stopped_at.as_ref().is_some_and(|at| at.contains("container-"));
    let process: Arc<dyn Folder> = Arc::new(Process::new(&folder));
    let (pool, damage) = match Pool::open(process, options()) {
        Ok(opened) => opened,
        Err(error) => panic!("{context}, {stopped_at:?}: {error}"),
    };
    let mut is_damaged = !damage.is_empty();
    assert!(damage.is_empty() || in_container, "{context}, {stopped_at:?}: {damage:?}");
    if damage.is_empty() {
        assert_eq!(pool.check(), Vec::<String>::new(), "{context}, {stopped_at:?}");
    }
    let volume = pool.volume("a").unwrap();
    let did: Vec<Did> = vec![ours.lock().unwrap().clone(), theirs.lock().unwrap().clone()];
    for block in 0..BLOCKS {
        let mut found = vec![1; BLOCK as usize];
        if let Err(error) = volume.read(block * BLOCK, &mut found) {
            assert!(in_container, "{context}, {stopped_at:?}: block {block}: {error}");
            is_damaged = true;
            continue;
        }
        let may = did.iter().find_map(|did| did.may.get(&block));
        let none = vec![0];
        let mut may = may.unwrap_or(&none).iter().chain(block.eq(&0).then_some(&99));
        assert!(
            may.any(|n| page(*n) == found),
            "{context}, {stopped_at:?}: block {block} is none of what it may be"
        );
    }
    Played { stopped_at, is_damaged }
}

/// What became of all plays of a seed.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) plays: u64,
    /// After which pages could not be read.
    pub(crate) damaged: u64,
    /// Before what the first process was stopped.
    pub(crate) calls: BTreeMap<String, u64>,
}

/// Lets the pool be lost before every call; the second process only opens it, or works.
pub(crate) fn lose_everywhere(seed: u64, tally: &mut Tally) {
    for steps in [0, 12] {
        for at in 1.. {
            let played = play(seed, at, steps);
            let Some(stopped_at) = played.stopped_at else { break };
            tally.plays += 1;
            tally.damaged += u64::from(played.is_damaged);
            let kind = stopped_at.split('-').next().unwrap_or_default().to_owned();
            *tally.calls.entry(kind).or_default() += 1;
        }
    }
}

//! A process loses its pool to another at every step, and does not know: the lock is forgotten while
//! it is stopped between two calls, another one opens the pool, works and ends, and the first goes on.
//! Or the other one is stopped as well, while it opens the pool, and goes on when the first has ended.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use onefold_backend::{BackendError, Folder, Log, LogReader, MemoryFolder, Pages, Syncer};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_testkit::SplitMix64;
use onefold_volume::{Hash, Options, Pool, VolumeError};

const BLOCK: u64 = 4096;
/// The first process writes the first half, the second one the other.
const BLOCKS: u64 = 32;

fn options() -> Options {
    Options {
        table_bytes: 16 << 10,
        container_len: 20_000,
        node_bytes: 0,
        least_nodes: 60,
        ..Options::default()
    }
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
    /// How often the mark was written.
    marks: u64,
    /// Before which call, and what.
    stop: Option<(u64, Box<dyn FnOnce() + Send>)>,
    /// Whether that is over, and before which call on what it was.
    stopped_at: Option<String>,
    /// Whether the mark had been written by then.
    had_claimed: bool,
}

/// A call that writes a copy of the mark.
const MARKED: (&str, &str) = ("write", "writer");

impl Process {
    fn new(folder: &Arc<MemoryFolder>) -> Self {
        Self { folder: Arc::clone(folder), calls: Arc::default() }
    }

    fn stop_before(&self, call: u64, other: impl FnOnce() + Send + 'static) {
        self.calls.lock().unwrap().stop = Some((call, Box::new(other)));
    }

    fn calls(&self, call: &str, name: &str) {
        let stop = {
            let mut calls = self.calls.lock().unwrap();
            calls.made += 1;
            let made = calls.made;
            let stop = calls.stop.take_if(|(at, _)| *at == made);
            if stop.is_some() {
                calls.stopped_at = Some(format!("{call} {name}"));
                calls.had_claimed = calls.marks > 0;
            }
            calls.marks += u64::from((call, name) == MARKED);
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

    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
        self.calls("rename", from);
        self.folder.rename(from, to)
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

    /// What there is of `blocks` for who opens the pool after it.
    fn left(&self, blocks: &Range<u64>) -> Arc<Mutex<Self>> {
        let may = self.may.range(blocks.clone()).map(|(at, ns)| (*at, ns.clone())).collect();
        Arc::new(Mutex::new(Self { may, now: BTreeMap::new() }))
    }
}

/// Writes, flushes, checkpoints and compacts as `seed` says, until that fails.
fn work(pool: &Pool, seed: u64, blocks: Range<u64>, steps: u64, did: &Mutex<Did>) {
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

/// A pool as a process left it that was killed: with bytes behind the last page that is told of, and
/// with containers that nothing tells of. Also what its blocks may be.
fn left_over(seed: u64) -> (Arc<MemoryFolder>, Did) {
    let folder = Arc::new(MemoryFolder::new());
    Pool::create(&*folder, Hash::Blake3).unwrap();
    let (pool, _) = Pool::open(Arc::new(Process::new(&folder)), options()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK, BlockSize::B4096).unwrap();
    let did = Mutex::default();
    work(&pool, seed + 2, 0..BLOCKS, 8, &did);
    let mut did = did.into_inner().unwrap();
    let volume = pool.volume("a").unwrap();
    for at in 0..8 {
        did.writes(at, 100 + at);
        volume.write(at * BLOCK, &page(100 + at), Durability::OnFlush).unwrap();
    }
    (folder, did)
}

/// When the second process is stopped and goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Second {
    /// It is not: it does so many steps, and ends.
    Ends { steps: u64 },
    /// It is stopped before this call until the first has ended.
    StopsBefore { call: u64 },
}

/// What became of one play.
struct Played {
    /// Before which call the first process was stopped; none if it ended before.
    stopped_at: Option<String>,
    /// Whether the second one was stopped while it opened the pool.
    is_second_stopped: bool,
    /// Whether pages of a container could not be read afterwards.
    is_damaged: bool,
}

/// What is known of the second process.
#[derive(Default)]
struct Known {
    has_opened: AtomicBool,
    is_stopped: AtomicBool,
}

/// The first process is stopped before call `at`, counted from where it opens the pool.
fn play(seed: u64, at: u64, how: Second) -> Played {
    let context = format!("seed {seed}, call {at}, {how:?}");
    let (folder, left) = left_over(seed);
    let (our_blocks, their_blocks) = (0..BLOCKS / 2, BLOCKS / 2..BLOCKS);
    let (ours, theirs) = (left.left(&our_blocks), left.left(&their_blocks));
    let (first, second) = (Process::new(&folder), Process::new(&folder));
    let known = Arc::<Known>::default();
    let running = Arc::<Mutex<Option<(thread::JoinHandle<()>, mpsc::Sender<()>)>>>::default();
    let steps = if let Second::Ends { steps } = how { steps } else { 6 };
    let (calls, theirs_too, known_too) = (second.clone(), Arc::clone(&theirs), Arc::clone(&known));
    let does = move || {
        let pool = match Pool::open(Arc::new(second), options()) {
            Ok((pool, _)) => pool,
            Err(error) => {
                let is_lost = matches!(error, VolumeError::Superseded { .. });
                assert!(is_lost && matches!(how, Second::StopsBefore { .. }), "{error}");
                return;
            }
        };
        known_too.has_opened.store(true, Ordering::SeqCst);
        work(&pool, seed + 1, their_blocks, steps, &theirs_too);
    };
    match how {
        Second::Ends { .. } => first.stop_before(at, does),
        Second::StopsBefore { call } => {
            let (stopped, is_stopped) = mpsc::channel::<()>();
            let (go_on, goes_on) = mpsc::channel::<()>();
            let known = Arc::clone(&known);
            calls.stop_before(call, move || {
                let is_opening = !known.has_opened.load(Ordering::SeqCst);
                known.is_stopped.store(is_opening, Ordering::SeqCst);
                stopped.send(()).expect("the first one waits");
                // nothing is sent: the first one has ended when the other end is gone
                let _ = goes_on.recv();
            });
            let running = Arc::clone(&running);
            first.stop_before(at, move || {
                let thread = thread::spawn(does);
                *running.lock().unwrap() = Some((thread, go_on));
                // an error if it ended without being stopped
                let _ = is_stopped.recv();
            });
        }
    }
    drop(calls);
    let pool = match Pool::open(Arc::new(first.clone()), options()) {
        Ok((pool, _)) => Some(pool),
        Err(error) => {
            let is_lost = matches!(error, VolumeError::Superseded { .. });
            assert!(is_lost, "{context}: {error}");
            None
        }
    };
    if let Some(pool) = &pool {
        work(pool, seed, our_blocks, 24, &ours);
    }
    if let Some((thread, go_on)) = running.lock().unwrap().take() {
        drop(go_on);
        thread.join().unwrap_or_else(|panicked| resume_unwind(panicked));
    }
    let (stopped_at, had_claimed) = {
        let calls = first.calls.lock().unwrap();
        (calls.stopped_at.clone(), calls.had_claimed)
    };
    // who had not claimed the pool when it was stopped is the later one, or is refused
    if had_claimed
        && known.has_opened.load(Ordering::SeqCst)
        && let Some(pool) = &pool
    {
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
    let is_second_stopped = known.is_stopped.load(Ordering::SeqCst);
    Played { stopped_at, is_second_stopped, is_damaged }
}

/// What became of all plays of a seed.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) plays: u64,
    /// In how many of them the second process was stopped too.
    pub(crate) both_stopped: u64,
    /// After which pages could not be read.
    pub(crate) damaged: u64,
    /// Before what the first process was stopped.
    pub(crate) calls: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, played: &Played) {
        self.plays += 1;
        self.both_stopped += u64::from(played.is_second_stopped);
        self.damaged += u64::from(played.is_damaged);
        let stopped_at = played.stopped_at.iter().flat_map(|at| at.split('-').next());
        stopped_at.for_each(|kind| *self.calls.entry(kind.to_owned()).or_default() += 1);
    }
}

/// Lets the pool be lost before every call; the second process only opens it, or works. And before
/// every write of the mark, which may come late, with the second one stopped at every call with which
/// it opens the pool.
pub(crate) fn lose_everywhere(seed: u64, tally: &mut Tally) {
    let mut marked = Vec::new();
    for steps in [0, 12] {
        for at in 1.. {
            let played = play(seed, at, Second::Ends { steps });
            let Some(stopped_at) = &played.stopped_at else { break };
            if steps == 0 && *stopped_at == format!("{} {}", MARKED.0, MARKED.1) {
                marked.push(at);
            }
            tally.count(&played);
        }
    }
    for at in marked {
        for call in 1.. {
            let played = play(seed, at, Second::StopsBefore { call });
            if !played.is_second_stopped {
                break;
            }
            tally.count(&played);
        }
    }
}

//! A device that remembers what it was asked, and fails or waits if it is told to.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use onefold_block::{BlockDevice, BlockError, BlockSize, Durability, Extent, MemoryDevice, Zeroes};

/// A call, with what matters of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Read(u64, usize),
    Write(u64, usize, Durability),
    WriteMany(usize),
    Erase(Range<u64>, Durability),
    WriteZeroes(Range<u64>, Zeroes, Durability),
    Flush,
    Cache(Range<u64>),
    Extents(Range<u64>, usize),
    Resize(u64),
}

type Fault = Arc<dyn Fn() -> BlockError + Send + Sync>;

/// A device in memory that is watched.
pub(crate) struct Watched {
    memory: MemoryDevice,
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) is_read_only: bool,
    pub(crate) writes_at_once: usize,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// How the calls with these names fail.
    faults: HashMap<&'static str, Fault>,
    /// Names of the calls that wait.
    held: Vec<&'static str>,
    waiting: usize,
    /// What is said of extents instead of the truth.
    extents: Option<Vec<Extent>>,
}

impl Watched {
    pub(crate) fn new(size: u64) -> Watched {
        Watched {
            memory: MemoryDevice::new(size, BlockSize::B4096).unwrap(),
            state: Mutex::default(),
            changed: Condvar::new(),
            is_read_only: false,
            writes_at_once: 1,
        }
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().unwrap().calls.clone()
    }

    /// Lets calls called `name` fail from now on.
    pub(crate) fn fail(
        &self,
        name: &'static str,
        fault: impl Fn() -> BlockError + Send + Sync + 'static,
    ) {
        self.state.lock().unwrap().faults.insert(name, Arc::new(fault));
    }

    /// Lets calls called `name` wait from now on.
    pub(crate) fn hold(&self, name: &'static str) {
        self.state.lock().unwrap().held.push(name);
    }

    /// Lets all calls go on.
    pub(crate) fn release(&self) {
        self.state.lock().unwrap().held.clear();
        self.changed.notify_all();
    }

    /// Says this of all extents.
    pub(crate) fn say(&self, extents: Vec<Extent>) {
        self.state.lock().unwrap().extents = Some(extents);
    }

    /// Waits until `count` calls wait.
    pub(crate) fn wait_for(&self, count: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        let mut state = self.state.lock().unwrap();
        while state.waiting < count {
            let left = end.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("{} calls wait, not {count}", state.waiting));
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// How many calls wait now.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().unwrap().waiting
    }

    fn enter(&self, name: &'static str, call: Call) -> Result<(), BlockError> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(call);
        if state.held.contains(&name) {
            state.waiting += 1;
            self.changed.notify_all();
            while state.held.contains(&name) {
                state = self.changed.wait(state).unwrap();
            }
            state.waiting -= 1;
        }
        let fault = state.faults.get(name).cloned();
        // a fault may be a panic, which must not spoil the lock
        drop(state);
        fault.map_or(Ok(()), |fault| Err(fault()))
    }
}

impl BlockDevice for Watched {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn block_size(&self) -> BlockSize {
        self.memory.block_size()
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockError> {
        self.enter("read", Call::Read(offset, buffer.len()))?;
        self.memory.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8], durability: Durability) -> Result<(), BlockError> {
        self.enter("write", Call::Write(offset, data.len(), durability))?;
        self.memory.write(offset, data, durability)
    }

    fn write_many(
        &self,
        writes: &[(u64, &[u8])],
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.enter("write_many", Call::WriteMany(writes.len()))?;
        self.memory.write_many(writes, durability)
    }

    fn writes_at_once(&self) -> usize {
        self.writes_at_once
    }

    fn erase(&self, range: Range<u64>, durability: Durability) -> Result<(), BlockError> {
        self.enter("erase", Call::Erase(range.clone(), durability))?;
        self.memory.erase(range, durability)
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.enter("write_zeroes", Call::WriteZeroes(range.clone(), zeroes, durability))?;
        self.memory.write_zeroes(range, zeroes, durability)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.enter("flush", Call::Flush)?;
        self.memory.flush()
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.enter("cache", Call::Cache(range.clone()))?;
        self.memory.cache(range)
    }

    fn extents(&self, range: Range<u64>, max: usize) -> Result<Vec<Extent>, BlockError> {
        self.enter("extents", Call::Extents(range.clone(), max))?;
        match self.state.lock().unwrap().extents.clone() {
            Some(extents) => Ok(extents),
            None => self.memory.extents(range, max),
        }
    }

    fn resize(&self, size: u64) -> Result<(), BlockError> {
        self.enter("resize", Call::Resize(size))?;
        self.memory.resize(size)
    }
}

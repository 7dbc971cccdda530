//! A thread that fills ranges which were taken over with what footers of containers say.
//!
//! A dump of a range is some minutes old when its gateway is killed. What was told since is missing from the
//! index, but the footers of containers name it, once these are sealed. So the gateway that takes ranges over reads
//! the footers of containers that are younger than the dumps, the newest of each shard first, one at a time and
//! with a pause after each. A container that is not sealed yet is looked at again some times.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use onefold_backend::Operation;
use onefold_backend::rados::{RadosError, RadosPool};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::options::{Notice, PooledOptions, Tell, count};
use super::state::State;
use crate::containers::Containers;
use crate::error::failed;
use crate::hints::{ContainerName, Hint, Key, Slice, key_of};

/// How often containers that are not sealed are looked at again.
const TIMES: u32 = 6;
/// How long nothing is read after a pool refused something or gave no answer.
const PAUSE: Duration = Duration::from_secs(5);
/// How often the containers are listed before ranges stay as they are.
const TRIES: u32 = 8;

/// Slices, and since when their pages may be missing: in seconds since 1970.
type Since = Vec<(Slice, u64)>;

/// The thread, which ends when this is dropped.
pub(super) struct Filler {
    tell: Option<Sender<Since>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(self.tell.take());
        if let Some(thread) = self.thread.take() {
            // it does not panic; if it did, only hints are missing
            let _ = thread.join();
        }
    }
}

impl Filler {
    /// Waits for ranges to fill, by the containers in `data`.
    pub(super) fn start(
        state: Arc<State>,
        data: Arc<dyn RadosPool>,
        options: PooledOptions,
        tell: Tell,
    ) -> io::Result<Self> {
        let (to_thread, told) = channel();
        let is_over = Arc::<AtomicBool>::default();
        let filling = Filling {
            state,
            containers: Containers::new(Arc::clone(&data)),
            data,
            options,
            tell,
            told,
            is_over: Arc::clone(&is_over),
            since: HashMap::new(),
            is_due: false,
        };
        let thread = thread::Builder::new().name("footers".into()).spawn(|| filling.run())?;
        Ok(Self { tell: Some(to_thread), is_over, thread: Some(thread) })
    }

    /// Fills slices that were taken over, whose dumps were written at these times.
    pub(super) fn fill(&self, slices: Since) {
        if let Some(tell) = &self.tell {
            // the thread ends with this alone
            let _ = tell.send(slices);
        }
    }
}

/// What the thread does and has to do.
struct Filling {
    state: Arc<State>,
    containers: Containers,
    data: Arc<dyn RadosPool>,
    options: PooledOptions,
    tell: Tell,
    told: Receiver<Since>,
    is_over: Arc<AtomicBool>,
    since: HashMap<Slice, u64>,
    /// Whether slices arrived since the last walk began.
    is_due: bool,
}

/// What became of a container.
enum Seen {
    /// Its pages were entered.
    Read,
    /// It is gone, or could not be read.
    Passed,
    /// It is not sealed.
    Open,
    /// It is older than all dumps.
    Older,
}

impl Filling {
    fn run(mut self) {
        while let Ok(slices) = self.told.recv() {
            self.since.extend(slices);
            loop {
                self.is_due = false;
                let open = self.walk();
                self.wait_for(open);
                if self.is_over() {
                    return;
                }
                if !self.is_due {
                    break;
                }
            }
            self.since.clear();
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits for so long, or until the thread is to end. What comes meanwhile is due.
    fn pause(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            match self.told.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(slices) => {
                    self.since.extend(slices);
                    self.is_due = true;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reads all footers that are younger than dumps. Returns the containers that are not sealed.
    fn walk(&mut self) -> Vec<ContainerName> {
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let slices = self.since.clone();
        let Some(shards) = self.list() else { return Vec::new() };
        let mut open = Vec::new();
        let before = self.state.counters();
        for mut names in shards.into_values() {
            while let Some(name) = names.pop() {
                if self.is_over() {
                    return Vec::new();
                }
                match self.look_at(&name) {
                    Seen::Read | Seen::Passed => {}
                    Seen::Open => open.push(name),
                    // a shard fills one container after another
                    Seen::Older => break,
                }
            }
        }
        // what was sealed before has been read
        for (slice, since) in slices {
            let now = self.since.get_mut(&slice).filter(|now| **now == since);
            now.into_iter().for_each(|now| *now = begun.max(since));
        }
        self.tell_since(before.footers, before.filled);
        open
    }

    fn tell_since(&self, footers: u64, filled: u64) {
        let now = self.state.counters();
        let (footers, pages) = (now.footers - footers, now.filled - filled);
        if footers > 0 {
            (self.tell)(Notice::Filled { footers, pages });
        }
    }

    /// Looks at containers again until all are sealed, some times, or slices come.
    fn wait_for(&mut self, mut open: Vec<ContainerName>) {
        let mut wait = self.options.look_again;
        for _ in 0..TIMES {
            if open.is_empty() {
                return;
            }
            self.pause(wait);
            if self.is_due || self.is_over() {
                return;
            }
            let before = self.state.counters();
            open.retain(|name| matches!(self.look_at(name), Seen::Open));
            self.tell_since(before.footers, before.filled);
            wait *= 2;
        }
    }

    /// The containers of each shard, the newest last; nothing if they cannot be listed.
    fn list(&mut self) -> Option<BTreeMap<ObjectId, Vec<ContainerName>>> {
        for _ in 0..TRIES {
            let mut shards = BTreeMap::<ObjectId, Vec<ContainerName>>::new();
            let listed = self.data.list(&mut |object| {
                if let Some(name) = Containers::name_of(object) {
                    shards.entry(name.shard).or_default().push(name);
                }
                if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            match listed {
                Ok(()) => {
                    shards.values_mut().for_each(|names| names.sort_unstable());
                    return Some(shards);
                }
                Err(error) => self.refused(error),
            }
            if self.is_over() {
                break;
            }
        }
        None
    }

    fn refused(&mut self, error: RadosError) {
        self.not_read(&failed(Operation::Read, error));
    }

    fn not_read(&mut self, error: &VolumeError) {
        (self.tell)(Notice::Footer(error));
        self.pause(PAUSE);
    }

    /// Enters the pages of container `name`, if it is sealed and younger than a dump.
    fn look_at(&mut self, name: &ContainerName) -> Seen {
        let (look, changed) = match self.containers.look_when(name) {
            Ok(Some(found)) => found,
            Ok(None) => return Seen::Passed,
            Err(error) => {
                self.refused(error);
                return Seen::Passed;
            }
        };
        if look.sealed.is_none() {
            return Seen::Open;
        }
        let youngest = changed.saturating_add(self.options.clocks_apart.as_secs());
        if self.since.values().all(|since| *since > youngest) {
            return Seen::Older;
        }
        match self.containers.pages(name, look.length) {
            Ok(pages) => {
                self.enter(&pages, youngest);
                self.pause(self.options.footer_every);
                Seen::Read
            }
            Err(error) => {
                self.not_read(&error);
                Seen::Passed
            }
        }
    }

    /// Enters those pages whose slice has a dump from before `youngest`.
    fn enter(&self, pages: &[(Fingerprint, Hint)], youngest: u64) {
        let mut slices = HashMap::<Slice, Vec<(Key, Hint)>>::new();
        for (fingerprint, hint) in pages {
            let slice = Slice::of(fingerprint);
            if self.since.get(&slice).is_some_and(|since| *since <= youngest) {
                slices.entry(slice).or_default().push((key_of(fingerprint), *hint));
            }
        }
        let fill = |(slice, pages): (&Slice, &Vec<_>)| self.state.store.fill(*slice, pages);
        count(&self.state.counts.filled, slices.iter().map(fill).sum());
        count(&self.state.counts.footers, 1);
    }
}

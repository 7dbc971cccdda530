//! The threads of a gateway.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use onefold_seal::ObjectId;

use super::gateway::Gateway;
use super::lease::RENEWAL;
use super::round::Work;

/// How often a gateway looks around.
const LOOK: Duration = Duration::from_millis(500);
/// From then on work counts as slow: it waits for Ceph, and other work is begun in its place.
const SLOW: Duration = Duration::from_secs(10);
/// The most threads that work on shards, for each that does while none is slow.
const SLOW_ONES: usize = 8;

/// Renews a gateway's lease, keeps to the quota and looks around, each on a thread, until it is dropped.
pub struct Running {
    end: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts the threads of `gateway`.
    ///
    /// # Panics
    /// If no thread can be started.
    pub fn start(gateway: &Arc<Gateway>) -> Self {
        let mut running = Self::renewing(gateway);
        let mut workers = Workers::new(Arc::clone(gateway));
        running.repeat("gateway-poll", LOOK, move || workers.look_around());
        running
    }

    /// Starts only the threads that renew the lease and keep to the quota: for a command that is short.
    ///
    /// # Panics
    /// If no thread can be started.
    pub fn renewing(gateway: &Arc<Gateway>) -> Self {
        let mut running = Self { end: Arc::default(), threads: Vec::new() };
        let renewed = Arc::clone(gateway);
        running.repeat("gateway-renew", RENEWAL, move || renewed.renew());
        let kept = Arc::clone(gateway);
        running.repeat("gateway-room", RENEWAL, move || kept.keep_room());
        running
    }

    fn repeat(&mut self, name: &str, every: Duration, mut call: impl FnMut() + Send + 'static) {
        let end = Arc::clone(&self.end);
        let run = move || {
            loop {
                let (is_over, changed) = &*end;
                let guard = is_over.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = changed.wait_timeout_while(guard, every, |is_over| !*is_over);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    return;
                }
                call();
            }
        };
        self.threads.push(spawn(name, run));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.1.notify_all();
        join(self.threads.drain(..));
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.expect("the system has a thread left")
}

fn join(threads: impl Iterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() && !thread::panicking() {
            panic!("a thread of the gateway panicked");
        }
    }
}

/// Does what is due with shards, a thread for each of several: one that waits for Ceph keeps neither looks nor work on
/// other shards from being done.
struct Workers {
    gateway: Arc<Gateway>,
    work: Arc<Mutex<Queue>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    waiting: BTreeMap<ObjectId, Work>,
    /// Since when a thread works on a shard.
    running: BTreeMap<ObjectId, Instant>,
}

impl Queue {
    /// The next that is to be done with a shard on which no thread works.
    fn begin(&mut self) -> Option<(ObjectId, Work)> {
        let id = *self.waiting.keys().find(|id| !self.running.contains_key(id))?;
        self.running.insert(id, Instant::now());
        self.waiting.remove_entry(&id)
    }

    /// Whether another thread may begin, where `at_once` work while none is slow.
    fn has_place(&self, at_once: usize) -> bool {
        let quick = self.running.values().filter(|since| since.elapsed() < SLOW).count();
        quick < at_once && self.running.len() < at_once * SLOW_ONES
    }
}

impl Workers {
    fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, work: Arc::default(), threads: Vec::new() }
    }

    fn look_around(&mut self) {
        let due = self.gateway.look_around();
        let (finished, threads) = self.threads.drain(..).partition(JoinHandle::is_finished);
        self.threads = threads;
        join(Vec::into_iter(finished));
        let mut queue = lock(&self.work);
        queue.waiting.extend(due);
        while queue.has_place(self.gateway.settings.at_once.max(1))
            && let Some(first) = queue.begin()
        {
            let (gateway, work) = (Arc::clone(&self.gateway), Arc::clone(&self.work));
            self.threads.push(spawn("gateway-shard", move || {
                let mut next = Some(first);
                while let Some((id, due)) = next {
                    gateway.work(id, due);
                    let mut queue = lock(&work);
                    queue.running.remove(&id);
                    next = queue.begin();
                }
            }));
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.work).waiting.clear();
        join(self.threads.drain(..));
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

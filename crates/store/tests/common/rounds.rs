//! Objects that count the round trips of a command: how many requests had to wait for one another.
//!
//! Every request is held until nothing in this process can go on without an answer. Then all that
//! are held are answered together, which is one round. So a request is in a later round than another
//! exactly if it was made because of that one's answer, however the news travelled between threads:
//! the count is the length of the longest chain of requests that waited for one another. No clock is
//! read, and a slow machine counts what a fast one does.
//!
//! That nothing can go on is read from the kernel: every other thread sleeps, and none was scheduled
//! between two looks. Tests that count must therefore run one at a time in a process of their own.

use std::collections::BTreeMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::{BackendError, ObjectInfo, Objects, OnAnswer, Request};

/// Names that a service lists in one answer.
const PAGE: usize = 1000;

/// Objects whose round trips are counted.
pub struct Rounds {
    objects: Arc<dyn Objects>,
    line: Arc<Line>,
    releasing: Option<JoinHandle<()>>,
}

/// Requests that wait for the next round.
#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    round: u64,
    has_ended: bool,
    /// What was asked for, by round.
    asked: BTreeMap<u64, Vec<String>>,
}

impl Rounds {
    /// Counts what is asked of `objects` from now on.
    pub fn new(objects: &Arc<dyn Objects>) -> Self {
        let line = Arc::new(Line::default());
        let released = Arc::clone(&line);
        let releasing = thread::spawn(move || released.release());
        Self { objects: Arc::clone(objects), line, releasing: Some(releasing) }
    }

    /// How many rounds there were.
    pub fn count(&self) -> u64 {
        self.line.lock().round
    }

    /// What was asked for in each round, for people to read.
    pub fn asked(&self) -> String {
        let state = self.line.lock();
        let round = |(round, asked): (&u64, &Vec<String>)| {
            format!("{:3}: {}\n", round + 1, asked.join(", "))
        };
        state.asked.iter().map(round).collect()
    }

    fn listed<T>(&self, all: Vec<T>, what: &str) -> Vec<T> {
        for page in 1..all.len().div_ceil(PAGE) {
            self.line.wait(format!("{what} page {}", page + 1));
        }
        all
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.line.lock().has_ended = true;
        self.line.changed.notify_all();
        let joined = self.releasing.take().map(JoinHandle::join);
        assert!(joined.is_none_or(|joined| joined.is_ok()));
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the round that begins next has begun.
    fn wait(&self, what: String) {
        let mut state = self.lock();
        let round = state.round;
        state.waiting += 1;
        state.asked.entry(round).or_default().push(what);
        self.changed.notify_all();
        let begun = self.changed.wait_while(state, |state| state.round == round);
        drop(begun.unwrap_or_else(PoisonError::into_inner));
    }

    /// Begins rounds until there is an end.
    fn release(&self) {
        loop {
            let idle = |state: &mut State| state.waiting == 0 && !state.has_ended;
            let state = self.changed.wait_while(self.lock(), idle);
            if state.unwrap_or_else(PoisonError::into_inner).waiting == 0 {
                return;
            }
            wait_for_quiet();
            let mut state = self.lock();
            state.waiting = 0;
            state.round += 1;
            self.changed.notify_all();
        }
    }
}

/// Returns when every other thread of this process sleeps until somebody wakes it.
fn wait_for_quiet() {
    let mut before = Vec::new();
    loop {
        let now = threads();
        let sleeps = |thread: &String| thread.contains("State:\tS");
        if now.iter().all(sleeps) && now == before {
            return;
        }
        before = now;
        thread::sleep(Duration::from_micros(50));
    }
}

/// Of every other thread whether it sleeps, and how often it was scheduled.
fn threads() -> Vec<String> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let folder = fs::read_dir("/proc/self/task").unwrap();
    let ids = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others = ids.filter(|id| *id != own);
    // One that ends meanwhile is as if it ran: the next look shows that it is gone.
    let look = |id: String| {
        let text = fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap_or_default();
        let told = |line: &&str| line.starts_with("State:") || line.contains("ctxt_switches:");
        format!("{id}\n{}", text.lines().filter(told).collect::<Vec<_>>().join("\n"))
    };
    others.map(look).collect()
}

impl Objects for Rounds {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.line.wait(format!("put {name}"));
        self.objects.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.line.wait(format!("get {name}"));
        self.objects.get(name)
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.line.wait(format!("get {name}"));
        self.objects.get_limited(name, max)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.line.wait(format!("get {name} {range:?}"));
        self.objects.get_range(name, range)
    }

    /// All at once, however many: no request may depend on the answer of another.
    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        let requests: Vec<Request> = requests.collect();
        if requests.is_empty() {
            return ControlFlow::Continue(());
        }
        let names: Vec<_> = requests.iter().map(|request| &*request.name).collect();
        self.line.wait(format!("get many {}", names.join(" ")));
        let mut answers = requests.iter().enumerate();
        answers.try_for_each(|(at, request)| take(at, self.objects.answer(request)))
    }

    /// Requests take time to travel here.
    fn gap(&self) -> u64 {
        64 << 10
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.line.wait(format!("size {name}"));
        self.objects.size(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.line.wait(format!("list {prefix}"));
        let listed = self.objects.list(prefix)?;
        Ok(self.listed(listed, prefix))
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.line.wait(format!("delete {name}"));
        self.objects.delete(name)
    }

    fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
        if names.is_empty() {
            return Vec::new();
        }
        self.line.wait(format!("delete many {}", names.join(" ")));
        self.objects.delete_each(names)
    }
}

//! The threads that call devices.
//!
//! Calls that only read, changes and calls that wait for the disk have threads of their own. So reads
//! wait neither for a sync nor behind writes that wait for room in a pool, however many clients flush
//! or write.

use std::collections::VecDeque;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use onefold_block::{BlockDevice, Durability};
use tokio::sync::OwnedSemaphorePermit;

use crate::ServerError;
use crate::buffers::Buffer;
use crate::command::{Done, Kind, Operation};
use crate::error::Failure;
use crate::outbox::Outbox;
use crate::reply::{Reply, ReplyTo};
use crate::wire::Errno;

/// The most bytes that several writes have as one call.
const MOST_BYTES: usize = 256 << 10;

/// So few writes are not shared by two workers: to wake one takes as long as some of them.
const FEW: usize = 4;

/// A call of a device, and who gets the reply.
pub(crate) struct Job {
    pub(crate) operation: Operation,
    pub(crate) buffer: Option<Buffer>,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) to: ReplyTo,
    /// Among the requests of its connection, until the reply is written.
    pub(crate) room: OwnedSemaphorePermit,
    /// Among those that a shutdown waits for, until the device has done it.
    pub(crate) gate: OwnedSemaphorePermit,
    pub(crate) outbox: Arc<Outbox>,
}

/// Threads that take jobs, those of one kind in the order in which they come. They end when this is
/// dropped and all jobs are done.
pub(crate) struct Workers {
    reads: Arc<Board>,
    changes: Arc<Board>,
    syncs: Arc<Board>,
}

/// Where jobs wait for workers, and workers for jobs.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// Not longer than all connections have requests in flight.
    jobs: VecDeque<Job>,
    /// Workers that wait.
    idle: usize,
    /// Whether a worker was called and has not come yet. Until it has, no other is called: where
    /// calls are short, those that are awake have done the work by then.
    is_calling: bool,
    is_over: bool,
}

impl Workers {
    /// Starts `count` threads, at least one, for each kind of jobs.
    pub(crate) fn start(count: usize) -> Result<Workers, ServerError> {
        let (reads, changes, syncs) = (Arc::default(), Arc::default(), Arc::default());
        let workers = Workers { reads, changes, syncs };
        for (kind, board) in workers.boards() {
            for number in 0..count.max(1) {
                let board = board.clone();
                thread::Builder::new()
                    .name(format!("nbd-{kind:?}-{number}").to_lowercase())
                    .spawn(move || board.work())
                    .map_err(ServerError::Threads)?;
            }
        }
        Ok(workers)
    }

    /// Takes all `jobs`, which may be none.
    pub(crate) fn submit(&self, jobs: &mut Vec<Job>) {
        for (kind, board) in self.boards() {
            let is_of_kind = |job: &mut Job| job.operation.kind() == kind;
            let mut of_kind = jobs.extract_if(.., is_of_kind).peekable();
            if of_kind.peek().is_some() {
                let mut state = board.lock();
                state.jobs.extend(of_kind);
                board.call(state);
            }
        }
    }

    fn boards(&self) -> [(Kind, &Arc<Board>); 3] {
        [(Kind::Read, &self.reads), (Kind::Change, &self.changes), (Kind::Sync, &self.syncs)]
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (_, board) in self.boards() {
            board.lock().is_over = true;
            board.called.notify_all();
        }
    }
}

impl Board {
    fn work(&self) {
        let mut jobs = Vec::new();
        while self.next(&mut jobs) {
            run(&mut jobs);
        }
    }

    /// Waits for a job, or for several that may be one call; false if there will be none any more. Who
    /// takes one and leaves others calls for another worker first, as the job may take long.
    fn next(&self, jobs: &mut Vec<Job>) -> bool {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                jobs.push(job);
                let is_alone = state.idle == 0;
                take_writes(&mut state.jobs, jobs, is_alone);
                take_flushes(&mut state.jobs, jobs);
                self.call(state);
                return true;
            }
            if state.is_over {
                return false;
            }
            state.idle += 1;
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.is_calling = false;
        }
    }

    /// Calls a worker if there is something to do for one that waits, and none is coming.
    fn call(&self, mut state: MutexGuard<'_, State>) {
        if state.jobs.is_empty() || state.idle == 0 || state.is_calling {
            return;
        }
        state.is_calling = true;
        drop(state);
        self.called.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves the writes that wait first from `waiting` to `jobs` if they go with the one that is there,
/// as many as the device does with less work at once. Unless all others are at work, half of what
/// there is remains for one of them.
fn take_writes(waiting: &mut VecDeque<Job>, jobs: &mut Vec<Job>, is_alone: bool) {
    let Some((_, mut bytes, durability)) = jobs[0].as_write() else { return };
    let half = (waiting.len() + 1).div_ceil(2).max(FEW);
    let most = jobs[0].device.writes_at_once().min(if is_alone { usize::MAX } else { half });
    while jobs.len() < most
        && let Some(next) = waiting.front()
        && let Some((_, len, of_next)) = next.as_write()
        && of_next == durability
        && bytes + len <= MOST_BYTES
        && Arc::ptr_eq(&next.device, &jobs[0].device)
    {
        bytes += len;
        jobs.extend(waiting.pop_front());
    }
}

/// Moves the flushes that wait first from `waiting` to `jobs` if that is one of the same device: one
/// call is enough for all that came before it.
fn take_flushes(waiting: &mut VecDeque<Job>, jobs: &mut Vec<Job>) {
    let device = jobs[0].device.clone();
    let is_flush = |job: &Job| job.operation == Operation::Flush;
    if is_flush(&jobs[0]) {
        let joins = |job: &&Job| is_flush(job) && Arc::ptr_eq(&job.device, &device);
        let count = waiting.iter().take_while(joins).count();
        jobs.extend(waiting.drain(..count));
    }
}

/// Does the jobs, which are writes to one device, or flushes of one, if there are several.
fn run(jobs: &mut Vec<Job>) {
    let together = if jobs.len() > 1 { run_as_one(jobs) } else { None };
    let end = |job: Job| match &together {
        Some(outcome) => job.end(outcome.clone().map(|()| Done::Nothing)),
        None => job.run(),
    };
    let ended: Vec<(Arc<Outbox>, Reply)> = jobs.drain(..).map(end).collect();
    let mut ended = ended.into_iter().peekable();
    while let Some((outbox, first)) = ended.next() {
        let next = || ended.next_if(|(other, _)| Arc::ptr_eq(other, &outbox));
        outbox.send(iter::once(first).chain(iter::from_fn(next).map(|(_, reply)| reply)));
    }
}

/// Does several writes to one device, or flushes of one, by one call. `None` if each is to be done
/// again: so it is found out which of the writes failed.
fn run_as_one(jobs: &[Job]) -> Option<Result<(), Failure>> {
    let device = &*jobs[0].device;
    let Some((_, _, durability)) = jobs[0].as_write() else {
        // a flush after one that failed may say that all went well, and it did not
        return Some(guarded(|| Ok(device.flush()?)));
    };
    let writes: Vec<(u64, &[u8])> = jobs.iter().filter_map(Job::write).collect();
    let written = guarded(|| Ok(device.write_many(&writes, durability)?));
    written.is_ok().then_some(written)
}

/// What `call` gives, and an error if it panics: a device that is broken for one request is still there
/// for the others.
fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Failure::new(Errno::Io, "the device panicked")))
}

impl Job {
    /// Offset, length and durability of a write.
    fn as_write(&self) -> Option<(u64, usize, Durability)> {
        match self.operation {
            Operation::Write { offset, len, durability } => Some((offset, len, durability)),
            _ => None,
        }
    }

    /// What is to be written, and where.
    fn write(&self) -> Option<(u64, &[u8])> {
        Some((self.as_write()?.0, self.buffer.as_deref()?))
    }

    fn run(mut self) -> (Arc<Outbox>, Reply) {
        let (operation, buffer) = (self.operation.clone(), self.buffer.take());
        let outcome = guarded(|| operation.perform(&*self.device, buffer));
        self.end(outcome)
    }

    /// The reply, and where it goes.
    fn end(self, outcome: Result<Done, Failure>) -> (Arc<Outbox>, Reply) {
        drop(self.gate);
        (self.outbox, Reply::new(self.to, outcome, self.room))
    }
}

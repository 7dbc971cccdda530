//! The threads that call devices.
//!
//! Reads, changes and calls that wait for the disk have separate threads. So reads wait neither for a sync
//! nor for writes that wait for space in a pool, however many clients flush or write.

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

/// The maximum bytes of several writes in one call.
const MOST_BYTES: usize = 256 << 10;

/// Up to this many writes are not split between two workers: waking one takes as long as some writes.
const FEW: usize = 4;

/// A call of a device, and the recipient of its reply.
pub(crate) struct Job {
    pub(crate) operation: Operation,
    pub(crate) buffer: Option<Buffer>,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) to: ReplyTo,
    /// The slot among the requests of its connection, until the reply is written.
    pub(crate) room: OwnedSemaphorePermit,
    /// The permit for which a shutdown waits, until the call has returned.
    pub(crate) gate: OwnedSemaphorePermit,
    pub(crate) outbox: Arc<Outbox>,
}

/// Threads that execute jobs; jobs of one kind begin in the order of their arrival. The threads end when this
/// is dropped and all jobs are done.
pub(crate) struct Workers {
    reads: Arc<Board>,
    changes: Arc<Board>,
    syncs: Arc<Board>,
}

/// The queue where jobs wait for workers, and workers for jobs.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// At most as many as all connections have requests in flight.
    jobs: VecDeque<Job>,
    /// The number of waiting workers.
    idle: usize,
    /// Whether a worker was notified and has not woken yet. Until it wakes, no other is notified: if calls
    /// are short, the workers that are awake have done the work by then.
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

    /// Waits for a job, or for several that may be one call; false if no more will come. A worker that
    /// leaves other jobs notifies another worker first, because its own job may take long.
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

    /// Notifies a waiting worker if jobs are queued and no notified worker is still waking up.
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

/// Moves the first writes of `waiting` to `jobs` if they can join the one in `jobs`, up to the number of
/// writes that the device prefers per call. Unless all other workers are busy, half of the writes remain for
/// one of them.
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

/// Moves the first flushes of `waiting` to `jobs` if `jobs` has a flush of the same device: one call is
/// enough for all that arrived before it.
fn take_flushes(waiting: &mut VecDeque<Job>, jobs: &mut Vec<Job>) {
    let device = jobs[0].device.clone();
    let is_flush = |job: &Job| job.operation == Operation::Flush;
    if is_flush(&jobs[0]) {
        let joins = |job: &&Job| is_flush(job) && Arc::ptr_eq(&job.device, &device);
        let count = waiting.iter().take_while(joins).count();
        jobs.extend(waiting.drain(..count));
    }
}

/// Executes the jobs. Several jobs are writes to one device, or flushes of one device.
fn run(jobs: &mut Vec<Job>) {
    drop_abandoned(jobs);
    if jobs.is_empty() {
        return;
    }
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

/// Ends jobs whose clients have gone: they may have sent the same requests again, on another connection.
fn drop_abandoned(jobs: &mut Vec<Job>) {
    for job in jobs.extract_if(.., |job| job.outbox.is_abandoned()) {
        let (outbox, reply) = job.end(Err(Failure::new(Errno::Io, "the client has gone")));
        outbox.send(iter::once(reply));
    }
}

/// Executes several writes to one device, or flushes of one device, by one call. `None` if the caller must
/// repeat each write singly, to find out which one failed.
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

/// The result of `call`, or an error if it panics: a panic in one request must not stop the device for
/// others.
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

    /// Offset and data of a write.
    fn write(&self) -> Option<(u64, &[u8])> {
        Some((self.as_write()?.0, self.buffer.as_deref()?))
    }

    fn run(mut self) -> (Arc<Outbox>, Reply) {
        let (operation, buffer) = (self.operation.clone(), self.buffer.take());
        let outcome = guarded(|| operation.perform(&*self.device, buffer));
        self.end(outcome)
    }

    /// The reply, and its outbox.
    fn end(self, outcome: Result<Done, Failure>) -> (Arc<Outbox>, Reply) {
        drop(self.gate);
        (self.outbox, Reply::new(self.to, outcome, self.room))
    }
}

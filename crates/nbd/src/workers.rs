//! The threads that call devices.

use std::collections::VecDeque;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use onefold_block::{BlockDevice, Durability};
use tokio::sync::OwnedSemaphorePermit;

use crate::ServerError;
use crate::buffers::Buffer;
use crate::command::{Done, Operation};
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

/// Threads that take jobs in the order in which they come. They end when this is dropped and all
/// jobs are done.
pub(crate) struct Workers(Arc<Board>);

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
    pub(crate) fn start(count: usize) -> Result<Workers, ServerError> {
        let workers = Workers(Arc::default());
        for number in 0..count.max(1) {
            let board = workers.0.clone();
            thread::Builder::new()
                .name(format!("nbd-worker-{number}"))
                .spawn(move || board.work())
                .map_err(ServerError::Threads)?;
        }
        Ok(workers)
    }

    /// Takes all `jobs`, which may be none.
    pub(crate) fn submit(&self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.jobs.extend(jobs.drain(..));
        self.0.call(state);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.called.notify_all();
    }
}

impl Board {
    fn work(&self) {
        let mut jobs = Vec::new();
        while self.next(&mut jobs) {
            run(&mut jobs);
        }
    }

    /// Waits for a job, or for writes that may be one call; false if there will be none any more. Who
    /// takes one and leaves others calls for another worker first, as the job may take long.
    fn next(&self, jobs: &mut Vec<Job>) -> bool {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                jobs.push(job);
                let is_alone = state.idle == 0;
                take_writes(&mut state.jobs, jobs, is_alone);
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

/// Does the jobs, which are writes to one device if there are several.
fn run(jobs: &mut Vec<Job>) {
    let are_done = jobs.len() > 1 && {
        let durability = jobs[0].as_write().map_or(Durability::OnReturn, |write| write.2);
        let writes: Vec<(u64, &[u8])> = jobs.iter().filter_map(Job::write).collect();
        let call = || jobs[0].device.write_many(&writes, durability);
        catch_unwind(AssertUnwindSafe(call)).is_ok_and(|outcome| outcome.is_ok())
    };
    // which of them failed is found out by doing each again
    let end = |job: Job| if are_done { job.end(Ok(Done::Nothing)) } else { job.run() };
    let ended: Vec<(Arc<Outbox>, Reply)> = jobs.drain(..).map(end).collect();
    let mut ended = ended.into_iter().peekable();
    while let Some((outbox, first)) = ended.next() {
        let next = || ended.next_if(|(other, _)| Arc::ptr_eq(other, &outbox));
        outbox.send(iter::once(first).chain(iter::from_fn(next).map(|(_, reply)| reply)));
    }
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
        // a device that is broken for one request is still there for the others
        let call = || operation.perform(&*self.device, buffer);
        let outcome = catch_unwind(AssertUnwindSafe(call))
            .unwrap_or_else(|_| Err(Failure::new(Errno::Io, "the device panicked")));
        self.end(outcome)
    }

    /// The reply, and where it goes.
    fn end(self, outcome: Result<Done, Failure>) -> (Arc<Outbox>, Reply) {
        drop(self.gate);
        (self.outbox, Reply::new(self.to, outcome, self.room))
    }
}

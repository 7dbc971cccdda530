//! The threads that call devices.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use onefold_block::BlockDevice;
use tokio::sync::mpsc::UnboundedSender;

use crate::ServerError;
use crate::buffers::Buffer;
use crate::command::Operation;
use crate::error::Failure;
use crate::reply::{Reply, ReplyTo, Ticket};
use crate::wire::Errno;

/// A call of a device, and who gets the reply.
pub(crate) struct Job {
    pub(crate) operation: Operation,
    pub(crate) buffer: Option<Buffer>,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) to: ReplyTo,
    pub(crate) ticket: Ticket,
    pub(crate) replies: UnboundedSender<Reply>,
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

    pub(crate) fn submit(&self, job: Job) {
        let mut state = self.0.lock();
        state.jobs.push_back(job);
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
        while let Some(job) = self.next() {
            job.run();
        }
    }

    /// Waits for a job; `None` if there will be none any more. Who takes one and leaves others
    /// calls for another worker first, as the job may take long.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                self.call(state);
                return Some(job);
            }
            if state.is_over {
                return None;
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

impl Job {
    fn run(self) {
        let Job { operation, buffer, device, to, ticket, replies } = self;
        // a device that is broken for one request is still there for the others
        let outcome = catch_unwind(AssertUnwindSafe(|| operation.perform(&*device, buffer)))
            .unwrap_or_else(|_| Err(Failure::new(Errno::Io, "the device panicked")));
        // the client may have gone
        let _ = replies.send(Reply::new(to, outcome, ticket));
    }
}

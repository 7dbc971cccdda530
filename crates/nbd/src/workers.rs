//! The threads that call devices.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender};
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

/// Threads that run jobs in the order in which they come. They end when this is dropped and all
/// jobs are done.
pub(crate) struct Workers {
    /// Not longer than all connections have requests in flight.
    jobs: Sender<Job>,
}

impl Workers {
    pub(crate) fn start(count: usize) -> Result<Workers, ServerError> {
        let (jobs, incoming) = crossbeam_channel::unbounded();
        for number in 0..count.max(1) {
            let incoming: Receiver<Job> = incoming.clone();
            thread::Builder::new()
                .name(format!("nbd-worker-{number}"))
                .spawn(move || incoming.iter().for_each(Job::run))
                .map_err(ServerError::Threads)?;
        }
        Ok(Workers { jobs })
    }

    pub(crate) fn submit(&self, job: Job) {
        self.jobs.send(job).expect("the workers stay as long as this");
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

//! The transmission phase of a connection: requests come in, jobs and replies go out.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::buffers::Share;
use crate::command::{self, Operation};
use crate::error::Failure;
use crate::handshake::Agreed;
use crate::inbox::Inbox;
use crate::limits::{DELIVERY, LINGER};
use crate::outbox::Outbox;
use crate::pace::Pace;
use crate::reply::{Reply, ReplyTo};
use crate::server::Shared;
use crate::stream::Stream;
use crate::wire::{Errno, Request, command as number};
use crate::workers::{Job, Workers};
use crate::{Address, Event, NbdError};

/// Serves a client until it disconnects, violates the protocol, or the server ends.
pub(crate) async fn transmit(
    stream: Box<dyn Stream>,
    agreed: Agreed,
    peer: &Address,
    shared: &Shared,
) -> Result<(), NbdError> {
    let (reader, writer) = stream.split();
    let pace = Pace::of(&shared.limits);
    let (outbox, left) = Outbox::new(writer);
    // ends with this
    let mut delivery = JoinSet::new();
    delivery.spawn(left.run(pace));
    let room = Arc::new(Semaphore::new(shared.limits.in_flight as usize));
    let inbox = Inbox::new(reader, pace);
    let memory = shared.buffers.share(shared.limits.share());
    let collected = Collected { jobs: Mutex::default(), workers: &shared.workers };
    let jobs = &collected;
    let mut intake = Intake { inbox, agreed, peer, shared, room, memory, jobs, outbox };
    let mut closing = shared.closing();
    let all_replies = intake.outbox.clone();
    tokio::select! {
        served = collected.meanwhile(intake.serve()) => {
            served.inspect_err(|_| all_replies.abandon())?;
        }
        // ends by itself only if the client does not receive its replies
        delivered = delivered(&mut delivery) => {
            all_replies.abandon();
            return delivered;
        }
        // a request that has arrived only in part by now is dropped
        () = closing.wait() => {}
    }
    let Intake { mut inbox, outbox, room, .. } = intake;
    let last_replies = async {
        let _all = room.acquire_many(shared.limits.in_flight).await.expect("never closed");
        // every request has its reply
        outbox.close();
        delivered(&mut delivery).await
    };
    let late = async {
        closing.wait().await;
        sleep(DELIVERY).await;
    };
    tokio::select! {
        delivered = last_replies => delivered?,
        () = late => {
            let what = "taking the last replies";
            return Err(NbdError::TimedOut { what, limit: DELIVERY });
        }
    }
    // closing immediately could lose the last replies for the client; further requests are ignored
    let _ = timeout(LINGER, inbox.drain()).await;
    Ok(())
}

/// The result of the only `delivery`; none if the server has ended.
async fn delivered(delivery: &mut JoinSet<Result<(), NbdError>>) -> Result<(), NbdError> {
    let ended = delivery.join_next().await.expect("it is asked for once");
    match ended.map_err(JoinError::try_into_panic) {
        Ok(outcome) => outcome,
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_cancelled)) => Ok(()),
    }
}

/// Requests that arrived together, collected so that the workers are woken once for all of them.
struct Collected<'a> {
    /// The lock is never contended: only the task of one connection uses it.
    jobs: Mutex<Vec<Job>>,
    workers: &'a Workers,
}

impl Collected<'_> {
    fn add(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push(job);
    }

    fn hand_over(&self) {
        self.workers.submit(&mut self.jobs.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Runs `future`, which may add jobs. The jobs are submitted whenever it waits, and when it ends.
    async fn meanwhile<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            self.hand_over();
            polled
        })
        .await
    }
}

/// The receiver of requests.
struct Intake<'a> {
    inbox: Inbox,
    agreed: Agreed,
    peer: &'a Address,
    shared: &'a Shared,
    /// Slots for requests of this connection.
    room: Arc<Semaphore>,
    /// The memory for their bytes.
    memory: Share,
    jobs: &'a Collected<'a>,
    outbox: Arc<Outbox>,
}

impl Intake<'_> {
    async fn serve(&mut self) -> Result<(), NbdError> {
        loop {
            if self.agreed.used.is_over() {
                return Ok(());
            }
            if self.inbox.is_empty() {
                tokio::select! {
                    biased;
                    has_more = self.inbox.wait() => if !has_more? {
                        self.outbox.abandon();
                        return Ok(());
                    },
                    () = self.agreed.used.wait_for_end() => return Ok(()),
                }
            }
            let request = self.request().await?;
            if request.command == number::DISCONNECT {
                return Ok(());
            }
            self.take(request).await?;
        }
    }

    async fn request(&mut self) -> Result<Request, NbdError> {
        let bytes = self.inbox.array("a request").await?;
        Request::decode(&bytes).ok_or_else(|| NbdError::Malformed {
            what: "the head of a request",
            found: format!("{:02x?}", &bytes[..4]),
            expected: "25 60 95 13",
        })
    }

    /// Hands a request to the workers, or replies with an error.
    async fn take(&mut self, request: Request) -> Result<(), NbdError> {
        let room = self.room.clone().acquire_owned().await.expect("never closed");
        let is_write = request.command == number::WRITE;
        let operation = match self.judge(&request) {
            Ok(operation) => operation,
            Err(failure) => {
                self.tell(&request, &failure);
                if is_write {
                    self.inbox.skip(request.len as usize, "a write").await?;
                }
                self.refuse(&request, failure, room);
                return Ok(());
            }
        };
        let mut buffer = None;
        if let Some(len) = operation.buffer_len() {
            let mut bytes = self.memory.take(len).await;
            if is_write {
                self.inbox.read(&mut bytes, "a write").await?;
            }
            buffer = Some(bytes);
        }
        // only now is it something that a shutdown must wait for
        let Ok(gate) = self.shared.gate.clone().try_acquire_owned() else {
            let failure = Failure::new(Errno::Shutdown, "the server is shutting down");
            self.refuse(&request, failure, room);
            return Ok(());
        };
        self.jobs.add(Job {
            operation,
            buffer,
            device: self.agreed.export.device.clone(),
            to: self.reply_to(&request),
            room,
            gate,
            outbox: self.outbox.clone(),
        });
        if self.inbox.is_empty() {
            self.jobs.hand_over();
        }
        Ok(())
    }

    fn judge(&self, request: &Request) -> Result<Operation, Failure> {
        let size = self.agreed.export.device.size();
        command::judge(request, &self.agreed, self.shared.limits.max_request, size)
    }

    /// Reports that a request is refused.
    fn tell(&self, request: &Request, failure: &Failure) {
        (self.shared.on_event)(Event::Refused {
            peer: self.peer,
            name: &self.agreed.export.name,
            operation: command::measured(request.command),
            offset: request.offset,
            len: request.len,
            why: &failure.message,
        });
    }

    fn reply_to(&self, request: &Request) -> ReplyTo {
        ReplyTo {
            cookie: request.cookie,
            command: request.command,
            offset: request.offset,
            is_structured: self.agreed.is_structured,
        }
    }

    fn refuse(&self, request: &Request, failure: Failure, room: OwnedSemaphorePermit) {
        self.outbox.send([Reply::new(self.reply_to(request), Err(failure), room)]);
    }
}

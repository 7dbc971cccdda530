//! Replies in flight to a client.
//!
//! The thread that has replies writes them itself while the socket takes them without blocking, because
//! waking another thread takes longer. While one thread writes, others queue their replies for it. The
//! bytes that the socket does not take are left to the connection's [`Delivery`], a task that can wait.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::NbdError;
use crate::pace::Pace;
use crate::reply::Reply;
use crate::stream::WriteHalf;

/// The maximum number of replies written by one call.
const BATCH: usize = 64;
/// The maximum number of bytes that a worker writes. More are left to the delivery, so that the worker can
/// continue with other jobs.
const AT_ONCE: usize = 128 << 10;
/// What a slow client was doing, for its error.
const TAKING: &str = "taking a reply";

/// The queue of replies to one client.
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Notified when there is work for the delivery.
    left: Notify,
    /// Whether the client has gone without a farewell.
    is_abandoned: AtomicBool,
}

struct State {
    /// At most as many as the connection has requests in flight.
    waiting: VecDeque<Reply>,
    turn: Turn,
    /// Whether no more replies will come.
    is_closed: bool,
    /// Whether replies are discarded.
    is_over: bool,
}

/// Which thread or task writes.
enum Turn {
    /// None, and no reply waits.
    Free(Box<Writing>),
    /// A thread, which looks for waiting replies again before it ends.
    Taken,
    /// The delivery, when it runs.
    Left(Box<Writing>),
    /// None: writing failed.
    Failed(io::Error),
}

/// Replies that are written together.
struct Writing {
    writer: WriteHalf,
    /// Replies that are not completely written. A written reply frees its memory while others are still
    /// written.
    batch: VecDeque<Reply>,
    /// Bytes still to be written.
    len: usize,
    /// Bytes of the first reply already written.
    written: usize,
}

impl Outbox {
    /// An outbox that writes to `writer`, and the delivery for bytes that it does not take immediately.
    pub(crate) fn new(writer: WriteHalf) -> (Arc<Outbox>, Delivery) {
        let writing = Writing { writer, batch: VecDeque::with_capacity(BATCH), len: 0, written: 0 };
        let state = State {
            waiting: VecDeque::new(),
            turn: Turn::Free(Box::new(writing)),
            is_closed: false,
            is_over: false,
        };
        let outbox = Arc::new(Outbox {
            state: Mutex::new(state),
            left: Notify::new(),
            is_abandoned: AtomicBool::new(false),
        });
        (outbox.clone(), Delivery(outbox))
    }

    /// Sends `replies` after those that are queued. Never blocks. If the connection has ended, the replies
    /// are discarded.
    pub(crate) fn send(&self, replies: impl IntoIterator<Item = Reply>) {
        let mut state = self.lock();
        if state.is_over {
            return;
        }
        state.waiting.extend(replies);
        let Some(mut writing) = state.take_free() else { return };
        loop {
            writing.take(&mut state.waiting);
            drop(state);
            let written = writing.write_at_once();
            state = self.lock();
            match written {
                Poll::Ready(Ok(())) if !state.waiting.is_empty() => continue,
                Poll::Ready(Ok(())) => state.turn = Turn::Free(writing),
                Poll::Pending => state.turn = Turn::Left(writing),
                Poll::Ready(Err(error)) => state.turn = Turn::Failed(error),
            }
            break;
        }
        let concerns_delivery = state.is_closed || !matches!(state.turn, Turn::Free(_));
        let forgotten = state.is_over.then(|| state.forget());
        drop(state);
        drop(forgotten);
        if concerns_delivery {
            self.left.notify_one();
        }
    }

    /// Declares that the client has gone without a farewell: requests that have not begun are dropped.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    /// Whether requests that have not begun are to be dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// Declares that no more replies will come: when all are written, the delivery closes this direction of
    /// the connection.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.left.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The writing state, if no thread has it.
    fn take_free(&mut self) -> Option<Box<Writing>> {
        match mem::replace(&mut self.turn, Turn::Taken) {
            Turn::Free(writing) => Some(writing),
            other => {
                self.turn = other;
                None
            }
        }
    }

    /// Removes the queued replies once replies are discarded, to be dropped without the lock.
    fn forget(&mut self) -> (VecDeque<Reply>, Turn) {
        (mem::take(&mut self.waiting), mem::replace(&mut self.turn, Turn::Taken))
    }
}

impl Writing {
    /// Takes the first replies of `waiting`. All replies taken before must have been written.
    fn take(&mut self, waiting: &mut VecDeque<Reply>) {
        self.batch.extend(waiting.drain(..waiting.len().min(BATCH)));
        self.len = self.batch.iter().map(Reply::len).sum();
        self.written = 0;
    }

    /// Writes as much as the socket takes; pending if that is not all, or if there are too many bytes for a
    /// worker.
    fn write_at_once(&mut self) -> Poll<io::Result<()>> {
        if self.len > AT_ONCE {
            return Poll::Pending;
        }
        // the delivery asks again if it comes to that, and is woken then
        let mut context = Context::from_waker(Waker::noop());
        while !ready!(self.poll_part(&mut context))? {}
        Poll::Ready(Ok(()))
    }

    /// Writes a part, and returns whether nothing is left.
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.len > 0 {
            let parts = self.batch.iter().flat_map(Reply::parts);
            let mut parts: Vec<IoSlice<'_>> = parts.filter(|part| !part.is_empty()).collect();
            let mut parts = &mut parts[..];
            IoSlice::advance_slices(&mut parts, self.written);
            match ready!(Pin::new(&mut self.writer).poll_write_vectored(context, parts))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.let_go(written),
            }
            if self.len > 0 {
                return Poll::Ready(Ok(false));
            }
        }
        ready!(Pin::new(&mut self.writer).poll_flush(context))?;
        Poll::Ready(Ok(true))
    }

    /// Records that this many further bytes have been written.
    fn let_go(&mut self, written: usize) {
        self.len -= written;
        self.written += written;
        while let Some(first) = self.batch.front()
            && first.len() <= self.written
        {
            self.written -= first.len();
            self.batch.pop_front();
        }
    }
}

/// Writes the bytes that the socket did not take immediately. When this is dropped, replies are discarded.
pub(crate) struct Delivery(Arc<Outbox>);

impl Delivery {
    /// Writes the remaining bytes until no more can come, then closes this direction of the connection.
    /// Fails if the client is slower than `pace`.
    pub(crate) async fn run(self, pace: Pace) -> Result<(), NbdError> {
        while let Some(mut writing) = self.next().await? {
            loop {
                let transfer = pace.begin(TAKING, writing.len);
                while !transfer.part(poll_fn(|context| writing.poll_part(context))).await? {}
                let mut state = self.0.lock();
                if state.waiting.is_empty() {
                    state.turn = Turn::Free(writing);
                    break;
                }
                writing.take(&mut state.waiting);
            }
        }
        let free = self.0.lock().take_free();
        let mut writer = free.expect("all has been written").writer;
        match pace.begin(TAKING, 0).part(writer.shutdown()).await {
            // the client was first
            Err(NbdError::Io(error)) if is_closed(&error) => Ok(()),
            closed => closed,
        }
    }

    /// The next replies to write; none if all have been written and no more will come.
    async fn next(&self) -> Result<Option<Box<Writing>>, NbdError> {
        loop {
            {
                let mut state = self.0.lock();
                match mem::replace(&mut state.turn, Turn::Taken) {
                    Turn::Left(writing) => return Ok(Some(writing)),
                    Turn::Failed(error) => return Err(NbdError::Io(error)),
                    turn => state.turn = turn,
                }
                if state.is_closed && matches!(state.turn, Turn::Free(_)) {
                    return Ok(None);
                }
            }
            self.0.left.notified().await;
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_over = true;
        let forgotten = state.forget();
        drop(state);
        drop(forgotten);
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), NotConnected | BrokenPipe | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::command::Done;
    use crate::reply::ReplyTo;
    use crate::wire::command;

    /// Bytes of a reply of this kind.
    const LEN: usize = 16;
    const ROOM: usize = 1000;

    struct Fixture {
        runtime: Runtime,
        room: Arc<Semaphore>,
        client: DuplexStream,
        outbox: Arc<Outbox>,
        delivery: Delivery,
    }

    impl Fixture {
        /// The connection takes so many bytes before the client reads them.
        fn new(unread: usize) -> Fixture {
            let (server, client) = duplex(unread);
            let (outbox, delivery) = Outbox::new(Box::new(server));
            let runtime = Builder::new_current_thread().enable_time().build().unwrap();
            let room = Arc::new(Semaphore::new(ROOM));
            Fixture { runtime, room, client, outbox, delivery }
        }
    }

    fn reply(cookie: u64, room: &Arc<Semaphore>) -> Reply {
        let to = ReplyTo { cookie, command: command::WRITE, offset: 0, is_structured: false };
        Reply::new(to, Ok(Done::Nothing), room.clone().try_acquire_owned().unwrap())
    }

    fn pace() -> Pace {
        Pace::of(&crate::Limits::default())
    }

    fn cookies(bytes: &[u8]) -> Vec<u64> {
        let replies = bytes.chunks_exact(LEN);
        replies.map(|one| u64::from_be_bytes(*one.last_chunk().unwrap())).collect()
    }

    async fn read_to_end(client: &mut DuplexStream) -> Vec<u64> {
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).await.unwrap();
        cookies(&bytes)
    }

    #[test]
    fn replies_leave_at_once_where_there_is_room_for_them() {
        // no delivery runs
        let Fixture { runtime, room, mut client, outbox, delivery: _delivery } =
            Fixture::new(100 * LEN);
        outbox.send([reply(1, &room)]);
        outbox.send((2..100).map(|cookie| reply(cookie, &room)));
        assert_eq!(room.available_permits(), ROOM);
        let mut bytes = [0; 99 * LEN];
        runtime.block_on(client.read_exact(&mut bytes)).unwrap();
        assert_eq!(cookies(&bytes), (1..100).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_not_taken_at_once_follows_in_order() {
        for unread in [1, LEN - 1, LEN, 5 * LEN + 3] {
            let Fixture { runtime, room, mut client, outbox, delivery } = Fixture::new(unread);
            outbox.send((0..300).map(|cookie| reply(cookie, &room)));
            let left = unread / LEN;
            assert_eq!(room.available_permits(), ROOM - 300 + left, "each has room until it left");
            let more = async {
                let mut first = [0; 10 * LEN];
                client.read_exact(&mut first).await.unwrap();
                outbox.send((300..310).map(|cookie| reply(cookie, &room)));
                outbox.close();
                [cookies(&first), read_to_end(&mut client).await].concat()
            };
            let (delivered, found) =
                runtime.block_on(async { tokio::join!(delivery.run(pace()), more) });
            delivered.unwrap();
            assert_eq!(found, (0..310).collect::<Vec<_>>());
            assert_eq!(room.available_permits(), ROOM);
        }
    }

    #[test]
    fn each_of_many_threads_has_all_its_replies_sent_once_and_in_order() {
        const EACH: u64 = 20_000;
        for unread in [40, 1 << 20] {
            let Fixture { runtime, room, mut client, outbox, delivery } = Fixture::new(unread);
            let ended = AtomicUsize::new(0);
            let found = thread::scope(|scope| {
                for thread in 0..4 {
                    let (outbox, room, ended) = (&outbox, &room, &ended);
                    scope.spawn(move || {
                        for number in 0..EACH {
                            while room.available_permits() < 8 {
                                thread::yield_now();
                            }
                            outbox.send([reply(thread * EACH + number, room)]);
                        }
                        ended.fetch_add(1, Ordering::Release);
                    });
                }
                let close = async {
                    while ended.load(Ordering::Acquire) < 4 || room.available_permits() < ROOM {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    outbox.close();
                };
                let all = async { read_to_end(&mut client).await };
                let (delivered, (), found) =
                    runtime.block_on(async { tokio::join!(delivery.run(pace()), close, all) });
                delivered.unwrap();
                found
            });
            let mut next: BTreeMap<u64, u64> = BTreeMap::new();
            for cookie in found {
                let next = next.entry(cookie / EACH).or_default();
                assert_eq!(cookie % EACH, *next);
                *next += 1;
            }
            assert_eq!(next, (0..4).map(|thread| (thread, EACH)).collect());
        }
    }

    #[test]
    fn whoever_has_gone_keeps_no_replies() {
        let Fixture { runtime, room, client, outbox, delivery } = Fixture::new(LEN);
        outbox.send((0..100).map(|cookie| reply(cookie, &room)));
        // the first has left
        assert_eq!(room.available_permits(), ROOM - 99);
        drop(client);
        assert!(matches!(runtime.block_on(delivery.run(pace())), Err(NbdError::Io(_))));
        assert_eq!(room.available_permits(), ROOM);
        outbox.send([reply(1, &room)]);
        assert_eq!(room.available_permits(), ROOM);
        // where it is the server that gave it up
        let Fixture { room, outbox, delivery, .. } = Fixture::new(LEN);
        outbox.send((0..100).map(|cookie| reply(cookie, &room)));
        drop(delivery);
        assert_eq!(room.available_permits(), ROOM);
    }

    #[test]
    fn an_error_that_another_thread_meets_ends_the_connection() {
        let Fixture { runtime, room, client, outbox, delivery } = Fixture::new(LEN);
        drop(client);
        outbox.send([reply(1, &room)]);
        assert!(matches!(runtime.block_on(delivery.run(pace())), Err(NbdError::Io(_))));
        assert_eq!(room.available_permits(), ROOM);
    }
}

//! Hints that wait to be told to another gateway.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::client::Peer;
use super::message::MAX_PAGES;
use crate::hints::{Hint, Key};

/// How long a gateway may take to hear of pages.
const DELIVERY: Duration = Duration::from_secs(1);

/// A bounded queue of pages, which are sent in batches, one batch at a time: while one is on the way, the next
/// grows. Pages that find no room, or whose gateway does not answer, are dropped and counted.
pub(crate) struct Outbox {
    queue: Arc<Queue>,
    sending: JoinHandle<()>,
}

struct Queue {
    pages: Mutex<VecDeque<(Key, Hint)>>,
    most: usize,
    filled: Notify,
    dropped: Arc<AtomicU64>,
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.sending.abort();
        self.queue.drop_pages(self.queue.take(usize::MAX).len());
    }
}

impl Queue {
    /// The oldest pages, `most` of them at most.
    fn take(&self, most: usize) -> Vec<(Key, Hint)> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let count = pages.len().min(most);
        pages.drain(..count).collect()
    }

    fn drop_pages(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Outbox {
    /// Sends to `peer` in threads of `runtime`. At most `most` pages wait.
    pub(crate) fn start(
        runtime: &Handle,
        peer: Arc<Peer>,
        most: usize,
        dropped: Arc<AtomicU64>,
    ) -> Self {
        let queue =
            Arc::new(Queue { pages: Mutex::default(), most, filled: Notify::new(), dropped });
        let sending = runtime.spawn(send(Arc::clone(&queue), peer));
        Self { queue, sending }
    }

    /// Queues as many of `pages` as there is room for.
    pub(crate) fn push(&self, pages: &[(Key, Hint)]) {
        let queued = {
            let mut waiting = self.queue.pages.lock().unwrap_or_else(PoisonError::into_inner);
            let room = self.queue.most.saturating_sub(waiting.len()).min(pages.len());
            waiting.extend(&pages[..room]);
            room
        };
        self.queue.filled.notify_one();
        self.queue.drop_pages(pages.len() - queued);
    }
}

async fn send(queue: Arc<Queue>, peer: Arc<Peer>) {
    loop {
        let pages = queue.take(MAX_PAGES);
        if pages.is_empty() {
            queue.filled.notified().await;
            continue;
        }
        let is_told = timeout(DELIVERY, peer.add(&pages)).await.is_ok_and(|told| told.is_ok());
        if !is_told {
            queue.drop_pages(pages.len());
        }
    }
}

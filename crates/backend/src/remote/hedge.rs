//! Reads whose answer does not begin are asked for a second time.
//!
//! Services now and then leave a request alone for seconds. The answer that begins first counts, the other
//! request is dropped with its connection, before its body is read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::{Either, select};
use object_store::client::{HttpError, HttpRequest, HttpResponse, HttpService};
use reqwest::Method;
use tokio::time::timeout;

use crate::usage::Usage;

/// A read is slow when its answer takes this many times the median to begin.
const SLOW: u32 = 4;

/// No read is slow before this time: a service nearby hesitates for other reasons.
const LEAST: Duration = Duration::from_millis(100);

/// The median is that of this many answers; before there are a quarter of them, no read is slow.
const RECENT: usize = 32;

/// For each of these reads one may be asked for again.
const READS_PER_HEDGE: u64 = 50;

/// Whether requests wait for others to end. Then the line is busy, and a second request would delay them.
/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues(Arc<AtomicUsize>);

/// A caller's requests, of which some may wait.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    queues: &'a Queues,
    is_waiting: bool,
}

impl Queues {
    pub(super) const fn join(&self) -> Queue<'_> {
        Queue { queues: self, is_waiting: false }
    }

    fn are_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Queue<'_> {
    /// Takes note whether requests of this caller wait.
    pub(super) fn set(&mut self, is_waiting: bool) {
        match (self.is_waiting, is_waiting) {
            (false, true) => drop(self.queues.0.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.queues.0.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        self.is_waiting = is_waiting;
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// A service whose slow reads are asked for again.
#[derive(Debug)]
pub(super) struct Hedged<S> {
    service: S,
    queues: Queues,
    usage: Usage,
    reads: Mutex<Reads>,
}

/// What is known of the reads so far.
#[derive(Debug, Default)]
struct Reads {
    /// How long the last answers took to begin.
    recent: VecDeque<Duration>,
    count: u64,
    hedges: u64,
}

impl Reads {
    /// Takes note of an answer that began after `took`.
    fn note(&mut self, took: Duration) {
        self.count += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    /// How long an answer may take to begin, once that is known.
    fn patience(&self) -> Option<Duration> {
        if self.recent.len() < RECENT / 4 {
            return None;
        }
        let mut sorted: Vec<_> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        Some((SLOW * sorted[sorted.len() / 2]).max(LEAST))
    }

    /// Whether one more read may be asked for again, which then counts.
    fn take_hedge(&mut self) -> bool {
        let may = self.hedges * READS_PER_HEDGE < self.count + READS_PER_HEDGE;
        self.hedges += u64::from(may);
        may
    }
}

impl<S: HttpService> Hedged<S> {
    pub(super) fn new(service: S, queues: Queues, usage: Usage) -> Self {
        Self { service, queues, usage, reads: Mutex::default() }
    }

    async fn read(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut first = std::pin::pin!(self.service.call(request.clone()));
        loop {
            let patience = self.reads().patience();
            let Some(patience) = patience else { return first.await };
            if let Ok(answer) = timeout(patience, first.as_mut()).await {
                return answer;
            }
            if self.queues.are_empty() && self.reads().take_hedge() {
                self.usage.hedge();
                return first_answer(first, self.service.call(request)).await;
            }
        }
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl<S: HttpService> HttpService for Hedged<S> {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.service.call(request).await;
        }
        let start = Instant::now();
        let answer = self.read(request).await?;
        self.reads().note(start.elapsed());
        Ok(answer)
    }
}

/// The answer to whichever of two equal requests is answered first. A second request that fails leaves
/// the first alone.
async fn first_answer<A>(
    first: impl Future<Output = Result<HttpResponse, A>> + Unpin,
    second: impl Future<Output = Result<HttpResponse, A>> + Unpin,
) -> Result<HttpResponse, A> {
    match select(first, second).await {
        Either::Left((Ok(answer), _)) => Ok(answer),
        Either::Left((Err(error), second)) => second.await.map_err(|_| error),
        Either::Right((Ok(answer), _)) if !answer.status().is_server_error() => Ok(answer),
        Either::Right((_, first)) => first.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(count: usize, took: Duration) -> Reads {
        let mut reads = Reads::default();
        (0..count).for_each(|_| reads.note(took));
        reads
    }

    #[test]
    fn a_read_is_slow_by_the_median_of_the_last() {
        let tenth = Duration::from_millis(100);
        assert_eq!(after(7, tenth).patience(), None);
        assert_eq!(after(8, tenth).patience(), Some(4 * tenth));
        assert_eq!(after(8, tenth / 100).patience(), Some(LEAST));
        let mut reads = after(32, tenth);
        (0..15).for_each(|_| reads.note(Duration::from_secs(60)));
        assert_eq!(reads.patience(), Some(4 * tenth));
        (0..32).for_each(|_| reads.note(2 * tenth));
        assert_eq!(reads.patience(), Some(8 * tenth));
    }

    #[test]
    fn one_read_in_fifty_is_asked_for_again_and_one_more() {
        for (count, expected) in [(0, 1), (1, 2), (50, 2), (51, 3), (1_000, 21), (1_001, 22)] {
            let mut reads = after(count, LEAST);
            let taken = (0..100).filter(|_| reads.take_hedge()).count();
            assert_eq!(taken, expected, "{count}");
        }
    }

    #[test]
    fn a_queue_that_is_left_waits_no_more() {
        let queues = Queues::default();
        let (mut one, mut other) = (queues.join(), queues.join());
        one.set(true);
        one.set(true);
        other.set(true);
        one.set(false);
        assert!(!queues.are_empty());
        drop(other);
        assert!(queues.are_empty());
    }
}

//! Hedging: reads that stall are sent a second time.
//!
//! Services occasionally leave a request unanswered for seconds. If an answer does not begin, the read is
//! sent again. The answer that begins first is used; the other request is dropped with its connection before
//! its body is read. If a body stalls, it is broken off, so that its reader requests the rest like that of
//! any [broken body](crate::body).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{Either, select};
use http_body::{Body, Frame, SizeHint};
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use reqwest::Method;
use reqwest::header::{ETAG, IF_MATCH};
use tokio::time::{Sleep, sleep, timeout};

use crate::usage::Usage;

/// A read is slow when the wait for its answer exceeds the median by this factor.
const SLOW: u32 = 4;

/// No read is treated as slow before this time: a nearby service hesitates for other reasons.
const LEAST: Duration = Duration::from_millis(100);

/// The median is over this many answers; before a quarter of them have arrived, no read is slow.
const RECENT: usize = 32;

/// One hedge is allowed per this many reads.
const READS_PER_HEDGE: u64 = 50;

/// Whether requests wait for others to end. Then the connection is busy, and a hedge would delay them. Clones
/// share the state.
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
    /// Records whether requests of this caller wait.
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

/// A service whose slow reads are hedged.
#[derive(Debug)]
pub(super) struct Hedged<S> {
    service: S,
    hedging: Arc<Hedging>,
    /// Whether silence in a body is the service's, and not due to a limit.
    watches_bodies: bool,
}

/// Decides whether a read is hedged.
#[derive(Debug)]
struct Hedging {
    queues: Queues,
    usage: Usage,
    reads: Mutex<Reads>,
}

impl Hedging {
    /// Whether a slow read may be hedged now; counts the hedge.
    fn may_hedge(&self) -> bool {
        let may = self.queues.are_empty() && self.reads().take_hedge();
        if may {
            self.usage.hedge();
        }
        may
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Statistics of the reads so far.
#[derive(Debug, Default)]
struct Reads {
    /// How long the last answers took to begin.
    recent: VecDeque<Duration>,
    count: u64,
    hedges: u64,
}

impl Reads {
    /// Records an answer that began after `took`.
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

    /// Whether one more read may be hedged; counts the hedge.
    fn take_hedge(&mut self) -> bool {
        let may = self.hedges * READS_PER_HEDGE < self.count + READS_PER_HEDGE;
        self.hedges += u64::from(may);
        may
    }
}

impl<S: HttpService> Hedged<S> {
    pub(super) fn new(service: S, queues: Queues, usage: Usage, watches_bodies: bool) -> Self {
        let hedging = Arc::new(Hedging { queues, usage, reads: Mutex::default() });
        Self { service, hedging, watches_bodies }
    }

    async fn read(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut first = std::pin::pin!(self.service.call(request.clone()));
        loop {
            let patience = self.hedging.reads().patience();
            let Some(patience) = patience else { return first.await };
            if let Ok(answer) = timeout(patience, first.as_mut()).await {
                return answer;
            }
            if self.hedging.may_hedge() {
                return first_answer(first, self.service.call(request)).await;
            }
        }
    }
}

#[async_trait]
impl<S: HttpService> HttpService for Hedged<S> {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.service.call(request).await;
        }
        // A request with a condition resumes a body, which is not hedged again.
        let is_watched = self.watches_bodies && !request.headers().contains_key(IF_MATCH);
        let start = Instant::now();
        let answer = self.read(request).await?;
        self.hedging.reads().note(start.elapsed());
        Ok(match is_watched && may_go_on(&answer) {
            true => answer.map(|body| HttpResponseBody::new(Watched::new(body, &self.hedging))),
            false => answer,
        })
    }
}

/// Whether the rest of a body can be requested: a tag identifies the object.
fn may_go_on(answer: &HttpResponse) -> bool {
    answer.status().is_success() && answer.headers().contains_key(ETAG)
}

/// A body that is broken off when it stalls.
struct Watched {
    body: HttpResponseBody,
    hedging: Arc<Hedging>,
    /// When silence is too long, while there is some after the first bytes.
    end: Option<Pin<Box<Sleep>>>,
    has_begun: bool,
}

impl Watched {
    fn new(body: HttpResponseBody, hedging: &Arc<Hedging>) -> Self {
        Self { body, hedging: Arc::clone(hedging), end: None, has_begun: false }
    }

    /// Returns when the silence is too long and the rest may be requested again.
    fn poll_stall(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(end) = &mut self.end else {
                let Some(patience) = self.hedging.reads().patience() else { return Poll::Pending };
                self.end = Some(Box::pin(sleep(patience)));
                continue;
            };
            ready!(end.as_mut().poll(context));
            self.end = None;
            if self.hedging.may_hedge() {
                return Poll::Ready(());
            }
        }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.end = None;
            this.has_begun = true;
            return Poll::Ready(frame);
        }
        // A body without a received byte is not resumed.
        if !this.has_begun {
            return Poll::Pending;
        }
        ready!(this.poll_stall(context));
        this.has_begun = false;
        Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Interrupted, Stalled))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body stalled.
#[derive(Debug, thiserror::Error)]
#[error("the body stalled, and the rest was requested again")]
struct Stalled;

/// The first answer to two equal requests. A failure of the second request does not affect the first.
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

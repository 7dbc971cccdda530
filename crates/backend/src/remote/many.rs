//! Many concurrent requests, independent of the number of threads.

use std::iter::Peekable;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::hedge::Queues;
use super::width::Width;
use super::{Bucket, Waiter};
use crate::{BackendError, OnAnswer, Operation, Request, Span};

/// The maximum bytes of answers in flight or waiting for the caller, plus one more answer.
const MAX_BYTES: u64 = 48 << 20;

/// The assumed length of a whole object, whose length is unknown before its answer arrives.
const UNKNOWN: u64 = 256 << 10;

/// Measurements of the connection to the service, for all calls.
#[derive(Debug)]
pub(super) struct Pace {
    width: Width,
    start: Instant,
    /// The time of a short answer, and the rate of one request in bytes per second.
    round_trip: Duration,
    rate: f64,
}

/// Answers up to this length measure the round trip, longer ones the rate.
const SHORT: usize = 64 << 10;

/// Bounds of the gap that is read through: services also charge for requests, so small gaps are always read.
const LEAST_GAP: u64 = 64 << 10;
const MOST_GAP: u64 = 1 << 20;

impl Pace {
    pub(super) fn new(connections: Option<NonZero<usize>>) -> Self {
        Self {
            width: Width::new(connections),
            start: Instant::now(),
            round_trip: Duration::from_millis(40),
            rate: 20e6,
        }
    }

    /// The bytes that one of the requests in flight would receive in the time of a round trip.
    pub(super) fn gap(&self) -> u64 {
        ((self.round_trip.as_secs_f64() * self.rate) as u64).clamp(LEAST_GAP, MOST_GAP)
    }

    /// The number of deletes in flight.
    pub(super) fn deletes(&self) -> usize {
        self.width.of_short()
    }

    /// Restarts the measurement, because there were not always enough requests.
    fn begin(&mut self) {
        let now = self.now();
        self.width.begin(now);
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records an answer that took `took`.
    fn note(&mut self, answer: &Result<Bytes, BackendError>, took: Duration) {
        let now = self.now();
        match answer {
            Ok(bytes) => {
                self.width.answered(bytes.len() as u64, now);
                let blend = |old: f64, new: f64| 0.8 * old + 0.2 * new;
                if bytes.len() <= SHORT {
                    let trip = blend(self.round_trip.as_secs_f64(), took.as_secs_f64());
                    self.round_trip = Duration::from_secs_f64(trip);
                } else {
                    let passing = took.saturating_sub(self.round_trip).as_secs_f64().max(1e-4);
                    self.rate = blend(self.rate, bytes.len() as f64 / passing);
                }
            }
            Err(error) if error.may_retry() => self.width.overloaded(now),
            Err(_) => {}
        }
    }
}

/// What answers reads, many at once.
pub(super) trait Source: Send + Sync + 'static {
    /// Answers one read.
    fn read(&self, request: &Request) -> impl Future<Output = Result<Bytes, BackendError>> + Send;

    /// What runs the requests.
    fn waiter(&self) -> &Waiter;
}

impl Source for Bucket {
    async fn read(&self, request: &Request) -> Result<Bytes, BackendError> {
        match &request.span {
            Span::Whole { max } => self.read_whole(&request.name, *max).await,
            Span::Range(range) => self.read_range(&request.name, range.clone()).await,
        }
    }

    fn waiter(&self) -> &Waiter {
        &self.waiter
    }
}

/// A request that was answered.
struct Answered {
    at: usize,
    reserved: u64,
    took: Duration,
    answer: Result<Bytes, BackendError>,
}

/// See [`Objects::get_many`](crate::Objects::get_many).
pub(super) fn get_many<S: Source>(
    source: &Arc<S>,
    pace: &Mutex<Pace>,
    queues: &Queues,
    requests: &mut dyn Iterator<Item = Request>,
    take: &mut OnAnswer<'_>,
) -> ControlFlow<()> {
    let mut requests = requests.enumerate().peekable();
    let mut under_way = UnderWay { source, tasks: JoinSet::new(), reserved: 0 };
    let mut queue = queues.join();
    locked(pace).begin();
    loop {
        let width = locked(pace).width.get();
        let has_more = under_way.fill(width, &mut requests);
        queue.set(has_more);
        let Some(answered) = under_way.next() else { return ControlFlow::Continue(()) };
        locked(pace).note(&answered.answer, answered.took);
        // Dropping the tasks ends their requests.
        take(answered.at, answered.answer)?;
    }
}

/// The requests in flight of one call.
struct UnderWay<'a, S> {
    source: &'a Arc<S>,
    tasks: JoinSet<Answered>,
    /// Bytes that their answers may have.
    reserved: u64,
}

impl<S: Source> UnderWay<'_, S> {
    /// Starts as many of `requests` as the limits allow. Returns whether there may be more.
    fn fill(
        &mut self,
        width: usize,
        requests: &mut Peekable<impl Iterator<Item = (usize, Request)>>,
    ) -> bool {
        while self.tasks.len() < width {
            match requests.next_if(|(_, request)| self.has_room(reserve(request))) {
                Some((at, request)) => self.start(at, request),
                None => return requests.peek().is_some(),
            }
        }
        true
    }

    fn has_room(&self, more: u64) -> bool {
        self.tasks.is_empty() || self.reserved + more <= MAX_BYTES
    }

    fn start(&mut self, at: usize, request: Request) {
        let (source, reserved) = (Arc::clone(self.source), reserve(&request));
        self.reserved += reserved;
        let task = async move {
            let start = Instant::now();
            let read = source.read(&request);
            let (operation, name) = (Operation::Get, request.name.clone());
            let interrupted = || Err(BackendError::Interrupted { name, operation });
            let answer =
                source.waiter().stop.unless_broken_off(read).await.unwrap_or_else(interrupted);
            Answered { at, reserved, took: start.elapsed(), answer }
        };
        self.tasks.spawn_on(task, self.source.waiter().runtime().handle());
    }

    /// The next answer, if any request is in flight.
    fn next(&mut self) -> Option<Answered> {
        let answered = self.source.waiter().runtime().block_on(self.tasks.join_next())?;
        let answered = answered.expect("no request panics, and none was ended");
        self.reserved -= answered.reserved;
        Some(answered)
    }
}

/// The bytes that the answer to `request` may have.
fn reserve(request: &Request) -> u64 {
    match &request.span {
        Span::Whole { max } => UNKNOWN.min(*max),
        Span::Range(range) => range.end.saturating_sub(range.start),
    }
}

fn locked(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

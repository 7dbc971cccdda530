//! Calls that are tried again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::iter::Enumerate;
use std::ops::{ControlFlow, Range};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::{BackendError, ObjectInfo, Objects, OnAnswer, Request};

/// When a call is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The longest first pause. Each pause is between half of and all of its longest, at random,
    /// so that clients which failed together do not come back together.
    pub first: Duration,
    /// What the longest pause is doubled up to.
    pub longest: Duration,
    /// Time since a call began after which it is not tried again.
    pub total: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(200),
            longest: Duration::from_secs(20),
            total: Duration::from_secs(180),
        }
    }
}

/// What pauses are taken by.
pub trait Clock: Send + Sync {
    /// Time since some moment that stays the same.
    fn now(&self) -> Duration;

    /// Returns after `pause`.
    fn sleep(&self, pause: Duration);
}

/// The clock of this machine.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    /// Tells the time since now.
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// Called before each pause with what went wrong and how long the pause is.
pub type OnRetry = dyn Fn(&BackendError, Duration) + Send + Sync;

/// Objects whose calls are tried again after an error that
/// [may pass](BackendError::may_retry), with pauses that grow.
///
/// That is safe for every call, because [`Objects`] promises that each may be repeated: a put
/// whose answer was lost finds its own bytes, compares them and succeeds, and finds other bytes
/// and fails.
pub struct Retrying<T> {
    inner: T,
    policy: RetryPolicy,
    clock: Box<dyn Clock>,
    /// State of the generator that draws the pauses.
    random: Mutex<u64>,
    on_retry: Box<OnRetry>,
}

impl<T> Retrying<T> {
    /// Wraps `inner`; pauses are by the clock of this machine.
    pub fn new(inner: T, policy: RetryPolicy) -> Self {
        let seed = RandomState::new().hash_one(std::process::id());
        Self::with_clock(inner, policy, Box::<SystemClock>::default(), seed)
    }

    /// Wraps `inner`; pauses are by `clock`, and drawn from `seed`.
    pub fn with_clock(inner: T, policy: RetryPolicy, clock: Box<dyn Clock>, seed: u64) -> Self {
        let random = Mutex::new(seed);
        Self { inner, policy, clock, random, on_retry: Box::new(|_, _| ()) }
    }

    /// Tells of each pause.
    pub fn on_retry(self, tell: impl Fn(&BackendError, Duration) + Send + Sync + 'static) -> Self {
        Self { on_retry: Box::new(tell), ..self }
    }

    fn call<R>(&self, call: impl Fn(&T) -> Result<R, BackendError>) -> Result<R, BackendError> {
        let mut patience = self.patience();
        loop {
            match call(&self.inner) {
                Err(error) if error.may_retry() && self.wait(&mut patience, &error) => {}
                answer => return answer,
            }
        }
    }

    /// All that there is, from now on.
    fn patience(&self) -> Patience {
        Patience { begin: self.clock.now(), longest: self.policy.first }
    }

    /// Pauses after `error`, or tells that there was no patience left to.
    fn wait(&self, patience: &mut Patience, error: &BackendError) -> bool {
        let pause = self.draw(patience.longest);
        if self.clock.now() - patience.begin + pause > self.policy.total {
            return false;
        }
        (self.on_retry)(error, pause);
        self.clock.sleep(pause);
        patience.longest = (2 * patience.longest).min(self.policy.longest);
        true
    }

    /// A pause of at least half of `longest`.
    fn draw(&self, longest: Duration) -> Duration {
        let mut state = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        // Knuth's generator; its high bits are good enough to spread clients.
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = (*state >> 40) as f64 / (1u64 << 24) as f64;
        longest.mul_f64(0.5 + 0.5 * share)
    }
}

/// How long a call has been tried.
struct Patience {
    begin: Duration,
    /// The longest next pause.
    longest: Duration,
}

/// So many requests may fail in a round before no new ones are made in it: the service may be gone.
const MAX_FAILED: usize = 8;

/// Requests that are made together: those that failed before, and new ones.
struct Round<'a, 'b> {
    again: std::vec::IntoIter<(usize, Request)>,
    new: &'a mut Enumerate<&'b mut dyn Iterator<Item = Request>>,
    /// By their number in this round: requests that were not answered yet.
    asked: HashMap<usize, (usize, Request)>,
    /// Requests that may be made again.
    failed: Vec<(usize, Request, BackendError)>,
    was_answered: bool,
}

impl<'a, 'b> Round<'a, 'b> {
    fn new(
        again: Vec<(usize, Request)>,
        new: &'a mut Enumerate<&'b mut dyn Iterator<Item = Request>>,
    ) -> Self {
        let (asked, failed) = (HashMap::new(), Vec::new());
        Self { again: again.into_iter(), new, asked, failed, was_answered: false }
    }

    fn make(&mut self, objects: &impl Objects, take: &mut OnAnswer<'_>) -> ControlFlow<()> {
        let mut count = 0..;
        let round = RefCell::new(self);
        let mut requests = std::iter::from_fn(|| {
            let round = &mut **round.borrow_mut();
            let (at, request) = round.next()?;
            round.asked.insert(count.next()?, (at, request.clone()));
            Some(request)
        });
        objects.get_many(&mut requests, &mut |number, answer| {
            let answered = round.borrow_mut().answered(number, answer);
            answered.map_or(ControlFlow::Continue(()), |(at, answer)| take(at, answer))
        })
    }

    fn next(&mut self) -> Option<(usize, Request)> {
        let again = self.again.next();
        again.or_else(|| if self.failed.len() < MAX_FAILED { self.new.next() } else { None })
    }

    /// The answer for the caller, unless the request may be made again.
    fn answered(
        &mut self,
        number: usize,
        answer: Result<Bytes, BackendError>,
    ) -> Option<(usize, Result<Bytes, BackendError>)> {
        let (at, request) = self.asked.remove(&number).expect("a request is answered once");
        match answer {
            Err(error) if error.may_retry() => {
                self.failed.push((at, request, error));
                None
            }
            answer => {
                self.was_answered = true;
                Some((at, answer))
            }
        }
    }
}

impl<T: Objects> Objects for Retrying<T> {
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), BackendError> {
        self.call(|inner| inner.put(name, bytes.clone()))
    }

    fn get(&self, name: &str) -> Result<Bytes, BackendError> {
        self.call(|inner| inner.get(name))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, BackendError> {
        self.call(|inner| inner.get_range(name, range.clone()))
    }

    fn get_limited(&self, name: &str, max: u64) -> Result<Bytes, BackendError> {
        self.call(|inner| inner.get_limited(name, max))
    }

    fn get_many(
        &self,
        requests: &mut dyn Iterator<Item = Request>,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        let mut requests = requests.enumerate();
        let mut patience = self.patience();
        let mut again = Vec::new();
        loop {
            let mut round = Round::new(std::mem::take(&mut again), &mut requests);
            round.make(&self.inner, take)?;
            let Round { failed, was_answered, .. } = round;
            if was_answered {
                patience = self.patience();
            }
            let Some((_, _, error)) = failed.first() else { return ControlFlow::Continue(()) };
            if self.wait(&mut patience, error) {
                again = failed.into_iter().map(|(at, request, _)| (at, request)).collect();
            } else {
                failed.into_iter().try_for_each(|(at, _, error)| take(at, Err(error)))?;
            }
        }
    }

    fn gap(&self) -> u64 {
        self.inner.gap()
    }

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.call(|inner| inner.size(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.call(|inner| inner.list(prefix))
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.call(|inner| inner.delete(name))
    }

    fn settle(&self) -> Result<(), BackendError> {
        self.call(|inner| inner.settle())
    }
}

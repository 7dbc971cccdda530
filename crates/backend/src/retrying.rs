//! Calls that are tried again.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::{BackendError, ObjectInfo, Objects};

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
        let begin = self.clock.now();
        let mut longest = self.policy.first;
        loop {
            let error = match call(&self.inner) {
                Err(error) if error.may_retry() => error,
                answer => return answer,
            };
            let pause = self.draw(longest);
            if self.clock.now() - begin + pause > self.policy.total {
                return Err(error);
            }
            (self.on_retry)(&error, pause);
            self.clock.sleep(pause);
            longest = (2 * longest).min(self.policy.longest);
        }
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

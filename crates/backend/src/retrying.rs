//! Retries of calls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::iter::Enumerate;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::{BackendError, ErrorKind, ObjectInfo, Objects, OnAnswer, Request, Stop, Usage};

/// When a call is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum first pause. Each pause is random between half of its maximum and the maximum, so that
    /// clients which failed together do not retry together.
    pub first: Duration,
    /// The maximum pause, up to which pauses are doubled.
    pub longest: Duration,
    /// How long an outage may last, from the first failed call. After that nothing is retried.
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

/// The clock for pauses.
pub trait Clock: Send + Sync {
    /// Time since a fixed moment.
    fn now(&self) -> Duration;

    /// Returns after `pause`.
    fn sleep(&self, pause: Duration);

    /// Returns after `pause`, or when `stop` is requested. A clock whose pauses take no time need not check
    /// that.
    fn sleep_unless(&self, pause: Duration, _stop: &Stop) {
        self.sleep(pause);
    }
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

    fn sleep_unless(&self, pause: Duration, stop: &Stop) {
        stop.sleep(pause);
    }
}

/// A report of a [`Retrying`] about failed calls.
#[derive(Debug)]
pub enum Retry<'a> {
    /// A call failed and is retried after `pause`.
    Pause {
        /// What it came to.
        error: &'a BackendError,
        /// How long nothing is tried by this call.
        pause: Duration,
    },
    /// Every call has failed for a while. Reported once per outage.
    Outage {
        /// The error of the last call.
        error: &'a BackendError,
        /// How much longer calls are retried.
        left: Duration,
    },
    /// A call was answered after a reported outage.
    Answered {
        /// How long the outage was.
        lasted: Duration,
    },
}

/// Called with reports, on any thread.
pub type OnRetry = dyn Fn(Retry<'_>) + Send + Sync;

/// Shorter outages are not reported.
const UNTOLD: Duration = Duration::from_secs(2);

/// Objects whose calls are retried after a [transient error](BackendError::may_retry), with growing pauses.
///
/// All calls share one outage. It begins with the first failed call and ends when a call is answered. When
/// it has lasted for [`RetryPolicy::total`], all calls, including those in flight and later ones, fail with
/// [`BackendError::Unreachable`]. If a single call fails for that long while others are answered, only that
/// call fails in this way.
///
/// Retries are safe because [`Objects`] guarantees that each call may be repeated: a put whose answer was
/// lost finds its own bytes, compares them and succeeds; if it finds other bytes, it fails.
pub struct Retrying<T> {
    inner: T,
    place: String,
    policy: RetryPolicy,
    clock: Box<dyn Clock>,
    /// State of the generator that draws the pauses.
    random: Mutex<u64>,
    outage: Mutex<Outage>,
    /// The error of the last call before retries ended.
    gone: OnceLock<Arc<BackendError>>,
    any_gone: AnyGone,
    stop: Stop,
    usage: Usage,
    on_retry: Box<OnRetry>,
}

/// Whether one of several services that a command uses is unreachable, so that the command ends. Clones
/// share it.
#[derive(Clone, Debug, Default)]
pub struct AnyGone(Arc<AtomicBool>);

/// When calls began to fail.
#[derive(Debug, Default)]
struct Outage {
    /// Since when no call was answered.
    since: Option<Duration>,
    /// The error of the last call.
    last: Option<Arc<BackendError>>,
    was_told: bool,
    /// When the last call before it was answered.
    answered: Duration,
}

impl<T> Retrying<T> {
    /// Wraps `inner`, which is at `place`, with the clock of this machine.
    pub fn new(inner: T, place: &str, policy: RetryPolicy) -> Self {
        let seed = RandomState::new().hash_one(std::process::id());
        Self::with_clock(inner, place, policy, Box::<SystemClock>::default(), seed)
    }

    /// Wraps `inner`, which is at `place`, with `clock` and random pauses from `seed`.
    pub fn with_clock(
        inner: T,
        place: &str,
        policy: RetryPolicy,
        clock: Box<dyn Clock>,
        seed: u64,
    ) -> Self {
        Self {
            inner,
            place: place.to_owned(),
            policy,
            clock,
            random: Mutex::new(seed),
            outage: Mutex::default(),
            gone: OnceLock::new(),
            any_gone: AnyGone::default(),
            stop: Stop::default(),
            usage: Usage::default(),
            on_retry: Box::new(|_| ()),
        }
    }

    /// Sets the callback for reports.
    pub fn on_retry(self, tell: impl Fn(Retry<'_>) + Send + Sync + 'static) -> Self {
        Self { on_retry: Box::new(tell), ..self }
    }

    /// Stops pausing and retrying when `stop` is requested. Requests `stop` itself when an outage has lasted
    /// too long, so that calls in flight end if `inner` also uses it.
    pub fn stopped_by(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Stops retrying when another service that shares `any_gone` is unreachable: the command ends, and need
    /// not wait a second time. Calls that are answered still succeed.
    pub fn beside(self, any_gone: AnyGone) -> Self {
        Self { any_gone, ..self }
    }

    /// Counts retries in `usage`.
    pub fn counted_by(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    fn call<R>(&self, call: impl Fn(&T) -> Result<R, BackendError>) -> Result<R, BackendError> {
        let mut patience = self.patience();
        loop {
            self.check_reachable()?;
            match call(&self.inner) {
                Err(error) if self.may_pass(&error) => self.wait(&mut patience, error)?,
                answer => return self.answered(answer),
            }
        }
    }

    /// Whether the call may succeed a little later. An outage that has lasted too long also aborts calls
    /// without a requested stop.
    fn may_pass(&self, error: &BackendError) -> bool {
        let is_interrupted = error.kind() == ErrorKind::Interrupted;
        error.may_retry() || is_interrupted && !self.stop.is_asked()
    }

    /// Fails if nothing is retried any more.
    fn check_reachable(&self) -> Result<(), BackendError> {
        self.gone.get().map_or(Ok(()), |last| Err(self.unreachable(last)))
    }

    fn unreachable(&self, last: &Arc<BackendError>) -> BackendError {
        let (place, tried) = (self.place.clone(), self.policy.total);
        BackendError::Unreachable { place, tried, source: Arc::clone(last) }
    }

    /// Records an answer that is not retried, and returns the caller's result.
    fn answered<R>(&self, answer: Result<R, BackendError>) -> Result<R, BackendError> {
        match &answer {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                // This outage may have aborted it.
                self.check_reachable()?;
            }
            // No request was made of it.
            Err(BackendError::BadName { .. }) => {}
            _ => self.end_outage(),
        }
        answer
    }

    fn end_outage(&self) {
        let mut outage = self.outage();
        let now = self.clock.now();
        let ended = std::mem::replace(&mut *outage, Outage { answered: now, ..Outage::default() });
        let Some(since) = ended.since else { return };
        self.stop.limit(None);
        drop(outage);
        if ended.was_told {
            let lasted = now.saturating_sub(since);
            (self.on_retry)(Retry::Answered { lasted });
        }
    }

    /// All that there is, from the first failure on.
    fn patience(&self) -> Patience {
        Patience { since: None, began: self.clock.now(), longest: self.policy.first }
    }

    /// Pauses after `error`.
    ///
    /// # Errors
    ///
    /// What the caller gets if the call is not tried again.
    fn wait(&self, patience: &mut Patience, error: BackendError) -> Result<(), BackendError> {
        self.check_reachable()?;
        if self.stop.is_asked() {
            return Err(interrupted(&error));
        }
        let (error, now) = (Arc::new(error), self.clock.now());
        let (left, last) = self.note_failure(&error, now);
        if left.is_zero() || self.any_gone.0.load(Ordering::SeqCst) {
            return Err(self.give_up(last));
        }
        let alone = now.saturating_sub(*patience.since.get_or_insert(now));
        if alone >= self.policy.total {
            return Err(self.unreachable(&error));
        }
        let pause = self.draw(patience.longest).min(left);
        self.tell(&error, pause, patience.began, left);
        self.usage.retry(1);
        self.clock.sleep_unless(pause, &self.stop);
        patience.longest = (2 * patience.longest).min(self.policy.longest);
        patience.began = self.clock.now();
        self.check_reachable()?;
        match self.stop.is_asked() {
            true => Err(interrupted(&error)),
            false => Ok(()),
        }
    }

    /// Records a call that failed with `error`. Returns how much longer calls are retried, and the error
    /// that explains the failures best.
    fn note_failure(
        &self,
        error: &Arc<BackendError>,
        now: Duration,
    ) -> (Duration, Arc<BackendError>) {
        let mut outage = self.outage();
        if outage.since.is_none() {
            self.stop.limit(Some(self.policy.total));
        }
        let since = *outage.since.get_or_insert(now);
        // That a request was broken off says less than what the one before it came to.
        if error.may_retry() {
            outage.last = Some(Arc::clone(error));
        }
        let last = outage.last.get_or_insert_with(|| Arc::clone(error));
        (self.policy.total.saturating_sub(now.saturating_sub(since)), Arc::clone(last))
    }

    /// Ends all calls, including those in flight.
    fn give_up(&self, last: Arc<BackendError>) -> BackendError {
        let last = self.gone.get_or_init(|| last);
        self.any_gone.0.store(true, Ordering::SeqCst);
        self.stop.ask(Duration::ZERO);
        self.unreachable(last)
    }

    /// Reports a call that began at `began` and failed.
    fn tell(&self, error: &BackendError, pause: Duration, began: Duration, left: Duration) {
        (self.on_retry)(Retry::Pause { error, pause });
        let mut outage = self.outage();
        let unanswered = began.max(outage.answered);
        let first = outage.since.map_or(unanswered, |since| since.min(unanswered));
        // What lasts until after the pause is an outage.
        let is_due = self.clock.now() + pause >= first + UNTOLD;
        if is_due && !std::mem::replace(&mut outage.was_told, true) {
            drop(outage);
            (self.on_retry)(Retry::Outage { error, left });
        }
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The result of a call that is not retried after `error` because a stop was requested.
fn interrupted(error: &BackendError) -> BackendError {
    match error {
        BackendError::Io { name, operation, .. }
        | BackendError::Interrupted { name, operation } => {
            BackendError::Interrupted { name: name.clone(), operation: *operation }
        }
        error => unreachable!("a call that may pass fails so: {error}"),
    }
}

/// How long a call has been tried.
struct Patience {
    /// When it first failed.
    since: Option<Duration>,
    /// When it was last begun.
    began: Duration,
    /// The longest next pause.
    longest: Duration,
}

/// After this many failures in a round it makes no new requests: the service may be unreachable.
const MAX_FAILED: usize = 8;

/// A round of concurrent requests: those that failed before, and new ones.
struct Round<'a, 'b> {
    again: std::vec::IntoIter<(usize, Request)>,
    new: &'a mut Enumerate<&'b mut dyn Iterator<Item = Request>>,
    /// Unanswered requests, by their number in this round.
    asked: HashMap<usize, (usize, Request)>,
    /// Requests to retry.
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

    /// Makes the requests, and keeps those that failed with an error that `may_pass`.
    fn make(
        &mut self,
        objects: &impl Objects,
        may_pass: impl Fn(&BackendError) -> bool,
        take: &mut OnAnswer<'_>,
    ) -> ControlFlow<()> {
        let mut count = 0..;
        let round = RefCell::new(self);
        let mut requests = std::iter::from_fn(|| {
            let round = &mut **round.borrow_mut();
            let (at, request) = round.next()?;
            round.asked.insert(count.next()?, (at, request.clone()));
            Some(request)
        });
        objects.get_many(&mut requests, &mut |number, answer| {
            let answered = round.borrow_mut().answered(number, answer, &may_pass);
            answered.map_or(ControlFlow::Continue(()), |(at, answer)| take(at, answer))
        })
    }

    fn next(&mut self) -> Option<(usize, Request)> {
        let again = self.again.next();
        again.or_else(|| if self.failed.len() < MAX_FAILED { self.new.next() } else { None })
    }

    /// The answer for the caller, unless the request is to be retried.
    fn answered(
        &mut self,
        number: usize,
        answer: Result<Bytes, BackendError>,
        may_pass: impl Fn(&BackendError) -> bool,
    ) -> Option<(usize, Result<Bytes, BackendError>)> {
        let (at, request) = self.asked.remove(&number).expect("a request is answered once");
        match answer {
            Err(error) if may_pass(&error) => {
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
            if let Some(last) = self.gone.get() {
                let mut rest = again.into_iter().chain(requests);
                return rest.try_for_each(|(at, _)| take(at, Err(self.unreachable(last))));
            }
            let mut round = Round::new(std::mem::take(&mut again), &mut requests);
            let may_pass = |error: &BackendError| self.may_pass(error);
            round.make(&self.inner, may_pass, &mut |at, answer| take(at, self.answered(answer)))?;
            let Round { mut failed, was_answered, .. } = round;
            if was_answered {
                patience = Patience { began: patience.began, ..self.patience() };
            }
            let Some((at, request, error)) = failed.pop() else {
                return ControlFlow::Continue(());
            };
            match self.wait(&mut patience, error) {
                Ok(()) => {
                    self.usage.retry(failed.len() as u64);
                    again.push((at, request));
                    again.extend(failed.into_iter().map(|(at, request, _)| (at, request)));
                }
                Err(error) => {
                    take(at, Err(error))?;
                    for (at, _, error) in failed {
                        take(at, Err(self.check_reachable().err().unwrap_or(error)))?;
                    }
                }
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

    fn list_names(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        self.call(|inner| inner.list_names(prefix))
    }

    fn delete(&self, name: &str) -> Result<(), BackendError> {
        self.call(|inner| inner.delete(name))
    }

    fn delete_each(&self, names: &[String]) -> Vec<(String, BackendError)> {
        let (mut names, mut patience, mut left) = (names.to_vec(), self.patience(), Vec::new());
        loop {
            if let Some(last) = self.gone.get() {
                left.extend(names.into_iter().map(|name| (name, self.unreachable(last))));
                return left;
            }
            let failed = self.inner.delete_each(&names);
            if failed.len() < names.len() {
                self.end_outage();
                patience = Patience { began: patience.began, ..self.patience() };
            }
            let (mut again, others): (Vec<_>, Vec<_>) =
                failed.into_iter().partition(|(_, error)| self.may_pass(error));
            left.extend(others);
            let Some((name, error)) = again.pop() else { return left };
            if let Err(error) = self.wait(&mut patience, error) {
                let unreachable = |error| self.check_reachable().err().unwrap_or(error);
                let again = again.into_iter().map(|(name, error)| (name, unreachable(error)));
                return [(name, error)].into_iter().chain(again).chain(left).collect();
            }
            self.usage.retry(again.len() as u64);
            names = again.into_iter().map(|(name, _)| name).chain([name]).collect();
        }
    }

    fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
        self.call(|inner| inner.discard_unfinished(age))
    }

    fn settle(&self) -> Result<(), BackendError> {
        self.check_reachable()?;
        // It may make no request, so its answer does not end an outage.
        self.inner.settle()
    }
}

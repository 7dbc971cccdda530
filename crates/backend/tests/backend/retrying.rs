//! What fails in passing is tried again, and nothing else is; no test here sleeps.

use std::cell::RefCell;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{
    AnyGone, BackendError, Clock, ErrorKind, MemoryObjects, ObjectInfo, Objects, Operation,
    Request, Retry, RetryPolicy, Retrying, Span, Stop, conformance,
};

const POLICY: RetryPolicy = RetryPolicy {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(1),
    total: Duration::from_secs(10),
};

/// A clock that only pauses move; clones are the same.
#[derive(Clone, Default)]
struct FakeClock(Arc<Mutex<Vec<Duration>>>);

impl FakeClock {
    fn pauses(&self) -> Vec<Duration> {
        self.0.lock().unwrap().clone()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        self.pauses().iter().sum()
    }

    fn sleep(&self, pause: Duration) {
        self.0.lock().unwrap().push(pause);
    }
}

/// Memory whose calls `faults` fails and that is tried again.
fn retrying(faults: &Faults, policy: RetryPolicy) -> (Retrying<Faulty<MemoryObjects>>, FakeClock) {
    let clock = FakeClock::default();
    let faulty = Faulty::new(MemoryObjects::new(), "memory", faults);
    (Retrying::with_clock(faulty, "memory", policy, Box::new(clock.clone()), 1), clock)
}

/// Fails every other call, `count` times.
fn every_other_call(fault: &Fault, count: u64) -> Faults {
    let faults = Faults::none();
    for call in 0..count {
        faults.add(fault.clone().skip(2 * call));
    }
    faults
}

/// Long enough for the pauses of all threads of a test, which share a clock.
const PATIENT: RetryPolicy = RetryPolicy { total: Duration::from_secs(100_000), ..POLICY };

#[test]
fn objects_conform_when_every_call_fails_once() {
    let failed = AtomicU64::new(0);
    for fault in [Fault::new(Failure::Timeout), Fault::new(Failure::Timeout).answer_lost()] {
        let all = RefCell::new(Vec::new());
        conformance::objects(|| {
            let faults = every_other_call(&fault, 300);
            all.borrow_mut().push(faults.clone());
            Box::new(retrying(&faults, PATIENT).0)
        });
        failed.fetch_add(all.borrow().iter().map(Faults::failed).sum(), Ordering::Relaxed);
    }
    assert!(failed.load(Ordering::Relaxed) > 100, "{failed:?} calls failed");
}

#[test]
fn a_call_may_fail_many_times() {
    let faults = Faults::none();
    let (objects, clock) = retrying(&faults, POLICY);
    faults.add(Fault::new(Failure::Timeout).times(5));
    objects.put("a", "1".into()).unwrap();
    assert_eq!(faults.count(Operation::Put), 6);
    let longest = [100, 200, 400, 800, 1_000].map(Duration::from_millis);
    let pauses = clock.pauses();
    assert_eq!(pauses.len(), longest.len());
    for (pause, longest) in pauses.iter().zip(longest) {
        assert!(*pause >= longest / 2 && *pause <= longest, "{pauses:?}");
    }
}

#[test]
fn of_many_requests_those_that_failed_are_made_again() {
    let faults = Faults::none();
    let (objects, clock) = retrying(&faults, POLICY);
    objects.put("a", "0123456789".into()).unwrap();
    faults.add(Fault::new(Failure::Timeout).skip(5).times(20));
    let mut requests =
        (0..10).map(|at| Request { name: "a".into(), span: Span::Range(at..at + 1) });
    let mut answers = vec![None; 10];
    let flow = objects.get_many(&mut requests, &mut |at, answer| {
        assert!(answers[at].replace(answer.unwrap()).is_none());
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
    let bytes: Vec<u8> = answers.into_iter().flat_map(Option::unwrap).collect();
    assert_eq!(bytes, b"0123456789");
    assert_eq!(faults.count(Operation::Get), 10 + 20);
    assert!((3..=6).contains(&clock.pauses().len()), "one pause a round: {:?}", clock.pauses());
}

#[test]
fn a_service_that_is_gone_answers_each_of_many_requests_with_its_error() {
    let faults = Faults::none();
    let (objects, clock) = retrying(&faults, POLICY);
    faults.add(Fault::new(Failure::Timeout).times(u64::MAX));
    let request = |at| Request { name: "a".into(), span: Span::Range(at..at + 1) };
    let mut failed = 0;
    let flow = objects.get_many(&mut (0..100).map(request), &mut |_, answer| {
        assert!(matches!(answer, Err(BackendError::Unreachable { .. })), "{answer:?}");
        failed += 1;
        if failed == 95 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(flow.is_break());
    assert!(clock.now() <= POLICY.total, "{:?}", clock.pauses());
    assert!(faults.count(Operation::Get) as usize <= 8 * (clock.pauses().len() + 1));
}

#[test]
fn pauses_of_two_clients_differ() {
    let pauses = [1, 2].map(|seed| {
        let (faults, clock) = (Faults::none(), FakeClock::default());
        faults.add(Fault::new(Failure::Timeout).times(4));
        let faulty = Faulty::new(MemoryObjects::new(), "memory", &faults);
        let objects = Retrying::with_clock(faulty, "memory", POLICY, Box::new(clock.clone()), seed);
        objects.list("").unwrap();
        clock.pauses()
    });
    assert_ne!(pauses[0], pauses[1]);
}

/// What a [`Retrying`] told, in words.
type Told = Arc<Mutex<Vec<String>>>;

fn telling(objects: Retrying<Faulty<MemoryObjects>>) -> (Retrying<Faulty<MemoryObjects>>, Told) {
    let told = Told::default();
    let objects = {
        let told = Arc::clone(&told);
        objects.on_retry(move |retry| {
            let text = match retry {
                Retry::Pause { error, pause } => format!("pause {pause:?} after {error}"),
                Retry::Outage { error, left } => format!("outage, {left:?} left, after {error}"),
                Retry::Answered { lasted } => format!("answered after {lasted:?}"),
            };
            told.lock().unwrap().push(text);
        })
    };
    (objects, told)
}

/// How many of what was told begins with `first`.
fn count(told: &Told, first: &str) -> usize {
    told.lock().unwrap().iter().filter(|text| text.starts_with(first)).count()
}

#[test]
fn patience_ends_for_all_calls() {
    let faults = Faults::none();
    let (objects, clock) = retrying(&faults, POLICY);
    let stop = Stop::default();
    let (objects, told) = telling(objects.stopped_by(stop.clone()));
    faults.add(Fault::new(Failure::Timeout).times(u64::MAX));
    let error = objects.get("a").unwrap_err();
    assert_eq!(error.to_string(), "memory cannot be reached; requests failed for 10 s");
    assert_eq!(error.source().unwrap().to_string(), "cannot get a in memory");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(!error.may_retry(), "nobody else tries it again");
    let waited: Duration = clock.pauses().iter().sum();
    assert_eq!(waited, POLICY.total, "the last pause ends when patience does");
    let made = faults.count(Operation::Get);
    assert_eq!(made as usize, clock.pauses().len() + 1);
    assert_eq!(count(&told, "pause"), clock.pauses().len());
    assert_eq!(count(&told, "outage"), 1);
    assert!(stop.is_asked(), "requests of other threads are broken off");

    for error in [
        objects.get("b").unwrap_err(),
        objects.put("b", "1".into()).unwrap_err(),
        objects.list("").unwrap_err(),
        objects.delete("b").unwrap_err(),
        objects.settle().unwrap_err(),
    ] {
        assert!(matches!(error, BackendError::Unreachable { .. }), "{error:?}");
    }
    assert_eq!((faults.operations(), clock.now()), (made, waited), "nothing more was tried");
}

#[test]
fn an_outage_is_told_with_the_time_that_is_left_and_its_end_as_well() {
    let faults = Faults::none();
    let (objects, clock) = retrying(&faults, PATIENT);
    let (objects, told) = telling(objects);
    faults.add(Fault::new(Failure::Timeout).times(40));
    objects.put("a", "1".into()).unwrap();
    assert_eq!((count(&told, "outage"), count(&told, "answered")), (1, 1));
    assert!(told.lock().unwrap().contains(&format!("answered after {:?}", clock.now())));
    // The next is another outage.
    faults.add(Fault::new(Failure::Timeout).times(40));
    objects.put("b", "1".into()).unwrap();
    assert_eq!((count(&told, "outage"), count(&told, "answered")), (2, 2));
    // A short one is no news.
    faults.add(Fault::new(Failure::Timeout).times(2));
    objects.put("c", "1".into()).unwrap();
    assert_eq!((count(&told, "outage"), count(&told, "answered")), (2, 2));
}

#[test]
fn an_outage_begins_anew_after_an_answer() {
    let faults = Faults::none();
    let (objects, clock) = retrying(&faults, POLICY);
    for name in ["a", "b", "c", "d"] {
        // The pauses after so many failures take more than half of the patience, and not all of it.
        faults.add(Fault::new(Failure::Timeout).times(12));
        objects.put(name, "1".into()).unwrap();
    }
    assert!(clock.now() > 2 * POLICY.total, "{:?}", clock.now());
}

/// Answers a listing, and no other call, which takes time by a clock.
struct OnlyLists(MemoryObjects, FakeClock, Duration);

impl OnlyLists {
    fn timeout<T>(&self) -> Result<T, BackendError> {
        self.1.sleep(self.2);
        let (name, place) = ("a".to_owned(), "memory".to_owned());
        let source = Box::new(std::io::Error::from(std::io::ErrorKind::TimedOut));
        Err(BackendError::Io { name, operation: Operation::Get, place, source })
    }
}

impl Objects for OnlyLists {
    fn put(&self, _: &str, _: Bytes) -> Result<(), BackendError> {
        self.timeout()
    }
    fn get(&self, _: &str) -> Result<Bytes, BackendError> {
        self.timeout()
    }
    fn get_range(&self, _: &str, _: std::ops::Range<u64>) -> Result<Bytes, BackendError> {
        self.timeout()
    }
    fn size(&self, _: &str) -> Result<u64, BackendError> {
        self.timeout()
    }
    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        self.0.list(prefix)
    }
    fn delete(&self, _: &str) -> Result<(), BackendError> {
        self.timeout()
    }
}

/// A clock whose every pause `then` does something.
struct Then<F>(FakeClock, F);

impl<F: Fn() + Send + Sync> Clock for Then<F> {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, pause: Duration) {
        self.0.sleep(pause);
        (self.1)();
    }
}

#[test]
fn a_call_that_fails_while_others_are_answered_fails_alone() {
    let cell = Arc::new(std::sync::OnceLock::<Arc<Retrying<OnlyLists>>>::new());
    let others = {
        let cell = Arc::clone(&cell);
        move || drop(cell.get().unwrap().list("").unwrap())
    };
    let clock = Then(FakeClock::default(), others);
    let objects = OnlyLists(MemoryObjects::new(), FakeClock::default(), Duration::ZERO);
    let objects = Arc::new(Retrying::with_clock(objects, "memory", POLICY, Box::new(clock), 1));
    assert!(cell.set(Arc::clone(&objects)).is_ok());
    let error = objects.get("a").unwrap_err();
    assert!(matches!(error, BackendError::Unreachable { .. }), "{error:?}");
    assert!(objects.list("").unwrap().is_empty(), "the service is there");
}

#[test]
fn a_service_that_was_silent_for_long_is_told_at_the_first_failure() {
    let clock = FakeClock::default();
    let silent = OnlyLists(MemoryObjects::new(), clock.clone(), Duration::from_secs(8));
    let objects = Retrying::with_clock(silent, "memory", POLICY, Box::new(clock.clone()), 1);
    let left = Arc::new(Mutex::new(Vec::new()));
    let objects = {
        let left = Arc::clone(&left);
        objects.on_retry(move |retry| {
            if let Retry::Outage { left: now, .. } = retry {
                left.lock().unwrap().push(now);
            }
        })
    };
    objects.list("").unwrap();
    objects.get("a").unwrap_err();
    assert_eq!(*left.lock().unwrap(), [POLICY.total], "the patience begins with the failure");
}

#[test]
fn nothing_is_tried_again_once_the_caller_is_asked_to_stop() {
    let faults = Faults::none();
    let stop = Stop::default();
    let ask = {
        let stop = stop.clone();
        move || stop.ask(Duration::ZERO)
    };
    let clock = Then(FakeClock::default(), ask);
    let faulty = Faulty::new(MemoryObjects::new(), "memory", &faults);
    let objects = Retrying::with_clock(faulty, "memory", POLICY, Box::new(clock), 1);
    let objects = objects.stopped_by(stop);
    faults.add(Fault::new(Failure::Timeout).times(u64::MAX));
    for made in 1..=3 {
        let error = objects.get("a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error:?}");
        assert_eq!(error.to_string(), "cannot get a: it was interrupted");
        assert_eq!(faults.count(Operation::Get), made);
    }
}

#[test]
fn a_pause_of_the_system_clock_ends_when_the_caller_is_asked_to_stop() {
    let faults = Faults::none();
    faults.add(Fault::new(Failure::Timeout).times(u64::MAX));
    let long = Duration::from_secs(600);
    let policy = RetryPolicy { first: long, longest: long, total: long };
    let stop = Stop::default();
    let faulty = Faulty::new(MemoryObjects::new(), "memory", &faults);
    let (told, has_told) = std::sync::mpsc::channel();
    let objects = Retrying::new(faulty, "memory", policy)
        .on_retry(move |_| told.send(()).unwrap())
        .stopped_by(stop.clone());
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| objects.get("a"));
        has_told.recv().unwrap();
        stop.ask(Duration::ZERO);
        assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Interrupted);
    });
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_does_not_pass_is_not_tried_again() {
    for failure in [Failure::Io, Failure::Full, Failure::NotFound] {
        let faults = Faults::none();
        let (objects, clock) = retrying(&faults, POLICY);
        faults.add(Fault::new(failure).times(u64::MAX));
        objects.put("a", "1".into()).unwrap_err();
        objects.delete("a").unwrap_err();
        assert_eq!((faults.operations(), clock.pauses().len()), (2, 0));
    }
    let (objects, clock) = retrying(&Faults::none(), POLICY);
    assert!(objects.get("a").unwrap_err().is_not_found());
    assert!(matches!(objects.get("A"), Err(BackendError::BadName { .. })));
    assert!(clock.pauses().is_empty());
}

#[test]
fn a_put_whose_answer_was_lost_finds_its_own_bytes() {
    let faults = Faults::none();
    let (objects, _) = retrying(&faults, POLICY);
    faults.add(Fault::new(Failure::Timeout).on(Operation::Put).answer_lost().times(3));
    objects.put("a", "1".into()).unwrap();
    assert_eq!(faults.count(Operation::Put), 4);
    assert_eq!(objects.get("a").unwrap(), "1");
}

#[test]
fn a_put_whose_answer_was_lost_does_not_take_other_bytes_for_its_own() {
    for other in ["2", "11", ""] {
        let faults = Faults::none();
        let (objects, _) = retrying(&faults, POLICY);
        objects.put("a", Bytes::from(other)).unwrap();
        // It was lost before the server saw it, and another client's put came first.
        faults.add(Fault::new(Failure::Timeout).on(Operation::Put));
        let error = objects.put("a", "1".into()).unwrap_err();
        assert!(matches!(error, BackendError::AlreadyExists { .. }), "{error:?}");
        assert_eq!(objects.get("a").unwrap(), other);
    }
}

#[test]
fn once_a_service_is_gone_another_is_used_and_not_waited_for() {
    let any_gone = AnyGone::default();
    let (faults, beside) = (Faults::none(), Faults::none());
    let (objects, _) = retrying(&faults, POLICY);
    let (others, clock) = retrying(&beside, POLICY);
    let (objects, others) = (objects.beside(any_gone.clone()), others.beside(any_gone));
    beside.add(Fault::new(Failure::Timeout).times(1));
    others.put("a", "1".into()).unwrap();
    let pauses = clock.pauses().len();
    assert_eq!(pauses, 1, "no service is gone yet");

    faults.add(Fault::new(Failure::Timeout).times(u64::MAX));
    assert_eq!(objects.get("a").unwrap_err().kind(), ErrorKind::Unreachable);
    others.put("b", "1".into()).unwrap();
    others.delete("a").unwrap();
    beside.add(Fault::new(Failure::Timeout).times(u64::MAX));
    for _ in 0..2 {
        let error = others.get("b").unwrap_err();
        assert!(matches!(error, BackendError::Unreachable { .. }), "{error:?}");
    }
    assert_eq!(clock.pauses().len(), pauses);
}

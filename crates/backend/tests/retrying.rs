//! What fails in passing is tried again, and nothing else is; no test here sleeps.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{
    BackendError, Clock, MemoryObjects, Objects, Operation, Request, RetryPolicy, Retrying, Span,
    conformance,
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
    (Retrying::with_clock(faulty, policy, Box::new(clock.clone()), 1), clock)
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
        assert!(answer.unwrap_err().may_retry());
        failed += 1;
        if failed == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
        let objects = Retrying::with_clock(faulty, POLICY, Box::new(clock.clone()), seed);
        objects.list("").unwrap();
        clock.pauses()
    });
    assert_ne!(pauses[0], pauses[1]);
}

#[test]
fn patience_ends() {
    let faults = Faults::none();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (objects, clock) = retrying(&faults, POLICY);
    let objects = {
        let told = Arc::clone(&told);
        objects.on_retry(move |error, pause| told.lock().unwrap().push((error.to_string(), pause)))
    };
    faults.add(Fault::new(Failure::Timeout).times(u64::MAX));
    let error = objects.get("a").unwrap_err();
    assert!(error.may_retry(), "the error is the last one: {error:?}");
    let waited: Duration = clock.pauses().iter().sum();
    assert!(waited <= POLICY.total && waited > POLICY.total - POLICY.longest, "{waited:?}");
    assert_eq!(faults.count(Operation::Get) as usize, clock.pauses().len() + 1);
    let told = told.lock().unwrap();
    assert_eq!(told.iter().map(|(_, pause)| *pause).collect::<Vec<_>>(), clock.pauses());
    assert!(told.iter().all(|(error, _)| error.contains("cannot get a in memory")), "{told:?}");
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

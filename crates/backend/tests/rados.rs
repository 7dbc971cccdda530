//! The model of RADOS passes the suite that holds the engine, and calls meet the fates that are chosen.

mod ceph;

use std::sync::{Arc, Mutex};

use onefold_backend::rados::{
    Fate, FatedRados, MemoryRados, PoolKind, Query, RadosError, RadosPool, Refusal, Step, Update,
    conformance,
};

/// A model whose limits are so low that tests reach them in no time.
fn small(model: MemoryRados) -> Arc<dyn RadosPool> {
    let kind = PoolKind { max_object: 1 << 20, max_update: 1 << 19, ..model.kind().clone() };
    Arc::new(MemoryRados::new(kind))
}

#[test]
fn the_model_of_a_replicated_pool_conforms() {
    conformance::pool(|| small(MemoryRados::replicated()));
}

#[test]
fn the_model_of_an_erasure_coded_pool_conforms() {
    conformance::pool(|| small(MemoryRados::erasure_coded()));
}

#[test]
fn a_full_pool_conforms() {
    for pool in [MemoryRados::replicated(), MemoryRados::erasure_coded()] {
        let bytes = vec![1; 8192];
        pool.update("a", Update::creating().then(Step::Append(bytes.into()))).unwrap();
        pool.set_full(true);
        conformance::full_pool(&pool, "a");
        pool.set_full(false);
        pool.update("a", Update::creating()).unwrap();
    }
}

#[test]
fn a_pool_whose_calls_are_all_answered_conforms() {
    let answered = |model| FatedRados::new(small(model), |_, _| Fate::Answered);
    conformance::pool(|| Arc::new(answered(MemoryRados::replicated())));
    conformance::pool(|| Arc::new(answered(MemoryRados::erasure_coded())));
}

#[test]
fn the_suite_finds_what_is_wrong() {
    // an engine that passes updates over, or refuses them for another reason
    for wrong in [Fate::Lost, Fate::AnswerLost, Fate::Refused(Refusal::Damaged)] {
        for call in [0, 3, 40, 200] {
            let calls = Arc::new(Mutex::new(0));
            let make = move || {
                let calls = Arc::clone(&calls);
                let choose = move |_: &str, _: Option<&Update>| {
                    let mut calls = calls.lock().unwrap();
                    *calls += 1;
                    if *calls == call + 1 { wrong } else { Fate::Answered }
                };
                Arc::new(FatedRados::new(small(MemoryRados::replicated()), choose)) as _
            };
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                conformance::pool(make);
            }));
            assert!(found.is_err(), "{wrong:?} at call {call}");
        }
    }
}

fn length(pool: &dyn RadosPool) -> u64 {
    pool.query("a", &Query::default()).unwrap().length
}

#[test]
fn calls_meet_their_fates() {
    let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    pool.update("a", Update::creating()).unwrap();
    let fate = Arc::new(Mutex::new(Fate::Answered));
    let chosen = Arc::clone(&fate);
    let fated = FatedRados::new(Arc::clone(&pool), move |_, _| *chosen.lock().unwrap());
    let append = || Update::existing().then(Step::Append("1".into()));
    let meets = |next| {
        *fate.lock().unwrap() = next;
        fated.update("a", append())
    };
    let full = Fate::Refused(Refusal::Full);
    for (next, done) in [
        (Fate::Answered, 1),
        (Fate::Lost, 1),
        (Fate::AnswerLost, 2),
        (Fate::Late, 2),
        (Fate::Twice, 3),
        (full, 3),
    ] {
        let result = meets(next);
        assert_eq!(length(&*pool), done, "{next:?}");
        match next {
            Fate::Answered | Fate::Twice => drop(result.unwrap()),
            Fate::Refused(why) => assert_eq!(result.unwrap_err().refusal(), Some(why)),
            _ => assert!(matches!(result, Err(RadosError::Unknown { .. })), "{next:?}"),
        }
    }
    assert_eq!(fated.undelivered(), 2);
    fated.deliver(1).unwrap();
    fated.deliver(0).unwrap();
    assert_eq!((fated.undelivered(), length(&*pool)), (0, 5));
    *fate.lock().unwrap() = Fate::Lost;
    assert!(matches!(fated.query("a", &Query::default()), Err(RadosError::Unknown { .. })));
    assert!(matches!(
        fated.list(&mut |_| std::ops::ControlFlow::Continue(())),
        Err(RadosError::Unknown { .. })
    ));
}

#[test]
#[should_panic(expected = "without a change")]
fn an_update_that_only_guards_is_a_mistake() {
    let _ = MemoryRados::replicated().update("a", Update::existing().expect("x", "1"));
}

#[test]
#[should_panic(expected = "out of place")]
fn a_guard_behind_a_change_is_a_mistake() {
    let update = Update::existing().set("x", "1").expect("x", "1");
    let _ = MemoryRados::replicated().update("a", update);
}

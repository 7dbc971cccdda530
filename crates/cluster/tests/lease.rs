//! Leases of shards by clocks that the tests move.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosPool, Refusal};
use onefold_cluster::{Claim, LeaseClock, LeaseHold, RENEWAL, VALID, WAIT};
use onefold_seal::ObjectId;
use onefold_testkit::SplitMix64;

const SHARD: ObjectId = ObjectId::from_bytes([3; ObjectId::LEN]);

/// A clock that moves by waiting, and by what a test adds.
#[derive(Default)]
struct Moved(AtomicU64);

impl Moved {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl LeaseClock for Moved {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) {
        self.pass(time);
    }
}

fn rados() -> Arc<dyn RadosPool> {
    Arc::new(MemoryRados::replicated())
}

fn clock() -> (Arc<Moved>, Arc<dyn LeaseClock>) {
    let moved = Arc::new(Moved::default());
    (Arc::clone(&moved), moved)
}

fn claim(pool: &Arc<dyn RadosPool>, clock: &Arc<dyn LeaseClock>, name: &str) -> Claim {
    LeaseHold::claim(pool, clock, SHARD, name, false, || true).unwrap()
}

#[track_caller]
fn taken(claim: Claim) -> LeaseHold {
    match claim {
        Claim::Taken(hold) => hold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_is_valid_from_when_its_renewal_was_sent() {
    let (pool, (moved, clock)) = (rados(), clock());
    let hold = taken(claim(&pool, &clock, "a"));
    assert!(hold.is_valid());
    moved.pass(VALID - Duration::from_millis(1));
    assert!(hold.is_valid());
    moved.pass(Duration::from_millis(1));
    assert!(!hold.is_valid());
    hold.renew().unwrap();
    assert!(hold.is_valid());
    hold.release().unwrap();
    assert!(!hold.is_valid());
}

#[test]
fn a_lease_that_is_free_is_taken_at_once_and_one_that_is_left_after_a_while() {
    let (pool, (_, clock)) = (rados(), clock());
    let first = taken(claim(&pool, &clock, "a"));
    first.release().unwrap();
    let before = clock.now();
    let second = taken(claim(&pool, &clock, "b"));
    assert_eq!(clock.now(), before);
    // the second one dies
    let third = taken(claim(&pool, &clock, "c"));
    assert!(clock.now() - before >= WAIT, "{:?}", clock.now() - before);
    // and wakes again
    assert!(!second.is_valid());
    assert_eq!(second.renew().unwrap_err().refusal(), Some(Refusal::Guard));
    assert_eq!(second.release().unwrap_err().refusal(), Some(Refusal::Guard));
    assert!(third.is_valid());
    third.renew().unwrap();
}

#[test]
fn a_lease_that_is_renewed_is_left_alone_and_its_holder_named() {
    let (pool, (_, clock)) = (rados(), clock());
    let first = taken(claim(&pool, &clock, "gateway a"));
    let renewing = || first.renew().is_ok();
    match LeaseHold::claim(&pool, &clock, SHARD, "b", false, renewing).unwrap() {
        Claim::Held(name) => assert_eq!(name, "gateway a"),
        other => panic!("{other:?}"),
    }
    // one that is patient waits, until the other one ends
    let mut looks = 0;
    let patient = LeaseHold::claim(&pool, &clock, SHARD, "b", true, || {
        looks += 1;
        looks < 100 && first.renew().is_ok()
    });
    assert!(matches!(patient.unwrap(), Claim::Stopped));
    assert_eq!(looks, 100);
    let mut looks = 0;
    let patient = LeaseHold::claim(&pool, &clock, SHARD, "b", true, || {
        looks += 1;
        looks > 50 || first.renew().is_ok()
    });
    assert!(taken(patient.unwrap()).is_valid());
    assert!(!first.is_valid());
}

#[test]
fn a_gateway_that_waits_goes_on_waiting_when_nothing_answers() {
    for lost in [Fate::Lost, Fate::AnswerLost] {
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        let fated = FatedRados::new(rados(), move |_, _| {
            // looks and claims, among them one that is applied
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 | 2 | 3 | 5 => lost,
                _ => Fate::Answered,
            }
        });
        let (pool, (_, clock)): (Arc<dyn RadosPool>, _) = (Arc::new(fated), clock());
        let impatient = LeaseHold::claim(&pool, &clock, SHARD, "a", false, || true);
        assert!(impatient.is_err(), "{lost:?}");
        let patient = LeaseHold::claim(&pool, &clock, SHARD, "b", true, || true);
        let hold = taken(patient.unwrap());
        assert!(hold.is_valid() && calls.load(Ordering::Relaxed) > 6, "{lost:?}");
        hold.renew().unwrap();
    }
}

/// Two gateways whose clocks run at the same rate from anywhere, and a network that loses what it likes: at
/// no moment may both answer reads.
#[test]
fn no_two_gateways_answer_reads_at_the_same_time() {
    let mut takeovers = 0;
    for seed in 0..2000 {
        let pool = rados();
        let numbers = Arc::new(Mutex::new(SplitMix64::new(seed)));
        let below = {
            let numbers = Arc::clone(&numbers);
            move |bound: u64| numbers.lock().unwrap().next_u64() % bound
        };
        let choose = below.clone();
        let client: Arc<dyn RadosPool> =
            Arc::new(FatedRados::new(Arc::clone(&pool), move |_, update| {
                match (update.is_some(), choose(6)) {
                    (true, 0) => Fate::Lost,
                    (true, 1) => Fate::AnswerLost,
                    _ => Fate::Answered,
                }
            }));
        let (moved, clock) = clock();
        let mut holder: Option<LeaseHold> = None;
        for _ in 0..12 {
            // the holder renews now and then, or sleeps
            let next = LeaseHold::claim(&client, &clock, SHARD, "next", false, || {
                if let Some(holder) = &holder
                    && below(4) == 0
                {
                    let _ = holder.renew();
                }
                moved.pass(Duration::from_millis(below(900)));
                true
            });
            let Ok(Claim::Taken(next)) = next else {
                moved.pass(RENEWAL);
                continue;
            };
            if let Some(earlier) = &holder {
                assert!(!earlier.is_valid(), "seed {seed}");
                assert!(earlier.renew().is_err() && !earlier.is_valid(), "seed {seed}");
                takeovers += 1;
            }
            assert!(next.is_valid(), "seed {seed}");
            holder = Some(next);
        }
    }
    assert!(takeovers > 1000, "{takeovers}");
}

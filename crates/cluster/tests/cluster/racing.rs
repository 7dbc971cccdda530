//! Whatever becomes of operations and processes, every later writer gets each acknowledged batch once and
//! in order.

use crate::common::racing::{Tally, race};

#[test]
fn gateways_that_race_lose_nothing() {
    let mut tally = Tally::default();
    for seed in 0..500 {
        race(seed, 0, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.acknowledged > 3_000 && tally.superseded > 300, "{tally:?}");
    assert!(tally.checkpoints > 300 && tally.places > 3, "{tally:?}");
    assert_eq!((tally.late, tally.resubmitted), (0, 0), "nothing went wrong");
}

#[test]
fn lost_answers_and_late_updates_lose_nothing() {
    let mut tally = Tally::default();
    for seed in 0..2_000 {
        race(seed, 3 + seed % 30, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.acknowledged > 10_000 && tally.superseded > 1_000, "{tally:?}");
    assert!(tally.checkpoints > 1_000 && tally.resubmitted > 300, "{tally:?}");
    assert!(tally.late > 1_000 && tally.places > 3, "{tally:?}");
}

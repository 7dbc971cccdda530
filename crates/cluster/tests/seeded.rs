//! Errors made on purpose: each must be caught by the races that find none otherwise.
//!
//! Bugs are switched on for the whole process, so this file has one test.

#[path = "common/domain.rs"]
#[allow(dead_code, reason = "the other test needs more of it")]
mod domain;
#[path = "common/handover.rs"]
mod handover;
#[path = "common/racing.rs"]
mod racing;
#[path = "common/turns.rs"]
mod turns;

use std::panic::{catch_unwind, set_hook, take_hook};

use onefold_cluster::seeded::{self, Bug};
use racing::{Tally, race};

/// Races that are run at most until a bug is caught.
const SEEDS: u64 = 3_000;

#[test]
fn every_bug_is_caught() {
    let hook = take_hook();
    let mut missed: Vec<Bug> = Vec::new();
    for bug in Bug::ALL {
        set_hook(Box::new(|_| {}));
        seeded::activate(Some(*bug));
        let look = |seed| match bug {
            Bug::TakenUnbroken | Bug::ReadWithoutLease => {
                handover::play(seed, &mut handover::Tally::default());
            }
            _ => race(seed, 3 + seed % 30, &mut Tally::default()),
        };
        let caught = (0..SEEDS).find(|seed| catch_unwind(|| look(*seed)).is_err());
        seeded::activate(None);
        drop(take_hook());
        println!("{bug:?}: seed {caught:?}");
        missed.extend(caught.is_none().then_some(*bug));
    }
    set_hook(hook);
    assert!(missed.is_empty(), "{missed:?} were not caught");
}

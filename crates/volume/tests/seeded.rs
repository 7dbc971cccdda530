//! Errors made on purpose: each must be caught by the power cuts, the
//! lost answers or the takeovers that find none otherwise.
//!
//! Bugs are switched on for the whole process, so this file has one test.

mod common;

use std::panic::{catch_unwind, set_hook, take_hook};

use onefold_volume::seeded::{self, Bug};

use common::{crash, dying, lost, shards, takeover};

/// Scripts that are tried at most until a bug is caught.
const SEEDS: u64 = 60;

/// Bugs of shards that share containers: a test of the crate onefold-cluster looks for them.
const OF_SHARING: [Bug; 4] =
    [Bug::MappedUnregistered, Bug::MappedUnanswered, Bug::DropsForgotten, Bug::HintBelieved];

/// Half of the scripts meet a quota.
fn cut(seed: u64) {
    crash::cut_everywhere(seed, 6, (seed % 2 == 1).then_some(40_000), &|_, _| {});
}

/// What each bug is looked for by.
fn look(bug: Bug, seed: u64) {
    match bug {
        Bug::RetryGrown => {
            lost::lose_answers(seed, shards::Shards::new(seed, 4));
        }
        Bug::SupersededUnseen | Bug::CutUntold | Bug::ClaimedOnce | Bug::RemovedUnseen => {
            takeover::lose_everywhere(seed, &mut takeover::Tally::default());
        }
        Bug::ReleasedUntold | Bug::DyingUnforwarded => {
            dying::cut_everywhere(seed, 4);
        }
        _ => cut(seed),
    }
}

#[test]
fn every_bug_is_caught() {
    let hook = take_hook();
    for bug in Bug::ALL.iter().filter(|bug| !OF_SHARING.contains(bug)) {
        set_hook(Box::new(|_| {}));
        seeded::activate(Some(*bug));
        let caught = (0..SEEDS).find(|seed| catch_unwind(|| look(*bug, *seed)).is_err());
        seeded::activate(None);
        drop(take_hook());
        match caught {
            None => panic!("{bug:?} was not caught"),
            Some(seed) => println!("{bug:?}: seed {seed}"),
        }
    }
    set_hook(hook);
}

//! Errors made on purpose: each must be caught by the races, or the scenes of guards, containers and what
//! gateways look after, that find none otherwise.
//!
//! Bugs are switched on for the whole process, so this file has one test.

mod common;

use std::panic::{catch_unwind, set_hook, take_hook};

use common::racing::{Tally, race};
use common::{care, handover, scenes, sharing, world};
use onefold_cluster::seeded::{self, Bug};

/// Races that are run at most until a bug is caught.
const SEEDS: u64 = 3_000;

/// Bugs of the crate onefold-volume that only shards of a cluster show.
const OF_POOLS: [onefold_volume::seeded::Bug; 4] = {
    use onefold_volume::seeded::Bug;
    [Bug::MappedUnregistered, Bug::MappedUnanswered, Bug::DropsForgotten, Bug::HintBelieved]
};

/// Whether a scene of guards, containers and shards fails.
fn is_in_scenes() -> bool {
    [sharing::all, scenes::all, care::all].into_iter().any(|all| catch_unwind(all).is_err())
}

#[test]
fn every_bug_is_caught() {
    let hook = take_hook();
    let mut missed: Vec<Bug> = Vec::new();
    for bug in Bug::ALL {
        set_hook(Box::new(|_| {}));
        seeded::activate(Some(*bug));
        let look = |seed| match bug {
            Bug::TakenUnbroken | Bug::RecordUnguarded | Bug::ReadWithoutLease => {
                handover::play(seed, &mut handover::Tally::default());
            }
            Bug::LeasesSeenEarlier => handover::begin_while_another_looks(),
            Bug::ReadUnsettled | Bug::SuccessorTakenForLeak => {
                world::run(seed, &mut world::Tally::default());
            }
            _ => race(seed, 3 + seed % 30, &mut Tally::default()),
        };
        let is_in_scenes = is_in_scenes();
        let seeds = if is_in_scenes { 0 } else { SEEDS };
        let caught = (0..seeds).find(|seed| catch_unwind(|| look(*seed)).is_err());
        seeded::activate(None);
        drop(take_hook());
        println!("{bug:?}: in a scene {is_in_scenes}, seed {caught:?}");
        missed.extend((caught.is_none() && !is_in_scenes).then_some(*bug));
    }
    // those of a pool that is a shard
    let mut missed_in_pools = Vec::new();
    for bug in OF_POOLS {
        set_hook(Box::new(|_| {}));
        onefold_volume::seeded::activate(Some(bug));
        let is_caught = is_in_scenes();
        onefold_volume::seeded::activate(None);
        drop(take_hook());
        missed_in_pools.extend((!is_caught).then_some(bug));
    }
    set_hook(hook);
    assert!(missed_in_pools.is_empty(), "{missed_in_pools:?} were not caught");
    assert!(missed.is_empty(), "{missed:?} were not caught");
}

//! No power cut loses what a flush acknowledged.

use crate::common::crash::{Tally, cut_everywhere};
use crate::common::dying;

/// Says what was tried; how many writes a quota refused.
fn tell(seed: u64, tally: &Tally) -> u64 {
    println!("seed {seed}: {tally:?}");
    assert!(tally.states > tally.cuts && tally.states_again > 0, "{tally:?}");
    tally.refused
}

#[test]
fn a_power_cut_at_any_step_loses_nothing_that_was_flushed() {
    for seed in 0..6 {
        tell(seed, &cut_everywhere(seed, 5, None, &|_, _| {}));
    }
}

#[test]
fn so_does_a_pool_that_meets_its_quota() {
    let cut = |seed| cut_everywhere(seed, 4, Some(40_000), &|_, _| {});
    let refused: u64 = (0..4).map(|seed| tell(seed, &cut(seed))).sum();
    assert!(refused > 0, "the quota is not met");
}

#[test]
fn so_does_one_between_the_steps_in_which_a_volume_goes() {
    let calls: u64 = (0..8).map(|seed| dying::cut_everywhere(seed, 4)).sum();
    assert!(calls > 40, "{calls}");
}

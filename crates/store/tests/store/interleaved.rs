//! Backups, prunes and restores take turns at the storage in thousands of orders: nothing that was
//! acknowledged is lost, and nobody has to wait for anybody.

use std::env;

use crate::common::play::{Cast, Counts, Sources, play, play_on_one_machine};

/// How many orders are tried; more by the environment, for a campaign.
fn seeds(usual: u64) -> u64 {
    env::var("ONEFOLD_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

fn play_all(cast: Cast, usual: u64) -> Counts {
    play_all_by(play, cast, usual)
}

fn play_all_by(
    play: fn(&Sources, Cast, u64) -> Result<Counts, String>,
    cast: Cast,
    usual: u64,
) -> Counts {
    let sources = Sources::new();
    let mut counts = Counts::default();
    let seeds = seeds(usual);
    for seed in 0..seeds {
        match play(&sources, cast, seed) {
            Ok(one) => counts.add(one),
            Err(broken) => panic!("seed {seed} of {cast:?}: {broken}"),
        }
    }
    println!("{seeds} orders of {cast:?}: {counts:?}");
    counts
}

#[test]
fn writers_and_pruners_lose_nothing_in_any_order() {
    let cast = Cast { writers: 2, pruners: 2, readers: 1, lag: 0, deaths: false };
    let counts = play_all(cast, 150);
    assert!(counts.revoked > 0 && counts.waited > 0 && counts.rescued > 0, "{counts:?}");
}

#[test]
fn listings_that_lag_lose_nothing() {
    let cast = Cast { writers: 2, pruners: 2, readers: 0, lag: 12, deaths: false };
    let counts = play_all(cast, 100);
    assert!(counts.deleted > 0 && counts.backups > 0, "{counts:?}");
}

#[test]
fn writers_and_pruners_that_die_lose_nothing_of_others() {
    let cast = Cast { writers: 3, pruners: 2, readers: 0, lag: 0, deaths: true };
    play_all(cast, 100);
}

#[test]
fn on_one_machine_the_dead_are_not_waited_for_and_what_lives_is_not_fenced() {
    let cast = Cast { writers: 3, pruners: 2, readers: 0, lag: 0, deaths: true };
    let counts = play_all_by(play_on_one_machine, cast, 60);
    assert!(counts.fenced > 0 && counts.waited > 0 && counts.deleted > 0, "{counts:?}");
}

//! What clients see of volumes is what one register a block could show, across crashes, take-overs and moves.

#[path = "common/history.rs"]
mod history;
#[path = "common/turns.rs"]
mod turns;
#[path = "common/world.rs"]
mod world;

use world::{Tally, run};

#[test]
fn clients_see_one_history_whatever_becomes_of_gateways() {
    let mut tally = Tally::default();
    for seed in 0..3_000 {
        run(seed, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.reads > 10_000 && tally.writes > 10_000, "{tally:?}");
    assert!(tally.unanswered > 3_000 && tally.crashes > 3_000 && tally.late > 1_000, "{tally:?}");
}

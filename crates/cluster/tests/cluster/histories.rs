//! What clients see of volumes is what one register a block could show, across crashes, take-overs and moves; and
//! all space returns once everything is deleted.

use crate::common::world::{Tally, run};

/// How many worlds are run: `ONEFOLD_WORLDS`, if it is set.
fn seeds() -> u64 {
    let set = std::env::var("ONEFOLD_WORLDS").ok();
    set.map_or(3_000, |count| count.parse().expect("ONEFOLD_WORLDS is a number"))
}

#[test]
fn clients_see_one_history_whatever_becomes_of_gateways() {
    let mut tally = Tally::default();
    for seed in 0..seeds() {
        run(seed, &mut tally);
    }
    println!("{tally:?}");
    let of_seeds = |least: u64| (least * seeds() / 3_000) as usize;
    assert!(tally.reads > of_seeds(10_000) && tally.writes > of_seeds(10_000), "{tally:?}");
    assert!(tally.unanswered > of_seeds(3_000) && tally.crashes > of_seeds(3_000), "{tally:?}");
    assert!(tally.tended > of_seeds(300) && tally.scrubbed > of_seeds(300), "{tally:?}");
    assert!(tally.partitions > of_seeds(500) && tally.cut_reads > of_seeds(20), "{tally:?}");
    assert!(tally.late > of_seeds(1_000) && tally.maintained > of_seeds(3_000), "{tally:?}");
}

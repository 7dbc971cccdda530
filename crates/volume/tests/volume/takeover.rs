//! Two processes have a pool, since the lock was forgotten: what either was told is durable stays.

use crate::common::takeover::{Tally, lose_everywhere};

#[test]
fn a_process_that_lost_its_pool_is_found_out_and_loses_nothing() {
    let mut tally = Tally::default();
    for seed in 0..6 {
        lose_everywhere(seed, &mut tally);
    }
    println!("{tally:?}");
    let calls = [
        "append journal",
        "sync journal",
        "append checkpoint",
        "look at writer",
        "write writer",
        "truncate container",
        "remove container",
    ];
    for call in calls {
        assert!(tally.calls.contains_key(call), "{call}: {:?}", tally.calls);
    }
    assert!(tally.both_stopped > 100, "{tally:?}");
    // only a process that is stopped just as it writes to a container can damage pages
    assert!(tally.damaged * 4 < tally.plays, "{tally:?}");
}

//! Errors of what clients remember, made on purpose: the simulation must catch each.
//!
//! Bugs are switched on for the whole process, so this file has one test.

mod common;

use common::remembered::Remembered;
use onefold_store::seeded::{self, Bug};

#[test]
fn every_bug_of_memory_is_caught() {
    let scene = Remembered::new();
    for bug in Bug::OF_MEMORY {
        seeded::activate(Some(*bug));
        let tried = scene.cut_power_everywhere(3);
        seeded::activate(None);
        match tried {
            Ok(count) => panic!("{bug:?} was not caught: {count}"),
            Err(broken) => println!("{bug:?}: {broken}"),
        }
    }
}

//! Errors of what clients remember, made on purpose: the simulation must catch each.

use onefold_store::seeded::{self, Bug};

use crate::Turn;
use crate::common::remembered::Remembered;

#[test]
fn every_bug_of_memory_is_caught() {
    let _turn = Turn::take();
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

//! Errors of taking a client's key back, made on purpose: each must be caught, and none is found
//! otherwise.
//!
//! Bugs are switched on for the whole process, so this file has one test.

mod common;

use common::taken_back::TakenBack;
use onefold_store::seeded::{self, Bug};

#[test]
fn every_bug_of_taking_a_key_back_is_caught() {
    let scene = TakenBack::new();
    for bug in Bug::OF_CLIENTS {
        seeded::activate(Some(*bug));
        let tried = scene.try_every_order();
        seeded::activate(None);
        match tried {
            Ok(count) => panic!("{bug:?} was not caught: {count}"),
            Err(broken) => println!("{bug:?}: {broken}"),
        }
    }
}

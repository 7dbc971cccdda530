//! Errors of a repair and of a copy made on purpose: each must be caught by the crash simulator, which
//! finds none otherwise.
//!
//! Bugs are switched on for the whole process, so this file has one test.

mod common;

use common::Protection;
use common::copied::Copied;
use common::repaired::Damaged;
use common::trials::Trial;
use onefold_store::seeded::{self, Bug};

#[test]
fn every_bug_of_repair_and_copy_is_caught() {
    let scene = Damaged::new(Protection::Plain);
    let copied = Copied::new(Protection::Plain);
    for bug in Bug::OF_REPAIR.iter().chain(Bug::OF_COPY) {
        seeded::activate(Some(*bug));
        let tried = match Bug::OF_COPY.contains(bug) {
            true => copied.cut_power_everywhere(2),
            false => scene.cut_power_everywhere(2),
        };
        seeded::activate(None);
        match tried {
            Ok(count) => panic!("{bug:?} was not caught: {count}"),
            Err(broken) => println!("{bug:?}: {broken}"),
        }
    }
}

//! Errors of a repair and of a copy made on purpose: each must be caught by the crash simulator, which
//! finds none otherwise.

use onefold_store::seeded::{self, Bug};

use crate::Turn;
use crate::common::Protection;
use crate::common::copied::Copied;
use crate::common::repaired::Damaged;
use crate::common::trials::Trial;

#[test]
fn every_bug_of_repair_and_copy_is_caught() {
    let _turn = Turn::take();
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

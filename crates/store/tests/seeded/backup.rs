//! Errors made on purpose: each must be caught by the simulator that finds none otherwise.

use onefold_backend::Operation;
use onefold_backend::crash::DiskBug;
use onefold_backend::fault::{Failure, Fault};
use onefold_store::seeded::{self, Bug};

use crate::Turn;
use crate::common::Protection;
use crate::common::scene::{Scene, cut_power_while_making_a_repository};
use crate::common::trials::{Trial, Tried};

/// States drawn after each operation.
const CUTS: usize = 4;

/// The errors of a disk that objects pass through; the others are errors of logs and pages.
const DISK_BUGS: [DiskBug; 3] =
    [DiskBug::SkipFileSync, DiskBug::SkipDirectorySync, DiskBug::NameBeforeBytes];

/// Power cuts, then faults; stops at the first broken promise.
fn simulate(scene: &Scene, bug: Option<DiskBug>) -> Tried {
    cut_power_while_making_a_repository(CUTS, Protection::Encrypted)?;
    let count = scene.cut_power_of(CUTS, |disk| match bug {
        Some(bug) => disk.with_bug(bug),
        None => disk,
    })?;
    scene.fail_every(&Fault::new(Failure::Io).on(Operation::Put))?;
    Ok(count)
}

#[test]
fn the_simulator_catches_every_bug_and_finds_none_without() {
    let _turn = Turn::take();
    let scene = Scene::new();
    let count = simulate(&scene, None).unwrap();
    println!("no bug: {count}");
    for bug in DISK_BUGS {
        expect_caught(&format!("{bug:?}"), simulate(&scene, Some(bug)));
    }
    for bug in Bug::OF_BACKUP {
        seeded::activate(Some(*bug));
        let tried = simulate(&scene, None);
        seeded::activate(None);
        expect_caught(&format!("{bug:?}"), tried);
    }
}

fn expect_caught(bug: &str, tried: Tried) {
    match tried {
        Ok(count) => panic!("{bug} was not caught: {count}"),
        Err(broken) => println!("{bug}: {broken}"),
    }
}

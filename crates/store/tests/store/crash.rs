//! The power goes after every single operation of a backup, and of a forget and prune, which merges.

use onefold_backend::fault::{Failure, Fault};

use crate::common::Protection;
use crate::common::bundled::{Bundled, BundledByBackup};
use crate::common::merged::Merged;
use crate::common::pruned::Pruned;
use crate::common::scene::{Scene, cut_power_while_making_a_repository};
use crate::common::trials::Trial;

#[test]
fn a_backup_cut_anywhere_loses_nothing_that_was_acknowledged() {
    let count = Scene::new().cut_power_everywhere(8).unwrap();
    println!("a backup: {count}");
    assert!(count.operations > 60 && count.states > 2 * count.operations, "{count}");
}

#[test]
fn an_encrypted_backup_cut_anywhere_loses_nothing_that_was_acknowledged() {
    let count = Scene::protected(Protection::Encrypted).cut_power_everywhere(2).unwrap();
    println!("an encrypted backup: {count}");
    assert!(count.operations > 60 && count.states > count.operations, "{count}");
}

#[test]
fn a_repository_cut_in_the_making_is_there_or_is_made_again() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let count = cut_power_while_making_a_repository(64, protection).unwrap();
        println!("a new repository, {protection:?}: {count}");
        assert!(count.operations > 4 && count.states > count.operations, "{count}");
    }
}

#[test]
fn what_the_backup_after_a_killed_one_acknowledges_lasts() {
    let count = Scene::new().kill_and_cut_power_later(5, 4).unwrap();
    println!("a killed backup and another: {count}");
    assert!(count.states >= count.operations, "{count}");
}

#[test]
fn a_forget_and_prune_cut_anywhere_lose_nothing_and_are_finished_by_the_next() {
    let count = Pruned::new().cut_power_everywhere(3).unwrap();
    println!("a forget and prune: {count}");
    assert!(count.operations > 60 && count.states > count.operations, "{count}");
}

#[test]
fn a_prune_of_an_encrypted_repository_cut_anywhere_loses_nothing() {
    let count = Pruned::protected(Protection::Encrypted).cut_power_everywhere(2).unwrap();
    println!("a forget and prune of an encrypted repository: {count}");
    assert!(count.operations > 60 && count.states > count.operations, "{count}");
}

#[test]
fn what_a_prune_after_a_killed_one_leaves_lasts() {
    let count = Pruned::new().kill_and_cut_power_later(7, 3).unwrap();
    println!("a killed prune and another: {count}");
    assert!(count.states >= count.operations, "{count}");
}

#[test]
fn a_forget_and_prune_of_which_any_call_fails_lose_nothing() {
    let count = Pruned::new().fail_every(&Fault::new(Failure::Io)).unwrap();
    println!("a prune whose calls fail: {count}");
    assert!(count.operations > 30, "{count}");
}

#[test]
fn a_merging_prune_cut_anywhere_loses_nothing_and_is_finished_by_the_next() {
    let count = Merged::new(Protection::Plain).cut_power_everywhere(3).unwrap();
    println!("a merging prune: {count}");
    assert!(count.operations > 60 && count.states > count.operations, "{count}");
}

#[test]
fn a_merging_prune_of_an_encrypted_repository_cut_anywhere_loses_nothing() {
    let count = Merged::new(Protection::Encrypted).cut_power_everywhere(1).unwrap();
    println!("a merging prune of an encrypted repository: {count}");
    assert!(count.operations > 60 && count.states > count.operations / 2, "{count}");
}

#[test]
fn what_a_prune_after_a_killed_merging_one_leaves_lasts() {
    let count = Merged::new(Protection::Plain).kill_and_cut_power_later(5, 2).unwrap();
    println!("a killed merging prune and another: {count}");
    assert!(count.states >= count.operations, "{count}");
}

#[test]
fn a_merging_prune_of_which_any_call_fails_loses_nothing() {
    let count = Merged::new(Protection::Plain).fail_every(&Fault::new(Failure::Io)).unwrap();
    println!("a merging prune whose calls fail: {count}");
    assert!(count.operations > 60, "{count}");
}

#[test]
fn a_prune_that_replaces_bundles_cut_anywhere_hides_nothing_and_is_finished_by_the_next() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let count = Bundled::new(protection).cut_power_everywhere(1).unwrap();
        println!("a prune that replaces bundles, {protection:?}: {count}");
        assert!(count.operations > 10 && count.states > count.operations / 2, "{count}");
    }
}

#[test]
fn a_backup_that_bundles_cut_anywhere_loses_nothing_that_was_acknowledged() {
    let count = BundledByBackup::new(Protection::Plain).cut_power_everywhere(1).unwrap();
    println!("a backup that bundles: {count}");
    assert!(count.operations > 60 && count.states > count.operations / 2, "{count}");
}

#[test]
fn what_a_prune_after_one_killed_while_it_bundled_leaves_lasts() {
    let count = Bundled::new(Protection::Plain).kill_and_cut_power_later(5, 1).unwrap();
    println!("a killed prune that replaced bundles, and another: {count}");
    assert!(count.states >= count.operations, "{count}");
}

#[test]
fn a_prune_that_replaces_bundles_of_which_any_call_fails_hides_nothing() {
    let count = Bundled::new(Protection::Plain).fail_every(&Fault::new(Failure::Io)).unwrap();
    println!("a prune that replaces bundles and whose calls fail: {count}");
    assert!(count.operations > 10, "{count}");
}

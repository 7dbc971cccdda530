//! The protocol by which shards share containers, checked in every state that it can reach within a
//! bound. docs/decisions/0053-cluster-core.md describes the protocol step by step.
//!
//! The model has three shards and two containers of two pages. Gateways crash and are superseded at any
//! step, answers get lost, and operations of superseded gateways arrive at any later time, in any order.

mod model;
mod objects;
mod properties;
mod seeded;
mod shard;

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::{Bound, Core};
use crate::properties::{NO_DANGLING, NOTHING_LOST, PROTECTED, SPACE_RETURNS};
use crate::seeded::Seeded;

/// Checks the protocol in every state within a bound, prints how many states there are, and answers the
/// checker.
fn check(bound: Bound) -> impl Checker<Core> {
    let checker = Core { bound, seeded: None }.checker().threads(2).spawn_bfs().join();
    println!("{bound:?}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    for property in [NO_DANGLING, PROTECTED, NOTHING_LOST, SPACE_RETURNS] {
        checker.assert_no_discovery(property);
    }
    checker
}

/// Checks that the checker finds that `seeded` breaks `property`, within a bound.
#[track_caller]
fn expect_found(seeded: Seeded, property: &'static str, writes: u8, take_overs: u8, lost: u8) {
    let bound = Bound { writes, take_overs, lost };
    let checker = Core { bound, seeded: Some(seeded) }
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AnyOf([property].into()))
        .spawn_bfs()
        .join();
    let steps = checker.discovery(property).map(|path| path.into_actions());
    println!("{seeded:?}: {} states, {steps:#?}", checker.unique_state_count());
    assert!(steps.is_some(), "not found: {seeded:?}");
}

/// 698,643 states.
#[test]
fn nothing_dangles_or_is_lost_and_space_returns() {
    check(Bound { writes: 3, take_overs: 1, lost: 0 }).assert_properties();
}

/// 627,273 states.
#[test]
fn so_it_is_when_two_answers_are_lost() {
    check(Bound { writes: 2, take_overs: 1, lost: 2 });
}

/// 2,043,698 states: a shard may be taken over while its successor is still taking it over.
#[test]
fn so_it_is_with_two_take_overs() {
    check(Bound { writes: 2, take_overs: 2, lost: 1 });
}

/// A bound of one's own, as three digits in `ONEFOLD_CORE_BOUND`: writes, take-overs, lost answers.
#[test]
fn so_it_is_within_the_bound_that_is_asked_for() {
    let Ok(bound) = std::env::var("ONEFOLD_CORE_BOUND") else { return };
    let [writes, take_overs, lost] = bound.as_bytes() else { panic!("not three digits: {bound}") };
    check(Bound { writes: writes - b'0', take_overs: take_overs - b'0', lost: lost - b'0' });
}

#[test]
fn mapping_before_registering_is_found() {
    expect_found(Seeded::MapsBeforeRegistering, NO_DANGLING, 2, 0, 0);
}

#[test]
fn mapping_without_asking_again_is_found() {
    expect_found(Seeded::MapsWithoutAsking, NO_DANGLING, 2, 0, 1);
}

#[test]
fn a_drop_of_any_value_is_found() {
    expect_found(Seeded::DropsAnyValue, NO_DANGLING, 2, 1, 0);
}

#[test]
fn a_registration_over_any_value_is_found() {
    expect_found(Seeded::RegistersOverAnyValue, NO_DANGLING, 3, 0, 1);
}

#[test]
fn a_value_that_is_the_writer_alone_is_found() {
    expect_found(Seeded::ValueIsWriterAlone, NO_DANGLING, 2, 0, 1);
}

#[test]
fn a_take_over_that_does_not_seal_is_found() {
    expect_found(Seeded::LeavesOpen, NOTHING_LOST, 2, 1, 1);
}

#[test]
fn sealing_by_cutting_is_found() {
    expect_found(Seeded::CutsWhenSealing, NOTHING_LOST, 3, 1, 0);
}

#[test]
fn a_take_over_that_leaves_intents_is_found() {
    expect_found(Seeded::LeavesIntents, NO_DANGLING, 2, 1, 0);
}

#[test]
fn a_removal_without_the_version_is_found() {
    expect_found(Seeded::RemovesWithoutVersion, NO_DANGLING, 2, 0, 0);
}

#[test]
fn a_creation_that_is_sent_again_is_found() {
    expect_found(Seeded::CreatesAgain, NO_DANGLING, 2, 1, 1);
}

#[test]
fn a_guard_that_is_open_from_its_creation_on_is_found() {
    expect_found(Seeded::CreatesOpen, NO_DANGLING, 2, 0, 1);
}

#[test]
fn opening_a_guard_of_any_version_is_found() {
    expect_found(Seeded::OpensAnyVersion, NO_DANGLING, 2, 0, 2);
}

#[test]
fn reading_the_journal_before_raising_is_found() {
    expect_found(Seeded::ReadsBeforeRaising, NOTHING_LOST, 2, 1, 0);
}

#[test]
fn a_sweep_by_old_memory_is_found() {
    expect_found(Seeded::SweepsByOldMemory, NO_DANGLING, 1, 0, 0);
}

#[test]
fn space_does_not_return_without_the_sweep() {
    expect_found(Seeded::NeverSweeps, SPACE_RETURNS, 2, 0, 1);
}

#[test]
fn an_unprotected_map_is_found_before_its_container_is_gone() {
    expect_found(Seeded::LeavesIntents, PROTECTED, 2, 1, 0);
}

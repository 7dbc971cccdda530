//! Shards of one namespace that share containers.

#[path = "common/scenes.rs"]
mod scenes;
#[path = "common/shards.rs"]
mod shards;

macro_rules! scenes {
    ($($scene:ident)+) => { $(#[test] fn $scene() { scenes::$scene(); })+ };
}

scenes! {
    equal_images_are_stored_once
    a_closing_container_is_not_adopted
    an_unanswered_registration_is_not_used
    a_late_registration_is_swept
    a_late_drop_takes_nothing_from_the_successor
    a_sweep_leaves_what_begins_meanwhile
    wrong_hints_cost_space_alone
    sparse_containers_are_closed_and_their_pages_stay_shared
}

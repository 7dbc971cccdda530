//! Guards and containers whose operations get no answer, arrive late, or arrive twice.

use crate::common::sharing;

macro_rules! scenes {
    ($($scene:ident)+) => { $(#[test] fn $scene() { sharing::$scene(); })+ };
}

scenes! {
    a_registration_without_an_answer_is_sent_again
    a_late_drop_leaves_other_values
    a_late_registration_replaces_none
    a_late_registration_in_the_way_is_dropped
    only_an_open_guard_takes_registrations
    a_registration_in_between_keeps_the_guard
    a_creation_is_sent_once
    a_guard_that_comes_back_takes_nothing
    an_opening_without_an_answer_is_sent_again
    the_last_user_removes_the_container
    a_removal_that_was_cut_off_is_finished
    a_write_lands_once_and_never_after_sealing
    pages_are_padded_to_the_alignment
    no_more_users_register_than_the_bound_allows
}

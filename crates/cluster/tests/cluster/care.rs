//! What gateways look after together: shards that nobody has, space and its quota, scrubs.

use crate::common::care;

macro_rules! scenes {
    ($($scene:ident)+) => { $(#[test] fn $scene() { care::$scene(); })+ };
}

scenes! {
    shards_that_no_gateway_has_are_opened_in_turn_and_let_containers_go
    a_shard_that_is_asked_for_while_it_is_tended_stays
    a_registration_that_no_journal_knows_is_found_in_a_shard_that_nobody_has
    what_is_stored_is_counted_and_told_by_shard
    new_pages_are_refused_beyond_the_quota_and_room_comes_back
    each_container_is_scrubbed_once_a_cycle_and_its_users_are_told_of_damage
    what_a_dead_gateway_had_begun_to_scrub_another_one_reads_and_it_counts_once
    what_a_scrub_of_one_shard_finds_is_noted_for_all
    what_a_scrub_finds_in_an_open_container_is_noted
    pages_without_an_answer_are_not_noted_as_damage
    damage_without_an_answer_is_noted_by_the_next_step
    what_is_stored_during_a_count_counts
}

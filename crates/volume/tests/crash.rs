//! No power cut loses what a flush acknowledged.

mod common;

#[test]
fn a_power_cut_at_any_step_loses_nothing_that_was_flushed() {
    for seed in 0..6 {
        common::cut_everywhere(seed, 5);
    }
}

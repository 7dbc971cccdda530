//! The scalar reference and the plain model are two readings of one rule.

use onefold_cdc::{Algorithm, ChunkSizes, Params, cut_points};
use onefold_testkit::random;
use proptest::prelude::*;

use crate::support::{
    any_input, any_params, corner_inputs, corner_lens, corner_params, model_cuts,
};

fn assert_as_model(params: Params, data: &[u8]) {
    let expected = model_cuts(&params, data);
    assert_eq!(cut_points(&params, data).unwrap(), expected, "{params:?}");
}

#[test]
fn corner_cases_are_cut_where_the_model_cuts() {
    for params in corner_params() {
        let longest = *corner_lens(&params).last().unwrap();
        for data in corner_inputs(longest.min(1500)) {
            assert_as_model(params, &data);
        }
    }
}

#[test]
fn tails_are_cut_where_the_model_cuts() {
    for params in corner_params() {
        for len in corner_lens(&params).into_iter().filter(|&len| len < 700) {
            assert_as_model(params, &random(len as u64, len));
        }
    }
}

#[test]
fn common_sizes_are_cut_where_the_model_cuts() {
    let data = random(4, 300_000);
    for &algorithm in Algorithm::ALL {
        for avg in [1500, 4096] {
            assert_as_model(Params::for_mean(algorithm, avg).unwrap(), &data);
        }
    }
}

#[test]
fn every_window_and_level_and_many_seeds_are_cut_where_the_model_cuts() {
    let data = random(5, 4000);
    let rabin = Params::new(Algorithm::Rabin, ChunkSizes::new(100, 300, 900).unwrap());
    for algorithm in [Algorithm::Rabin, Algorithm::Tttd, Algorithm::Crc, Algorithm::Buzhash] {
        for (seed, window) in (0..).zip([1, 2, 3, 6, 7, 8, 47, 99, 100, 101, 255, 256]) {
            assert_as_model(Params { algorithm, seed, window, ..rabin }, &data);
        }
    }
    for level in 0..=3 {
        let params = Params { algorithm: Algorithm::FastCdc, seed: u64::MAX, level, ..rabin };
        assert_as_model(params, &data);
    }
}

proptest! {
    #[test]
    fn any_input_is_cut_where_the_model_cuts(params in any_params(), data in any_input()) {
        assert_as_model(params, &data);
    }
}

//! What an edit changes of the cut-points, and what it leaves alone.

use std::collections::HashSet;

use onefold_cdc::{Algorithm, Chunker, Params};
use onefold_testkit::{Edit, SplitMix64, random};
use proptest::prelude::*;

use crate::support::{any_input, any_params, chunker};

/// The cut-points that the bytes of `data` decide whatever follows them.
fn decided(chunker: &Chunker, data: &[u8]) -> Vec<usize> {
    let mut cut_points = Vec::new();
    let mut start = 0;
    while let Some(len) = chunker.next_cut(&data[start..]) {
        start += len;
        cut_points.push(start);
    }
    cut_points
}

proptest! {
    #[test]
    fn cut_points_decided_before_an_edit_stay(
        params in any_params(),
        data in any_input(),
        seed in any::<u64>(),
    ) {
        let chunker = chunker(params);
        let edit = Edit::arbitrary(&mut SplitMix64::new(seed), data.len(), 50);
        let before = decided(&chunker, &data[..edit.at()]);
        let last = before.last().copied().unwrap_or(0);
        prop_assert!(edit.at() - last < params.sizes.max());
        for file in [&data, &edit.apply(&data)] {
            let cut_points: Vec<_> = chunker.cut_points(file).take(before.len()).collect();
            prop_assert_eq!(&cut_points, &before);
        }
    }

    #[test]
    fn cut_points_behind_a_common_one_are_common(
        params in any_params(),
        data in any_input(),
        seed in any::<u64>(),
    ) {
        let chunker = chunker(params);
        let edit = Edit::arbitrary(&mut SplitMix64::new(seed), data.len(), 50);
        let behind = |file: &[u8], end: usize| -> Vec<usize> {
            chunker.cut_points(file).filter_map(|p| p.checked_sub(end)).collect()
        };
        let old = behind(&data, edit.end_before());
        let new = behind(&edit.apply(&data), edit.end_after());
        if let Some(&common) = new.iter().find(|p| old.contains(p)) {
            let rest = |all: Vec<usize>| all.into_iter().filter(|&p| p >= common).collect::<Vec<_>>();
            prop_assert_eq!(rest(old), rest(new));
        }
    }
}

/// Chunks that two cuttings of random data may differ in, at a mean of 1024, so that a failure is
/// rarer than 10^-9. The algorithms' files derive the chance to differ in one chunk more.
fn chunks_to_meet(algorithm: Algorithm) -> usize {
    let differ_again = match algorithm {
        // 1 - e^(-min / (avg - min))
        Algorithm::Rabin | Algorithm::Gear | Algorithm::Gear32 | Algorithm::Gear16 => 0.29_f64,
        Algorithm::Tttd | Algorithm::Crc | Algorithm::Buzhash | Algorithm::Bfbc => 0.29,
        Algorithm::GearAes => 0.29,
        Algorithm::FastCdc => 0.6,
        // e^-(804 / avg)^2
        Algorithm::AeMax | Algorithm::AeMin | Algorithm::Ram => 0.54,
        // 2 - 2 ln 2
        Algorithm::MinCdc => 0.62,
        // measured: they differ less often
        _ => 0.6,
    };
    (1e-9_f64.ln() / differ_again.ln()).ceil() as usize
}

/// Removing the first bytes makes every chunk start elsewhere: the hardest edit there is.
#[test]
fn cuttings_of_random_data_meet_soon() {
    for &algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithm.is_content_defined()) {
        let chunker = chunker(Params::for_mean(algorithm, 1024).unwrap());
        let allowed = chunks_to_meet(algorithm);
        let mut numbers = SplitMix64::new(30);
        for seed in 0..200 {
            let data = random(seed, 100 << 10);
            let gone = 1 + numbers.below(1024);
            let old: HashSet<_> = chunker.cut_points(&data).collect();
            let met = chunker
                .cut_points(&data[gone..])
                .take(allowed)
                .any(|p| p + gone < data.len() && old.contains(&(p + gone)));
            assert!(met, "{algorithm}: no common cut-point in {allowed}, seed {seed}");
        }
    }
}

#[test]
fn fixed_chunks_meet_only_by_their_size() {
    let chunker = chunker(Params::for_mean(Algorithm::Fixed, 1024).unwrap());
    let data = random(31, 100 << 10);
    let cut_points = |gone: usize| -> HashSet<_> {
        let cuts = chunker.cut_points(&data[gone..]);
        cuts.map(|p| p + gone).filter(|&p| p < data.len()).collect()
    };
    assert!(cut_points(0).is_disjoint(&cut_points(1)));
    assert!(cut_points(0).is_superset(&cut_points(2048)));
}

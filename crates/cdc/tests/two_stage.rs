//! Candidates first and selection second find the cut-points of one search.

use onefold_cdc::research::{Candidates, TwoStage};
use onefold_cdc::{
    Algorithm, BoundaryTest, ChunkSizes, Chunker, Cuts, Kernel, ParamError, Params, Preset,
};
use onefold_testkit::{any_bytes, cycle, low_entropy, random, text};
use proptest::prelude::*;

/// The algorithms that can be cut in two stages.
const TWO_STAGE: [Algorithm; 12] = [
    Algorithm::Rabin,
    Algorithm::Gear,
    Algorithm::FastCdc,
    Algorithm::Crc,
    Algorithm::Buzhash,
    Algorithm::Gear32,
    Algorithm::Gear16,
    Algorithm::GearAes,
    Algorithm::Tttd,
    Algorithm::Mii,
    Algorithm::Pci,
    Algorithm::Bfbc,
];

fn params(algorithm: Algorithm, min: usize, avg: usize, max: usize) -> Params {
    Params { window: 20, ..Params::new(algorithm, ChunkSizes::new(min, avg, max).unwrap()) }
}

/// The least minimum that two stages take.
fn window(params: &Params) -> usize {
    match params.algorithm {
        Algorithm::FastCdc => 64,
        Algorithm::Tttd => params.window,
        _ => Chunker::new(params).unwrap().window().unwrap(),
    }
}

fn inputs(seed: u64, len: usize) -> [Vec<u8>; 7] {
    let ramp: Vec<u8> = (0..=255).collect();
    [
        random(seed, len),
        text(seed, len),
        low_entropy(seed, len, 2),
        cycle(&[0], len),
        cycle(&[255], len),
        cycle(&ramp, len),
        cycle(&random(seed, 97), len),
    ]
}

/// On every kernel.
fn assert_as_one_search(params: &Params, data: &[u8]) {
    let serial: Vec<usize> = Chunker::new(params).unwrap().cut_points(data).collect();
    for &kernel in kernels(params) {
        let found = TwoStage::with_kernel(params, kernel).unwrap().cut_points(data);
        assert!(found == serial, "{kernel} {params:?} {} bytes: {found:?}, {serial:?}", data.len());
    }
}

fn kernels(params: &Params) -> &'static [Kernel] {
    match params.algorithm {
        _ if params.preset.is_some() => &[Kernel::Scalar],
        // two thresholds
        Algorithm::FastCdc | Algorithm::Tttd => &[Kernel::Scalar],
        algorithm => Kernel::usable(algorithm),
    }
}

#[test]
fn a_position_is_a_candidate_if_its_window_says_so() {
    for algorithm in TWO_STAGE {
        for min in [64, 65] {
            let params = params(algorithm, min, min + 4, 200);
            // of FastCDC's thresholds the looser one holds from avg on
            let before = if algorithm == Algorithm::FastCdc { min + 4 } else { min };
            let test = BoundaryTest::new(&params).unwrap().unwrap();
            for &kernel in kernels(&params) {
                let two_stage = TwoStage::with_kernel(&params, kernel).unwrap();
                // up to two steps of every stream and what is left over
                for len in [0, 1, 63, 64, 65, 66, 127, 300, 555, 556, 557, 700, 811] {
                    for data in inputs(len as u64, len) {
                        let expected = (before..=len)
                            .filter(|p| test.accepts(&data[p - before..], before))
                            .collect();
                        assert_candidates(&two_stage.candidates(&data), before, len, expected);
                    }
                }
            }
        }
    }
}

/// From position `before` on, those that are `expected`.
fn assert_candidates(candidates: &Candidates, before: usize, len: usize, expected: Vec<usize>) {
    let found: Vec<usize> = candidates.positions().collect();
    let behind: Vec<usize> = found.iter().copied().filter(|&p| p >= before).collect();
    assert_eq!(behind, expected, "{len} bytes");

    let words = candidates.words();
    assert_eq!(words.len(), len.div_ceil(64));
    assert!(found.iter().all(|p| words[(p - 1) / 64] >> ((p - 1) % 64) & 1 == 1));
    let set: u32 = words.iter().map(|word| word.count_ones()).sum();
    assert_eq!(set as usize, found.len());
    assert!(found.iter().all(|p| (64..=len).contains(p)));
}

#[test]
fn two_stages_cut_where_one_search_cuts() {
    for algorithm in TWO_STAGE {
        for (min, avg, max) in [(64, 64, 64), (64, 65, 66), (65, 80, 300), (100, 1000, 4000)] {
            let params = params(algorithm, min, avg, max);
            for data in inputs(5, 6 * max + 1234) {
                assert_as_one_search(&params, &data);
            }
        }
    }
}

#[test]
fn inputs_of_every_length_are_cut_alike() {
    for algorithm in TWO_STAGE {
        let params = params(algorithm, 64, 70, 90);
        for data in inputs(6, 300) {
            for len in 0..=data.len() {
                assert_as_one_search(&params, &data[..len]);
            }
        }
    }
}

#[test]
fn presets_that_test_a_window_are_cut_alike() {
    for preset in [Preset::Xet, Preset::Restic] {
        let sizes = match preset {
            Preset::Xet => ChunkSizes::new(65, 256, 1000),
            _ => ChunkSizes::new(64, 256, 1000),
        };
        let params = Params { sizes: sizes.unwrap(), ..preset.params() };
        for data in inputs(7, 20_000) {
            assert_as_one_search(&params, &data);
        }
    }
}

#[test]
fn without_a_maximum_the_cut_points_are_those_of_a_walk() {
    for algorithm in TWO_STAGE {
        let sizes = ChunkSizes::unbounded(64, 300).unwrap();
        let params = Params { sizes, ..params(algorithm, 64, 300, 300) };
        for data in inputs(8, 20_000) {
            let walked = Cuts::new(&params, &data[..]).unwrap();
            let walked: Vec<usize> = walked.map(|cut| cut.unwrap() as usize).collect();
            assert_eq!(TwoStage::new(&params).unwrap().cut_points(&data), walked, "{algorithm}");
        }
    }
}

#[test]
fn a_minimum_below_the_window_is_refused_and_one_of_it_is_not() {
    for algorithm in TWO_STAGE {
        let window = window(&params(algorithm, 64, 4096, 9999));
        for min in [window - 1, window, window + 1] {
            if min == 0 {
                continue;
            }
            let params = params(algorithm, min, min + 4096 - 64, 9999);
            if min < window {
                let refusal = TwoStage::new(&params).err().unwrap();
                assert_eq!(refusal, ParamError::TwoStageMin { min, window }, "{algorithm}");
            } else {
                assert_as_one_search(&params, &random(9, 50_000));
            }
        }
    }
    let message = TwoStage::new(&params(Algorithm::Gear, 63, 70, 80)).err().unwrap().to_string();
    let expected = "minimum chunk size 63 is below the window of 64 bytes: \
                    which positions qualify would depend on where chunks start";
    assert_eq!(message, expected);
}

#[test]
fn rules_that_look_at_more_than_a_window_are_refused() {
    for &algorithm in Algorithm::ALL.iter().filter(|algorithm| !TWO_STAGE.contains(algorithm)) {
        let params = Params::for_mean(algorithm, 8192).unwrap();
        let refusal = TwoStage::new(&params).err().unwrap();
        assert_eq!(refusal, ParamError::NotTwoStage { name: algorithm.name() });
    }
    let presets = Preset::ALL.iter().filter(|p| !matches!(p, Preset::Xet | Preset::Restic));
    for preset in presets {
        let refusal = TwoStage::new(&preset.params()).err().unwrap();
        assert_eq!(refusal, ParamError::NotTwoStage { name: preset.name() });
    }
    let kernel = Kernel::Avx2;
    let refusal = TwoStage::with_kernel(&Preset::Xet.params(), kernel).err().unwrap();
    assert!(matches!(refusal, ParamError::KernelUnusable { .. }), "{refusal}");
}

#[test]
fn a_kernel_that_finds_no_backups_is_refused_and_not_replaced() {
    let params = Params::for_mean(Algorithm::Tttd, 8192).unwrap();
    assert!(TwoStage::new(&params).is_ok());
    let refusal = TwoStage::with_kernel(&params, Kernel::Interleaved).err().unwrap();
    assert!(matches!(refusal, ParamError::KernelUnusable { .. }), "{refusal}");
}

fn any_input() -> impl Strategy<Value = Vec<u8>> {
    any_bytes(0..5000, 2..3, 1..80)
}

proptest! {
    #[test]
    fn any_sizes_and_windows_are_cut_alike(
        algorithm in prop::sample::select(&TWO_STAGE[..]),
        above in (0..100_usize, 0..200_usize, 0..500_usize),
        window_and_level in (1..=256_usize, 0..=3_u8),
        seed in any::<u64>(),
        data in any_input(),
    ) {
        let (window, level) = window_and_level;
        let min = window.max(64) + above.0;
        let avg = min + above.1;
        let sizes = ChunkSizes::new(min, avg, avg + above.2).unwrap();
        let params = Params { window, level, seed, ..Params::new(algorithm, sizes) };
        assert_as_one_search(&params, &data);
    }
}

//! The tests of single positions agree with the rules that seek them.

use onefold_cdc::{Algorithm, BoundaryTest, ChunkSizes, Chunker, Lookahead, Params, Preset};
use onefold_testkit::{any_bytes, cycle, random, text};
use proptest::prelude::*;

fn any_params() -> impl Strategy<Value = Params> {
    let lens = (1..200_usize, 0..200_usize, 0..400_usize);
    let rest = (1..100_usize, 0..4_u8, 0..3_u64);
    (prop::sample::select(Algorithm::ALL), lens, rest).prop_map(
        |(algorithm, (min, more, most), (window, level, seed))| {
            let sizes = match algorithm {
                Algorithm::MinCdc => ChunkSizes::new(min, min + most / 2, min + most),
                _ => ChunkSizes::new(min, min + more, min + more + most),
            };
            Params { window, level, seed, ..Params::new(algorithm, sizes.unwrap()) }
        },
    )
}

fn any_input() -> impl Strategy<Value = Vec<u8>> {
    any_bytes(0..3000, 1..5, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_cut_point_of_the_rule_is_accepted(params in any_params(), data in any_input()) {
        let chunker = Chunker::new(&params).unwrap();
        if let Some(test) = BoundaryTest::new(&params).unwrap() {
            let mut start = 0;
            while let Some(len) = chunker.next_cut(&data[start..]) {
                prop_assert!(test.accepts(&data[start..], len), "{start} {len}");
                start += len;
            }
        }
    }

    #[test]
    fn no_byte_behind_the_lookahead_matters(
        params in any_params(),
        data in any_input(),
        other in any_input(),
    ) {
        let chunker = Chunker::new(&params).unwrap();
        let mut start = 0;
        while let Some(len) = chunker.next_cut(&data[start..]) {
            let seen = match chunker.lookahead() {
                Lookahead::None => len,
                Lookahead::Bytes(behind) => len + behind,
                Lookahead::ToMax => params.sizes.max(),
            };
            let seen = &data[start..data.len().min(start + seen.min(params.sizes.max().max(len)))];
            prop_assert_eq!(chunker.next_cut(seen), Some(len));
            prop_assert_eq!(chunker.next_cut(&[seen, &other].concat()), Some(len));
            start += len;
        }
    }
}

#[test]
fn the_first_position_that_is_accepted_is_the_cut_point_where_the_window_decides_alone() {
    let params = |algorithm| Params::for_mean(algorithm, 200).unwrap();
    for algorithm in [
        Algorithm::Fixed,
        Algorithm::Rabin,
        Algorithm::Gear,
        Algorithm::FastCdc,
        Algorithm::Crc,
        Algorithm::Buzhash,
        Algorithm::Gear32,
        Algorithm::Gear16,
        Algorithm::Maxp,
        Algorithm::Mii,
        Algorithm::Pci,
        Algorithm::Bfbc,
        Algorithm::GearAes,
    ] {
        let chunker = Chunker::new(&params(algorithm)).unwrap();
        let test = BoundaryTest::new(&params(algorithm)).unwrap().unwrap();
        let data = [random(1, 20_000), text(2, 20_000)].concat();
        let mut start = 0;
        while let Some(len) = chunker.next_cut(&data[start..]) {
            let first = (0..).find(|&cut| test.accepts(&data[start..], cut));
            assert_eq!(first, Some(len), "{algorithm} at {start}");
            start += len;
        }
    }
}

#[test]
fn rules_without_a_window_have_no_test() {
    for &algorithm in Algorithm::ALL {
        let test = BoundaryTest::new(&Params::for_mean(algorithm, 200).unwrap()).unwrap();
        let seeks_all_over =
            [Algorithm::AeMax, Algorithm::AeMin, Algorithm::Ram, Algorithm::MinCdc];
        assert_eq!(test.is_none(), seeks_all_over.contains(&algorithm), "{algorithm}");
    }
}

#[test]
fn positions_that_no_chunk_can_have_are_refused() {
    let data = random(3, 5000);
    for &algorithm in Algorithm::ALL {
        let params = Params::for_mean(algorithm, 200).unwrap();
        let Some(test) = BoundaryTest::new(&params).unwrap() else { continue };
        let (min, max) = (params.sizes.min(), params.sizes.max());
        for cut in (0..min).chain([max + 1, data.len(), data.len() + 1, usize::MAX]) {
            assert!(!test.accepts(&data, cut), "{algorithm}, {cut}");
        }
        assert!(!test.accepts(&data[..max - 1], max), "{algorithm}");
        assert!(!test.accepts(&[], min), "{algorithm}");
    }
}

fn small(preset: Preset) -> Params {
    let sizes = match preset {
        Preset::FastCdc2016 => ChunkSizes::new(65, 257, 1025),
        Preset::Borg => ChunkSizes::new(64, 256, 1024),
        _ => ChunkSizes::new(66, 256, 1024),
    };
    let window = preset.params().window.min(95);
    Params { sizes: sizes.unwrap(), window, ..preset.params() }
}

#[test]
fn the_cut_points_of_presets_are_accepted_and_depend_on_no_more_than_they_say() {
    let data = [random(4, 100_000), text(5, 100_000), cycle(&[0], 5_000)].concat();
    for &preset in Preset::ALL {
        let params = small(preset);
        let chunker = Chunker::new(&params).unwrap();
        let test = BoundaryTest::new(&params).unwrap().unwrap();
        let mut start = 0;
        while let Some(len) = chunker.next_cut(&data[start..]) {
            assert!(test.accepts(&data[start..], len), "{preset} at {start}");
            let seen = match chunker.lookahead() {
                Lookahead::None => len,
                Lookahead::Bytes(behind) => len + behind,
                Lookahead::ToMax => params.sizes.max(),
            };
            let seen = &data[start..data.len().min(start + seen.min(params.sizes.max()))];
            assert_eq!(chunker.next_cut(seen), Some(len), "{preset} at {start}");
            start += len;
        }
        let passed = (0..1000).filter(|&cut| test.accepts(&data, cut)).count();
        assert!(passed < 30, "{preset}: {passed}");
    }
}

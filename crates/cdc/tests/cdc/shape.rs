//! Chunks tile the input and keep to their bounds.

use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Kernel, ParamError, Params, cut_points};
use onefold_testkit::{cycle, random};
use proptest::prelude::*;

use crate::support::{
    any_input, any_params, chunker, corner_inputs, corner_lens, corner_params, sizes,
};

fn assert_tiled(params: Params, data: &[u8]) {
    let cut_points = cut_points(&params, data).unwrap();
    assert_eq!(cut_points.last().copied().unwrap_or(0), data.len(), "{params:?}");
    let (min, max) = match params.algorithm {
        Algorithm::Fixed => (params.sizes.avg(), params.sizes.avg()),
        _ => (params.sizes.min(), params.sizes.max()),
    };
    let mut start = 0;
    for &end in &cut_points {
        let len = end - start;
        assert!(len <= max, "{params:?}: chunk of {len} at {start}");
        assert!(
            len >= min || end == data.len() && len > 0,
            "{params:?}: chunk of {len} at {start}"
        );
        start = end;
    }
}

/// More bytes behind `data` never change a decision, and max bytes are enough for one.
fn assert_decided_once(chunker: &Chunker, data: &[u8]) {
    let max = chunker.sizes().max();
    let whole = chunker.next_cut(data);
    for len in 0..=data.len() {
        match chunker.next_cut(&data[..len]) {
            Some(cut) => assert_eq!(Some(cut), whole, "{:?} from {len} bytes", chunker.params()),
            None => assert!(len < max, "{:?} undecided at {len} bytes", chunker.params()),
        }
    }
    if whole.is_some() {
        assert_eq!(chunker.last_cut(data), whole);
    }
}

#[test]
fn chunks_tile_every_corner_case() {
    for params in corner_params() {
        for len in corner_lens(&params) {
            for data in corner_inputs(len) {
                assert_tiled(params, &data);
            }
        }
    }
}

#[test]
fn a_decision_stands_whatever_follows() {
    for params in corner_params() {
        let chunker = chunker(params);
        for data in corner_inputs(params.sizes.max().min(700) + 2) {
            assert_decided_once(&chunker, &data);
        }
    }
}

proptest! {
    #[test]
    fn chunks_tile_any_input(params in any_params(), data in any_input()) {
        assert_tiled(params, &data);
    }

    #[test]
    fn any_decision_stands_whatever_follows(params in any_params(), data in any_input()) {
        let reach = data.len().min(params.sizes.max() + 2);
        assert_decided_once(&chunker(params), &data[..reach]);
    }
}

#[test]
fn nothing_has_no_chunk() {
    for &algorithm in Algorithm::ALL {
        let chunker = chunker(Params::for_mean(algorithm, 100).unwrap());
        assert_eq!(chunker.next_cut(&[]), None);
        assert_eq!(chunker.last_cut(&[]), None);
        assert_eq!(chunker.cut_points(&[]).count(), 0);
    }
}

#[test]
fn zeros_are_cut_where_the_files_say() {
    let zeros = cycle(&[0], 100_000);
    let expected = |algorithm, avg: usize| match algorithm {
        Algorithm::Fixed => avg,
        // avg - 256, the horizon or window, and the byte before or behind it
        Algorithm::AeMax | Algorithm::AeMin | Algorithm::Ram => avg - 255,
        Algorithm::MinCdc => avg / 2,
        Algorithm::SeqInc | Algorithm::SeqDec => 2 * avg,
        _ => 4 * avg,
    };
    for &algorithm in Algorithm::ALL {
        let chunker = chunker(Params::for_mean(algorithm, 8192).unwrap());
        assert_eq!(chunker.next_cut(&zeros), Some(expected(algorithm, 8192)), "{algorithm}");
    }
}

#[test]
fn gear_cuts_runs_at_max_with_seed_0_and_means_from_112_above_min_on() {
    let cut = |avg, byte| {
        let params = Params::new(Algorithm::Gear, sizes(100, avg, 1000));
        chunker(params).next_cut(&[byte; 1000])
    };
    assert!((0..=255).all(|byte| cut(212, byte) == Some(1000)));
    assert_eq!(cut(211, 240), Some(100));
}

const SEEDED: [Algorithm; 9] = [
    Algorithm::Rabin,
    Algorithm::Gear,
    Algorithm::FastCdc,
    Algorithm::Buzhash,
    Algorithm::Gear32,
    Algorithm::Gear16,
    Algorithm::Tttd,
    Algorithm::Bfbc,
    Algorithm::GearAes,
];

#[test]
fn seeds_move_the_cut_points_of_what_has_something_to_pick() {
    let data = random(1, 100_000);
    for &algorithm in Algorithm::ALL {
        let params = Params::for_mean(algorithm, 1024).unwrap();
        let cuts = |seed| cut_points(&Params { seed, ..params }, &data).unwrap();
        let seeded = SEEDED.contains(&algorithm);
        assert_eq!(cuts(0) != cuts(1), seeded, "{algorithm}");
    }
}

#[test]
fn level_0_of_fastcdc_is_gear() {
    let data = random(2, 1 << 20);
    let gear = Params::for_mean(Algorithm::Gear, 1000).unwrap();
    let fastcdc = Params { algorithm: Algorithm::FastCdc, level: 0, ..gear };
    assert_eq!(cut_points(&fastcdc, &data), cut_points(&gear, &data));
}

#[test]
fn parameters_an_algorithm_cannot_have_are_refused() {
    for algorithm in [Algorithm::Rabin, Algorithm::Tttd, Algorithm::Crc, Algorithm::Buzhash] {
        let params = Params::for_mean(algorithm, 1024).unwrap();
        for window in [0, 257, usize::MAX] {
            let refusal = Chunker::new(&Params { window, ..params }).unwrap_err();
            assert_eq!(refusal, ParamError::Window { window });
            assert_eq!(refusal.to_string(), format!("window of {window} bytes, expected 1 to 256"));
        }
    }
    let params = Params { level: 4, ..Params::for_mean(Algorithm::FastCdc, 1024).unwrap() };
    let refusal = Chunker::new(&params).unwrap_err();
    assert_eq!(refusal.to_string(), "normalisation level 4, expected 0 to 3");

    let mincdc = |avg| Chunker::new(&Params::new(Algorithm::MinCdc, sizes(100, avg, 301)));
    for avg in [100, 198, 203, 301] {
        let message = mincdc(avg).unwrap_err().to_string();
        assert!(message.contains(&avg.to_string()) && message.contains("200"), "{message}");
    }
    for avg in [200, 201] {
        assert!(mincdc(avg).is_ok());
    }
    let unbounded = ChunkSizes::unbounded(100, 200).unwrap();
    let refusal = Chunker::new(&Params::new(Algorithm::MinCdc, unbounded)).unwrap_err();
    let expected = "mincdc needs a maximum chunk size, and these sizes are unbounded";
    assert_eq!(refusal.to_string(), expected);
}

#[test]
fn a_chunker_tells_what_it_runs() {
    for &algorithm in Algorithm::ALL {
        let params = Params::for_mean(algorithm, 4096).unwrap();
        for &kernel in Kernel::usable(algorithm) {
            let chunker = Chunker::with_kernel(&params, kernel).unwrap();
            assert_eq!(chunker.kernel(), kernel);
            assert_eq!(chunker.params(), &params);
        }
        assert_ne!(Chunker::new(&params).unwrap().kernel(), Kernel::Auto);
    }
}

#[test]
fn chunkers_can_be_shared_between_threads() {
    fn assert_shareable<T: Clone + Send + Sync + 'static>() {}
    assert_shareable::<Chunker>();
}

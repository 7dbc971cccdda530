//! A rolling hash depends on all bytes of its window and on no others.

use onefold_cdc::{Algorithm, Params};
use onefold_testkit::random;

use crate::support::{chunker, sizes};

/// Asserts that whether a chunk ends at min (an even chance) hangs on the `window` bytes before.
fn assert_depends_on(window: usize, params: Params) {
    let chunker = chunker(params);
    let min = params.sizes.min();
    let ends_at_min = |data: &[u8]| chunker.next_cut(data) == Some(min);

    let mut oldest_matters = false;
    for seed in 0..100 {
        let data = random(seed, min + 2);
        let mut others = random(seed + 100, min + 2);
        others[min - window..].copy_from_slice(&data[min - window..]);
        assert_eq!(ends_at_min(&data), ends_at_min(&others), "{params:?}");

        let mut aged = data.clone();
        aged[min - window] ^= 1 + seed as u8;
        oldest_matters |= ends_at_min(&data) != ends_at_min(&aged);
    }
    assert!(oldest_matters, "{params:?}");
}

#[test]
fn gear_and_fastcdc_see_64_bytes() {
    for min in [64, 65, 300] {
        for algorithm in [Algorithm::Gear, Algorithm::FastCdc] {
            let params = Params::new(algorithm, sizes(min, min + 1, min + 2));
            assert_depends_on(64, Params { level: 0, ..params });
        }
    }
}

#[test]
fn the_narrower_gears_see_32_and_16_bytes() {
    for min in [32, 33, 300] {
        for (window, algorithm) in
            [(32, Algorithm::Gear32), (16, Algorithm::Gear16), (32, Algorithm::GearAes)]
        {
            assert_depends_on(window, Params::new(algorithm, sizes(min, min + 1, min + 2)));
        }
    }
}

#[test]
fn pairs_are_seen_whole() {
    for min in [2, 3, 300] {
        assert_depends_on(2, Params::new(Algorithm::Bfbc, sizes(min, min + 1, min + 2)));
    }
}

#[test]
fn rabin_tttd_crc_and_buzhash_see_their_window() {
    for algorithm in [Algorithm::Rabin, Algorithm::Tttd, Algorithm::Crc, Algorithm::Buzhash] {
        assert_sees_its_window(algorithm);
    }
}

fn assert_sees_its_window(algorithm: Algorithm) {
    for window in [1, 2, 6, 7, 16, 48, 64, 255, 256] {
        for min in [window, window + 1, 400] {
            let params = Params::new(algorithm, sizes(min, min + 1, min + 2));
            assert_depends_on(window, Params { window, ..params });
        }
    }
}

#[test]
fn a_window_longer_than_min_sees_all_of_the_chunk() {
    let params = Params::new(Algorithm::Rabin, sizes(20, 21, 22));
    assert_depends_on(20, Params { window: 48, ..params });
    let params = Params::new(Algorithm::Gear, sizes(20, 21, 22));
    assert_depends_on(20, params);
}

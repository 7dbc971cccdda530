//! Several threads find the cut-points of one.

use std::num::NonZero;

use onefold_cdc::research::parallel_cuts;
use onefold_cdc::{Algorithm, Chunker, Params, cut_points_parallel, decided_cuts};
use onefold_testkit::{cycle, low_entropy, random, text};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn chunker(algorithm: Algorithm, avg: usize) -> Chunker {
    Chunker::new(&Params::for_mean(algorithm, avg).unwrap()).unwrap()
}

fn threads(threads: usize) -> NonZero<usize> {
    NonZero::new(threads).unwrap()
}

#[test]
fn every_number_of_threads_finds_the_serial_cut_points() {
    let len = 2 * MIB + 12_345;
    let ramp: Vec<u8> = (0..=255).collect();
    let inputs = [
        random(1, len),
        text(2, len),
        low_entropy(3, len, 2),
        cycle(&[0], len),
        cycle(&ramp, len),
        cycle(&random(4, 997), len),
    ];
    for &algorithm in Algorithm::ALL {
        let chunker = chunker(algorithm, 1000);
        for (i, data) in inputs.iter().enumerate() {
            let serial: Vec<usize> = chunker.cut_points(data).collect();
            for n in 1..=8 {
                let cuts = parallel_cuts(&chunker, data, threads(n));
                assert_eq!(cuts.segments, n, "{algorithm}");
                assert!(cuts.cut_points == serial, "{algorithm}, input {i}, {n} threads");
            }
        }
    }
}

/// Cuts `data` in stretches of `len` bytes, each as if a chunk began with it and then with what the
/// one before left uncut.
fn in_stretches(chunker: &Chunker, data: &[u8], len: usize) -> Vec<usize> {
    let mut cut_points = Vec::new();
    let mut uncut = 0;
    for start in (0..data.len()).step_by(len) {
        let end = data.len().min(start + len);
        // As a thread sees it that knows nothing of the stretch before.
        let assumed = decided_cuts(chunker, &data[start..end], 0, &[]);
        let assumed: Vec<usize> =
            [0].into_iter().chain(assumed).map(|cut| cut + start - uncut).collect();
        cut_points.extend(
            decided_cuts(chunker, &data[uncut..end], 0, &assumed).iter().map(|cut| uncut + cut),
        );
        uncut = cut_points.last().copied().unwrap_or(0);
        assert!(end - uncut < chunker.sizes().max(), "max bytes decide");
    }
    while let Some(len) = chunker.last_cut(&data[uncut..]) {
        uncut += len;
        cut_points.push(uncut);
    }
    cut_points
}

#[test]
fn stretches_of_any_length_give_the_serial_cut_points() {
    let len = 60_001;
    let inputs = [
        random(1, len),
        text(2, len),
        low_entropy(3, len, 2),
        cycle(&[0], len),
        cycle(&random(4, 997), len),
    ];
    for &algorithm in Algorithm::ALL {
        let chunker = chunker(algorithm, 500);
        for (i, data) in inputs.iter().enumerate() {
            for stretch in [1, 7, 499, 1000, 4096, 20_000, len - 1, len, len + 1] {
                // Each short stretch takes a search of what the one before left uncut.
                let data = if stretch < 100 { &data[..5000] } else { &data[..] };
                let serial: Vec<usize> = chunker.cut_points(data).collect();
                let cut_points = in_stretches(&chunker, data, stretch);
                assert!(cut_points == serial, "{algorithm}, input {i}, stretches of {stretch}");
            }
        }
    }
}

#[test]
fn cut_points_that_were_assumed_rightly_are_not_sought_again() {
    let chunker = chunker(Algorithm::Gear, 500);
    let data = random(1, 50_000);
    let cut_points = decided_cuts(&chunker, &data, 0, &[]);
    // No chunk ends at these; that they come back shows that they were believed.
    let assumed = [0, cut_points[0], 12_345, 54_321];
    let believed = [&cut_points[..1], &assumed[2..]].concat();
    assert_eq!(decided_cuts(&chunker, &data, 0, &assumed[1..]), believed);
    assert_eq!(decided_cuts(&chunker, &data, 0, &assumed), assumed[1..]);
    assert_eq!(decided_cuts(&chunker, &data, 0, &[1, 2]), cut_points);
}

#[test]
fn small_inputs_are_cut_by_one_thread() {
    for &algorithm in Algorithm::ALL {
        let chunker = chunker(algorithm, 64);
        for len in [0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 5000] {
            let data = random(len as u64, len);
            let cuts = parallel_cuts(&chunker, &data, threads(8));
            assert_eq!(cuts.cut_points, chunker.cut_points(&data).collect::<Vec<_>>());
            assert_eq!((cuts.segments, cuts.stitched), (1, 0), "{algorithm}");
            assert_eq!(cut_points_parallel(&chunker, &data, threads(8)), cuts.cut_points);
        }
    }
}

#[test]
fn little_of_random_data_is_stitched() {
    let data = random(5, 8 * MIB);
    for &algorithm in Algorithm::ALL {
        let cuts = parallel_cuts(&chunker(algorithm, 1024), &data, threads(4));
        assert_eq!(cuts.segments, 4);
        assert!(cuts.stitched < 256 * KIB, "{algorithm}: {}", cuts.stitched);
    }
}

#[test]
fn chunks_of_one_size_are_never_stitched() {
    for len in [2 * MIB, 2 * MIB + 1, 2 * MIB + 999] {
        let cuts = parallel_cuts(&chunker(Algorithm::Fixed, 1000), &random(6, len), threads(7));
        assert!(cuts.stitched < 1000, "{}", cuts.stitched);
    }
}

#[test]
fn where_cuttings_never_meet_all_but_the_first_segment_is_stitched() {
    // chunks of max and segments that are no multiple of it
    let (len, n) = (2 * MIB, 4);
    let chunker = chunker(Algorithm::FastCdc, 1000);
    let data = cycle(&[0], len);
    let cuts = parallel_cuts(&chunker, &data, threads(n));
    assert_eq!(cuts.cut_points, chunker.cut_points(&data).collect::<Vec<_>>());
    let behind_the_first = len - len / n;
    assert!(cuts.stitched <= behind_the_first);
    assert!(cuts.stitched + chunker.sizes().max() >= behind_the_first);
}

#[test]
fn where_cuttings_never_meet_the_minima_are_searched_of_rules_with_candidates() {
    let (len, n) = (2 * MIB, 4);
    let data = cycle(&[0], len);
    let windowed = Algorithm::ALL.iter().map(|&algorithm| chunker(algorithm, 1000));
    for chunker in windowed.filter(|chunker| chunker.window().is_some()) {
        let cuts = parallel_cuts(&chunker, &data, threads(n));
        assert_eq!(cuts.cut_points, chunker.cut_points(&data).collect::<Vec<_>>());
        let sizes = chunker.sizes();
        // a minimum and an end in each chunk of max, and what lies behind a segment
        let minima = len / sizes.max() * (sizes.min() + 1) + n * sizes.max();
        assert!(cuts.stitched <= minima, "{chunker:?}: {}", cuts.stitched);
    }
}

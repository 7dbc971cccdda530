use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Divisors, Params, Secret};
use onefold_testkit::model::Model;
use onefold_testkit::{any_bytes, cycle, low_entropy, random, text};
use proptest::prelude::*;

pub(crate) fn sizes(min: usize, avg: usize, max: usize) -> ChunkSizes {
    ChunkSizes::new(min, avg, max).unwrap()
}

pub(crate) fn chunker(params: Params) -> Chunker {
    Chunker::new(&params).unwrap()
}

/// The cut-points of `data` by the plain second definition of the rule that `params` describe.
pub(crate) fn model_cuts(params: &Params, data: &[u8]) -> Vec<usize> {
    let divisors: Vec<_> = params.divisors.iter().flat_map(Divisors::pairs).collect();
    let model = Model {
        algorithm: params.algorithm.name(),
        min: params.sizes.min(),
        avg: params.sizes.avg(),
        max: params.sizes.max(),
        window: params.window,
        level: params.level,
        seed: params.seed,
        secret: params.secret.map(|secret| *secret.as_bytes()),
        divisors: &divisors,
    };
    model.cut_points(data)
}

/// Parameters of every algorithm: sizes below, at and above the windows of the rules, bounds
/// that coincide with the mean and with each other.
pub(crate) fn corner_params() -> Vec<Params> {
    let mut all = Vec::new();
    for &algorithm in Algorithm::ALL {
        for avg in [1, 2, 3, 5, 64, 700] {
            all.push(Params::for_mean(algorithm, avg).unwrap());
        }
        for (min, avg, max) in
            [(1, 1, 1), (7, 7, 7), (1, 2, 3), (63, 80, 97), (64, 100, 136), (65, 65, 65)]
        {
            all.push(Params::new(algorithm, sizes(min, avg, max)));
        }
        if !matches!(algorithm, Algorithm::MinCdc) {
            for (min, avg, max) in [(1, 1, 300), (300, 300, 2000), (1, 300, 300), (200, 256, 257)] {
                all.push(Params::new(algorithm, sizes(min, avg, max)));
            }
        }
    }
    all
}

/// Parameters of every algorithm with small random sizes, windows, levels, seeds and secrets.
pub(crate) fn any_params() -> impl Strategy<Value = Params> {
    let algorithm = prop::sample::select(Algorithm::ALL);
    let lens = (1..200_usize, 0..200_usize, 0..400_usize);
    let rest = (1..100_usize, 0..4_u8, 0..4_u64);
    (algorithm, lens, rest).prop_map(|(algorithm, (min, more, most), (window, level, seed))| {
        let sizes = match algorithm {
            Algorithm::MinCdc => sizes(min, min + most / 2, min + most),
            _ => sizes(min, min + more, min + more + most),
        };
        let divisors = (seed == 2).then(|| Divisors::from_pairs(PAIRS).expect("some pairs"));
        let secret = (seed == 3 && algorithm.takes_secret()).then(|| Secret::new([level; 32]));
        Params { window, level, seed, divisors, secret, ..Params::new(algorithm, sizes) }
    })
}

/// Divisors that text, low-entropy and random inputs have.
const PAIRS: [[u8; 2]; 6] = [*b"e ", *b" t", [0, 1], [3, 3], [200, 100], [7, 9]];

/// Inputs that rules find easy, hard and degenerate.
pub(crate) fn any_input() -> impl Strategy<Value = Vec<u8>> {
    any_bytes(0..3000, 1..5, 1..80)
}

/// Inputs of `len` bytes that provoke ties, runs, deferred cuts and none of them.
pub(crate) fn corner_inputs(len: usize) -> Vec<Vec<u8>> {
    let rising: Vec<u8> = (0..=255).collect();
    let falling: Vec<u8> = (0..=255).rev().collect();
    vec![
        cycle(&[0], len),
        cycle(&[0xff], len),
        cycle(&[0, 0xff], len),
        cycle(&rising, len),
        cycle(&falling, len),
        (0..len).map(|i| (i / 9) as u8).collect(),
        low_entropy(1, len, 2),
        text(2, len),
        random(3, len),
    ]
}

/// Lengths at, next to and between the sizes of `params`.
pub(crate) fn corner_lens(params: &Params) -> Vec<usize> {
    let (min, avg, max) = (params.sizes.min(), params.sizes.avg(), params.sizes.max());
    let mut lens = vec![0, 1, 2, 3, 4, 5];
    for len in [min, avg, max, min + max, 2 * max] {
        lens.extend([len - 1, len, len + 1]);
    }
    lens.sort_unstable();
    lens.dedup();
    lens
}

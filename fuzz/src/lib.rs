//! What the fuzz targets of the chunkers share: parameters from numbers, and what always holds.

pub mod nbd;

use std::num::NonZero;

use onefold_cdc::research::{MemoryHints, TwoStage};
use onefold_cdc::{
    Algorithm, ChunkSizes, Chunker, Criterion, Cuts, Kernel, MAX_NEXT, Params, Rapid, Secret,
    Stream, cut_points_parallel,
};

/// The chunkers that hash what they read.
pub const HASHING: &[Algorithm] = &[
    Algorithm::Rabin,
    Algorithm::Gear,
    Algorithm::FastCdc,
    Algorithm::Crc,
    Algorithm::Buzhash,
    Algorithm::Gear32,
    Algorithm::Gear16,
    Algorithm::Tttd,
    Algorithm::GearAes,
];

/// The chunkers that seek an extreme value.
pub const EXTREME: &[Algorithm] =
    &[Algorithm::AeMax, Algorithm::AeMin, Algorithm::Ram, Algorithm::Maxp, Algorithm::MinCdc];

/// All chunkers of neither kind, those included that are yet to be written.
pub fn others() -> Vec<Algorithm> {
    let is_other =
        |algorithm: &Algorithm| !HASHING.contains(algorithm) && !EXTREME.contains(algorithm);
    Algorithm::ALL.iter().copied().filter(is_other).collect()
}

/// Which algorithm; min, what avg is above it, what max is above that; window, level, seed, and
/// whether there is a secret.
pub type Numbers = (u8, u16, u16, u16, u8, u8, u64, bool);

/// The parameters of one of `algorithms` that the numbers pick; `None` if it cannot have them.
pub fn params(algorithms: &[Algorithm], numbers: Numbers) -> Option<Params> {
    let (algorithm, min, more, most, window, level, seed, is_keyed) = numbers;
    let algorithm = algorithms[usize::from(algorithm) % algorithms.len()];
    let min = usize::from(min % 512) + 1;
    let avg = min + usize::from(more % 1024);
    let max = avg + usize::from(most % 2048);
    let avg = if algorithm == Algorithm::MinCdc { min.midpoint(max) } else { avg };
    let sizes = ChunkSizes::new(min, avg, max).expect("sizes in order");
    let secret = (is_keyed && algorithm.takes_secret()).then(|| Secret::new([level; 32]));
    let (window, level) = (usize::from(window) + 1, level % 4);
    let params = Params { window, level, seed, secret, ..Params::new(algorithm, sizes) };
    Chunker::new(&params).is_ok().then_some(params)
}

/// Cuts on every kernel; the chunks tile the data, lie within the bounds, and are the same ones.
pub fn assert_kernels_agree(params: &Params, data: &[u8]) {
    let scalar = Chunker::with_kernel(params, Kernel::Scalar).expect("accepted before");
    let expected: Vec<usize> = scalar.cut_points(data).collect();
    assert_tiles(params, data, &expected);
    for &kernel in Kernel::usable(params.algorithm) {
        // presets run on some kernels only
        let Ok(chunker) = Chunker::with_kernel(params, kernel) else {
            assert!(params.preset.is_some(), "{kernel} refused, {params:?}");
            continue;
        };
        assert!(chunker.cut_points(data).eq(expected.iter().copied()), "{kernel}, {params:?}");
        assert_eq!(chunker.next_cut(data), scalar.next_cut(data), "{kernel}, {params:?}");
    }
}

fn assert_tiles(params: &Params, data: &[u8], cut_points: &[usize]) {
    let (min, max) = (params.sizes.min(), params.sizes.max());
    let mut start = 0;
    for &cut in cut_points {
        let is_last = cut == data.len();
        assert!(cut > start && cut - start <= max, "{start} to {cut}, {params:?}");
        assert!(is_last || cut - start >= min, "{start} to {cut}, {params:?}");
        start = cut;
    }
    assert_eq!(start, data.len(), "{params:?}");
}

/// However the data come, by whom they are cut and what was cut before: the cut-points are the
/// same.
pub fn assert_all_ways_agree(params: &Params, data: &[u8], step: usize) {
    let chunker = Chunker::new(params).expect("accepted before");
    let expected: Vec<usize> = chunker.cut_points(data).collect();

    let mut stream = Stream::new(chunker.clone(), Steps { data, step });
    let mut streamed = Vec::new();
    while let Some(chunk) = stream.next().expect("a slice can be read") {
        streamed.push(streamed.last().unwrap_or(&0) + chunk.len());
    }
    assert_eq!(streamed, expected, "streamed, {params:?}");

    let cuts = Cuts::new(params, Steps { data, step }).expect("accepted before");
    let alone: Vec<usize> = cuts.map(|cut| cut.expect("a slice can be read") as usize).collect();
    assert_eq!(alone, expected, "without chunks, {params:?}");

    if let Ok(two_stage) = TwoStage::new(params) {
        assert_eq!(two_stage.cut_points(data), expected, "in two stages, {params:?}");
    }

    // long enough that several threads take part
    let long = data.repeat((600 << 10) / data.len().max(1));
    let serial: Vec<usize> = chunker.cut_points(&long).collect();
    let threads = NonZero::new(2 + step % 3).expect("not 0");
    assert!(cut_points_parallel(&chunker, &long, threads) == serial, "parallel, {params:?}");

    let edited = [&data[..data.len() / 3], &data[data.len() / 3 + data.len() % 2..]].concat();
    for criterion in [Criterion::FingerprintTest, Criterion::MarkerFingerprintTest] {
        let Ok(rapid) = Rapid::new(chunker.clone(), criterion) else { continue };
        let fingerprint = |chunk: &[u8]| *blake3::hash(chunk).as_bytes();
        let hints = MemoryHints::with_next(fingerprint, 1 + step % MAX_NEXT);
        for file in [data, &edited, &data[..data.len() / 2], data] {
            let regular: Vec<usize> = rapid.chunker().cut_points(file).collect();
            assert_eq!(rapid.cut_points(&hints, file).0, regular, "{criterion:?}, {params:?}");
        }
    }
}

/// Gives at most `step + 1` bytes at a time.
struct Steps<'a> {
    data: &'a [u8],
    step: usize,
}

impl std::io::Read for Steps<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(self.step + 1);
        self.data.read(&mut buffer[..len])
    }
}

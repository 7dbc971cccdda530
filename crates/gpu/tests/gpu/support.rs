use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Params, Secret};
use onefold_fingerprint::Fingerprinter;
use onefold_gpu::{Device, Memory, OpenCl, Range, Work};
use onefold_testkit::{cycle, low_entropy, random, skip, text};

use crate::shim::opencl_with_tests;

/// The rules that devices have.
pub(crate) const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::Gear,
    Algorithm::Gear32,
    Algorithm::Gear16,
    Algorithm::FastCdc,
    Algorithm::Rabin,
    Algorithm::Crc,
    Algorithm::Buzhash,
    Algorithm::MinCdc,
];

/// The functions that devices have.
pub(crate) fn functions() -> [Fingerprinter; 4] {
    let keyed = Fingerprinter::blake3_keyed(std::array::from_fn(|i| 3 * i as u8));
    [Fingerprinter::blake3(), keyed, Fingerprinter::sha256(), Fingerprinter::sha3()]
}

/// OpenCL's first device; skips and returns `None` where there is none.
pub(crate) fn opencl() -> Option<OpenCl> {
    match OpenCl::with_source(0, &opencl_with_tests(None)) {
        Ok(device) => Some(device),
        Err(error @ onefold_gpu::GpuError::Build { .. }) => panic!("{error}"),
        Err(error) => {
            skip(&error.to_string());
            None
        }
    }
}

/// Parameters with sizes at and around the window, the strip and the tile.
pub(crate) fn params_of(algorithm: Algorithm) -> Vec<Params> {
    let mut all = Vec::new();
    let sizes = |min, avg, max| ChunkSizes::new(min, avg, max).unwrap();
    if algorithm == Algorithm::MinCdc {
        for (min, max) in
            [(1, 1), (1, 97), (3, 9), (4, 5), (5, 15), (255, 257), (256, 768), (300, 5000)]
        {
            all.push(Params::new(algorithm, sizes(min, usize::midpoint(min, max), max)));
        }
        all.push(Params { secret: Some(Secret::new([7; 32])), ..all[6] });
        return all;
    }
    for (min, avg, max) in [
        (64, 64, 64),
        (64, 65, 66),
        (64, 90, 1200),
        (65, 300, 301),
        (257, 700, 2800),
        (2048, 8192, 40_000),
    ] {
        all.push(Params::new(algorithm, sizes(min, avg, max)));
    }
    all.push(Params { secret: Some(Secret::new([7; 32])), ..all[2] });
    all.push(Params { seed: 9, level: 3, ..all[4] });
    if matches!(algorithm, Algorithm::Rabin | Algorithm::Crc | Algorithm::Buzhash) {
        for window in [1, 2, 31, 32, 63, 64, 255, 256] {
            all.push(Params { window, ..Params::new(algorithm, sizes(256, 320, 2000)) });
        }
    }
    all
}

/// Inputs that provoke ties, runs, candidates everywhere and none of them.
pub(crate) fn inputs(seed: u64, len: usize) -> Vec<Vec<u8>> {
    let rising: Vec<u8> = (0..=255).collect();
    let mut sparse = vec![0; len];
    for (i, byte) in sparse.iter_mut().enumerate().skip(7).step_by(331) {
        *byte = i as u8;
    }
    vec![
        random(seed, len),
        text(seed, len),
        low_entropy(seed, len, 2),
        cycle(&[0], len),
        cycle(&[0xff], len),
        cycle(&rising, len),
        cycle(&random(seed, 19), len),
        sparse,
    ]
}

/// Cuts and fingerprints of `data` on `device` are those of the CPU.
pub(crate) fn assert_like_cpu(
    device: &dyn Device,
    params: &Params,
    function: Option<&Fingerprinter>,
    inputs: &[&[u8]],
) {
    let chunker = Chunker::new(params).unwrap();
    let work = Work::new(&chunker, function).unwrap();
    let direct = (params.algorithm == Algorithm::Rabin).then(|| work.clone().without_tiles());
    let longest = inputs.iter().map(|data| data.len()).max().unwrap_or(0);
    let mut lane = device.lane(longest, Memory::Pinned).unwrap();
    for data in inputs {
        let name = || format!("{}: {params:?}, {function:?}, {} bytes", device.info(), data.len());
        let expected: Vec<usize> = chunker.cut_points(data).collect();
        // a sanitizer takes long for each chunk that a group selects
        let is_slow = device.info().name.starts_with("shim");
        if is_slow && params.algorithm == Algorithm::MinCdc && expected.len() > 300 {
            continue;
        }
        lane.input()[..data.len()].copy_from_slice(data);
        let (cuts, found) = work.whole(&mut *lane, data.len()).unwrap();
        assert!(cuts == expected, "{}", name());
        if let Some(direct) = &direct {
            let (cuts, _) = direct.whole(&mut *lane, data.len()).unwrap();
            assert!(cuts == expected, "{}, without tiles", name());
        }
        if let Some(function) = function {
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let expected: Vec<_> = starts
                .zip(&cuts)
                .map(|(start, &end)| function.fingerprint(&data[start..end]))
                .collect();
            assert!(found == expected, "{}", name());
        }
    }
}

/// The fingerprints of `ranges` of `data` on `device` are those of the CPU.
pub(crate) fn assert_hashes_like_cpu(
    device: &dyn Device,
    function: &Fingerprinter,
    data: &[u8],
    ranges: &[Range],
) {
    let chunker = Chunker::new(&Params::for_mean(Algorithm::MinCdc, 8192).unwrap()).unwrap();
    let work = Work::new(&chunker, Some(function)).unwrap();
    let mut lane = device.lane(data.len(), Memory::Pinned).unwrap();
    lane.input().copy_from_slice(data);
    // this is what brings the key
    work.whole(&mut *lane, data.len()).unwrap();
    let found = work.fingerprints(&mut *lane, ranges).unwrap();
    for (range, found) in ranges.iter().zip(&found) {
        let chunk = &data[range.start..][..range.len];
        assert_eq!(*found, function.fingerprint(chunk), "{function:?}, {range:?}");
    }
    assert_eq!(found.len(), ranges.len());
}

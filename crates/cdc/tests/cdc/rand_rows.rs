//! The rows for random data in appendix B of "A Thorough Investigation of Content-Defined Chunking
//! Algorithms for Data Deduplication" (2024), with the parameters that make ours the same
//! experiment.

use std::io::Read;

use onefold_cdc::{Algorithm, ChunkSizes, Cuts, Divisors, Params};

/// One measurement: a target, and the mean and deviation to be found.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) target: usize,
    pub(crate) params: Params,
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
    /// What the figures are, if not the paper's.
    pub(crate) instead: Option<&'static str>,
}

/// The paper has columns for 770 and 5482 bytes, which it heads 737 and 5152. Its rows have no
/// maximum, no minimum but what a window implies, and leave out the last chunk. `sample` are random
/// bytes to train on, other than those that are measured.
pub(crate) fn rows(sample: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name, algorithm, figures: &[(usize, u32, u32)]| {
        for &(target, mean, deviation) in figures {
            let (mean, deviation) = (f64::from(mean), f64::from(deviation));
            let params = experiment(name, algorithm, target, mean);
            rows.push(Row { name, target, params, mean, deviation, instead: None });
        }
    };
    add("Rabin", Algorithm::Rabin, &RABIN);
    add("Buzhash", Algorithm::Buzhash, &BUZHASH);
    add("Gear", Algorithm::Gear, &GEAR);
    add("Gear, 32 bits", Algorithm::Gear32, &GEAR);
    add("Gear, 16 bits", Algorithm::Gear16, &GEAR);
    add("Gear NC-1", Algorithm::FastCdc, &NC_1);
    add("Gear NC-2", Algorithm::FastCdc, &NC_2);
    add("Gear NC-3", Algorithm::FastCdc, &NC_3);
    add("AE", Algorithm::AeMax, &AE);
    add("AE-min", Algorithm::AeMin, &AE);
    add("RAM", Algorithm::Ram, &RAM);
    add("PCI", Algorithm::Pci, &PCI);
    add("MII", Algorithm::Mii, &MII);
    rows.extend(BFBC_TARGETS.map(|target| bfbc(sample, target)));
    rows
}

const RABIN: [(usize, u32, u32); 5] = [
    (512, 542, 511),
    (1024, 1055, 1024),
    (2048, 2078, 2047),
    (4096, 4127, 4091),
    (8192, 8220, 8179),
];
const BUZHASH: [(usize, u32, u32); 5] = [
    (512, 576, 512),
    (1024, 1089, 1026),
    (2048, 2115, 2053),
    (4096, 4166, 4101),
    (8192, 8267, 8213),
];
const GEAR: [(usize, u32, u32); 5] = [
    (512, 512, 510),
    (1024, 1024, 1023),
    (2048, 2048, 2047),
    (4096, 4098, 4096),
    (8192, 8184, 8175),
];
/// Without 770 and 5482, where the paper's thresholds are those of 1024 and 4096 with the normal
/// point at the target. Ours are made for the target; src/fastcdc.rs reproduces the paper's.
const NC_1: [(usize, u32, u32); 5] = [
    (512, 558, 339),
    (1024, 1116, 680),
    (2048, 2233, 1362),
    (4096, 4464, 2725),
    (8192, 8928, 5451),
];
const NC_2: [(usize, u32, u32); 5] =
    [(512, 553, 210), (1024, 1105, 420), (2048, 2209, 841), (4096, 4420, 1685), (8192, 8842, 3372)];
const NC_3: [(usize, u32, u32); 5] =
    [(512, 538, 130), (1024, 1076, 261), (2048, 2150, 522), (4096, 4300, 1047), (8192, 8603, 2093)];
const AE: [(usize, u32, u32); 7] = [
    (512, 512, 136),
    (770, 769, 179),
    (1024, 1024, 209),
    (2048, 2048, 252),
    (4096, 4095, 255),
    (5482, 5480, 255),
    (8192, 8191, 255),
];
const RAM: [(usize, u32, u32); 7] = [
    (512, 544, 234),
    (770, 785, 247),
    (1024, 1030, 252),
    (2048, 2048, 255),
    (4096, 4096, 255),
    (5482, 5482, 255),
    (8192, 8192, 255),
];
const PCI: [(usize, u32, u32); 7] = [
    (512, 506, 465),
    (770, 761, 731),
    (1024, 1017, 991),
    (2048, 2085, 2036),
    (4096, 4292, 4255),
    (5482, 5388, 5341),
    (8192, 8690, 8642),
];
const MII: [(usize, u32, u32); 2] = [(770, 887, 882), (5482, 6238, 6228)];
const BFBC_TARGETS: [usize; 7] = [512, 770, 1024, 2048, 4096, 5482, 8192];

/// The parameters that make an algorithm the paper's; `mean` is the reported one.
pub(crate) fn experiment(name: &str, algorithm: Algorithm, target: usize, mean: f64) -> Params {
    // a position that qualifies once in `target`, from the first full window on
    let from = |window: usize| ChunkSizes::unbounded(window, window - 1 + target);
    let (sizes, window) = match algorithm {
        Algorithm::Rabin => (from(32), 32),
        Algorithm::Buzhash => (from(64), 64),
        // The paper solves an equation for the window in which the wait behind it is the inverse
        // of the mean chance to end, not the mean of the inverses as it is: the chunks come out
        // longer than the target where windows are short. Ours come out at the target, so the same
        // experiment has the paper's mean as its target.
        Algorithm::Ram => (ChunkSizes::unbounded(1, mean as usize), 48),
        _ => (ChunkSizes::unbounded(1, target), 48),
    };
    let sizes = sizes.expect("sizes in order");
    let level = name.strip_prefix("Gear NC-").map_or(2, |level| level.parse().expect("a level"));
    Params { window, level, ..Params::new(algorithm, sizes) }
}

/// The paper's BFBC means follow from how often the three most frequent pairs of its 10 GiB occur,
/// and its BFBC* means from what its greedy choice makes of them. So the mean here is the one that
/// the number of divisors gives, n / 2^16 being the chance of a pair, trained on other data. It is
/// above the target, as pairs that are frequent in 64 MiB by chance are less so elsewhere.
fn bfbc(sample: &[u8], target: usize) -> Row {
    let sizes = ChunkSizes::unbounded(1, target).expect("sizes in order");
    let divisors = Divisors::for_mean(sample, sizes).expect("a sample");
    let mean = 65536.0 / divisors.pairs().count() as f64;
    let params = Params { divisors: Some(divisors), ..Params::new(Algorithm::Bfbc, sizes) };
    let instead = Some("by the number of its divisors");
    Row { name: "BFBC*", target, params, mean, deviation: mean, instead }
}

/// Mean and deviation of the first `chunks` chunks of endless random bytes.
pub(crate) fn measure(params: &Params, chunks: usize, endless: impl Read) -> (f64, f64) {
    let (mut previous, mut sum, mut squares) = (0, 0.0, 0.0);
    for cut in Cuts::new(params, endless).expect("parameters in order").take(chunks) {
        let cut = cut.expect("no failure");
        let len = (cut - previous) as f64;
        previous = cut;
        sum += len;
        squares += len * len;
    }
    let mean = sum / chunks as f64;
    (mean, (squares / chunks as f64 - mean * mean).sqrt())
}

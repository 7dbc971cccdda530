//! Results that nobody measured, for tests.

use crate::equal_mean::Borders;
use crate::metrics::{Findings, Metrics, Zeros};
use crate::rounds::Sample;
use crate::run::{Entry, Results, SampleRecord, Timing, Work};
use crate::{Counts, DatasetRecord, Distribution};

const BYTES: u64 = 1_000_000_000;

/// A chunker with a target mean, the mean that it reached, and its speed in bytes per second.
pub(crate) fn entry(
    algorithm: &str,
    wanted_mean: usize,
    mean: usize,
    ratio: f64,
    speed: f64,
) -> Entry {
    let chunks = BYTES / mean as u64;
    let unique_bytes = (BYTES as f64 / ratio) as u64;
    let metrics = Metrics {
        chunks,
        bytes: BYTES,
        mean: mean as f64,
        deviation: mean as f64 / 2.0,
        longest: 4 * mean as u64,
        unique_chunks: unique_bytes / mean as u64,
        unique_bytes,
    };
    let lengths = [mean / 2, mean, 2 * mean].map(|len| (len as u64, chunks / 3));
    Entry {
        algorithm: algorithm.into(),
        wanted_mean,
        avg: wanted_mean,
        min: wanted_mean / 4,
        max: 4 * wanted_mean,
        findings: Findings {
            metrics,
            zeros: Zeros::default(),
            one_in: 1,
            scanned_bytes: None,
            sizes: Distribution::of(lengths),
        },
        timings: vec![timing(Work::Cut, "scalar", speed / 4.0), timing(Work::Cut, "avx2", speed)],
    }
}

/// In seven rounds that hardly differ.
pub(crate) fn timing(work: Work, kernel: &str, speed: f64) -> Timing {
    let seconds = |round: u32| BYTES as f64 / speed * (1.0 + f64::from(round) / 100.0 - 0.04);
    let sample = |round| Sample { round, seconds: seconds(round), thread_seconds: seconds(round) };
    Timing {
        work,
        kernel: kernel.into(),
        threads: 1,
        bytes: BYTES,
        samples: (1..=7).map(sample).collect(),
        counts: Some(Counts {
            instructions: BYTES,
            branches: Some(1),
            branch_misses: None,
            l1d_read_misses: None,
            cache_misses: None,
        }),
    }
}

/// Memory can be read at 20 GB/s.
pub(crate) fn results(entries: Vec<Entry>) -> Results {
    Results {
        dataset: DatasetRecord {
            name: "made up".into(),
            digest: "blake3:0".into(),
            files: 1,
            bytes: BYTES,
        },
        is_complete: true,
        unreadable: Vec::new(),
        borders: Borders::Stream,
        equalised: false,
        sample: SampleRecord { bytes: BYTES, stretches: 1 },
        read_limit: timing(Work::Read, "avx2", 20e9),
        entries,
        noise: Vec::new(),
        missing: Vec::new(),
    }
}

//! How sizes are distributed: quantiles, and a histogram on a logarithmic scale.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bins of the histogram from one power of two to the next.
const BINS_AN_OCTAVE: i32 = 8;

/// The sizes of some chunks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// `None` without chunks.
    pub quantiles: Option<Quantiles>,
    /// Bins that are not empty, the shortest chunks first.
    pub bins: Vec<Bin>,
}

/// Sizes in bytes. Of n chunks in the order of their sizes the q-quantile is that of number ⌈q·n⌉.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are what they are")]
pub struct Quantiles {
    pub min: u64,
    pub p1: u64,
    pub p10: u64,
    pub p25: u64,
    pub median: u64,
    pub p75: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

/// The chunks of `from` to `below` bytes, which are ⌈2^(i/8)⌉ and ⌈2^((i+1)/8)⌉ for some i.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The shortest that belongs to it.
    pub from: u64,
    /// The shortest that is too long.
    pub below: u64,
    /// How many there are.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Distribution {
    /// Of chunks of some lengths above 0, each with how often it comes; a length may come again.
    pub fn of(lengths: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut times = BTreeMap::new();
        for (len, count) in lengths {
            *times.entry(len).or_default() += count;
        }
        let mut bins: Vec<Bin> = Vec::new();
        for (&len, &chunks) in &times {
            match bins.last_mut() {
                Some(bin) if len < bin.below => {
                    bin.chunks += chunks;
                    bin.bytes += len * chunks;
                }
                _ => bins.push(Bin { chunks, bytes: len * chunks, ..bin_of(len) }),
            }
        }
        Self { quantiles: Quantiles::of(&times), bins }
    }

    /// Where each bin ends, and the share of the chunks up to there, 0 to 1.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let all: u64 = self.bins.iter().map(|bin| bin.chunks).sum();
        let mut chunks = 0;
        self.bins.iter().map(move |bin| {
            chunks += bin.chunks;
            (bin.below, chunks as f64 / all as f64)
        })
    }
}

/// The empty bin to which `len` belongs.
fn bin_of(len: u64) -> Bin {
    let edge = |i: i32| 2_f64.powf(f64::from(i) / f64::from(BINS_AN_OCTAVE)).ceil() as u64;
    let mut i = (len.max(1).ilog2() as i32) * BINS_AN_OCTAVE;
    while edge(i + 1) <= len {
        i += 1;
    }
    Bin { from: edge(i), below: edge(i + 1), chunks: 0, bytes: 0 }
}

impl Quantiles {
    fn of(times: &BTreeMap<u64, u64>) -> Option<Self> {
        let all: u64 = times.values().sum();
        let at = |per_cent: u64| {
            let number = (per_cent * all).div_ceil(100).max(1);
            let mut before = 0;
            let reaches = |(_, count): &(&u64, &u64)| {
                before += **count;
                before >= number
            };
            times.iter().find(reaches).map(|(&len, _)| len)
        };
        Some(Self {
            min: at(0)?,
            p1: at(1)?,
            p10: at(10)?,
            p25: at(25)?,
            median: at(50)?,
            p75: at(75)?,
            p90: at(90)?,
            p99: at(99)?,
            max: at(100)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_testkit::SplitMix64;

    fn sizes() -> Vec<u64> {
        let mut numbers = SplitMix64::new(1);
        let mut size = || {
            let octave = 1 + numbers.below(17);
            1 + numbers.below(1 << octave) as u64
        };
        (0..5000).map(|_| size()).collect()
    }

    #[test]
    fn every_size_is_in_the_bin_that_covers_it() {
        let sizes = sizes();
        let distribution = Distribution::of(sizes.iter().map(|&len| (len, 1)));
        for bin in &distribution.bins {
            let inside: Vec<u64> =
                sizes.iter().copied().filter(|len| (bin.from..bin.below).contains(len)).collect();
            assert_eq!(inside.len() as u64, bin.chunks, "{bin:?}");
            assert_eq!(inside.iter().sum::<u64>(), bin.bytes, "{bin:?}");
        }
        let chunks: u64 = distribution.bins.iter().map(|bin| bin.chunks).sum();
        assert_eq!(chunks, 5000);
        assert!(distribution.bins.is_sorted_by(|a, b| a.below <= b.from));
    }

    #[test]
    fn bins_are_an_eighth_of_an_octave() {
        assert_eq!((bin_of(1).from, bin_of(1).below), (1, 2));
        assert_eq!((bin_of(1023).below, bin_of(1024).from), (1024, 1024));
        // 1024 · 2^(1/8) = 1116.7, and 1024 · 2^(7/8) = 1878.02
        assert_eq!((bin_of(1024).below, bin_of(1117).from), (1117, 1117));
        assert_eq!((bin_of(2047).from, bin_of(2047).below), (1879, 2048));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_sizes() {
        let mut sizes = sizes();
        let distribution = Distribution::of(sizes.iter().map(|&len| (len, 1)));
        sizes.sort();
        let Quantiles { min, p1, p10, p25, median, p75, p90, p99, max } =
            distribution.quantiles.unwrap();
        let found = [min, p1, p10, p25, median, p75, p90, p99, max];
        assert_eq!(found, [1, 50, 500, 1250, 2500, 3750, 4500, 4950, 5000].map(|i| sizes[i - 1]));
        assert_eq!(Distribution::of([]).quantiles, None);
    }

    #[test]
    fn shares_rise_to_one() {
        let distribution = Distribution::of([(1, 1), (10, 2), (100, 1)]);
        let shares: Vec<f64> = distribution.cumulative().map(|(_, share)| share).collect();
        assert_eq!(shares, [0.25, 0.75, 1.0]);
    }
}

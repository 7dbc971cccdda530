//! What cut-points are worth: sizes of the chunks, and how many bytes are distinct.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;

/// What is known of the chunks of one stream, or of many files cut apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// All chunks, the last of each input with them.
    pub chunks: u64,
    /// Logical bytes.
    pub bytes: u64,
    /// Mean size in bytes.
    pub mean: f64,
    /// Standard deviation of the sizes in bytes, over all chunks (not a sample of them).
    pub deviation: f64,
    /// The longest chunk in bytes.
    pub longest: u64,
    /// Chunks that differ, by the first half of their BLAKE3 hash.
    pub unique_chunks: u64,
    /// Their bytes.
    pub unique_bytes: u64,
}

impl Metrics {
    /// Of one input and its cut-points, the last of which is its length.
    pub fn of(data: &[u8], cut_points: impl IntoIterator<Item = usize>) -> Self {
        let mut tally = Tally::default();
        tally.add(data, cut_points);
        tally.metrics()
    }

    /// Logical bytes divided by unique bytes; 1 where there are none.
    pub fn dedup_ratio(&self) -> f64 {
        if self.unique_bytes == 0 { 1.0 } else { self.bytes as f64 / self.unique_bytes as f64 }
    }

    /// The part of the logical bytes that need not be kept, 0 to 1.
    pub fn space_savings(&self) -> f64 {
        1.0 - 1.0 / self.dedup_ratio()
    }
}

/// Chunks of nothing but zeros, as disk images have them: they deduplicate whatever the chunker
/// does, and hide what it does with the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Zeros {
    /// How many, those of other lengths together.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of those that differ, which is in length alone.
    pub unique_bytes: u64,
}

/// All that is known of how some data were cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Sums and means.
    pub metrics: Metrics,
    /// The part of it that is zeros.
    pub zeros: Zeros,
    /// Unique chunks and bytes were counted exactly if this is 1, otherwise estimated: by one of so
    /// many fingerprints.
    pub one_in: u64,
    /// Bytes that the rule looks at to find the cut-points ([`onefold_cdc::Chunker::scanned`]); records of old do
    /// not have it.
    #[serde(default)]
    pub scanned_bytes: Option<u64>,
    /// The sizes of the chunks.
    pub sizes: Distribution,
}

impl Findings {
    /// Logical bytes divided by unique bytes, but for chunks of zeros; 1 where there are no others.
    pub fn dedup_ratio_without_zeros(&self) -> f64 {
        let unique = self.metrics.unique_bytes.saturating_sub(self.zeros.unique_bytes);
        let bytes = self.metrics.bytes - self.zeros.bytes;
        if unique == 0 { 1.0 } else { bytes as f64 / unique as f64 }
    }

    /// Bytes that the rule looks at for each byte that is cut; `None` if that is not known.
    pub fn scanned_per_byte(&self) -> Option<f64> {
        Some(self.scanned_bytes? as f64 / self.metrics.bytes.max(1) as f64)
    }
}

/// The first half of a BLAKE3 hash: of 2⁴⁰ chunks two would collide by chance once in 2⁴⁹ times.
type ShortFingerprint = [u8; 16];

/// Counts the chunks of one input after another; chunks that are in several count once as unique.
///
/// What it remembers is bounded, if that is wanted: of more distinct chunks only those are kept
/// whose fingerprint ends in enough zero bits, and the rest is estimated from them (adaptive
/// sampling). Which chunks are kept depends on their bytes, so duplicates stay duplicates.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Lengths of the chunks by fingerprint.
    seen: HashMap<ShortFingerprint, u32>,
    most_seen: usize,
    /// Fingerprints in `seen` end in as many zero bits.
    zero_bits: u32,
    /// The lengths in `seen`.
    seen_bytes: u64,
    /// How often each length came.
    lengths: HashMap<u64, u64>,
    chunks: u64,
    bytes: u64,
    /// Of the sizes, exact.
    squares: u128,
    zeros: Zeros,
    /// How often a chunk of so many zeros came.
    zero_lengths: HashMap<u64, u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self::bounded(usize::MAX)
    }
}

impl Tally {
    /// A tally that remembers so many distinct chunks at most; each takes about 40 bytes.
    pub fn bounded(most_seen: usize) -> Self {
        Self {
            seen: HashMap::new(),
            most_seen: most_seen.max(1),
            zero_bits: 0,
            seen_bytes: 0,
            lengths: HashMap::new(),
            chunks: 0,
            bytes: 0,
            squares: 0,
            zeros: Zeros::default(),
            zero_lengths: HashMap::new(),
        }
    }

    /// Counts the chunks of `data`.
    ///
    /// # Panics
    ///
    /// If the cut-points do not rise to the length of `data`.
    pub fn add(&mut self, data: &[u8], cut_points: impl IntoIterator<Item = usize>) {
        let mut start = 0;
        for end in cut_points {
            assert!(start < end && end <= data.len(), "cut-points {start}, {end}: not rising");
            self.add_chunk(&data[start..end]);
            start = end;
        }
        assert_eq!(start, data.len(), "cut-points end before the data");
    }

    /// Counts one chunk.
    pub fn add_chunk(&mut self, chunk: &[u8]) {
        let len = chunk.len() as u64;
        self.chunks += 1;
        self.bytes += len;
        self.squares += u128::from(len) * u128::from(len);
        *self.lengths.entry(len).or_default() += 1;
        if is_zeros(chunk) {
            self.add_zeros(len);
        }
        let fingerprint = *blake3::hash(chunk).as_bytes().first_chunk().expect("32 bytes");
        if trailing_zeros(&fingerprint) >= self.zero_bits {
            let len = u32::try_from(len).expect("no chunk is longer than 64 MiB");
            if self.seen.insert(fingerprint, len).is_none() {
                self.seen_bytes += u64::from(len);
                self.forget_beyond_most();
            }
        }
    }

    fn add_zeros(&mut self, len: u64) {
        self.zeros.chunks += 1;
        self.zeros.bytes += len;
        let times = self.zero_lengths.entry(len).or_default();
        *times += 1;
        if *times == 1 {
            self.zeros.unique_bytes += len;
        }
    }

    /// Halves the sample until it is small enough.
    fn forget_beyond_most(&mut self) {
        while self.seen.len() > self.most_seen {
            self.zero_bits += 1;
            let zero_bits = self.zero_bits;
            self.seen.retain(|fingerprint, _| trailing_zeros(fingerprint) >= zero_bits);
            self.seen_bytes = self.seen.values().map(|&len| u64::from(len)).sum();
        }
    }

    /// Of all that was counted; a mean and deviation of 0 if nothing was.
    pub fn metrics(&self) -> Metrics {
        let chunks = self.chunks.max(1) as f64;
        let mean = self.bytes as f64 / chunks;
        // n·Σx² − (Σx)², in whole numbers: nothing cancels
        let variance = u128::from(self.chunks) * self.squares - u128::from(self.bytes).pow(2);
        Metrics {
            chunks: self.chunks,
            bytes: self.bytes,
            mean,
            deviation: (variance as f64).sqrt() / chunks,
            longest: self.lengths.keys().copied().max().unwrap_or(0),
            // an estimate may be beyond what there is
            unique_chunks: ((self.seen.len() as u64) << self.zero_bits).min(self.chunks),
            unique_bytes: (self.seen_bytes << self.zero_bits).min(self.bytes),
        }
    }

    /// Of all that was counted.
    pub fn findings(&self) -> Findings {
        Findings {
            metrics: self.metrics(),
            zeros: self.zeros,
            one_in: 1 << self.zero_bits,
            scanned_bytes: None,
            sizes: Distribution::of(self.lengths.iter().map(|(&len, &times)| (len, times))),
        }
    }
}

fn trailing_zeros(fingerprint: &ShortFingerprint) -> u32 {
    u128::from_le_bytes(*fingerprint).trailing_zeros()
}

fn is_zeros(chunk: &[u8]) -> bool {
    // a memcmp of the chunk with itself, one byte apart
    chunk.first() == Some(&0) && chunk[1..] == chunk[..chunk.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_duplicates_are_found_to_the_byte() {
        // ab, cde, ab, ab, cde: 5 of 12 bytes are distinct
        let metrics = Metrics::of(b"abcdeababcde", [2, 5, 7, 9, 12]);
        assert_eq!((metrics.chunks, metrics.unique_chunks), (5, 2));
        assert_eq!((metrics.bytes, metrics.unique_bytes), (12, 5));
        assert_eq!(metrics.dedup_ratio(), 2.4);
        assert!((metrics.space_savings() - 7.0 / 12.0).abs() < 1e-15);
        assert_eq!((metrics.mean, metrics.longest), (2.4, 3));
        // sizes 2, 3, 2, 2, 3 about 2.4: √((3·0.16 + 2·0.36) / 5)
        assert!((metrics.deviation - 0.24_f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn files_cut_apart_share_their_chunks() {
        let mut tally = Tally::default();
        tally.add(b"same", [4]);
        tally.add(b"sameother", [4, 9]);
        tally.add(b"", []);
        let metrics = tally.metrics();
        assert_eq!((metrics.chunks, metrics.bytes, metrics.unique_bytes), (3, 13, 9));
    }

    #[test]
    fn nothing_has_metrics_too() {
        let metrics = Metrics::of(b"", []);
        assert_eq!((metrics.mean, metrics.deviation, metrics.dedup_ratio()), (0.0, 0.0, 1.0));
        assert_eq!(metrics.space_savings(), 0.0);
    }

    #[test]
    fn agrees_with_a_naive_count() {
        let data: Vec<u8> = (0..5000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8 % 3).collect();
        let cuts: Vec<usize> =
            (1..=data.len()).filter(|&i| i % 7 == 0 || i == data.len()).collect();
        let mut chunks: Vec<&[u8]> = Vec::new();
        let mut start = 0;
        for &cut in &cuts {
            chunks.push(&data[start..cut]);
            start = cut;
        }
        let mean = data.len() as f64 / chunks.len() as f64;
        let squares: f64 = chunks.iter().map(|chunk| (chunk.len() as f64 - mean).powi(2)).sum();
        let metrics = Metrics::of(&data, cuts);
        assert!((metrics.deviation - (squares / chunks.len() as f64).sqrt()).abs() < 1e-12);
        chunks.sort();
        chunks.dedup();
        assert_eq!(metrics.unique_chunks, chunks.len() as u64);
        let unique: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        assert_eq!(metrics.unique_bytes, unique as u64);
    }

    #[test]
    fn zeros_are_told_apart_from_other_runs() {
        let mut tally = Tally::default();
        for chunk in [&b"\0\0\0"[..], b"\0\0", b"\0\0\0", b"\0\0\x01", b"aaa", b"aaa"] {
            tally.add_chunk(chunk);
        }
        let findings = tally.findings();
        assert_eq!(findings.zeros, Zeros { chunks: 3, bytes: 8, unique_bytes: 5 });
        assert_eq!(findings.metrics.unique_bytes, 5 + 6);
        assert_eq!(findings.dedup_ratio_without_zeros(), 1.5);
        for len in 1..100 {
            let mut chunk = vec![0; len];
            assert!(is_zeros(&chunk));
            for place in 0..len {
                chunk[place] = 1;
                assert!(!is_zeros(&chunk), "{len} bytes, not 0 at {place}");
                chunk[place] = 0;
            }
        }
    }

    #[test]
    fn a_bounded_tally_counts_exactly_until_it_is_full_and_estimates_then() {
        // 40,000 distinct chunks of 8 bytes and one of 16, each twice
        let add = |tally: &mut Tally, count: u64| {
            for i in (0..count).chain(0..count) {
                tally.add_chunk(&i.to_le_bytes());
                tally.add_chunk(&[1; 16]);
            }
        };
        let mut small = Tally::bounded(1001);
        add(&mut small, 1000);
        let findings = small.findings();
        assert_eq!((findings.one_in, findings.metrics.unique_bytes), (1, 8016));

        let mut large = Tally::bounded(4000);
        add(&mut large, 40_000);
        let findings = large.findings();
        assert!(findings.one_in >= 10, "{}", findings.one_in);
        assert_eq!(findings.metrics.bytes, 2 * 40_000 * 24);
        let error = findings.metrics.unique_bytes as f64 / (8.0 * 40_000.0) - 1.0;
        // of some 2,500 kept chunks: one in √2,500
        assert!(error.abs() < 0.06, "{error}");
    }

    #[test]
    #[should_panic(expected = "cut-points end before the data")]
    fn a_tail_that_no_chunk_covers_is_a_bug() {
        Metrics::of(b"abc", [2]);
    }
}

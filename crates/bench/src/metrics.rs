//! What cut-points are worth: sizes of the chunks, and how many bytes are distinct.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

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
    /// Chunks that differ, by BLAKE3.
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

/// Counts the chunks of one input after another; chunks that are in several count once as unique.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    seen: HashSet<[u8; 32]>,
    chunks: u64,
    bytes: u64,
    /// Of the sizes, exact.
    squares: u128,
    longest: u64,
    unique_bytes: u64,
}

impl Tally {
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

    fn add_chunk(&mut self, chunk: &[u8]) {
        let len = chunk.len() as u64;
        self.chunks += 1;
        self.bytes += len;
        self.squares += u128::from(len) * u128::from(len);
        self.longest = self.longest.max(len);
        if self.seen.insert(*blake3::hash(chunk).as_bytes()) {
            self.unique_bytes += len;
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
            longest: self.longest,
            unique_chunks: self.seen.len() as u64,
            unique_bytes: self.unique_bytes,
        }
    }
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
    #[should_panic(expected = "cut-points end before the data")]
    fn a_tail_that_no_chunk_covers_is_a_bug() {
        Metrics::of(b"abc", [2]);
    }
}

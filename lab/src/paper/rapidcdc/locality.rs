//! Duplicate locality: how duplicates follow one another (figures 3 and 4).

use std::collections::HashSet;

use anyhow::Result;
use onefold_bench::Dataset;
use onefold_cdc::{Algorithm, Chunker, Params};

use super::default_sizes;
use super::real::Real;
use crate::paper::finding::Table;
use crate::paper::session::Session;

/// How duplicates lie together, in so many of the first files.
pub(super) struct Locality {
    pub(super) files: usize,
    pub(super) chunks: usize,
    pub(super) duplicates: usize,
    /// Lengths of the sequences of duplicates that follow a duplicate.
    pub(super) sequences: Vec<usize>,
}

impl Locality {
    /// Of a quarter of the files, half of them, and all.
    pub(super) fn of(dataset: &Dataset) -> Result<Vec<Self>> {
        let chunker = Chunker::new(&Params::new(Algorithm::Rabin, default_sizes()?))?;
        let mut known = HashSet::new();
        let mut files = Vec::new();
        for file in dataset.files() {
            let mut start = 0;
            let mut duplicate = Vec::new();
            for end in chunker.cut_points(file) {
                duplicate.push(!known.insert(*blake3::hash(&file[start..end]).as_bytes()));
                start = end;
            }
            files.push(duplicate);
        }
        let mut counts = [files.len() / 4, files.len() / 2, files.len()].to_vec();
        counts.retain(|&count| count > 0);
        counts.dedup();
        Ok(counts.into_iter().map(|count| Self::from_flags(&files[..count])).collect())
    }

    /// Of each file's chunks whether they were there before.
    pub(super) fn from_flags(files: &[Vec<bool>]) -> Self {
        let mut all = Self { files: files.len(), chunks: 0, duplicates: 0, sequences: Vec::new() };
        for file in files {
            all.chunks += file.len();
            for run in file.split(|duplicate| !duplicate).filter(|run| !run.is_empty()) {
                all.duplicates += run.len();
                all.sequences.push(run.len() - 1);
            }
        }
        all
    }

    pub(super) fn in_sequences(&self) -> usize {
        self.sequences.iter().sum()
    }

    /// Of the chunks in sequences, the percentage in those of at most `len`.
    pub(super) fn up_to(&self, len: usize) -> f64 {
        let shorter: usize = self.sequences.iter().filter(|&&sequence| sequence <= len).sum();
        100.0 * shorter as f64 / self.in_sequences().max(1) as f64
    }

    /// The percentage in those of more.
    pub(super) fn longer(&self, len: usize) -> f64 {
        100.0 - self.up_to(len)
    }

    pub(super) fn percent(&self, chunks: usize) -> f64 {
        100.0 * chunks as f64 / self.chunks.max(1) as f64
    }
}

/// The lengths up to which figure 4 counts.
const LENGTHS: [usize; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

pub(super) fn tables(session: &mut Session, real: &[Real]) {
    let mut shares = Table::new(
        "Figure 3",
        "duplicates, and those of them in LQ sequences, in percent of all chunks, by files",
        &["dataset, files", "chunks", "duplicates", "in LQ sequences"],
    );
    let lengths = LENGTHS.map(|len| len.to_string());
    let mut columns = vec!["dataset, files"];
    columns.extend(lengths.iter().map(String::as_str));
    columns.push("longest");
    let title =
        "of the chunks in LQ sequences, the percentage in sequences of at most so many chunks";
    let mut distribution = Table::new("Figure 4", title, &columns);
    for one in real {
        for locality in &one.localities {
            let name = format!("{}, {}", one.name(), locality.files);
            let parts = [locality.duplicates, locality.in_sequences()];
            let parts = parts.map(|chunks| format!("{:.1}", locality.percent(chunks)));
            shares.row([name.clone(), locality.chunks.to_string()].into_iter().chain(parts));
            let cells = LENGTHS.map(|len| format!("{:.1}", locality.up_to(len)));
            let longest = locality.sequences.iter().max().map_or(String::new(), usize::to_string);
            distribution.row([name].into_iter().chain(cells).chain([longest]));
        }
    }
    session.table(shares);
    session.table(distribution);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_the_duplicates_that_follow_one() {
        // new, then three known: two follow one; a lone one; the end of a file ends a sequence
        let first = vec![false, true, true, true, false, true];
        let second = vec![true, true];
        let all = [first, second];
        let of_one = Locality::from_flags(&all[..1]);
        assert_eq!((of_one.files, of_one.chunks, of_one.duplicates), (1, 6, 4));
        let locality = Locality::from_flags(&all);
        assert_eq!((locality.chunks, locality.duplicates), (8, 6));
        assert_eq!(locality.sequences, [2, 0, 1]);
        assert_eq!(locality.in_sequences(), 3);
        // one chunk of the three is in a sequence of one
        assert!((locality.up_to(1) - 100.0 / 3.0).abs() < 1e-9);
        assert!((locality.longer(1) - 100.0 * 2.0 / 3.0).abs() < 1e-9);
        assert_eq!((locality.up_to(0), locality.up_to(2)), (0.0, 100.0));
    }
}

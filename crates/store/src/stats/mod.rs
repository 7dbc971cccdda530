//! How much a repository holds, and how much that saves.

mod shares;

pub use shares::{Share, Sharing, shares};

use onefold_container::{self as container, Content, Directory, container_id};
use onefold_index as index;

use crate::{Repository, StoreError};

/// How much a repository holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// Snapshots.
    pub snapshots: u64,
    /// Bytes of all files of all snapshots: what restoring each of them would write.
    pub logical_bytes: u64,
    /// Bytes of the distinct chunks of files and of metadata, before compression.
    pub unique_bytes: u64,
    /// Bytes of all containers.
    pub stored_bytes: u64,
    /// Distinct chunks of files.
    pub data_chunks: u64,
    /// Distinct chunks of trees and recipes.
    pub metadata_chunks: u64,
    /// Bytes of the chunks of trees and recipes, before compression.
    pub metadata_bytes: u64,
    /// Containers.
    pub containers: u64,
    /// Bytes of the index at rest.
    pub index_bytes: u64,
    /// How the lengths of files' chunks are distributed; `None` without chunks.
    pub chunk_sizes: Option<Quantiles>,
}

/// Quantiles of chunk lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// The shortest.
    pub min: u32,
    /// A tenth is no longer than this.
    pub p10: u32,
    /// A quarter is no longer than this.
    pub p25: u32,
    /// Half is no longer than this.
    pub median: u32,
    /// Three quarters are no longer than this.
    pub p75: u32,
    /// Nine tenths are no longer than this.
    pub p90: u32,
    /// 99 of 100 are no longer than this.
    pub p99: u32,
    /// The longest.
    pub max: u32,
    /// The arithmetic mean.
    pub mean: f64,
}

impl Quantiles {
    /// The quantiles of `lengths`, by nearest rank.
    fn of(mut lengths: Vec<u32>) -> Option<Self> {
        lengths.sort_unstable();
        let count = lengths.len();
        let at = |percent: usize| lengths[(count * percent).div_ceil(100).max(1) - 1];
        let sum: u64 = lengths.iter().map(|len| u64::from(*len)).sum();
        (count > 0).then(|| Self {
            min: at(0),
            p10: at(10),
            p25: at(25),
            median: at(50),
            p75: at(75),
            p90: at(90),
            p99: at(99),
            max: at(100),
            mean: sum as f64 / count as f64,
        })
    }
}

impl Stats {
    /// Logical bytes for each unique byte; `None` if there are none.
    pub fn dedup_ratio(&self) -> Option<f64> {
        ratio(self.logical_bytes, self.unique_bytes)
    }

    /// Unique bytes for each stored byte; `None` if there are none.
    pub fn compression_ratio(&self) -> Option<f64> {
        ratio(self.unique_bytes, self.stored_bytes)
    }
}

fn ratio(bytes: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| bytes as f64 / of as f64)
}

/// Adds up what the containers' footers list and what the snapshots say of themselves.
pub fn stats(repository: &Repository) -> Result<Stats, StoreError> {
    repository.expect_reading()?;
    let objects = &*repository.objects;
    let (snapshots, damaged) = repository.snapshots()?;
    if let Some(error) = damaged.into_iter().next() {
        return Err(error);
    }
    let mut stats = Stats {
        snapshots: snapshots.len() as u64,
        logical_bytes: snapshots
            .iter()
            .fold(0, |sum, (_, snapshot)| sum.saturating_add(snapshot.summary.bytes)),
        unique_bytes: 0,
        stored_bytes: 0,
        data_chunks: 0,
        metadata_chunks: 0,
        metadata_bytes: 0,
        containers: 0,
        index_bytes: objects.list(index::PREFIX)?.iter().map(|info| info.size).sum(),
        chunk_sizes: None,
    };
    let mut lengths = Vec::new();
    for info in objects.list(container::PREFIX)? {
        let Some(id) = container_id(&info.name) else { continue };
        let directory = Directory::read(objects, &repository.envelope, id, info.size)?;
        let bytes: u64 = directory.chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        stats.containers += 1;
        stats.stored_bytes += info.size;
        stats.unique_bytes += bytes;
        match directory.content {
            Content::Data => {
                stats.data_chunks += directory.chunks.len() as u64;
                lengths.extend(directory.chunks.iter().map(|chunk| chunk.len));
            }
            Content::Metadata => {
                stats.metadata_chunks += directory.chunks.len() as u64;
                stats.metadata_bytes += bytes;
            }
        }
    }
    stats.chunk_sizes = Quantiles::of(lengths);
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        assert_eq!(Quantiles::of(Vec::new()), None);
        let one = Quantiles::of(vec![7]).unwrap();
        assert_eq!((one.min, one.median, one.max, one.mean), (7, 7, 7, 7.0));
        let hundred = Quantiles::of((1..=100).rev().collect()).unwrap();
        assert_eq!((hundred.min, hundred.p10, hundred.median), (1, 10, 50));
        assert_eq!((hundred.p99, hundred.max, hundred.mean), (99, 100, 50.5));
    }
}

//! `onefold stats`

use anyhow::Result;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use onefold_store::stats::{self, Quantiles, Share, Sharing};
use serde::Serialize;

use crate::console::Console;
use crate::count;
use crate::exit::Exit;
use crate::interrupt::cancel_on_signal;
use crate::name::shown;
use crate::output::Output;
use crate::progress::watched_in_silence;
use crate::ratio;
use crate::repository::RepositoryArgs;
use crate::table;

const AFTER_HELP: &str = "\
Logical bytes are the sizes of all files of all snapshots, unique bytes the sizes of the distinct
chunks, stored bytes the sizes of the containers, in which chunks are compressed. The dedup ratio is
logical divided by unique bytes, the compression ratio unique divided by stored bytes.

For a host or tag, unique bytes are the sizes of the distinct chunks that its snapshots reach. Own bytes
are the sizes of those that no other host or tag reaches: about what forgetting all these snapshots
would free, before compression. A snapshot with several tags counts for each.

Examples:
  onefold stats --repo /mnt/backup
  onefold stats --repo /mnt/backup --json
  onefold stats --repo /mnt/backup --by-host

With --json: one document with snapshots, logical_bytes, unique_bytes, stored_bytes, dedup_ratio,
compression_ratio (null if there is nothing), data_chunks, metadata_chunks, metadata_bytes,
containers, index_bytes and chunk_sizes (null, or min, p10, p25, median, p75, p90, p99, max, mean). With
--by-host or --by-tag: a list with name (null without a tag), snapshots, logical_bytes, unique_bytes
and own_bytes.";

/// Show the size of the repository and what deduplication and compression save
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stats {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Show what the snapshots of each host need; reads all trees
    #[arg(long, conflicts_with = "by_tag")]
    by_host: bool,
    /// Show what the snapshots of each tag need; reads all trees
    #[arg(long)]
    by_tag: bool,
}

/// The bytes that the snapshots of a host or tag need, in JSON.
#[derive(Serialize)]
struct ShareFields {
    /// None for snapshots without a tag.
    name: Option<String>,
    snapshots: u64,
    logical_bytes: u64,
    unique_bytes: u64,
    own_bytes: u64,
}

/// Statistics in JSON.
#[derive(Serialize)]
struct Counted {
    snapshots: u64,
    logical_bytes: u64,
    unique_bytes: u64,
    stored_bytes: u64,
    dedup_ratio: Option<f64>,
    compression_ratio: Option<f64>,
    data_chunks: u64,
    metadata_chunks: u64,
    metadata_bytes: u64,
    containers: u64,
    index_bytes: u64,
    chunk_sizes: Option<ChunkSizes>,
}

#[derive(Serialize)]
struct ChunkSizes {
    min: u32,
    p10: u32,
    p25: u32,
    median: u32,
    p75: u32,
    p90: u32,
    p99: u32,
    max: u32,
    mean: f64,
}

impl Stats {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        if self.by_host || self.by_tag {
            return self.shares(console);
        }
        let opened = self.repository.open_unloaded(console)?;
        let stats = stats::stats(&opened.repository)?;
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&Counted::of(&stats))?;
        } else {
            for line in lines(&stats) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

impl Stats {
    fn shares(&self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open(console)?;
        let by = if self.by_host { Sharing::Host } else { Sharing::Tag };
        let cancel = cancel_on_signal(console, "nothing was changed")?;
        let shares = watched_in_silence(console, |progress| {
            stats::shares(&opened.repository, by, progress, &cancel)
        })?;
        let mut output = Output::new();
        if console.is_json() {
            let fields: Vec<_> = shares.into_iter().map(ShareFields::of).collect();
            output.json_document(&fields)?;
        } else {
            for line in share_lines(&shares, by) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

impl ShareFields {
    fn of(share: Share) -> Self {
        let Share { name, snapshots, logical_bytes, unique_bytes, own_bytes } = share;
        Self { name, snapshots, logical_bytes, unique_bytes, own_bytes }
    }
}

fn share_lines(shares: &[Share], by: Sharing) -> Vec<String> {
    let first = if by == Sharing::Host { "host" } else { "tag" };
    let heading = [first, "snapshots", "logical", "unique", "own"].map(str::to_owned);
    let mut rows = vec![heading.to_vec()];
    for share in shares {
        let name = share.name.as_ref().map_or("(none)".into(), |name| shown(name.as_bytes()));
        let mut row = vec![name, HumanCount(share.snapshots).to_string()];
        let bytes = [share.logical_bytes, share.unique_bytes, share.own_bytes];
        row.extend(bytes.map(|bytes| HumanBytes(bytes).to_string()));
        rows.push(row);
    }
    table::lines(&rows, &[1, 2, 3, 4])
}

fn lines(stats: &stats::Stats) -> Vec<String> {
    let bytes = |bytes| format!("{} ({})", HumanBytes(bytes), count::count(bytes, "byte", "bytes"));
    let count = |count| HumanCount(count).to_string();
    let ratio = |ratio: Option<f64>| ratio.map_or("none".into(), ratio::times);
    let mut rows = vec![
        ("snapshots", count(stats.snapshots)),
        ("logical", bytes(stats.logical_bytes)),
        ("unique", bytes(stats.unique_bytes)),
        ("stored", bytes(stats.stored_bytes)),
        ("dedup ratio", ratio(stats.dedup_ratio())),
        ("compression ratio", ratio(stats.compression_ratio())),
        ("chunks of files", count(stats.data_chunks)),
        ("chunks of metadata", count(stats.metadata_chunks)),
        ("metadata", bytes(stats.metadata_bytes)),
        ("containers", count(stats.containers)),
        ("index", bytes(stats.index_bytes)),
    ];
    if let Some(sizes) = stats.chunk_sizes {
        let Quantiles { min, p10, p25, median, p75, p90, p99, max, mean } = sizes;
        let quantiles = format!(
            "min {min}, p10 {p10}, p25 {p25}, median {median}, p75 {p75}, p90 {p90}, p99 {p99}, \
             max {max}, mean {mean:.0}"
        );
        rows.push(("chunk sizes", quantiles));
    }
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.into(), value]).collect();
    table::lines(&rows, &[])
}

impl Counted {
    fn of(stats: &stats::Stats) -> Self {
        Self {
            snapshots: stats.snapshots,
            logical_bytes: stats.logical_bytes,
            unique_bytes: stats.unique_bytes,
            stored_bytes: stats.stored_bytes,
            dedup_ratio: stats.dedup_ratio(),
            compression_ratio: stats.compression_ratio(),
            data_chunks: stats.data_chunks,
            metadata_chunks: stats.metadata_chunks,
            metadata_bytes: stats.metadata_bytes,
            containers: stats.containers,
            index_bytes: stats.index_bytes,
            chunk_sizes: stats.chunk_sizes.map(ChunkSizes::of),
        }
    }
}

impl ChunkSizes {
    const fn of(quantiles: Quantiles) -> Self {
        let Quantiles { min, p10, p25, median, p75, p90, p99, max, mean } = quantiles;
        Self { min, p10, p25, median, p75, p90, p99, max, mean }
    }
}

//! Backs up images to a remote site by how much of them it has: figure 18 of Shredder (FAST 2012).
//!
//! A master image is backed up first, then an image of which each segment is the master's with the
//! chance that is measured, or else new. The site is an S3 server on this machine's loopback, and
//! every byte to it and from it is counted on the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use xtask::s3_server;
use xtask::sample_tree::SplitMix64;
use xtask::workspace::{self, Cargo};

use super::backups::{self, Work};
use super::measure::Usage;
use super::s3_process::{Meter, S3Process};
use super::similarity_plot;
use super::tool::Tool;

/// What `cargo lab bench similarity` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many of a hundred segments the site has
    #[arg(long, value_delimiter = ',', value_name = "PERCENT",
          default_values_t = [0, 25, 50, 60, 70, 80, 90, 95, 100])]
    similarities: Vec<u64>,
    /// Segments of 256 KiB in an image
    #[arg(long, default_value_t = 512)]
    segments: u64,
    /// How often each is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where images and repositories go; emptied first [default: target/bench/work]
    #[arg(long)]
    work: Option<PathBuf>,
    /// The plot to write, as SVG
    #[arg(long)]
    plot: Option<PathBuf>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// Bytes of a segment.
const SEGMENT: usize = 256 << 10;

/// The backup of one image to a repository that has the master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The chance of a segment to be the master's.
    pub(crate) similarity_percent: u64,
    /// From 1.
    pub(crate) round: u32,
    /// Whether the repository is in S3, or else a folder.
    pub(crate) is_remote: bool,
    pub(crate) image_bytes: u64,
    /// Those of segments that are not the master's.
    pub(crate) replaced_bytes: u64,
    /// Wall time of the command.
    pub(crate) seconds: f64,
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    /// Bytes that went to the server, requests and their headers included.
    pub(crate) sent_bytes: u64,
    /// Bytes that came back.
    pub(crate) received_bytes: u64,
}

const CACHE_STATE: &str = "warm: the image was written just before";

const NOTES: [&str; 4] = [
    "after figure 18 of Shredder (FAST 2012): the paper's agent makes images at 10 Gbit/s and its \
     chunking is on a GPU; here the image is a file, and all of the client is the command",
    "the S3 server is moto, one process of Python that serves one request at a time: where much is \
     new the bandwidth is the server's, which is why the same to a folder stands beside it",
    "segments of 256 KiB are replaced by random bytes, which nothing compresses; encrypted, at the \
     defaults; the client's index was kept from the backup of the master",
    "sent_bytes have the chunks, recipes, trees, index run, snapshot, intent and receipt",
];

/// Measures, prints and writes the record and the plot.
pub(crate) fn measure(options: Options) -> Result<()> {
    let versions = backups::versions(&[Tool::Onefold])?;
    let server = s3_server::install(Cargo::default()).context("there is no S3 server")?;
    let work = options.work.unwrap_or_else(|| workspace::target_dir().join("bench/work"));
    let work = Work::begin(&work)?;
    let images = work.fresh("images")?;
    let segments = options.segments;
    write_image(&images.join("master.img"), None, segments)?;
    let mut replaced = Vec::new();
    for similarity in &options.similarities {
        let path = images.join(format!("{similarity}.img"));
        replaced.push((*similarity, write_image(&path, Some(*similarity), segments)?));
    }
    let (_, dataset) = backups::read_dataset(&images)?;
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        for (similarity, replaced_bytes) in &replaced {
            for is_remote in [true, false] {
                let (usage, sent, received) = back_up(&work, &server, *similarity, is_remote)?;
                let sample = Sample {
                    similarity_percent: *similarity,
                    round,
                    is_remote,
                    image_bytes: segments * SEGMENT as u64,
                    replaced_bytes: *replaced_bytes,
                    seconds: usage.wall.as_secs_f64(),
                    user_seconds: usage.user.as_secs_f64(),
                    system_seconds: usage.system.as_secs_f64(),
                    sent_bytes: sent,
                    received_bytes: received,
                };
                println!(
                    "bench: {similarity} % alike, {}: {:.2} s, {:.1} MB sent",
                    if is_remote { "S3" } else { "folder" },
                    sample.seconds,
                    sample.sent_bytes as f64 / 1e6
                );
                samples.push(sample);
            }
        }
    }
    if let Some(plot) = &options.plot {
        let svg = similarity_plot::of(&samples);
        fs::write(plot, svg).with_context(|| plot.display().to_string())?;
    }
    work.end()?;
    backups::write_record(&options.out, dataset, CACHE_STATE, versions, samples, &NOTES)
}

/// Writes an image, each segment of it the master's with a chance of `similarity` percent; without
/// it the master. Returns how many bytes are not the master's.
fn write_image(path: &Path, similarity: Option<u64>, segments: u64) -> Result<u64> {
    let mut bytes = Vec::new();
    let mut replaced = 0;
    for segment in 0..segments {
        let mut dice = SplitMix64((similarity.unwrap_or(0) << 32) | segment);
        let is_master = similarity.is_none_or(|percent| dice.draw() % 100 < percent);
        let seed = if is_master { segment } else { (1 << 40) | (dice.draw() >> 8) };
        replaced += if is_master { 0 } else { SEGMENT as u64 };
        let mut random = SplitMix64(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        bytes.extend((0..SEGMENT / 8).flat_map(|_| random.draw().to_le_bytes()));
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())?;
    Ok(replaced)
}

/// Backs the master up and then, measured, the image, to a place where nothing else is. With what it
/// used come the bytes that were sent and received.
fn back_up(
    work: &Work,
    server: &Path,
    similarity: u64,
    is_remote: bool,
) -> Result<(Usage, u64, u64)> {
    let folder = work.fresh("similarity")?;
    let images = folder.with_file_name("images");
    let process = S3Process::start(server)?;
    let meter = Meter::to(&process)?;
    let repository = match is_remote {
        true => "s3://bucket/site".into(),
        false => folder.join("repository").into_os_string(),
    };
    let place = folder.join("disk.img");
    let log = folder.join("output.log");
    let run = |image: &str| {
        fs::copy(images.join(image), &place).with_context(|| place.display().to_string())?;
        // The backup of a file that is being written back would be measured with it.
        rustix::fs::sync();
        let mut command = Command::new(workspace::target_dir().join("release/onefold"));
        command.args(["backup", "--init", "--host", "site"]).arg(&place);
        command.env("ONEFOLD_REPOSITORY", &repository).env("ONEFOLD_PASSWORD", "of a benchmark");
        command.env("ONEFOLD_CACHE_DIR", folder.join("cache"));
        command.env("AWS_ENDPOINT_URL", meter.url());
        command.env("AWS_ACCESS_KEY_ID", "none").env("AWS_SECRET_ACCESS_KEY", "none");
        backups::run_logged(&mut command, &log)
    };
    run("master.img")?;
    meter.take();
    let usage = run(&format!("{similarity}.img"))?;
    let (sent, received) = meter.take();
    Ok((usage, sent, received))
}

//! Measures random reads and writes of a served volume by fio, beside a qcow2 image that qemu-nbd serves with
//! a cache of its map (`l2-cache-size`) as large as the memory that `onefold serve` is told to take.
//!
//! Each server is filled once. Then rounds are interleaved, and each begins with another server. In each
//! turn a server starts with nothing cached, in a control group of the same size for all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use onefold_terminal::size;
use serde::{Deserialize, Serialize};

use xtask::{programs, record};

use super::content::Shape;
use super::fill::fill;
use super::memory::{ProgramArgs, group, made, serve};
use super::served::{Served, forget};
use crate::measuring::backups;
use crate::measuring::fio::{self, Reported};
use crate::measuring::limited::Limited;
use crate::measuring::process::{cpu_time, disk_read};
use crate::measuring::record::Dataset;
use crate::measuring::table::{lower_bound, median};

/// What `cargo lab campaign volume-qcow2` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program to measure: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// The size of the device in MiB
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(16..))]
    size: u64,
    /// qemu's cache of the map: tell `onefold serve` as much by --serve-arg
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size::parse)]
    memory: usize,
    /// Cluster sizes of the images
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4KiB,64KiB")]
    #[arg(num_args = 1.., value_parser = size::parse)]
    clusters: Vec<usize>,
    /// What images hold before the first round
    #[arg(long, value_enum, default_value = "data")]
    image_fill: ImageFill,
    /// How many percent of each page of the fill are zeros
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=99))]
    compressible: u64,
    /// How often each server runs each phase
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Random reads of 4 KiB, and random writes with one flush; an eighth as many writes with a flush for
    /// every 32
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(512..))]
    operations: u64,
    /// How many percent of what fio writes are duplicates
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=100))]
    dedupe: u64,
    #[command(flatten)]
    program: ProgramArgs,
    /// The memory of the control group that each server runs in, the kernel's cache included [default: no
    /// limit]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    limit: Option<usize>,
    /// Where pool and images go; emptied first [default: target/bench/work]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// What an image holds before the first round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ImageFill {
    /// What the volume holds, written through the server
    Data,
    /// All of the map, and holes in the place of data: for sizes that no disk here has room for
    Metadata,
}

/// Bytes of a request and of a block of the volume.
const BLOCK: u64 = 4096;

/// Bytes of the map for each mapped block or cluster, of a pool and of an image.
const ENTRY: u64 = 8;

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Onefold,
    /// With clusters of so many bytes.
    Qcow2(u64),
}

impl Server {
    fn name(self) -> String {
        match self {
            Self::Onefold => "onefold".into(),
            Self::Qcow2(cluster) => format!("qcow2-{}k", cluster >> 10),
        }
    }

    /// Bytes of the map of a device of `size` bytes.
    fn map_bytes(self, size: u64) -> u64 {
        match self {
            Self::Onefold => size / BLOCK * ENTRY,
            Self::Qcow2(cluster) => size.div_ceil(cluster) * ENTRY,
        }
    }
}

/// What fio does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Read,
    OneFlush,
    ManyFlushes,
}

const PHASES: [Phase; 3] = [Phase::Read, Phase::OneFlush, Phase::ManyFlushes];

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "random read",
            Self::OneFlush => "random write, one flush",
            Self::ManyFlushes => "random write, fsync=32",
        }
    }

    fn operations(self, options: &Options) -> u64 {
        match self {
            Self::Read | Self::OneFlush => options.operations,
            Self::ManyFlushes => options.operations / 8,
        }
    }

    /// The part of fio's options that is the phase's own.
    fn job(self, options: &Options) -> Vec<String> {
        let operations = self.operations(options);
        let (kind, fsync) = match self {
            Self::Read => ("randread", None),
            Self::OneFlush => ("randwrite", Some(operations - 1)),
            Self::ManyFlushes => ("randwrite", Some(32)),
        };
        let mut job = vec![
            format!("--rw={kind}"),
            format!("--bs={BLOCK}"),
            format!("--size={}m", options.size),
            format!("--io_size={}", operations * BLOCK),
        ];
        job.extend(fsync.map(|every| format!("--fsync={every}")));
        job
    }
}

/// One phase of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    server: String,
    phase: String,
    /// From 1.
    round: u32,
    /// As fio has it: from the first request to the last reply.
    seconds: f64,
    /// Without flushes.
    operations: u64,
    bytes: u64,
    flushes: u64,
    p50_us: f64,
    p99_us: f64,
    server_user_seconds: f64,
    server_system_seconds: f64,
    /// What the server read from the disk.
    disk_bytes: u64,
    /// The most memory that the server had resident since it was started for this round.
    peak_rss_bytes: u64,
    /// Of its control group, the kernel's cache included, where the kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group_peak_bytes: Option<u64>,
}

impl Sample {
    /// Operations a second.
    fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

const CACHE_STATE: &str = "cold: before each turn of a server its files are synced and dropped from the kernel's cache \
     (POSIX_FADV_DONTNEED), and it starts in a fresh control group; its phases follow each other";

const NOTES: [&str; 3] = [
    "before the first round every block was written once, in sequence, with a distinct page; what rounds \
     write stays",
    "nothing waits for writes under way when fio sends a flush, and fio may repeat a flush as often as its \
     queue is deep: `flushes` counts them",
    "CPU time is that of the server's process, in ticks of 10 ms",
];

/// A server that was filled.
struct Filled<'a> {
    server: Server,
    options: &'a Options,
    onefold: &'a Path,
    folder: PathBuf,
}

/// Measures, prints and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    for (program, package) in
        [("qemu-nbd", "qemu-utils"), ("qemu-img", "qemu-utils"), ("fio", "fio")]
    {
        ensure!(
            programs::on_path(program),
            "{program} is not here; expected it from `apt-get install {package}`"
        );
    }
    let limit = options.limit.map(|bytes| bytes as u64);
    drop(group(limit)?);
    let (onefold, work) = backups::program_and_work(&options.onefold, options.dir.as_deref())?;
    let clusters = options.clusters.iter().map(|cluster| Server::Qcow2(*cluster as u64));
    let mut filled = Vec::new();
    for server in [Server::Onefold].into_iter().chain(clusters) {
        let folder = work.fresh(&server.name())?;
        let one = Filled { server, options, onefold: &onefold, folder };
        let took = one.fill().with_context(|| format!("{}: the fill", server.name()))?;
        println!("bench: {} filled in {:.1} s", server.name(), took.as_secs_f64());
        filled.push(one);
    }
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let first = (round as usize - 1) % filled.len();
        for one in filled[first..].iter().chain(&filled[..first]) {
            let of_turn = one.measure(round, limit);
            samples.extend(of_turn.with_context(|| one.server.name())?);
        }
    }
    print!("{}", table(&samples));
    let place = format!("pool and images lie on {}", work.file_system()?);
    let of_run = notes(options, filled.iter().map(|one| one.server));
    drop(filled);
    work.end()?;
    let programs =
        [("onefold", &*onefold), ("qemu-nbd", Path::new("qemu-nbd")), ("fio", Path::new("fio"))];
    let version = |program: &Path| {
        let words = record::first_words(Command::new(program).arg("--version"));
        words.as_deref().and_then(|words| words.lines().next()).unwrap_or("unknown").to_owned()
    };
    let tools = programs.map(|(name, program)| (name.to_owned(), version(program)));
    let dataset = Dataset {
        name: format!(
            "filled by this program, {} % of a page zeros; written by fio: {} % duplicates, 50 % compressible",
            options.compressible, options.dedupe
        ),
        digest: "none: see the seed of each round, which is its number".into(),
        files: 0,
        bytes: options.size << 20,
    };
    let notes = of_run.iter().map(String::as_str).chain(NOTES).chain([place.as_str()]);
    let notes: Vec<_> = notes.collect();
    backups::write_record(&options.out, dataset, CACHE_STATE, tools.into(), samples, &notes)
}

/// What a reader must know of this run alone.
fn notes(options: &Options, servers: impl Iterator<Item = Server>) -> Vec<String> {
    let maps = servers
        .map(|server| format!("{} of {}", server.map_bytes(options.size << 20), server.name()));
    let mut notes = vec![
        format!(
            "l2-cache-size is {} bytes; `onefold serve` has {:?} beside pool and socket; bytes of the maps, 8 \
             an entry: {}",
            options.memory,
            options.program.serve_arg,
            maps.collect::<Vec<_>>().join(", ")
        ),
        match options.limit {
            Some(limit) => format!("each server's control group has at most {limit} bytes"),
            None => "control groups have no limit".into(),
        },
        "fio reads and writes 4 KiB at random, one job at queue depth 16, over a Unix socket, with the same \
         seeds for all; fio, server and disk share the machine"
            .into(),
    ];
    notes.extend(match options.image_fill {
        ImageFill::Data => None,
        ImageFill::Metadata => Some(
            "images were made with preallocation=metadata: blocks that no round wrote are holes of the \
             image's file, which qemu-nbd reads without a disk"
                .into(),
        ),
    });
    notes
}

impl Filled<'_> {
    fn shape(&self) -> Shape {
        let blocks = (self.options.size << 20) / BLOCK;
        let random_bytes = BLOCK * (100 - self.options.compressible) / 100;
        Shape { pages: blocks, blocks, block_bytes: BLOCK, random_bytes }
    }

    fn image(&self) -> PathBuf {
        self.folder.join("image")
    }

    fn fill(&self) -> Result<Duration> {
        let cluster = match self.server {
            Server::Onefold => {
                let made = made(self.onefold, &self.folder, self.shape(), &self.options.program);
                return made.map(|(_, took)| took);
            }
            Server::Qcow2(cluster) => cluster,
        };
        let preallocation = match self.options.image_fill {
            ImageFill::Data => "off",
            ImageFill::Metadata => "metadata",
        };
        let made = Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2", "-o"])
            .arg(format!("cluster_size={cluster},extended_l2=off,preallocation={preallocation}"))
            .arg(self.image())
            .arg((self.options.size << 20).to_string())
            .status()
            .context("qemu-img")?;
        ensure!(made.success(), "no image was made: {made}");
        if self.options.image_fill == ImageFill::Metadata {
            return Ok(Duration::ZERO);
        }
        let mut served = self.serve(None)?;
        drop(served.connect()?);
        let filled = fill(&served.address(), self.shape());
        let took = served.explained(filled)?;
        served.end()?;
        Ok(took)
    }

    fn serve(&self, group: Option<&Limited>) -> Result<Served> {
        let options = self.options;
        if self.server == Server::Onefold {
            return serve(self.onefold, &self.folder, &options.program.serve_arg, group);
        }
        let socket = self.folder.join("socket");
        // a comma in a value is written twice
        let image = self.image().to_string_lossy().replace(',', ",,");
        let arguments = [
            "--persistent".to_owned(),
            "--shared=8".to_owned(),
            "--cache=writeback".to_owned(),
            "--aio=threads".to_owned(),
            format!("--socket={}", socket.display()),
            "--image-opts".to_owned(),
            format!(
                "driver=qcow2,l2-cache-size={},file.driver=file,file.filename={image}",
                options.memory
            ),
        ];
        Served::start(Path::new("qemu-nbd"), &arguments, (socket, ""), group)
    }

    /// All phases of a round.
    fn measure(&self, round: u32, limit: Option<u64>) -> Result<Vec<Sample>> {
        forget(&self.folder)?;
        let group = group(limit)?;
        let mut served = self.serve(group.as_ref())?;
        drop(served.connect()?);
        let mut samples = Vec::new();
        for phase in PHASES {
            let sample = self.measure_phase(phase, round, &mut served, group.as_ref());
            let sample = sample.with_context(|| phase.name())?;
            println!(
                "bench: round {round}, {} {}: {:.0} a second, p99 {:.0} µs",
                sample.server,
                sample.phase,
                sample.rate(),
                sample.p99_us
            );
            samples.push(sample);
        }
        served.end()?;
        Ok(samples)
    }

    fn measure_phase(
        &self,
        phase: Phase,
        round: u32,
        served: &mut Served,
        group: Option<&Limited>,
    ) -> Result<Sample> {
        let report = self.folder.join("fio.json");
        let seed = u64::from(round) * 16 + phase as u64;
        let mut fio = fio::over_nbd(&served.uri(), 1, self.options.dedupe, seed, &report);
        fio.args(phase.job(self.options));
        let (before, read_before) = (cpu_time(served.process())?, disk_read(served.process())?);
        fio::run(&mut fio, || served.ensure_running())?;
        let after = cpu_time(served.process())?;
        let bytes = phase.operations(self.options) * BLOCK;
        let reported = Reported::read(&report, phase == Phase::Read, bytes)?;
        Ok(Sample {
            server: self.server.name(),
            phase: phase.name().into(),
            round,
            seconds: reported.seconds,
            operations: reported.operations,
            bytes: reported.bytes,
            flushes: reported.flushes,
            p50_us: reported.p50_us,
            p99_us: reported.p99_us,
            server_user_seconds: after.0 - before.0,
            server_system_seconds: after.1 - before.1,
            disk_bytes: disk_read(served.process())? - read_before,
            peak_rss_bytes: served.peak()?,
            group_peak_bytes: group.and_then(Limited::peak),
        })
    }
}

/// Medians, and how onefold is beside each server: the ratio of rates in the same round, what it is at least
/// with a confidence of 90 %, and the ratios of latencies.
fn table(samples: &[Sample]) -> String {
    let mut table = String::from(
        "\nphase                    server         op/s   p50 µs   p99 µs  peak MiB  disk MB  \
         onefold/server: op/s  at least    p50    p99\n",
    );
    let mut servers: Vec<&str> = Vec::new();
    for sample in samples {
        if !servers.contains(&sample.server.as_str()) {
            servers.push(&sample.server);
        }
    }
    for phase in PHASES {
        for server in &servers {
            let all = |server: &str| -> Vec<&Sample> {
                let is_it = |one: &&Sample| one.phase == phase.name() && one.server == server;
                samples.iter().filter(is_it).collect()
            };
            let (of_server, ours) = (all(server), all(&Server::Onefold.name()));
            let of = |value: fn(&Sample) -> f64| {
                median(of_server.iter().map(|one| value(one)).collect()).unwrap_or(f64::NAN)
            };
            let ratios = |value: fn(&Sample) -> f64| -> Vec<f64> {
                let ratio = |one: &&Sample| {
                    let our = ours.iter().find(|our| our.round == one.round)?;
                    Some(value(our) / value(one))
                };
                of_server.iter().filter_map(ratio).collect()
            };
            let middle = |value| median(ratios(value)).unwrap_or(f64::NAN);
            table.push_str(&format!(
                "{:<24} {server:<10} {:>8.0} {:>8.1} {:>8.1} {:>9.0} {:>8.1} {:>21.2} {:>9.2} {:>6.2} {:>6.2}\n",
                phase.name(),
                of(Sample::rate),
                of(|one| one.p50_us),
                of(|one| one.p99_us),
                of(|one| one.peak_rss_bytes as f64 / f64::from(1 << 20)),
                of(|one| one.disk_bytes as f64 / 1e6),
                middle(Sample::rate),
                lower_bound(&ratios(Sample::rate)).unwrap_or(f64::NAN),
                middle(|one| one.p50_us),
                middle(|one| one.p99_us),
            ));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        let all = format!("lab --onefold onefold --out record.json {words}");
        Line::try_parse_from(all.split_whitespace()).unwrap().options
    }

    #[test]
    fn every_phase_is_within_the_device_and_has_its_flushes() {
        let options = options("--size 16 --operations 4096");
        let told = |phase: Phase| phase.job(&options).join(" ");
        assert_eq!(told(Phase::Read), "--rw=randread --bs=4096 --size=16m --io_size=16777216");
        let one_flush = "--rw=randwrite --bs=4096 --size=16m --io_size=16777216 --fsync=4095";
        assert_eq!(told(Phase::OneFlush), one_flush);
        let many = "--rw=randwrite --bs=4096 --size=16m --io_size=2097152 --fsync=32";
        assert_eq!(told(Phase::ManyFlushes), many);
    }

    #[test]
    fn a_map_has_an_entry_for_each_block_or_cluster() {
        assert_eq!(Server::Onefold.map_bytes(1 << 30), 2 << 20);
        assert_eq!(Server::Qcow2(4096).map_bytes(1 << 30), 2 << 20);
        assert_eq!(Server::Qcow2(65_536).map_bytes(1 << 30), 128 << 10);
        let options = options("--clusters 64KiB --serve-arg --memory --serve-arg 64MiB");
        assert_eq!(options.clusters, [65_536]);
        assert_eq!(options.program.serve_arg, ["--memory", "64MiB"]);
        let note = &notes(&options, [Server::Onefold].into_iter())[0];
        assert!(note.contains("8388608 of onefold"), "{note}");
    }

    #[test]
    fn a_table_has_ratios_of_the_same_round() {
        let sample = |server: Server, round, seconds| Sample {
            server: server.name(),
            phase: Phase::Read.name().into(),
            round,
            seconds,
            operations: 1000,
            bytes: 4_096_000,
            flushes: 0,
            p50_us: 10.0 * seconds,
            p99_us: 20.0,
            server_user_seconds: 0.5,
            server_system_seconds: 0.25,
            disk_bytes: 0,
            peak_rss_bytes: 64 << 20,
            group_peak_bytes: None,
        };
        let samples = [
            sample(Server::Onefold, 1, 1.0),
            sample(Server::Onefold, 2, 10.0),
            sample(Server::Qcow2(4096), 1, 2.0),
            sample(Server::Qcow2(4096), 2, 20.0),
        ];
        let table = table(&samples);
        let line = table.lines().find(|line| line.contains("qcow2-4k")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(&words[words.len() - 4..], ["2.00", "2.00", "0.50", "1.00"], "{table}");
    }
}

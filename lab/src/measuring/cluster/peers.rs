//! A volume beside an image of RBD on the same cluster, by fio: rates, space, and what RADOS does for a write.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use onefold_testkit::ceph::{Gateways, REPLICATED};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measuring::backups;
use crate::measuring::fio;
use crate::measuring::record::Dataset;
use crate::measuring::table::{lower_bound, median};

/// What `cargo lab campaign cluster-peers` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program to measure: `onefold` as it is released
    #[arg(long)]
    onefold: PathBuf,
    /// How often each phase is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The size of a volume and of an image in MiB
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(16..))]
    size: u64,
    /// Seconds of each phase
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Percent of what fio writes that are duplicates
    #[arg(long, value_delimiter = ',', default_value = "0,50,80")]
    duplicates: Vec<u64>,
    /// Requests in flight
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    depths: Vec<u64>,
    /// What a reader of the record must know of this run, such as how the program was built
    #[arg(long)]
    note: Vec<String>,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// What has the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Onefold,
    Rbd,
}

const SERVERS: [Server; 2] = [Server::Onefold, Server::Rbd];

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Onefold => "onefold",
            Self::Rbd => "rbd",
        }
    }

    /// The pool of Ceph.
    fn pool(self) -> &'static str {
        match self {
            Self::Onefold => REPLICATED,
            Self::Rbd => IMAGES,
        }
    }
}

/// The pool of images.
const IMAGES: &str = "images";

/// What fio does.
const FILL: &str = "sequential write of 1 MiB";
const WRITE: &str = "random write of 4 KiB";
const READ: &str = "random read of 4 KiB";

/// One phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    server: String,
    phase: String,
    duplicates_percent: u64,
    depth: u64,
    /// From 1.
    round: u32,
    seconds: f64,
    operations: u64,
    bytes: u64,
    p50_us: f64,
    p99_us: f64,
    /// Of all OSDs, meanwhile: writes and reads of clients, and bytes in them, copies not counted.
    osd_writes: u64,
    osd_write_bytes: u64,
    osd_reads: u64,
    /// After a fill: how much more the pool of Ceph stores than before, copies not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
}

impl Sample {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

const CACHE_STATE: &str = "warm: all blocks were written just before";

const NOTES: [&str; 5] = [
    "writes of both are durable when they are acknowledged: onefold's gateway makes them so, and RBD runs \
     without its cache (`rbd_cache = false`)",
    "fio reaches onefold by NBD over a Unix socket, and RBD by its own engine, librbd in fio's process",
    "both are in pools of three copies and 8 placement groups; Ceph is a monitor, a manager and three OSDs on the \
     loopback interface, on one disk: fio, gateway and Ceph share the machine",
    "half of each buffer is compressible; fio counts duplicates within what one run writes; RBD stores both as \
     they are",
    "rounds are interleaved, and each begins with the other server; random writes overwrite what the fill wrote",
];

/// Measures, prints and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let (onefold, work) = backups::program_and_work(&options.onefold, None)?;
    let peers = Peers::begin(&onefold, options, work.fresh("peers")?)?;
    let mut samples = Vec::new();
    for duplicates in &options.duplicates {
        for server in SERVERS {
            samples.push(peers.fill(server, *duplicates)?);
        }
    }
    for round in 1..=options.rounds {
        let mut servers = SERVERS;
        servers.rotate_left(round as usize % 2);
        for duplicates in &options.duplicates {
            for depth in &options.depths {
                for phase in [WRITE, READ] {
                    for server in servers {
                        let sample = peers.measure(server, phase, *duplicates, *depth, round)?;
                        println!(
                            "campaign: round {round}, {}, {phase}, {duplicates} %, depth {depth}: {:.0} a second",
                            sample.server,
                            sample.rate()
                        );
                        samples.push(sample);
                    }
                }
            }
        }
    }
    drop(peers);
    work.end()?;
    print!("{}", table(&samples));
    let dataset = Dataset {
        name: "made by fio, 50 % compressible".into(),
        digest: "none: see the seed of each round, which is its number".into(),
        files: 0,
        bytes: options.size << 20,
    };
    let tools = super::versions(&[&onefold, Path::new("ceph"), Path::new("fio")]);
    let notes = super::notes(&options.note, &NOTES);
    backups::write_record(&options.out, dataset, CACHE_STATE, tools, samples, &notes)
}

/// A cluster with a gateway and images.
struct Peers<'a> {
    gateways: Gateways,
    options: &'a Options,
    folder: PathBuf,
    /// The configuration of clients of RBD.
    conf: PathBuf,
}

impl<'a> Peers<'a> {
    fn begin(onefold: &Path, options: &'a Options, folder: PathBuf) -> Result<Self> {
        let mut gateways = Gateways::new(super::begin_ceph()?, onefold);
        let size = format!("{}MiB", options.size);
        for duplicates in &options.duplicates {
            gateways.onefold(0, &["volume", "create", &volume(*duplicates), "--size", &size]);
        }
        gateways.start(0, &[]);
        if let Err(ended) = gateways.wait_until_it_listens(0) {
            bail!("the gateway ended, {}: {}", ended.status, ended.said);
        }
        let ceph = gateways.ceph();
        ceph.command(&["osd", "pool", "create", IMAGES, "8", "8", "replicated"]);
        ceph.command(&["osd", "pool", "application", "enable", IMAGES, "rbd"]);
        let conf = folder.join("rbd.conf");
        let mut text = fs::read_to_string(ceph.conf()).context("the configuration of Ceph")?;
        text.push_str("\n[client]\nrbd_cache = false\n");
        fs::write(&conf, text).context("the configuration of clients of RBD")?;
        for duplicates in &options.duplicates {
            let image = format!("{IMAGES}/{}", volume(*duplicates));
            let mut create = Command::new("rbd");
            create.args(["create", &image, "--size", &options.size.to_string(), "--conf"]);
            xtask::programs::succeed(create.arg(&conf))?;
        }
        Ok(Self { gateways, options, folder, conf })
    }

    /// Writes all of a volume or an image, and waits until Ceph says how much it stores.
    fn fill(&self, server: Server, duplicates: u64) -> Result<Sample> {
        let before = self.stored(server)?;
        let mut sample = self.measure(server, FILL, duplicates, 16, 0)?;
        // Ceph counts now and then
        thread::sleep(Duration::from_secs(12));
        sample.stored_bytes = Some(self.stored(server)?.saturating_sub(before));
        println!("campaign: {sample:?}");
        Ok(sample)
    }

    /// Bytes that the pool of Ceph stores, copies not counted.
    fn stored(&self, server: Server) -> Result<u64> {
        let said = self.gateways.ceph().command(&["df", "detail", "--format", "json"]);
        let said: Value = serde_json::from_str(&said).context("ceph df")?;
        let pools = said["pools"].as_array().context("ceph df names no pools")?;
        let pool = pools.iter().find(|pool| pool["name"] == server.pool());
        let stored = pool.and_then(|pool| pool["stats"]["stored"].as_u64());
        stored.with_context(|| format!("ceph df does not say what pool {} stores", server.pool()))
    }

    fn measure(
        &self,
        server: Server,
        phase: &str,
        duplicates: u64,
        depth: u64,
        round: u32,
    ) -> Result<Sample> {
        let report = self.folder.join("report");
        let mut command = self.fio(server, phase, duplicates, depth, round, &report);
        let before = self.counted()?;
        fio::run(&mut command, || Ok(())).with_context(|| format!("{} {phase}", server.name()))?;
        let after = self.counted()?;
        let kind = if phase == READ { "read" } else { "write" };
        let text = fs::read_to_string(&report).context("fio's report")?;
        let report: Value = serde_json::from_str(&text).context("fio's report")?;
        let number = |place: &str| {
            let found = report.pointer(&format!("/jobs/0/{place}")).and_then(Value::as_f64);
            found.with_context(|| format!("fio's report has no {place}"))
        };
        ensure!(number("error")? == 0.0, "fio had an error");
        Ok(Sample {
            server: server.name().into(),
            phase: phase.into(),
            duplicates_percent: duplicates,
            depth,
            round,
            seconds: number(&format!("{kind}/runtime"))? / 1e3,
            operations: number(&format!("{kind}/total_ios"))? as u64,
            bytes: number(&format!("{kind}/io_bytes"))? as u64,
            p50_us: number(&format!("{kind}/clat_ns/percentile/50.000000"))? / 1e3,
            p99_us: number(&format!("{kind}/clat_ns/percentile/99.000000"))? / 1e3,
            osd_writes: after.writes - before.writes,
            osd_write_bytes: after.write_bytes - before.write_bytes,
            osd_reads: after.reads - before.reads,
            stored_bytes: None,
        })
    }

    fn fio(
        &self,
        server: Server,
        phase: &str,
        duplicates: u64,
        depth: u64,
        round: u32,
        report: &Path,
    ) -> Command {
        let mut fio = Command::new("fio");
        fio.args(["--name=peer", "--output-format=json", "--refill_buffers=1"]);
        fio.args(["--buffer_compress_percentage=50", "--randrepeat=0"]);
        fio.arg(format!("--output={}", report.display())).arg(format!("--iodepth={depth}"));
        // so that no two runs write the same
        let seed = u64::from(round) * 10_000 + duplicates * 100 + depth;
        fio.arg(format!("--randseed={seed}")).arg(format!("--dedupe_percentage={duplicates}"));
        fio.arg(format!("--size={}m", self.options.size));
        match phase {
            FILL => fio.args(["--rw=write", "--bs=1m"]),
            phase => {
                let kind = if phase == READ { "--rw=randread" } else { "--rw=randwrite" };
                let seconds = format!("--runtime={}", self.options.seconds);
                fio.args([kind, "--bs=4k", "--time_based", "--norandommap", &seconds])
            }
        };
        match server {
            Server::Onefold => {
                let uri = self.gateways.uri(0, &volume(duplicates));
                fio.arg("--ioengine=nbd").arg(format!("--uri={uri}"))
            }
            Server::Rbd => {
                fio.args(["--ioengine=rbd", "--clientname=admin"]).arg(format!("--pool={IMAGES}"));
                fio.arg(format!("--rbdname={}", volume(duplicates))).env("CEPH_CONF", &self.conf)
            }
        };
        fio
    }

    /// What the OSDs have counted.
    fn counted(&self) -> Result<Counted> {
        let mut all = Counted::default();
        for number in 0..3 {
            let socket = self.gateways.ceph().conf().with_file_name(format!("osd.{number}.asok"));
            let counters = ask(&socket, "perf dump")?;
            let of = |name: &str| {
                let found = counters["osd"][name].as_u64();
                found.with_context(|| format!("osd.{number} does not count {name}"))
            };
            // one that compares something first counts as both a read and a write
            all.writes += of("op_w")? + of("op_rw")?;
            all.write_bytes += of("op_w_in_bytes")? + of("op_rw_in_bytes")?;
            all.reads += of("op_r")?;
        }
        Ok(all)
    }
}

/// What OSDs count: operations of clients, copies not counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    writes: u64,
    write_bytes: u64,
    reads: u64,
}

/// Asks a daemon of Ceph by its socket.
fn ask(socket: &Path, what: &str) -> Result<Value> {
    const MOST: u32 = 16 << 20;
    let place = || socket.display().to_string();
    let mut stream = UnixStream::connect(socket).with_context(place)?;
    let question = serde_json::json!({ "prefix": what }).to_string();
    stream.write_all(question.as_bytes()).with_context(place)?;
    stream.write_all(&[0]).with_context(place)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).with_context(place)?;
    let length = u32::from_be_bytes(length);
    ensure!(length <= MOST, "{}: an answer of {length} bytes, expected at most {MOST}", place());
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).with_context(place)?;
    serde_json::from_slice(&answer).with_context(place)
}

/// The volume, or image, whose content has so many percent of duplicates.
fn volume(duplicates: u64) -> String {
    format!("disk{duplicates}")
}

/// Rates, ratios in the same round, and what was done for a write.
fn table(samples: &[Sample]) -> String {
    let mut kinds: BTreeMap<(&str, u64, u64), Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.phase != FILL) {
        let kind = (&*sample.phase, sample.duplicates_percent, sample.depth);
        kinds.entry(kind).or_default().push(sample);
    }
    let mut text = "| phase | duplicates % | depth | onefold a second | rbd a second | onefold by rbd | at least | \
                    RADOS writes for each, onefold | rbd | KiB for each, onefold | rbd |\n| --- | ---: | ---: | \
                    ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for ((phase, duplicates, depth), of) in kinds {
        let by = |server: Server| of.iter().filter(move |sample| sample.server == server.name());
        let all = |server, field: fn(&Sample) -> f64| {
            median(by(server).map(|sample| field(sample)).collect()).unwrap_or_default()
        };
        let ratios: Vec<f64> = by(Server::Onefold)
            .zip(by(Server::Rbd))
            .map(|(onefold, rbd)| onefold.rate() / rbd.rate())
            .collect();
        let least = lower_bound(&ratios).map_or(String::new(), |least| format!("{least:.2}"));
        let writes = |sample: &Sample| sample.osd_writes as f64 / sample.operations as f64;
        let kib =
            |sample: &Sample| sample.osd_write_bytes as f64 / 1024.0 / sample.operations as f64;
        text += &format!(
            "| {phase} | {duplicates} | {depth} | {:.0} | {:.0} | {:.2} | {least} | {:.2} | {:.2} | {:.1} | {:.1} |\n",
            all(Server::Onefold, Sample::rate),
            all(Server::Rbd, Sample::rate),
            median(ratios).unwrap_or_default(),
            all(Server::Onefold, writes),
            all(Server::Rbd, writes),
            all(Server::Onefold, kib),
            all(Server::Rbd, kib),
        );
    }
    text += "\n| written MiB, duplicates % | stored MiB: onefold | rbd |\n| --- | ---: | ---: |\n";
    let fills = |server: Server| {
        samples.iter().filter(move |sample| sample.phase == FILL && sample.server == server.name())
    };
    for (onefold, rbd) in fills(Server::Onefold).zip(fills(Server::Rbd)) {
        let mib = |sample: &Sample| sample.stored_bytes.unwrap_or_default() as f64 / 1048576.0;
        text += &format!(
            "| {}, {} % | {:.1} | {:.1} |\n",
            onefold.bytes >> 20,
            onefold.duplicates_percent,
            mib(onefold),
            mib(rbd)
        );
    }
    text
}

//! `put` of onefold-hadoop.jar beside Hadoop's own, as processes, to an HDFS of Hadoop's own.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use onefold_bench::{DatasetRecord, Header, Record, command_line};
use onefold_lab::mounted;
use onefold_terminal::outputs::{make_places, typed, write_text};
use serde::{Deserialize, Serialize};
use xtask::{digest, workspace};

use crate::measuring::measure::{Usage, run};
use crate::measuring::table::median;

/// What `cargo lab campaign incremental-uploads` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The file to upload
    #[arg(long)]
    file: PathBuf,
    /// How often each way is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Mean length of a split; Hadoop's own blocks have 128 MiB
    #[arg(long, default_value = "64MiB")]
    mean: String,
    /// Data nodes, each with a copy of each block
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
    nodes: u32,
    /// Where the cluster keeps its blocks
    #[arg(long)]
    dir: PathBuf,
    /// The record to write, e.g. docs/records/NAME.json
    #[arg(long)]
    out: PathBuf,
}

/// One upload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    way: Way,
    /// From 1.
    round: u32,
    seconds: f64,
    /// Of the client, and not of the nodes.
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

/// How a file is uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    /// `hdfs dfs -put`.
    Hadoop,
    /// An ordinary file whose blocks end at splits, and its manifest.
    Blocks,
    /// Each distinct split as a file, and a manifest.
    Shared,
    /// The same where the folder has all splits.
    SharedAgain,
    /// `hdfs dfs -ls` of a folder: what a client's start takes.
    Nothing,
}

/// What was uploaded, and how long that took.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    text: DatasetRecord,
    samples: Vec<Sample>,
}

const WAYS: [Way; 5] = [Way::Hadoop, Way::Blocks, Way::Shared, Way::SharedAgain, Way::Nothing];

// Variables that name jars.
const JAR: &str = "ONEFOLD_HADOOP_JAR";
const CLASS_PATH: &str = "HADOOP_CLASSPATH";

/// Starts a cluster, uploads in turns, and writes the record.
pub(crate) fn measure(options: &Options) -> Result<()> {
    make_places(Some(&options.out), None)?;
    let place = || options.file.display().to_string();
    let file = options.file.canonicalize().with_context(place)?;
    // reads all of it, so that it is in the kernel's cache
    let found = digest::of_tree(&file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = DatasetRecord { name, digest: found.digest, files: found.files, bytes: found.bytes };
    let command = command_line("cargo lab", typed());
    let mut header = Header::here(&options.out, command, "the file is in memory")?;
    header.notes = notes(options);
    let mut record = Record { header, results: Results { text, samples: Vec::new() } };
    let cluster = Cluster::start(options)?;
    for round in 1..=options.rounds {
        cluster.shell(round, &["-mkdir"])?;
        for way in WAYS {
            let sample = cluster.upload(way, &file, round, options)?;
            println!("uploads: round {round}, {way:?}: {:.2} s", sample.seconds);
            record.results.samples.push(sample);
            record.write(&options.out)?;
        }
        cluster.shell(round, &["-rm", "-r", "-skipTrash"])?;
        thread::sleep(Duration::from_secs(5));
    }
    cluster.end()?;
    print!("{}", table(&record.results));
    Ok(())
}

fn notes(options: &Options) -> Vec<String> {
    let nodes = options.nodes;
    let mut notes = vec![
        "each upload is a process, whose start counts; `nothing`, which lists a folder, is what that takes".into(),
        "hadoop is FsShell -put, which `hdfs dfs -put` calls; its blocks have 128 MiB".into(),
        format!("name node and {nodes} data nodes are one process on this machine; each block has {nodes} copies"),
        "uploads are removed after each round, and data nodes have 5 s to delete their blocks".into(),
    ];
    notes.extend(mounted(&options.dir).map(|medium| format!("blocks lie on {medium}")));
    notes
}

/// A process with a name node and data nodes; it ends when its standard input does.
struct Cluster {
    process: Child,
    address: String,
    /// The folder of Hadoop's settings.
    settings: PathBuf,
}

impl Cluster {
    fn start(options: &Options) -> Result<Self> {
        let folder = std::path::absolute(&options.dir)?.join("hdfs");
        let settings = std::path::absolute(&options.dir)?.join("settings");
        fs::create_dir_all(&settings).with_context(|| settings.display().to_string())?;
        // FsShell refuses to start without one
        write_text(&settings.join("core-site.xml"), "<configuration></configuration>\n")?;
        let mut command = java(&settings)?;
        command.arg(workspace::root().join("lab/java/HdfsCluster.java"));
        command.arg(folder).arg(options.nodes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context("java")?;
        let output = process.stdout.take().expect("it is piped");
        for line in BufReader::new(output).lines() {
            if let Some(address) = line?.strip_prefix("cluster: ") {
                return Ok(Self { process, address: address.to_owned(), settings });
            }
        }
        bail!(
            "no HDFS came up: {}; {CLASS_PATH} must name hadoop-client-minicluster",
            process.wait()?
        );
    }

    /// Ends it; the folder keeps its files.
    fn end(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        let status = self.process.wait()?;
        ensure!(status.success(), "the cluster ended with {status}");
        Ok(())
    }

    fn upload(&self, way: Way, file: &Path, round: u32, options: &Options) -> Result<Sample> {
        let mut command = java(&self.settings)?;
        command.arg(way.class()).arg(format!("-Ddfs.replication={}", options.nodes));
        match way {
            Way::Hadoop => command.arg("-put"),
            Way::Nothing => command.arg("-ls"),
            Way::Blocks => command.args(["put", "--mean", &options.mean]),
            Way::Shared | Way::SharedAgain => {
                command.args(["put", "--mean", &options.mean, "--shared"])
            }
        };
        if way != Way::Nothing {
            command.arg(file);
        }
        let target = match way {
            Way::Hadoop => "hadoop",
            Way::Blocks => "blocks",
            Way::Shared => "shared",
            Way::SharedAgain => "again",
            Way::Nothing => "",
        };
        command.arg(self.path(round, target));
        let usage = self.succeed(&mut command)?;
        Ok(Sample {
            way,
            round,
            seconds: usage.wall.as_secs_f64(),
            cpu_seconds: (usage.user + usage.system).as_secs_f64(),
            peak_rss_bytes: usage.peak_rss,
        })
    }

    /// Runs Hadoop's shell on the folder of a round.
    fn shell(&self, round: u32, words: &[&str]) -> Result<()> {
        let mut command = java(&self.settings)?;
        command.arg(Way::Hadoop.class()).args(words).arg(self.path(round, ""));
        self.succeed(&mut command).map(drop)
    }

    /// The folder of a round, or a file in it.
    fn path(&self, round: u32, name: &str) -> String {
        format!("{}/round-{round}/{name}", self.address)
    }

    fn succeed(&self, command: &mut Command) -> Result<Usage> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let (status, usage) = run(command).context("java")?;
        ensure!(status.success(), "{command:?} ended with {status}");
        Ok(usage)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // after an error; one that has ended takes no harm
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Way {
    /// What runs the command.
    const fn class(self) -> &'static str {
        match self {
            Self::Hadoop | Self::Nothing => "org.apache.hadoop.fs.FsShell",
            Self::Blocks | Self::Shared | Self::SharedAgain => "onefold.incremental.mapreduce.Main",
        }
    }
}

/// Java with settings, onefold's jar and Hadoop's.
fn java(settings: &Path) -> Result<Command> {
    let named = |name: &str| {
        let value = env::var_os(name).filter(|value| !value.is_empty());
        value.with_context(|| format!("{name} is not set, expected jars"))
    };
    let jars = [settings.into(), named(JAR)?, named(CLASS_PATH)?].join(OsStr::new(":"));
    let mut command = Command::new("java");
    command.args(["-Xmx1g", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp"]).arg(jars);
    Ok(command)
}

/// Medians over the rounds.
fn table(results: &Results) -> String {
    let mut table = String::from("\nway              s   CPU s    MB/s  of hadoop's time\n");
    let of = |way: Way, value: fn(&Sample) -> f64| {
        let samples = results.samples.iter().filter(|sample| sample.way == way);
        median(samples.map(value).collect()).unwrap_or(f64::NAN)
    };
    let hadoop = of(Way::Hadoop, |sample| sample.seconds);
    for way in WAYS {
        let seconds = of(way, |sample| sample.seconds);
        table.push_str(&format!(
            "{:<11} {seconds:>7.2} {:>7.2} {:>7.1} {:>17.2}\n",
            format!("{way:?}"),
            of(way, |sample| sample.cpu_seconds),
            results.text.bytes as f64 / 1e6 / seconds,
            seconds / hadoop,
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_median_of_each_way_beside_hadoop_s() {
        let sample = |way, round, seconds| Sample {
            way,
            round,
            seconds,
            cpu_seconds: 1.0,
            peak_rss_bytes: 0,
        };
        let text =
            DatasetRecord { name: "x".into(), digest: "d".into(), files: 1, bytes: 8_000_000 };
        let samples = vec![
            sample(Way::Hadoop, 1, 4.0),
            sample(Way::Hadoop, 2, 2.0),
            sample(Way::Hadoop, 3, 9.0),
            sample(Way::Blocks, 1, 8.0),
        ];
        let table = table(&Results { text, samples });
        let row = |name: &str| {
            let line = table.lines().find(|line| line.starts_with(name)).expect(name);
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("Hadoop"), ["4.00", "1.00", "2.0", "1.00"]);
        assert_eq!(row("Blocks"), ["8.00", "1.00", "1.0", "2.00"]);
    }
}

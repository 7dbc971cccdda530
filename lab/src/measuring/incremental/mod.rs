//! Jobs with a memo after changes of their input: figure 15 of Shredder (FAST 2012), and versions of real
//! data. `lab/python/incremental` runs the jobs; what it tells becomes the record and the page.

mod page;
mod record;
pub(crate) mod uploads;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use onefold_bench::{Header, Record, command_line};
use onefold_terminal::outputs::{make_places, typed, write_text};
use xtask::workspace;

use record::{Line, Results};

/// What both campaigns take.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// A Python with pyspark, and with onefold-spark or the variable `ONEFOLD_SPARK_JAR`
    #[arg(long)]
    python: PathBuf,
    /// Mean length of a split by content, and the length of those of fixed size
    #[arg(long, default_value = "4MiB")]
    mean: String,
    /// Where splits may end: `content`, and `fixed` for multiples of a length
    #[arg(long, value_delimiter = ',', default_values = ["content", "fixed"], value_parser = ["content", "fixed"])]
    splits: Vec<String>,
    /// Where texts and memos go; the texts of an earlier run are used again
    #[arg(long)]
    dir: PathBuf,
    /// Make the texts, find out what plain jobs make of them, and measure nothing
    #[arg(long, conflicts_with = "out")]
    only_inputs: bool,
    /// Remove each changed text or version after its measurements, which saves the disk; it is made again
    /// when it is needed
    #[arg(long)]
    remove_inputs: bool,
    /// Seconds after which no further measurement begins; 0 for no limit
    #[arg(long, default_value_t = 0)]
    limit: u32,
    /// The page to write
    #[arg(long)]
    html: Option<PathBuf>,
    /// The record to write, e.g. docs/records/NAME.json; it is written again after each measurement
    #[arg(long, required_unless_present = "only_inputs")]
    out: Option<PathBuf>,
}

/// What `cargo lab campaign incremental` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Jobs, each with the MiB of its text; `mapreduce` is the word count of Hadoop's examples, and needs the
    /// variables `HADOOP_CLASSPATH`, `ONEFOLD_HADOOP_JAR` and `ONEFOLD_EXAMPLES_JAR`
    #[arg(long, value_delimiter = ',', value_name = "JOB=MIB")]
    #[arg(default_values = ["word-count=4096", "k-means=1024", "co-occurrence=1024", "mapreduce=1024"])]
    jobs: Vec<String>,
    /// Percentages of the text that change
    #[arg(long, value_delimiter = ',', default_values = ["1", "5", "10", "25"])]
    changes: Vec<String>,
    /// How changes lie: in one stretch, or in runs of 64 KiB
    #[arg(long, value_delimiter = ',', default_values = ["clustered", "scattered"])]
    #[arg(value_parser = ["clustered", "scattered"])]
    spreads: Vec<String>,
}

/// What `cargo lab campaign incremental-versions` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Versions {
    #[command(flatten)]
    common: Common,
    /// A folder with a file for each version, or a folder whose files are taken as one text; their names sort
    /// as the versions do. `cargo lab dataset build` makes some
    #[arg(long)]
    versions: PathBuf,
    /// word-count, or mapreduce for that of Hadoop's examples
    #[arg(long, value_delimiter = ',', default_values = ["word-count"])]
    jobs: Vec<String>,
}

/// What `cargo lab campaign incremental-page` was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct PageOptions {
    /// Records of `incremental` and `incremental-versions`
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// The page to write
    #[arg(long)]
    html: PathBuf,
}

const NOTES: [&str; 5] = [
    "each result is compared with the plain job's: all pairs by a hash of 64 bits on Spark, the bytes of the output on MapReduce; \
     what the plain job gives for a changed text is what it gives for the unchanged one, less that for the lines that went, \
     and that for the new ones",
    "clustered: one stretch is replaced by about as many bytes of other lines; scattered: of four runs of 64 KiB two are \
     replaced, one is deleted, and one gets new lines in front",
    "fixed: splits that begin at the first line behind each multiple of the mean length, which a manifest of the campaign's \
     making names; the job and the memo are the same",
    "a run of a changed text begins with the memo of the unchanged one, a run of a version with that of all versions before it",
    "a MapReduce job is a process of its own, whose start counts; on Spark all jobs run in one session",
];

const CACHE_STATE: &str = "each text was read just before its measurements; more than the memory holds is read from the disk";

/// Runs jobs on texts that change.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let arguments = [
        ("--jobs", options.jobs.join(",")),
        ("--changes", options.changes.join(",")),
        ("--spreads", options.spreads.join(",")),
    ];
    run(&options.common, &arguments)
}

/// Runs jobs on versions of real data.
pub(crate) fn measure_versions(options: &Versions) -> Result<()> {
    let versions = std::path::absolute(&options.versions)?;
    let versions = versions.to_str().context("the path of the versions is not UTF-8")?;
    run(&options.common, &[("--jobs", options.jobs.join(",")), ("--versions", versions.to_owned())])
}

/// Writes the page of records.
pub(crate) fn write_page(options: &PageOptions) -> Result<()> {
    let records: Vec<_> =
        options.records.iter().map(|path| Record::read(path)).collect::<Result<_>>()?;
    write_text(&options.html, &page::of(&records)?.html()?)
}

fn run(options: &Common, arguments: &[(&str, String)]) -> Result<()> {
    make_places(options.out.as_deref(), options.html.as_deref())?;
    let mut record = options
        .out
        .as_ref()
        .map(|out| header(out))
        .transpose()?
        .map(|header| Record { header, results: Results::default() });
    let mut command = command(options)?;
    for (name, value) in arguments {
        command.args([name, value.as_str()]);
    }
    let mut child =
        command.stdout(Stdio::piped()).spawn().context("the Python that runs the jobs")?;
    let output = child.stdout.take().expect("it is piped");
    for line in BufReader::new(output).lines() {
        let line = line.context("what the jobs tell")?;
        println!("{line}");
        let (Some(record), Some(told)) = (&mut record, line.strip_prefix("incremental: ")) else {
            continue;
        };
        match serde_json::from_str(told).with_context(|| told.to_owned())? {
            Line::Tools(tools) => record.header.tools = tools,
            Line::Text(text) => record.results.add_text(text),
            Line::Run(run) => record.results.runs.push(run),
            Line::LeftOut(left) => record.results.left_out.push(left),
        }
        record.write(options.out.as_deref().expect("a record has a place"))?;
    }
    let status = child.wait()?;
    ensure!(
        status.success(),
        "the jobs ended with {status}; the record has what was measured before"
    );
    match (&record, &options.html) {
        (Some(record), Some(html)) => {
            write_text(html, &page::of(std::slice::from_ref(record))?.html()?)
        }
        _ => Ok(()),
    }
}

fn header(out: &Path) -> Result<Header> {
    let mut header = Header::here(out, command_line("cargo lab", typed()), CACHE_STATE)?;
    header.notes = NOTES.map(str::to_owned).into();
    Ok(header)
}

fn command(options: &Common) -> Result<Command> {
    let root = workspace::root();
    let python = std::path::absolute(&options.python)?;
    let mut command = Command::new(&python);
    command
        .arg(root.join("lab/python/incremental/jobs.py"))
        .arg("--dir")
        .arg(std::path::absolute(&options.dir)?)
        .args(["--mean", &options.mean, "--splits", &options.splits.join(",")])
        .args(["--limit", &options.limit.to_string()])
        .args(options.only_inputs.then_some("--only-inputs"))
        .args(options.remove_inputs.then_some("--remove-inputs"))
        .env("PYTHONPATH", root.join("jvm/python"))
        // results are compared by Python's hashes
        .env("PYTHONHASHSEED", "0")
        .env("PYSPARK_PYTHON", python);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_their_changes_are_as_their_own_tests_say() {
        let folder = workspace::root().join("lab/python/incremental");
        let mut python = Command::new("python3");
        let Ok(output) = python.args(["-m", "unittest", "discover"]).current_dir(folder).output()
        else {
            println!("skipped: there is no python3");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("\nOK"), "{said}");
    }
}

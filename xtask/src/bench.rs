//! Measures first backup, unchanged backup and restore, beside other tools on the same data.
//!
//! Rounds are interleaved and each starts with another tool, so that a slow minute of the machine
//! does not fall on one tool alone. Every restored tree is compared with the dataset: a fast tool
//! that loses data has no time at all.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::digest::{self, TreeDigest};
use crate::measure::{self, Usage};
use crate::record::{self, Commit, Dataset, Machine, Record, Sample};
use crate::tool::{Phase, Place, Rival, Tool};
use crate::workspace::{self, Cargo};
use crate::{bench_table, sample_tree};

/// What `cargo xtask bench backup` was asked for.
pub(crate) struct Options {
    pub(crate) dataset: PathBuf,
    pub(crate) rounds: u32,
    pub(crate) rivals: Vec<Rival>,
    pub(crate) work: Option<PathBuf>,
    pub(crate) out: PathBuf,
}

const CACHE_STATE: &str = "warm: every file of the dataset is read once before each tool's round; \
                           what a phase wrote is synced before the next one is timed";

pub(crate) const READ_ONCE: &str = "warm: every file of the dataset was read once before";

const NOTES: [&str; 3] = [
    "onefold's first backup includes creating its repository; the rivals' `init` is not timed",
    "onefold runs with --no-encryption; restic and borg have no time without encryption here",
    "peak_rss_bytes is that of the largest process, as wait4 reports it",
];

/// Measures, prints a table and writes the record.
pub(crate) fn backup(options: Options) -> Result<()> {
    let mut tools = vec![Tool::Onefold];
    tools.extend(options.rivals.iter().copied().map(Tool::Rival));
    let versions = versions(&tools)?;

    let (source, tree) = read_dataset(&options.dataset)?;
    let work = options.work.unwrap_or_else(|| workspace::target_dir().join("bench/work"));
    let work = Work::begin(&work)?;
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let first = (round as usize - 1) % tools.len();
        for tool in tools[first..].iter().chain(&tools[..first]) {
            samples.extend(run_round(*tool, round, &work, &source, &tree)?);
        }
    }
    work.end()?;
    print!("{}", bench_table::of(&samples));
    write_record(&options.out, &source, tree, CACHE_STATE, versions, samples, &NOTES)
}

/// Times each stage of a backup alone and writes the record.
pub(crate) fn stages(dataset: &Path, rounds: u32, out: &Path) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Stage {
        stage: String,
        bytes: u64,
        seconds: f64,
    }
    let (source, tree) = read_dataset(dataset)?;
    let mut samples = Vec::new();
    for round in 1..=rounds {
        let mut stages = Cargo::default().command();
        stages.args(["run", "--quiet", "--release", "--package", "onefold-store"]);
        stages.args(["--example", "stages", "--"]).arg(&source);
        let output = stages.stderr(Stdio::inherit()).output().context("cargo run")?;
        ensure!(output.status.success(), "stages ended with {}", output.status);
        for line in String::from_utf8(output.stdout)?.lines() {
            let Stage { stage, bytes, seconds } = serde_json::from_str(line)?;
            println!("bench: round {round}, {stage}: {seconds:.3} s, {bytes} bytes");
            let wall = std::time::Duration::from_secs_f64(seconds);
            samples.push(Sample::of_stage(&stage, round, wall, bytes));
        }
    }
    let notes = [
        "one thread, each stage timed apart; the walk has no bytes, the read opens every file",
        "compress has the bytes of distinct chunks only",
    ];
    write_record(out, &source, tree, READ_ONCE, BTreeMap::new(), samples, &notes)
}

/// Reads the dataset once, so that its files are in memory, and says what it is.
pub(crate) fn read_dataset(dataset: &Path) -> Result<(PathBuf, TreeDigest)> {
    let source = dataset.canonicalize();
    let source = source.with_context(|| dataset.display().to_string())?;
    println!("bench: reading {} once", source.display());
    let tree = digest::of_tree(&source)?;
    Ok((source, tree))
}

/// Writes `samples` with all that must be known of them.
pub(crate) fn write_record<S: PartialEq + Serialize + DeserializeOwned>(
    out: &Path,
    source: &Path,
    tree: TreeDigest,
    cache_state: &str,
    tools: BTreeMap<String, String>,
    samples: Vec<S>,
    notes: &[&str],
) -> Result<()> {
    let record = Record {
        name: out.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        command_line: command_line(),
        date: record::now()?,
        commit: Commit::current(),
        machine: Machine::this(),
        rustc_version: record::rustc_version(),
        cache_state: cache_state.into(),
        dataset: Dataset {
            name: source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            digest: tree.digest,
            files: tree.files,
            bytes: tree.bytes,
        },
        tools,
        samples,
        notes: notes.iter().map(|note| String::from(*note)).collect(),
    };
    record.write(out)?;
    println!("bench: wrote {}", out.display());
    Ok(())
}

/// Measures one round of onefold alone on a small generated tree, and reads the record back.
pub(crate) fn smoke() -> Result<()> {
    let mut build = Cargo::default().command();
    build.args(["build", "--release", "--package", "onefold"]);
    let status = build.status().context("cargo build")?;
    ensure!(status.success(), "onefold does not build: cargo ended with {status}");

    let folder = workspace::target_dir().join("bench-smoke");
    remove(&folder)?;
    let dataset = folder.join("sample-tree");
    sample_tree::create(&dataset)?;
    let out = folder.join("smoke.json");
    let work = Some(folder.join("work"));
    backup(Options { dataset, rounds: 1, rivals: Vec::new(), work, out: out.clone() })?;

    let record = Record::<Sample>::read(&out)?;
    let phases: Vec<&str> = record.samples.iter().map(|sample| sample.phase.as_str()).collect();
    let expected = Phase::ALL.map(|phase| phase.to_string());
    ensure!(phases == expected, "{}: {phases:?}, expected {expected:?}", out.display());
    println!("bench-smoke: ok");
    Ok(())
}

pub(crate) fn versions(tools: &[Tool]) -> Result<BTreeMap<String, String>> {
    tools.iter().map(|tool| Ok((tool.name().to_owned(), tool.version()?))).collect()
}

/// All phases of one tool, in an empty place.
fn run_round(
    tool: Tool,
    round: u32,
    work: &Work,
    source: &Path,
    tree: &TreeDigest,
) -> Result<Vec<Sample>> {
    let name = tool.name();
    // What earlier rounds wrote may have pushed the dataset out of memory.
    digest::of_tree(source)?;
    let folder = work.fresh(&format!("{name}-{round}"))?;
    let place = Place::below(&folder, source);
    for made in [&place.home, &place.target] {
        fs::create_dir_all(made).with_context(|| made.display().to_string())?;
    }
    let log = folder.join("output.log");
    if let Some(mut initialisation) = tool.initialisation(&place) {
        run_logged(&mut initialisation, &log).with_context(|| format!("{name} init"))?;
    }
    let mut samples = Vec::new();
    for phase in Phase::ALL {
        rustix::fs::sync();
        let usage = run_logged(&mut tool.phase(phase, &place), &log)
            .with_context(|| format!("{name} {phase}, round {round}"))?;
        println!("bench: round {round}, {name} {phase}: {:.2} s", usage.wall.as_secs_f64());
        let stored = digest::stored_bytes(&place.repository)?;
        samples.push(Sample::new(name, &phase.to_string(), round, usage, stored));
    }
    verify_restored(tool, &place, tree)?;
    // The folder stays until the end: ext4 is slow to make files where it deleted some lately, and
    // the next tool's restore would pay for it.
    Ok(samples)
}

/// Runs `command` with its output in `log`; an error quotes the end of it.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> Result<Usage> {
    let output = File::create(log).with_context(|| log.display().to_string())?;
    let errors = output.try_clone().with_context(|| log.display().to_string())?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let usage = measure::run(command).with_context(|| format!("{command:?}"))?;
    if !usage.status.success() {
        let text = fs::read(log).with_context(|| log.display().to_string())?;
        let end = &text[text.len().saturating_sub(2000)..];
        bail!("{command:?}: {}\n{}", usage.status, String::from_utf8_lossy(end));
    }
    Ok(usage)
}

fn verify_restored(tool: Tool, place: &Place, expected: &TreeDigest) -> Result<()> {
    let candidates = tool.restored(place);
    let Some(root) = candidates.iter().find(|candidate| candidate.is_dir()) else {
        bail!("{} restored nothing to {}", tool.name(), place.target.display());
    };
    let restored = digest::of_tree(root)?;
    ensure!(
        restored == *expected,
        "{} restored another tree to {}: {restored:?}, expected {expected:?}",
        tool.name(),
        root.display()
    );
    Ok(())
}

/// The folder that repositories and restored trees live in while measuring.
pub(crate) struct Work(PathBuf);

impl Work {
    /// Refuses a folder that holds anything but what an earlier run left: it will be emptied.
    pub(crate) fn begin(folder: &Path) -> Result<Self> {
        const MARK: &str = ".onefold-bench";
        let place = || folder.display().to_string();
        let mark = folder.join(MARK);
        if folder.exists() && !mark.exists() {
            let empty = fs::read_dir(folder).with_context(place)?.next().is_none();
            ensure!(empty, "{}: not empty; expected a folder for bench alone", place());
        }
        remove(folder)?;
        fs::create_dir_all(folder).with_context(place)?;
        File::create(mark).with_context(place)?;
        Ok(Self(folder.canonicalize().with_context(place)?))
    }

    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.0.join(name);
        remove(&folder)?;
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    pub(crate) fn end(self) -> Result<()> {
        remove(&self.0)
    }
}

pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

/// The command as it was given; of absolute paths only the last component, because where a machine
/// keeps its data is nobody's business.
fn command_line() -> String {
    let shown = |argument: OsString| match Path::new(&argument) {
        path if path.is_absolute() => {
            format!("…/{}", path.file_name().unwrap_or_default().to_string_lossy())
        }
        _ => argument.to_string_lossy().into_owned(),
    };
    let arguments: Vec<String> = env::args_os().skip(1).map(shown).collect();
    format!("cargo xtask {}", arguments.join(" "))
}

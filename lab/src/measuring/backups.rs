//! Measures backup, restore and prune, beside other tools on the same data.
//!
//! Rounds are interleaved and each starts with another tool, so that a slow minute of the machine
//! does not fall on one tool alone. Every restored tree is compared with the dataset: a fast tool
//! that loses data has no time at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use xtask::record::{self, Commit, Machine, command_line};
use xtask::workspace::{self, Cargo};
use xtask::{digest, sample_tree};

use super::measure::{self, Usage};
use super::record::{Dataset, Record, Sample};
use super::source::Source;
use super::table;
use super::tool::{Phase, Place, Tool};

/// What `cargo lab bench backup` was asked for.
pub(crate) struct Options {
    pub(crate) dataset: PathBuf,
    pub(crate) scene: Scene,
    pub(crate) rounds: u32,
    /// Besides onefold.
    pub(crate) rivals: Vec<Tool>,
    pub(crate) work: Option<PathBuf>,
    /// Whether the system forgets all files before each phase.
    pub(crate) cold: bool,
    pub(crate) out: PathBuf,
}

/// What each tool goes through in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scene {
    /// First backup, unchanged backup, restore
    Tree,
    /// The same with a backup after small changes of the large files, before the restore
    Images,
    /// Each folder of the dataset as the next state of one folder; then the older half forgotten
    /// and pruned, and the newest restored
    Versions,
}

impl Scene {
    fn phases(self) -> &'static [Phase] {
        match self {
            Self::Tree => &[Phase::First, Phase::Unchanged, Phase::Restore],
            Self::Images => &[Phase::First, Phase::Unchanged, Phase::Changed, Phase::Restore],
            Self::Versions => &[Phase::Version, Phase::Prune, Phase::Restore],
        }
    }
}

const CACHE_STATE: &str = "warm: every file of the dataset is read once before each tool's round; \
                           what a phase wrote is synced before the next one is timed";

const COLD_STATE: &str = "cold: what a phase wrote is synced, and the system is told to forget all \
                          files that it has in memory, before the next one is timed; what lies on \
                          tmpfs stays there";

pub(crate) const READ_ONCE: &str = "warm: every file of the dataset was read once before";

const NOTES: [&str; 3] = [
    "onefold's first backup includes creating its repository; the rivals' `init` is not timed",
    "all encrypt but onefold-plain and floor; which settings a name stands for is said by \
     `cargo lab bench backup --help`",
    "peak_rss_bytes is that of the largest process, as wait4 reports it",
];

/// Measures, prints a table and writes the record.
pub(crate) fn backup(options: Options) -> Result<()> {
    let mut tools = vec![Tool::Onefold];
    tools.extend(options.rivals.iter().filter(|tool| **tool != Tool::Onefold));
    let versions = versions(&tools)?;
    if options.cold {
        forget_files()?;
    }

    let (path, dataset) = read_dataset(&options.dataset)?;
    let work = options.work.unwrap_or_else(|| workspace::target_dir().join("bench/work"));
    let work = Work::begin(&work)?;
    let source = Source::of(options.scene, &path, &work)?;
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        let first = (round as usize - 1) % tools.len();
        for tool in tools[first..].iter().chain(&tools[..first]) {
            let phases = options.scene.phases();
            samples.extend(run_round(*tool, round, phases, &work, &source, options.cold)?);
        }
        print!("{}", table::of(&samples));
    }
    drop(source);
    let store = format!("repositories and restored trees lie on {}", work.file_system()?);
    work.end()?;
    let notes = [&NOTES[..], &[&store]].concat();
    let state = if options.cold { COLD_STATE } else { CACHE_STATE };
    write_record(&options.out, dataset, state, versions, samples, &notes)
}

/// Lets the system forget the files that it has in memory.
fn forget_files() -> Result<()> {
    const SWITCH: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    let switch = File::options().write(true).open(SWITCH);
    let written = switch.and_then(|mut switch| switch.write_all(b"3"));
    written.with_context(|| format!("{SWITCH}: only root can measure with --cold"))
}

/// Times each stage of a backup alone and writes the record.
pub(crate) fn stages(dataset: &Path, rounds: u32, out: &Path) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Stage {
        stage: String,
        bytes: u64,
        seconds: f64,
    }
    let (source, dataset) = read_dataset(dataset)?;
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
        "backups of duplicates: by all cores, the faster of three turns each; cut for nothing is \
         with chunks of one size, as long as the mean",
    ];
    write_record(out, dataset, READ_ONCE, BTreeMap::new(), samples, &notes)
}

/// Reads the dataset once, so that its files are in memory; where it is, and what.
pub(crate) fn read_dataset(dataset: &Path) -> Result<(PathBuf, Dataset)> {
    let source = dataset.canonicalize();
    let source = source.with_context(|| dataset.display().to_string())?;
    println!("bench: reading {} once", source.display());
    let tree = digest::of_tree(&source)?;
    let dataset = Dataset {
        name: source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        digest: tree.digest,
        files: tree.files,
        bytes: tree.bytes,
    };
    Ok((source, dataset))
}

/// Writes `samples` with all that must be known of them.
pub(crate) fn write_record<S: PartialEq + Serialize + DeserializeOwned>(
    out: &Path,
    dataset: Dataset,
    cache_state: &str,
    tools: BTreeMap<String, String>,
    samples: Vec<S>,
    notes: &[&str],
) -> Result<()> {
    let record = Record {
        name: out.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        command_line: command_line("cargo lab"),
        date: record::now()?,
        commit: Commit::current(),
        machine: Machine::this(),
        rustc_version: record::rustc_version(),
        cache_state: cache_state.into(),
        dataset,
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
    let (scene, rivals) = (Scene::Tree, Vec::new());
    backup(Options { dataset, scene, rounds: 1, rivals, work, cold: false, out: out.clone() })?;

    let record = Record::<Sample>::read(&out)?;
    let phases: Vec<&str> = record.samples.iter().map(|sample| sample.phase.as_str()).collect();
    let expected: Vec<String> = Scene::Tree.phases().iter().map(Phase::to_string).collect();
    ensure!(phases == expected, "{}: {phases:?}, expected {expected:?}", out.display());
    println!("bench-smoke: ok");
    Ok(())
}

pub(crate) fn versions(tools: &[Tool]) -> Result<BTreeMap<String, String>> {
    tools.iter().map(|tool| Ok((tool.name(), tool.version()?))).collect()
}

/// All phases of one tool, in an empty place.
fn run_round(
    tool: Tool,
    round: u32,
    phases: &[Phase],
    work: &Work,
    source: &Source,
    cold: bool,
) -> Result<Vec<Sample>> {
    let name = tool.name();
    let folder = work.fresh(&format!("{name}-{round}"))?;
    let place = Place::below(&folder, source.path());
    for made in [&place.home, &place.target] {
        fs::create_dir_all(made).with_context(|| made.display().to_string())?;
    }
    let log = folder.join("output.log");
    source.begin(round)?;
    if !cold {
        // What earlier rounds wrote may have pushed the dataset out of memory.
        source.warm()?;
    }
    for mut initialisation in tool.initialisation(&place) {
        run_logged(&mut initialisation, &log).with_context(|| format!("{name} init"))?;
    }
    let mut samples = Vec::new();
    for &phase in phases {
        if tool.phase(phase, &place).is_empty() {
            continue;
        }
        let times = if phase == Phase::Version { source.versions() } else { 1 };
        let mut usage = Usage::default();
        for time in 0..times {
            source.prepare(phase, time)?;
            if cold {
                forget_files()?
            } else {
                rustix::fs::sync()
            }
            for mut command in tool.phase(phase, &place) {
                let ran = run_logged(&mut command, &log);
                usage += ran.with_context(|| format!("{name} {phase}, round {round}"))?;
            }
        }
        println!("bench: round {round}, {name} {phase}: {:.2} s", usage.wall.as_secs_f64());
        let stored = digest::stored_bytes(&place.repository)?;
        samples.push(Sample::new(&name, &phase.to_string(), round, usage, stored));
    }
    verify_restored(tool, &place)?;
    // What is kept would fill the disk. Repositories have few files; of the trees, ext4 would make
    // the next tool pay for so many deletions, so they stay where there is room.
    if work.is_memory()? {
        remove(&folder)?;
    }
    Ok(samples)
}

/// Runs `command` with its output in `log`; an error quotes the end of it.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> Result<Usage> {
    let output = File::create(log).with_context(|| log.display().to_string())?;
    let errors = output.try_clone().with_context(|| log.display().to_string())?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let (status, usage) = measure::run(command).with_context(|| format!("{command:?}"))?;
    if !status.success() {
        let text = fs::read(log).with_context(|| log.display().to_string())?;
        let end = &text[text.len().saturating_sub(2000)..];
        bail!("{command:?}: {status}\n{}", String::from_utf8_lossy(end));
    }
    Ok(usage)
}

fn verify_restored(tool: Tool, place: &Place) -> Result<()> {
    let expected = digest::of_tree(&place.source)?;
    let candidates = Tool::restored(place);
    let Some(root) = candidates.iter().find(|candidate| candidate.is_dir()) else {
        bail!("{} restored nothing to {}", tool.name(), place.target.display());
    };
    let restored = digest::of_tree(root)?;
    ensure!(
        restored == expected,
        "{} restored another tree to {}: {restored:?}, expected {expected:?}",
        tool.name(),
        root.display()
    );
    Ok(())
}

/// The program to measure, and the folder to do it in: `dir`, or one of this workspace.
pub(crate) fn program_and_work(program: &Path, dir: Option<&Path>) -> Result<(PathBuf, Work)> {
    let found = program.canonicalize().with_context(|| program.display().to_string())?;
    let dir = dir.map_or_else(|| workspace::target_dir().join("bench/work"), Path::to_owned);
    Ok((found, Work::begin(&dir)?))
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

    /// Whether the folder is in memory.
    fn is_memory(&self) -> Result<bool> {
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        let of = rustix::fs::statfs(&self.0).with_context(|| self.0.display().to_string())?;
        Ok(of.f_type as u64 == TMPFS_MAGIC)
    }

    pub(crate) fn file_system(&self) -> Result<&'static str> {
        Ok(if self.is_memory()? { "tmpfs: in memory, where syncing costs nothing" } else { "disk" })
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

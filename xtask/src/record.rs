//! The form of a benchmark record: everything needed to doubt a number later.
//!
//! Records lie in docs/records/ as JSON. A field's name carries its unit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::measure::Usage;
use crate::workspace;

/// One measurement: what was run, on what, with which raw samples of the kind `S`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record<S> {
    pub(crate) name: String,
    pub(crate) command_line: String,
    /// UTC, RFC 3339, when the record was written.
    pub(crate) date: String,
    pub(crate) commit: Commit,
    #[serde(flatten)]
    pub(crate) machine: Machine,
    pub(crate) rustc_version: String,
    /// Which of the data were in memory when a phase began.
    pub(crate) cache_state: String,
    pub(crate) dataset: Dataset,
    /// Version of each tool, in its own words.
    pub(crate) tools: BTreeMap<String, String>,
    pub(crate) samples: Vec<S>,
    /// What a reader must know to compare the numbers fairly.
    pub(crate) notes: Vec<String>,
}

/// The source that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) id: String,
    /// Whether tracked files differed from the commit.
    pub(crate) dirty: bool,
}

/// The machine that measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu_model: String,
    /// Those this process may use.
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel_version: String,
}

/// The data that were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dataset {
    pub(crate) name: String,
    /// See `digest::of_tree`.
    pub(crate) digest: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// One run of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) tool: String,
    pub(crate) phase: String,
    /// From 1.
    pub(crate) round: u32,
    /// Wall time.
    pub(crate) seconds: f64,
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
    /// Size of the repository after the run.
    pub(crate) stored_bytes: u64,
    /// Bytes that a stage took in, where a stage and not a program was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stage_bytes: Option<u64>,
}

impl Sample {
    pub(crate) fn new(
        tool: &str,
        phase: &str,
        round: u32,
        usage: Usage,
        stored_bytes: u64,
    ) -> Self {
        Self {
            tool: tool.to_owned(),
            phase: phase.to_owned(),
            round,
            seconds: usage.wall.as_secs_f64(),
            user_seconds: usage.user.as_secs_f64(),
            system_seconds: usage.system.as_secs_f64(),
            peak_rss_bytes: usage.peak_rss,
            stored_bytes,
            stage_bytes: None,
        }
    }
}

impl Sample {
    /// A stage within one process, of which only time and bytes are known.
    pub(crate) fn of_stage(stage: &str, round: u32, wall: Duration, bytes: u64) -> Self {
        Self {
            tool: "onefold".to_owned(),
            phase: stage.to_owned(),
            round,
            seconds: wall.as_secs_f64(),
            user_seconds: 0.0,
            system_seconds: 0.0,
            peak_rss_bytes: 0,
            stored_bytes: 0,
            stage_bytes: Some(bytes),
        }
    }
}

impl<S: PartialEq + Serialize + DeserializeOwned> Record<S> {
    /// Writes the record whole or not at all, and reads it back.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        write(self, path)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        read(path)
    }
}

/// Writes what is on record as JSON, whole or not at all, and reads it back.
pub(crate) fn write<R>(record: &R, path: &Path) -> Result<()>
where
    R: PartialEq + Serialize + DeserializeOwned,
{
    let place = || path.display().to_string();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(place)?;
    }
    let mut text = serde_json::to_string_pretty(record).with_context(place)?;
    text.push('\n');
    let unfinished = path.with_extension("json.part");
    fs::write(&unfinished, text).with_context(place)?;
    fs::rename(&unfinished, path).with_context(place)?;
    ensure!(read::<R>(path)? == *record, "{}: reads back as another record", path.display());
    Ok(())
}

fn read<R: DeserializeOwned>(path: &Path) -> Result<R> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{}: no record", path.display()))
}

impl Commit {
    /// The commit that is checked out; where there is no git, `unknown` and dirty.
    pub(crate) fn current() -> Self {
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            first_words(command.current_dir(workspace::root()).args(arguments))
        };
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
        Self {
            id: git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".into()),
            dirty: changed.is_none_or(|changed| !changed.is_empty()),
        }
    }
}

impl Machine {
    pub(crate) fn this() -> Self {
        let uname = rustix::system::uname();
        let words = [uname.sysname(), uname.release(), uname.machine()];
        let processor = field("/proc/cpuinfo", "model name");
        Self {
            // Not every architecture's kernel knows a model's name.
            cpu_model: processor.unwrap_or_else(|| words[2].to_string_lossy().into_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal")
                .and_then(|size| size.strip_suffix(" kB")?.parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            kernel_version: words.map(|word| word.to_string_lossy().into_owned()).join(" "),
        }
    }
}

/// The version of the compiler in use.
pub(crate) fn rustc_version() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    first_words(Command::new(rustc).arg("--version")).unwrap_or_else(|| "unknown".into())
}

/// Now, UTC, RFC 3339, to the second.
pub(crate) fn now() -> Result<String> {
    let now = jiff::Timestamp::now().round(jiff::Unit::Second).context("the clock")?;
    Ok(now.to_string())
}

/// What `command` prints, trimmed; `None` if it cannot be run or fails.
pub(crate) fn first_words(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The value of the first `key : value` line of a file in /proc.
fn field(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records/one.json");
        let sample = Sample {
            tool: "onefold".into(),
            phase: "first".into(),
            round: 1,
            seconds: 0.1 + 0.2,
            user_seconds: 1e-6,
            system_seconds: 0.0,
            peak_rss_bytes: u64::MAX,
            stored_bytes: 0,
            stage_bytes: Some(7),
        };
        let record = Record {
            name: "one".into(),
            command_line: "cargo xtask bench".into(),
            date: now().unwrap(),
            commit: Commit::current(),
            machine: Machine::this(),
            rustc_version: rustc_version(),
            cache_state: "warm".into(),
            dataset: Dataset { name: "none".into(), digest: "blake3:".into(), files: 0, bytes: 0 },
            tools: BTreeMap::from([("onefold".into(), "0".into())]),
            samples: vec![sample],
            notes: vec!["made up".into()],
        };
        record.write(&path).unwrap();
        assert_eq!(Record::<Sample>::read(&path).unwrap(), record);
    }

    #[test]
    fn a_date_is_utc_to_the_second() {
        let date = now().unwrap();
        assert_eq!(date.len(), "2026-01-01T00:00:00Z".len(), "{date}");
        assert!(date.ends_with('Z'), "{date}");
    }
}

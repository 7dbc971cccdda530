//! What every record has: everything needed to doubt a number later.
//!
//! Records lie in docs/records/ as JSON. A field's name carries its unit.

use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::workspace;

/// The source that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Its hash, or `unknown`.
    pub id: String,
    /// Whether tracked files differed from the commit.
    pub dirty: bool,
}

/// The machine that measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// As the system calls it.
    pub cpu_model: String,
    /// Those this process may use.
    pub cores: usize,
    /// All memory.
    pub memory_bytes: u64,
    /// Of the operating system.
    pub kernel_version: String,
}

/// Writes what is on record as JSON, whole or not at all, and reads it back.
pub fn write<R>(record: &R, path: &Path) -> Result<()>
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

/// Reads what [`write()`] wrote.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<R> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{}: no record", path.display()))
}

impl Commit {
    /// The commit that is checked out; where there is no git, `unknown` and dirty.
    pub fn current() -> Self {
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

/// What follows the hash where files differed.
const DIRTY: &str = "-dirty";

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.id, if self.dirty { DIRTY } else { "" })
    }
}

impl FromStr for Commit {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let id = text.strip_suffix(DIRTY);
        Ok(Self { id: id.unwrap_or(text).to_owned(), dirty: id.is_some() })
    }
}

impl Machine {
    /// The machine of this process.
    pub fn this() -> Self {
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
pub fn rustc_version() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    first_words(Command::new(rustc).arg("--version")).unwrap_or_else(|| "unknown".into())
}

/// Now, UTC, RFC 3339, to the second.
pub fn now() -> Result<String> {
    let now = jiff::Timestamp::now().round(jiff::Unit::Second).context("the clock")?;
    Ok(now.to_string())
}

/// The command as it was given to `program`; of absolute paths only the last component, because where a machine
/// keeps its data is nobody's business.
pub fn command_line(program: &str) -> String {
    let shown = |argument: OsString| match Path::new(&argument) {
        path if path.is_absolute() => {
            format!("…/{}", path.file_name().unwrap_or_default().to_string_lossy())
        }
        _ => argument.to_string_lossy().into_owned(),
    };
    let arguments: Vec<String> = env::args_os().skip(1).map(shown).collect();
    format!("{program} {}", arguments.join(" "))
}

/// What `command` prints, trimmed; `None` if it cannot be run or fails.
pub fn first_words(command: &mut Command) -> Option<String> {
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
    fn a_commit_reads_back_as_it_is_shown() {
        for (id, dirty) in [("0123", false), ("0123", true), ("unknown", true)] {
            let commit = Commit { id: id.into(), dirty };
            assert_eq!(commit.to_string().parse(), Ok(commit));
        }
    }

    #[test]
    fn a_date_is_utc_to_the_second() {
        let date = now().unwrap();
        assert_eq!(date.len(), "2026-01-01T00:00:00Z".len(), "{date}");
        assert!(date.ends_with('Z'), "{date}");
    }
}

//! Records of long runs that measure no speed: what was run, where, and the lines in which it told
//! what it had done.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::record::{self, Commit, Machine, command_line};

/// One run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    name: String,
    command_line: String,
    /// UTC, RFC 3339, when the record was written.
    date: String,
    commit: Commit,
    #[serde(flatten)]
    machine: Machine,
    rustc_version: String,
    /// What it told, in its own words.
    lines: Vec<String>,
    notes: Vec<String>,
}

impl Outcome {
    /// Of a run, by a command of `program`, of what is checked out now; taken before it begins, so that a change during it is
    /// not taken for what ran.
    pub fn begin(program: &str) -> Result<Self> {
        Ok(Self::of(Commit::current(), program))
    }

    /// The same of `commit`, which need not be checked out here.
    pub(crate) fn of(commit: Commit, program: &str) -> Self {
        Self {
            name: String::new(),
            command_line: command_line(program),
            date: String::new(),
            commit,
            machine: Machine::this(),
            rustc_version: record::rustc_version(),
            lines: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes what a reader must know.
    pub fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// Keeps a line of what was done.
    pub fn tell(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Runs `command`, shows what it prints to its standard output, and keeps what `keep` makes of
    /// its lines.
    pub fn run(
        &mut self,
        command: &mut Command,
        keep: impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().expect("it was asked for");
        for line in BufReader::new(output).split(b'\n') {
            let line = line.with_context(|| format!("the output of {command:?}"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            self.lines.extend(keep(&line));
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("{command:?} ended with {status}");
        }
        Ok(())
    }

    /// Writes the record, if one is asked for; a run that told nothing is no run.
    pub fn write(mut self, out: Option<&Path>) -> Result<()> {
        if self.lines.is_empty() {
            bail!("nothing was told of what was run, expected a line at least");
        }
        let Some(out) = out else { return Ok(()) };
        self.name = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.date = record::now()?;
        record::write(&self, out)?;
        println!("campaign: wrote {}", out.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_written_and_what_fails_or_tells_nothing_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("one.json");
        let numbers = |line: &str| line.strip_prefix("n ").map(str::to_owned);
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let mut outcome = Outcome::begin("cargo xtask").unwrap();
        outcome.run(&mut shell("echo n 1; echo other; echo n 2"), numbers).unwrap();
        outcome.write(Some(&out)).unwrap();
        let text = std::fs::read_to_string(&out).unwrap();
        let read: Outcome = serde_json::from_str(&text).unwrap();
        assert_eq!((read.name.as_str(), read.lines), ("one", vec!["1".to_owned(), "2".into()]));

        let mut outcome = Outcome::begin("cargo xtask").unwrap();
        assert!(outcome.run(&mut shell("echo n 1; exit 3"), numbers).is_err());
        let mut outcome = Outcome::begin("cargo xtask").unwrap();
        outcome.run(&mut shell("echo other"), numbers).unwrap();
        assert!(outcome.write(Some(&folder.path().join("two.json"))).is_err());
    }
}

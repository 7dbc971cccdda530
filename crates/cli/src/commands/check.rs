//! `onefold check`

use anyhow::Result;
use clap::Args;
use indicatif::HumanBytes;
use onefold_store::check::{self, Reading, Report};
use serde::Serialize;

use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::interrupt::cancel_on_signal;
use crate::output::Output;
use crate::progress::watched_in_silence;
use crate::repository::RepositoryArgs;

const AFTER_HELP: &str = "\
Everything that a snapshot refers to must be there. Whether it is what was written is known only of
what is read: --read-data reads all. What is wrong is listed, a line each, and the exit code is 1.

Examples:
  onefold check --repo /mnt/backup
  onefold check --repo /mnt/backup --read-data
  onefold check --repo /mnt/backup --read-data-subset 5%

With --json: one document with findings (object and problem each), notes, containers, chunks, runs,
snapshots, trees and read_bytes.";

/// Look for what is missing or damaged
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Check {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Read all containers and verify every chunk
    #[arg(long, conflicts_with = "read_data_subset")]
    read_data: bool,
    /// Read this share of the containers, picked at random
    #[arg(long, value_name = "N%", value_parser = percentage)]
    read_data_subset: Option<f64>,
}

/// A check in JSON.
#[derive(Serialize)]
struct Checked<'a> {
    findings: Vec<Finding<'a>>,
    notes: &'a [String],
    containers: u64,
    chunks: u64,
    runs: u64,
    snapshots: u64,
    trees: u64,
    read_bytes: u64,
}

#[derive(Serialize)]
struct Finding<'a> {
    object: &'a str,
    problem: &'a str,
}

impl Check {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        // The check reports on the index itself.
        let opened = self.repository.open_unloaded(console)?;
        let reading = match (self.read_data, self.read_data_subset) {
            (true, _) => Reading::All,
            (false, Some(percent)) => Reading::Percent(percent),
            (false, None) => Reading::Nothing,
        };
        let cancel = cancel_on_signal(console, "nothing was changed")?;
        let report = watched_in_silence(console, |progress| {
            check::check(&opened.repository, reading, progress, &cancel)
        })?;
        show(&report, console)?;
        Ok(if report.findings.is_empty() { Exit::Fine } else { Exit::Fatal })
    }
}

/// Reads a percentage above 0 and up to 100.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    number
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or_else(|| "expected a percentage above 0% and up to 100%".into())
}

fn show(report: &Report, console: &Console) -> Result<()> {
    let mut output = Output::new();
    if console.is_json() {
        output.json_document(&Checked::of(report))?;
        return output.finish();
    }
    for finding in &report.findings {
        output.line(finding.to_string())?;
    }
    if !console.is_quiet() {
        for note in &report.notes {
            output.line(format!("note: {note}"))?;
        }
        output.line(describe(report))?;
    }
    output.finish()
}

fn describe(report: &Report) -> String {
    let verdict = match report.findings.len() {
        0 => "nothing is wrong".to_owned(),
        1 => "1 thing is wrong".to_owned(),
        several => format!("{several} things are wrong"),
    };
    format!(
        "{}, {}, {} in {}, {}; {} read: {verdict}",
        count(report.snapshots, "snapshot", "snapshots"),
        count(report.trees, "tree", "trees"),
        count(report.chunks, "chunk", "chunks"),
        count(report.containers, "container", "containers"),
        count(report.runs, "run", "runs"),
        HumanBytes(report.read_bytes),
    )
}

impl<'a> Checked<'a> {
    fn of(report: &'a Report) -> Self {
        let findings = report.findings.iter();
        Self {
            findings: findings
                .map(|finding| Finding { object: &finding.object, problem: &finding.problem })
                .collect(),
            notes: &report.notes,
            containers: report.containers,
            chunks: report.chunks,
            runs: report.runs,
            snapshots: report.snapshots,
            trees: report.trees,
            read_bytes: report.read_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_is_a_percentage_above_nothing() {
        assert_eq!(percentage("100%"), Ok(100.0));
        assert_eq!(percentage("0.5%"), Ok(0.5));
        for text in ["", "%", "5", "0%", "-1%", "100.1%", "NaN%", "1/5", "inf%"] {
            assert!(percentage(text).is_err(), "{text}");
        }
    }
}

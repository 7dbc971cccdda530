//! `onefold check`

use anyhow::Result;
use clap::Args;
use indicatif::HumanBytes;
use onefold_seal::ObjectId;
use onefold_store::backup;
use onefold_store::check::{self, Reading, Report};
use onefold_store::repair::{self, Options, Rewritten};
use serde::Serialize;

use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::host;
use crate::interrupt::cancel_on_signal;
use crate::name::PathFields;
use crate::output::Output;
use crate::progress::watched_in_silence;
use crate::repository::{OpenRepository, RepositoryArgs};

const AFTER_HELP: &str = "\
The check fails if anything that a snapshot refers to is missing. Damage is found only in data that are
read: --read-data reads all. Each problem is listed on one line, and the exit code is then 1.

--repair reads all data and keeps all that is intact. It saves the good chunks of damaged containers to
new ones and rewrites damaged index runs. It rewrites incomplete snapshots without the missing parts,
under new ids and with the tag 'repaired'; the old snapshots stay until you forget them. It lists what
was lost; a backup of the same files stores that again. Backups may run at the same time. If a repair
is interrupted, the repository is no worse than before. The exit code is 1 if a snapshot lost anything.

If the repository went back to an older state, or lacks snapshots that were never forgotten, a repair
accepts that for all clients. Find out the reason first.

Examples:
  onefold check --repo /mnt/backup
  onefold check --repo /mnt/backup --read-data
  onefold check --repo /mnt/backup --read-data-subset 5%
  onefold check --repo /mnt/backup --repair

With --json: one document with findings (object and problem each), notes, containers, chunks, runs,
snapshots, trees and read_bytes; after --repair also repaired with condemned (containers), covered
(containers in new runs), deleted_runs, receipts, deleted_receipts, saved_chunks, saved_bytes,
lost_chunks, stored_bytes, logs (hosts whose logs were corrected), given_up (missing snapshots that are
now treated as forgotten) and snapshots (old, new or null, is_from_before, and lost: the lost paths,
each as path and perhaps path_hex). If the findings or the lost paths take more than 16 MiB, unlisted
counts the rest.";

/// Find missing or damaged data
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Check {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Read all containers and verify every chunk
    #[arg(long, conflicts_with = "read_data_subset")]
    read_data: bool,
    /// Keep all that is intact, and list what was lost; reads all data
    #[arg(long, conflicts_with = "read_data_subset")]
    repair: bool,
    /// Read this share of the containers, picked at random
    #[arg(long, value_name = "N%", value_parser = percentage)]
    read_data_subset: Option<f64>,
}

/// A check in JSON.
#[derive(Serialize)]
struct Checked<'a> {
    findings: Vec<Finding<'a>>,
    #[serde(skip_serializing_if = "is_none")]
    unlisted: u64,
    notes: &'a [String],
    containers: u64,
    chunks: u64,
    runs: u64,
    snapshots: u64,
    trees: u64,
    read_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<Repaired>,
}

/// A repair in JSON.
#[derive(Serialize)]
struct Repaired {
    condemned: Vec<String>,
    covered: u64,
    deleted_runs: Vec<String>,
    receipts: Vec<String>,
    deleted_receipts: Vec<String>,
    saved_chunks: u64,
    saved_bytes: u64,
    lost_chunks: u64,
    stored_bytes: u64,
    snapshots: Vec<RepairedSnapshot>,
    logs: Vec<String>,
    given_up: Vec<String>,
}

#[derive(Serialize)]
struct RepairedSnapshot {
    old: String,
    new: Option<String>,
    is_from_before: bool,
    lost: Vec<PathFields>,
    #[serde(skip_serializing_if = "is_none")]
    unlisted: u64,
}

#[derive(Serialize)]
struct Finding<'a> {
    object: &'a str,
    problem: &'a str,
}

fn is_none(count: &u64) -> bool {
    *count == 0
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
        if self.repair {
            return repair(&opened, console);
        }
        let cancel = cancel_on_signal(console, "nothing was changed")?;
        let report = watched_in_silence(console, |progress| {
            check::check(&opened.repository, reading, progress, &cancel)
        })?;
        let mut output = Output::new();
        match console.is_json() {
            true => output.json_document(&Checked::of(&report, None))?,
            false => show(&report, &mut output, console)?,
        }
        output.finish()?;
        Ok(if report.findings.is_empty() { Exit::Fine } else { Exit::Fatal })
    }
}

fn repair(opened: &OpenRepository, console: &Console) -> Result<Exit> {
    let options = Options {
        host: host::name(),
        user: host::user(),
        container_len: backup::Options::default().container_len,
    };
    let cancel =
        cancel_on_signal(console, "nothing is worse than before; another repair continues")?;
    let report = watched_in_silence(console, |progress| {
        repair::repair(&opened.repository, &options, progress, &cancel)
    })?;
    opened.tell_of_memory(console);
    if console.is_alarmed() {
        // It took for settled most of what there was to say.
        console.alarm(!opened.repository.recall()?.is_empty());
    }
    let mut output = Output::new();
    if console.is_json() {
        output.json_document(&Checked::of(&report.check, Some(Repaired::of(&report))))?;
    } else {
        show(&report.check, &mut output, console)?;
        tell(&report, &mut output, console)?;
    }
    output.finish()?;
    Ok(if report.is_loss() { Exit::Fatal } else { Exit::Fine })
}

/// Prints what was lost, even if --quiet is given, and otherwise what was done.
fn tell(report: &repair::Report, output: &mut Output, console: &Console) -> Result<()> {
    for one in &report.snapshots {
        for path in &one.lost {
            output.line_with_name(&format!("lost from snapshot {}: /", one.old), path)?;
        }
        if one.unlisted > 0 {
            let things = count(one.unlisted, "other thing", "other things");
            output.line(format!("lost from snapshot {}: {things}, too many to list", one.old))?;
        }
        let old = one.old;
        output.line(match (one.new, one.is_from_before) {
            (Some(new), false) => {
                format!("snapshot {new} is {old} without the lost parts; you may forget {old}")
            }
            (Some(new), true) => {
                format!("an earlier repair made snapshot {new} of {old}; you may forget {old}")
            }
            (None, _) => format!("nothing of snapshot {old} could be kept"),
        })?;
    }
    if console.is_quiet() {
        return Ok(());
    }
    let containers = |number: u64| count(number, "container", "containers");
    if !report.condemned.is_empty() {
        output.line(format!(
            "{} of damaged {} saved, {} lost; a prune deletes these containers when no snapshot \
             needs them",
            count(report.saved_chunks, "chunk", "chunks"),
            containers(report.condemned.len() as u64),
            count(report.lost_chunks, "chunk", "chunks"),
        ))?;
    }
    if !report.deleted_runs.is_empty() {
        let runs = count(report.deleted_runs.len() as u64, "index run", "index runs");
        output.line(format!("{runs} rewritten, for {}", containers(report.covered)))?;
    }
    if !report.receipts.is_empty() {
        let receipts = count(report.receipts.len() as u64, "receipt", "receipts");
        output.line(format!("{receipts} rewritten"))?;
    }
    if !report.deleted_receipts.is_empty() {
        let count = count(report.deleted_receipts.len() as u64, "receipt", "receipts");
        output.line(format!("{count} of forgotten snapshots deleted"))?;
    }
    for host in &report.logs {
        output.line(format!("the log of '{host}' was corrected"))?;
    }
    for id in &report.given_up {
        output.line(format!("snapshot {id} is missing and is now treated as forgotten"))?;
    }
    Ok(())
}

/// Reads a percentage above 0 and up to 100.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    number
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or_else(|| "expected a percentage above 0% and up to 100%".into())
}

fn show(report: &Report, output: &mut Output, console: &Console) -> Result<()> {
    for finding in &report.findings {
        output.line(finding.to_string())?;
    }
    if report.unlisted > 0 {
        let findings = count(report.unlisted, "other finding", "other findings");
        output.line(format!("{findings}, too many to list"))?;
    }
    if console.is_quiet() {
        return Ok(());
    }
    for note in &report.notes {
        output.line(format!("note: {note}"))?;
    }
    output.line(describe(report))
}

fn describe(report: &Report) -> String {
    let verdict = match (report.findings.len() as u64).saturating_add(report.unlisted) {
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
    fn of(report: &'a Report, repaired: Option<Repaired>) -> Self {
        let findings = report.findings.iter();
        Self {
            findings: findings
                .map(|finding| Finding { object: &finding.object, problem: &finding.problem })
                .collect(),
            unlisted: report.unlisted,
            notes: &report.notes,
            containers: report.containers,
            chunks: report.chunks,
            runs: report.runs,
            snapshots: report.snapshots,
            trees: report.trees,
            read_bytes: report.read_bytes,
            repaired,
        }
    }
}

impl Repaired {
    fn of(report: &repair::Report) -> Self {
        let texts = |ids: &[ObjectId]| ids.iter().map(ToString::to_string).collect();
        Self {
            condemned: texts(&report.condemned),
            covered: report.covered,
            deleted_runs: texts(&report.deleted_runs),
            receipts: texts(&report.receipts),
            deleted_receipts: texts(&report.deleted_receipts),
            saved_chunks: report.saved_chunks,
            saved_bytes: report.saved_bytes,
            lost_chunks: report.lost_chunks,
            stored_bytes: report.stored_bytes,
            snapshots: report.snapshots.iter().map(RepairedSnapshot::of).collect(),
            logs: report.logs.clone(),
            given_up: texts(&report.given_up),
        }
    }
}

impl RepairedSnapshot {
    fn of(one: &Rewritten) -> Self {
        Self {
            old: one.old.to_string(),
            new: one.new.map(|id| id.to_string()),
            is_from_before: one.is_from_before,
            lost: one.lost.iter().map(|path| PathFields::new(path)).collect(),
            unlisted: one.unlisted,
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

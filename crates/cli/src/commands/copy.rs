//! `onefold copy`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::HumanBytes;
use onefold_seal::ObjectId;
use onefold_store::copy::{self, Options, Report};
use onefold_store::{Repository, Snapshot, SnapshotSpec, StoreError, backup};
use serde::Serialize;

use crate::console::Console;
use crate::count::count;
use crate::encryption::FromPasswordArgs;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::host;
use crate::interrupt::cancel_on_signal;
use crate::output::Output;
use crate::progress::watched;
use crate::repository::RepositoryArgs;

const AFTER_HELP: &str = "\
Only data that the target repository lacks are transferred. A copy keeps time, host, user, paths and
tags, and names the original snapshot as its parent. If the target has a snapshot with the same time,
host, paths and tags, it is not copied again. An interrupted copy leaves complete snapshots only, and
the next one continues.

Chunks keep their cut-points. If both repositories are encrypted, or cut with other parameters, copied
chunks then do not deduplicate with backups to the target: --rechunk cuts files again, which reads all
of them.

Examples:
  onefold copy --repo /mnt/second --from-repo /mnt/backup
  onefold copy --repo /mnt/second --from-repo /mnt/backup latest 3f2c81ab
  onefold copy --repo s3://backups/laptop --password-file new \\
      --from-repo /mnt/backup --from-password-file old --rechunk

With --json: one object per line, with a \"type\". \"progress\" is written every second, as described in
`onefold backup --help`. \"summary\" is the last, with copied and there (lists of from and to), new_bytes
and stored_bytes.";

/// Copy snapshots from another repository
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Copy {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The repository to copy from: a directory, s3://BUCKET/PREFIX, az://…, gs://… or sftp:USER@HOST:/PATH
    #[arg(long, value_name = "REPO", env = "ONEFOLD_FROM_REPOSITORY")]
    from_repo: PathBuf,
    #[command(flatten)]
    from_password: FromPasswordArgs,
    /// The snapshots to copy: `latest` or the first digits of an id [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<SnapshotSpec>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Cut files again, with the chunker of the target repository
    #[arg(long)]
    rechunk: bool,
}

/// A copy in JSON.
#[derive(Serialize)]
struct Done {
    r#type: &'static str,
    copied: Vec<Pair>,
    there: Vec<Pair>,
    new_bytes: u64,
    stored_bytes: u64,
}

/// A snapshot and its copy.
#[derive(Serialize)]
struct Pair {
    from: String,
    to: String,
}

impl Copy {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let from = self.repository.open_other(&self.from_repo, &self.from_password, console)?;
        let to = self.repository.open_unloaded(console)?;
        let snapshots = self.snapshots(&from.repository)?;
        let options = Options {
            host: host::name(),
            user: host::user(),
            rechunk: self.rechunk,
            container_len: backup::Options::default().container_len,
        };
        let cancel = cancel_on_signal(console, "copied data are kept; another copy continues")?;
        let report = watched(console, |progress| {
            copy::copy(&from.repository, &to.repository, snapshots, &options, progress, &cancel)
        });
        to.tell_of_memory(console);
        let report = report?;
        show(&report, console)?;
        Ok(Exit::Fine)
    }

    fn snapshots(&self, from: &Repository) -> Result<Vec<(ObjectId, Snapshot)>, StoreError> {
        if !self.snapshots.is_empty() {
            return self.snapshots.iter().map(|spec| self.filter.find(from, spec)).collect();
        }
        let (mut all, damaged) = from.snapshots()?;
        all.retain(|(_, snapshot)| self.filter.wants(snapshot));
        match damaged.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(all),
        }
    }
}

fn show(report: &Report, console: &Console) -> Result<()> {
    let mut output = Output::new();
    if console.is_json() {
        output.json_line(&Done::of(report))?;
        return output.finish();
    }
    if console.is_quiet() {
        return Ok(());
    }
    for (from, to) in &report.copied {
        output.line(format!("snapshot {from} is {to} here"))?;
    }
    output.line(format!(
        "{} copied, {} already there; {} new, {} stored",
        count(report.copied.len() as u64, "snapshot", "snapshots"),
        report.there.len(),
        HumanBytes(report.new_bytes),
        HumanBytes(report.stored_bytes),
    ))?;
    output.finish()
}

impl Done {
    fn of(report: &Report) -> Self {
        let pairs = |list: &[(ObjectId, ObjectId)]| {
            let pair = |(from, to): &(ObjectId, ObjectId)| Pair {
                from: from.to_string(),
                to: to.to_string(),
            };
            list.iter().map(pair).collect()
        };
        Self {
            r#type: "summary",
            copied: pairs(&report.copied),
            there: pairs(&report.there),
            new_bytes: report.new_bytes,
            stored_bytes: report.stored_bytes,
        }
    }
}

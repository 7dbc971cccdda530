//! `onefold snapshots`

use std::num::NonZero;

use anyhow::Result;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use onefold_seal::ObjectId;
use onefold_store::Snapshot;
use onefold_store::forget::{GroupBy, Shared, group};
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::grouping::{describe, group_by};
use crate::name::{hex_unless_utf8, lossy, shown};
use crate::output::Output;
use crate::repository::RepositoryArgs;
use crate::table;
use crate::time::{local, rfc3339};

const AFTER_HELP: &str = "\
Examples:
  onefold snapshots --repo /mnt/backup
  onefold snapshots --repo /mnt/backup --tag weekly --host atlas
  onefold snapshots --repo /mnt/backup --path /home --latest 3
  onefold snapshots --repo /mnt/backup --group-by host

With --json: one document, a list, oldest first; each snapshot has id, time, host, user, tags, paths
(and paths_hex if one is not UTF-8), parent, from_client (whether a write-only client made it; the table
shows a star), program, files, unchanged_files, directories, others, bytes, new_bytes, stored_bytes,
unreadable and seconds. With --group-by the document is a list of groups with snapshots, from_client,
and those of host, paths and tags that are grouped by.";

/// The number of digits of an id that are shown.
const SHORT: usize = 8;

/// List the snapshots, oldest first
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Snapshots {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only the newest N of each host and set of paths
    #[arg(long, value_name = "N")]
    latest: Option<NonZero<usize>>,
    /// Group snapshots by these: host, paths, tags, separated by commas
    #[arg(long, short = 'g', value_name = "GROUP", value_parser = group_by)]
    group_by: Option<GroupBy>,
}

/// A group of snapshots in JSON.
#[derive(Serialize)]
struct GroupListed {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<String>>,
    from_client: bool,
    snapshots: Vec<Listed>,
}

/// A snapshot in JSON.
#[derive(Serialize)]
struct Listed {
    id: String,
    time: String,
    host: String,
    user: String,
    tags: Vec<String>,
    paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths_hex: Option<Vec<Option<String>>>,
    parent: Option<String>,
    from_client: bool,
    program: String,
    files: u64,
    unchanged_files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    new_bytes: u64,
    stored_bytes: u64,
    unreadable: u64,
    seconds: f64,
}

impl Snapshots {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open_unloaded(console)?;
        let (mut snapshots, damaged) = opened.repository.shown_snapshots()?;
        snapshots.retain(|(_, snapshot)| self.filter.wants(snapshot));
        if let Some(latest) = self.latest {
            snapshots = newest(snapshots, latest.get());
        }
        if snapshots.is_empty() {
            console.notice("no snapshots");
        }
        show(snapshots, self.group_by, console)?;
        for error in &damaged {
            console.line(format_args!("error: a snapshot cannot be read: {error}"));
        }
        Ok(if damaged.is_empty() { Exit::Fine } else { Exit::Fatal })
    }
}

type Identified = (ObjectId, Snapshot);

/// The newest `count` snapshots of each host and set of paths, oldest first as before.
fn newest(snapshots: Vec<Identified>, count: usize) -> Vec<Identified> {
    let by = GroupBy { host: true, paths: true, tags: false };
    let groups = group(snapshots, by).into_values();
    let mut kept: Vec<_> =
        groups.flat_map(|mut group| group.split_off(group.len().saturating_sub(count))).collect();
    kept.sort_by_key(|(id, snapshot)| (snapshot.time, *id));
    kept
}

fn show(snapshots: Vec<Identified>, by: Option<GroupBy>, console: &Console) -> Result<()> {
    let mut output = Output::new();
    match by {
        None if console.is_json() => {
            output.json_document(&snapshots.iter().map(Listed::of).collect::<Vec<_>>())?;
        }
        None => lines(&snapshots).into_iter().try_for_each(|line| output.line(line))?,
        Some(by) if console.is_json() => {
            let groups = group(snapshots, by);
            let groups: Vec<_> = groups.into_iter().map(GroupListed::of).collect();
            output.json_document(&groups)?;
        }
        Some(by) => {
            for (at, (shared, members)) in group(snapshots, by).into_iter().enumerate() {
                if at > 0 {
                    output.line("")?;
                }
                output.line(format!("{}:", describe(&shared)))?;
                lines(&members).into_iter().try_for_each(|line| output.line(line))?;
            }
        }
    }
    output.finish()
}

fn lines(snapshots: &[(ObjectId, Snapshot)]) -> Vec<String> {
    if snapshots.is_empty() {
        return Vec::new();
    }
    let header = ["ID", "Time", "Host", "Tags", "Files", "Size", "New", "Paths"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (id, snapshot) in snapshots {
        let paths: Vec<_> = snapshot.paths.iter().map(|path| shown(path)).collect();
        rows.push(vec![
            id.to_string()[..SHORT].to_owned(),
            local(snapshot.time),
            host_of(snapshot),
            shown(snapshot.tags.join(",").as_bytes()),
            HumanCount(snapshot.summary.files).to_string(),
            HumanBytes(snapshot.summary.bytes).to_string(),
            HumanBytes(snapshot.summary.new_bytes).to_string(),
            paths.join(" "),
        ]);
    }
    table::lines(&rows, &[4, 5, 6])
}

/// The host, with a star if only a write-only client vouches for it.
fn host_of(snapshot: &Snapshot) -> String {
    let host = shown(snapshot.host.as_bytes());
    if snapshot.is_from_client { format!("{host}*") } else { host }
}

impl GroupListed {
    fn of((shared, members): (Shared, Vec<Identified>)) -> Self {
        let Shared { host, paths, tags, is_from_client } = shared;
        Self {
            host,
            paths: paths.map(|paths| paths.iter().map(|path| lossy(path)).collect()),
            tags,
            from_client: is_from_client,
            snapshots: members.iter().map(Listed::of).collect(),
        }
    }
}

impl Listed {
    fn of((id, snapshot): &(ObjectId, Snapshot)) -> Self {
        let summary = &snapshot.summary;
        let paths_hex: Vec<_> = snapshot.paths.iter().map(|path| hex_unless_utf8(path)).collect();
        Self {
            id: id.to_string(),
            time: rfc3339(snapshot.time),
            host: snapshot.host.clone(),
            user: snapshot.user.clone(),
            tags: snapshot.tags.clone(),
            paths: snapshot.paths.iter().map(|path| lossy(path)).collect(),
            paths_hex: paths_hex.iter().any(Option::is_some).then_some(paths_hex),
            parent: snapshot.parent.map(|parent| parent.to_string()),
            from_client: snapshot.is_from_client,
            program: snapshot.program.clone(),
            files: summary.files,
            unchanged_files: summary.unchanged_files,
            directories: summary.directories,
            others: summary.others,
            bytes: summary.bytes,
            new_bytes: summary.new_bytes,
            stored_bytes: summary.stored_bytes,
            unreadable: summary.unreadable,
            seconds: summary.milliseconds as f64 / 1000.0,
        }
    }
}

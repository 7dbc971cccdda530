//! `onefold diff`

use anyhow::{Result, bail};
use clap::Args;
use indicatif::HumanBytes;
use onefold_store::diff::{self, Change};
use onefold_store::tree::{Entry, Node};
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::name::PathFields;
use crate::output::Output;
use crate::repository::RepositoryArgs;
use crate::snapshot_path::{Found, SnapshotPath};

const AFTER_HELP: &str = "\
Each line is a change: + added, - removed, M content changed, U only mode, owner, time or attributes
changed, T type changed, such as from file to directory. Names of directories end in a slash.

Examples:
  onefold diff --repo /mnt/backup 1a2b3c4d latest
  onefold diff --repo /mnt/backup 1a2b3c4d:projects latest:projects

With --json: one object per line, with a \"type\". \"change\" has path, change (added, removed, content,
metadata, kind), kind_before and size_before unless it was added, and kind_after and size_after unless
it was removed. \"summary\" is the last, with the number of each change, added_bytes (sizes of added
files) and removed_bytes.";

/// Show the changes from one snapshot to another
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Diff {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The older snapshot, or a directory in it
    #[arg(value_name = "SNAPSHOT", value_parser = SnapshotPath::parser())]
    before: SnapshotPath,
    /// The newer snapshot, or a directory in it
    #[arg(value_name = "SNAPSHOT", value_parser = SnapshotPath::parser())]
    after: SnapshotPath,
    #[command(flatten)]
    filter: FilterArgs,
}

/// A change in JSON.
#[derive(Serialize)]
struct Changed {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathFields,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind_before: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind_after: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_after: Option<u64>,
}

/// All changes together, in JSON as they are.
#[derive(Serialize, Default)]
struct Totals {
    r#type: &'static str,
    added: u64,
    removed: u64,
    content: u64,
    metadata: u64,
    kind: u64,
    added_bytes: u64,
    removed_bytes: u64,
}

impl Diff {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open(console)?;
        let find = |path: &SnapshotPath| path.find(&opened.repository, &self.filter, console);
        let before = directory(find(&self.before)?)?;
        let after = directory(find(&self.after)?)?;
        let mut output = Output::new();
        let mut totals = Totals { r#type: "summary", ..Totals::default() };
        let mut written = Ok(());
        diff::diff(&opened.repository, &before, &after, &mut |path, change| {
            totals.add(change);
            // The comparison cannot be stopped; after a failure nothing more is written.
            if written.is_ok() {
                written = match console.is_json() {
                    true => output.json_line(&Changed::of(path, change)),
                    false => output.line_with_name(letter(change), &with_slash(path, change)),
                };
            }
        })?;
        written?;
        if console.is_json() {
            output.json_line(&totals)?;
        } else if !console.is_quiet() {
            output.line(totals.describe())?;
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

fn directory(found: Found) -> Result<Entry> {
    if matches!(found.entry.node, Node::Directory { .. }) {
        return Ok(found.entry);
    }
    let (path, kind) = (String::from_utf8_lossy(&found.path), found.entry.node.kind());
    bail!("'{path}' of snapshot {} is a {kind}, expected a directory", found.id)
}

fn letter(change: Change<'_>) -> &'static str {
    match change {
        Change::Added(_) => "+ ",
        Change::Removed(_) => "- ",
        Change::Content { .. } => "M ",
        Change::Metadata { .. } => "U ",
        Change::Kind { .. } => "T ",
    }
}

/// What was, and what is.
fn sides(change: Change<'_>) -> (Option<&Entry>, Option<&Entry>) {
    match change {
        Change::Added(after) => (None, Some(after)),
        Change::Removed(before) => (Some(before), None),
        Change::Content { before, after }
        | Change::Metadata { before, after }
        | Change::Kind { before, after } => (Some(before), Some(after)),
    }
}

fn with_slash(path: &[u8], change: Change<'_>) -> Vec<u8> {
    let (before, after) = sides(change);
    let is_directory = |entry: &Entry| matches!(entry.node, Node::Directory { .. });
    match after.or(before).is_some_and(is_directory) {
        true => [path, b"/"].concat(),
        false => path.to_vec(),
    }
}

impl Changed {
    fn of(path: &[u8], change: Change<'_>) -> Self {
        let (before, after) = sides(change);
        Self {
            r#type: "change",
            path: PathFields::new(path),
            change: match change {
                Change::Added(_) => "added",
                Change::Removed(_) => "removed",
                Change::Content { .. } => "content",
                Change::Metadata { .. } => "metadata",
                Change::Kind { .. } => "kind",
            },
            kind_before: before.map(|entry| entry.node.kind()),
            kind_after: after.map(|entry| entry.node.kind()),
            size_before: before.map(Entry::size),
            size_after: after.map(Entry::size),
        }
    }
}

impl Totals {
    fn add(&mut self, change: Change<'_>) {
        match change {
            Change::Added(after) => {
                self.added += 1;
                self.added_bytes += after.size();
            }
            Change::Removed(before) => {
                self.removed += 1;
                self.removed_bytes += before.size();
            }
            Change::Content { .. } => self.content += 1,
            Change::Metadata { .. } => self.metadata += 1,
            Change::Kind { .. } => self.kind += 1,
        }
    }

    fn describe(&self) -> String {
        let Self { added, removed, content, metadata, kind, .. } = self;
        format!(
            "{added} added ({}), {removed} removed ({}), {content} with other content, \
             {metadata} with other metadata, {kind} of another kind",
            HumanBytes(self.added_bytes),
            HumanBytes(self.removed_bytes),
        )
    }
}

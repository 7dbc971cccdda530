//! `onefold find`

use anyhow::Result;
use clap::Args;
use onefold_seal::ObjectId;
use onefold_store::find::Finder;
use onefold_store::tree::{Entry, Time};
use onefold_store::{Repository, Snapshot, SnapshotSpec};
use serde::Serialize;

use super::ls::{Listed, Listing};
use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::output::{Output, Walked};
use crate::repository::RepositoryArgs;
use crate::time::{self, local};

const AFTER_HELP: &str = "\
A PATTERN is a glob for names: * matches any characters, ? any one, [a-z] any one of these, and {a,b}
either string. A pattern with a slash is a glob for paths in the snapshot. It starts at the root if it
begins with a slash, else at any directory; ** matches any number of directories. Entries that match any
pattern are listed by snapshot, the oldest first.

TIME is 2026-01-31 or \"2026-01-31 18:00\", optionally with seconds, in this machine's time zone, or
2026-01-31T18:00:00Z. Names are escaped as by `onefold ls`.

Examples:
  onefold find --repo /mnt/backup '*.conf'
  onefold find --repo /mnt/backup --snapshot latest -l -i \\
      'invoice*.pdf'
  onefold find --repo /mnt/backup --host atlas --newest 2026-01-31 \\
      '/home/**/notes/*'
  onefold find --repo /mnt/backup --type d .git --json

With --json: one object per line, with a \"type\". \"entry\" has snapshot and the fields of `onefold ls
--json`. \"summary\" is the last, with the numbers of snapshots (searched), matches and damaged (snapshots
that could not be read completely).";

/// Find files by name in some or all snapshots
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Find {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Names or paths to find
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Search only this snapshot: `latest` or the first digits of an id; may be repeated
    #[arg(long = "snapshot", short = 's', value_name = "SNAPSHOT")]
    snapshots: Vec<SnapshotSpec>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only entries last modified at this time or before
    #[arg(long, short = 'N', value_name = "TIME", value_parser = time::parse)]
    newest: Option<Time>,
    /// Only entries last modified at this time or later
    #[arg(long, short = 'O', value_name = "TIME", value_parser = time::parse)]
    oldest: Option<Time>,
    /// Only files (f), directories (d), links (l), pipes (p), sockets (s), character (c) or block (b)
    /// devices; may be repeated
    #[arg(long = "type", value_name = "T", value_parser = ["f", "d", "l", "p", "s", "c", "b"])]
    kinds: Vec<String>,
    /// Ignore case in patterns
    #[arg(long, short)]
    ignore_case: bool,
    /// Also show mode, owner, group, size and time
    #[arg(long, short)]
    long: bool,
    /// Write each entry as SNAPSHOT:PATH, not escaped, followed by a NUL instead of a line break
    #[arg(long, short = '0', conflicts_with = "long")]
    null: bool,
}

/// An entry that was found, in JSON.
#[derive(Serialize)]
struct FoundEntry<'a> {
    snapshot: &'a str,
    #[serde(flatten)]
    listed: Listed,
}

/// The summary in JSON.
#[derive(Serialize)]
struct Done {
    r#type: &'static str,
    snapshots: u64,
    matches: u64,
    damaged: u64,
}

impl Find {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let listing = Listing::new(self.long, self.null, console)?;
        let opened = self.repository.open(console)?;
        let repository = &opened.repository;
        let wants = |entry: &Entry| self.wants(entry);
        let mut finder = Finder::new(repository, &self.patterns, self.ignore_case, &wants)?;
        let (snapshots, mut damaged) = self.chosen(repository, console)?;
        let mut output = Output::new();
        let (mut matches, mut searched) = (0, 0);
        for (id, snapshot) in &snapshots {
            let before = matches;
            let mut walked = Walked::default();
            let result = finder.find(&snapshot.root, &mut |path, entry| {
                let is_first = matches == before;
                matches += 1;
                let shown = self.show(listing, &mut output, (*id, snapshot), path, entry, is_first);
                walked.hear(shown.map(|()| !output.is_closed()))
            });
            if walked.is_over() {
                walked.end(result)?;
                break;
            }
            searched += 1;
            if matches > before && !self.null && !console.is_json() {
                output.line("")?;
            }
            if let Err(error) = result {
                damaged += 1;
                console.line(format_args!(
                    "error: snapshot {id} cannot be searched completely: {error}"
                ));
            }
        }
        console.detail(format_args!("{} read", count(finder.trees(), "directory", "directories")));
        if console.is_json() {
            output.json_line(&Done { r#type: "summary", snapshots: searched, matches, damaged })?;
        }
        output.finish()?;
        Ok(if damaged == 0 { Exit::Fine } else { Exit::Fatal })
    }

    /// The snapshots to search, and the number of those that cannot be read.
    fn chosen(
        &self,
        repository: &Repository,
        console: &Console,
    ) -> Result<(Vec<(ObjectId, Snapshot)>, u64)> {
        if !self.snapshots.is_empty() {
            let found = self.snapshots.iter().map(|spec| self.filter.find(repository, spec));
            return Ok((found.collect::<Result<_, _>>()?, 0));
        }
        let (mut snapshots, damaged) = repository.snapshots()?;
        snapshots.retain(|(_, snapshot)| self.filter.wants(snapshot));
        for error in &damaged {
            console.line(format_args!("error: a snapshot cannot be read: {error}"));
        }
        Ok((snapshots, damaged.len() as u64))
    }

    fn wants(&self, entry: &Entry) -> bool {
        let letter = match entry.node.letter() {
            '-' => 'f',
            letter => letter,
        };
        let mtime = entry.meta.mtime;
        self.newest.is_none_or(|newest| mtime <= newest)
            && self.oldest.is_none_or(|oldest| mtime >= oldest)
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.starts_with(letter)))
    }

    fn show(
        &self,
        listing: Listing,
        output: &mut Output,
        (id, snapshot): (ObjectId, &Snapshot),
        path: &[u8],
        entry: &Entry,
        is_first: bool,
    ) -> Result<()> {
        if listing.is_json() {
            let listed = Listed::of(path, entry);
            return output.json_line(&FoundEntry { snapshot: &id.to_string(), listed });
        }
        if self.null {
            return output.name_with_nul(&format!("{id}:"), path);
        }
        if is_first {
            let time = local(snapshot.time);
            output.line(format!("in snapshot {} of {time}:", id.short()))?;
        }
        listing.show(output, path, entry)
    }
}

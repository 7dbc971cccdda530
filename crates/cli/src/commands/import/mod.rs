//! `onefold import`

mod borg;
mod program;
mod restic;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use indicatif::HumanBytes;
use onefold_seal::ObjectId;
use onefold_store::backup;
use onefold_store::import::{self, Described};
use onefold_store::tree::Time;
use onefold_store::{Cancel, Snapshot};
use serde::Serialize;

use crate::console::Console;
use crate::count;
use crate::exit::Exit;
use crate::host;
use crate::interrupt::cancel_on_signal;
use crate::output::Output;
use crate::progress::watched;
use crate::repository::{OpenRepository, RepositoryArgs};
use crate::tags::TagList;
use crate::time;

const AFTER_HELP: &str = "\
Examples:
  onefold import restic --repo /mnt/backup /mnt/restic
  onefold import borg --repo /mnt/backup /mnt/borg
  onefold import tar --repo /mnt/backup old-backup.tar

A snapshot keeps the time, host, user, paths and tags that it had. One that is there with the same is not
imported again, so a stopped import continues with the next snapshot. What cannot be taken over is
reported, and listed in docs/import.md; if something is missing, the exit code is 3.

restic and borg must be installed. They read their own repository, and find its password where they always
do: RESTIC_PASSWORD_FILE, BORG_PASSCOMMAND and the like, or they ask for it.

With --json: one object per line, with a \"type\". \"progress\" and \"issue\" are described in
`onefold backup --help`. \"snapshot\" has from, snapshot, time, files, bytes and new_bytes; \"summary\" is the
last, with imported and there.";

const EXAMPLES_OF_TAR: &str = "\
Examples:
  onefold import tar --repo /mnt/backup old-backup.tar
  zcat 2019.tar.gz | onefold import tar --repo /mnt/backup --time 2019-12-31 -

POSIX, GNU and old archives are read, with long names, times in nanoseconds, owners, hard and symbolic
links, devices, extended attributes (SCHILY.xattr) and sparse files. A compressed archive must be
decompressed first.";

const EXAMPLES_OF_RESTIC: &str = "\
Examples:
  onefold import restic --repo /mnt/backup /mnt/restic
  RESTIC_PASSWORD_FILE=secret onefold import restic --repo /mnt/backup \\
      sftp:me@host:/srv/restic 3f2c81ab";

const EXAMPLES_OF_BORG: &str = "\
Examples:
  onefold import borg --repo /mnt/backup /mnt/borg
  BORG_PASSCOMMAND='cat secret' onefold import borg --repo /mnt/backup \\
      ssh://me@host/./borg laptop-2026-01-31";

/// Import snapshots of other programs
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Import {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Tar(Tar),
    Restic(restic::Restic),
    Borg(borg::Borg),
}

/// Make a snapshot of a tar archive
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES_OF_TAR)]
struct Tar {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The archive, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// When the snapshot was made: a date, a date and a time of day, or RFC 3339 [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    time: Option<Time>,
    /// The host to record [default: this machine's name]
    #[arg(long, value_name = "H")]
    host: Option<String>,
    /// Tags for the snapshot; may be repeated
    #[arg(long = "tag", value_name = "T[,T]", value_parser = TagList::some)]
    tags: Vec<TagList>,
}

impl Import {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.what {
            What::Tar(tar) => tar.run(console),
            What::Restic(restic) => restic.run(console),
            What::Borg(borg) => borg.run(console),
        }
    }
}

impl Tar {
    fn run(self, console: &Console) -> Result<Exit> {
        let source: Box<dyn Read> = match self.file.to_str() {
            Some("-") => Box::new(io::stdin().lock()),
            _ => {
                let file = File::open(&self.file);
                Box::new(file.with_context(|| format!("cannot open '{}'", self.file.display()))?)
            }
        };
        let path = match self.file.to_str() {
            Some("-") => PathBuf::from("/stdin"),
            _ => std::path::absolute(&self.file)?,
        };
        let described = Described {
            time: self.time.unwrap_or_else(Time::now),
            host: self.host.unwrap_or_else(host::name),
            user: host::user(),
            paths: vec![path.into_os_string().into_vec()],
            tags: self.tags.iter().flat_map(TagList::tags).cloned().collect(),
            program: backup::Options::default().program,
        };
        let mut importer = Importer::new(&self.repository, console)?;
        importer.import(&self.file.display().to_string(), source, &described)?;
        importer.finish()
    }
}

/// An import of several snapshots into a repository.
struct Importer<'a> {
    opened: OpenRepository,
    console: &'a Console,
    cancel: std::sync::Arc<Cancel>,
    there: Vec<(ObjectId, Snapshot)>,
    imported: u64,
    skipped: u64,
    losses: u64,
}

/// A snapshot that was imported, in JSON.
#[derive(Serialize)]
struct Made<'a> {
    r#type: &'static str,
    from: &'a str,
    snapshot: String,
    time: String,
    files: u64,
    bytes: u64,
    new_bytes: u64,
}

/// An import in JSON.
#[derive(Serialize)]
struct Done {
    r#type: &'static str,
    imported: u64,
    there: u64,
}

impl<'a> Importer<'a> {
    fn new(repository: &RepositoryArgs, console: &'a Console) -> Result<Self> {
        let opened = repository.open_unloaded(console)?;
        let (there, _damaged) = opened.repository.snapshots()?;
        let cancel = cancel_on_signal(console, "stored data are kept; another import continues")?;
        Ok(Self { opened, console, cancel, there, imported: 0, skipped: 0, losses: 0 })
    }

    /// Whether a snapshot is there already; counts it.
    fn skips(&mut self, described: &Described) -> bool {
        let is_same = |snapshot: &Snapshot| {
            let Described { time, host, paths, tags, .. } = described;
            (snapshot.time, &snapshot.host, &snapshot.paths, &snapshot.tags)
                == (*time, host, paths, tags)
        };
        let is_there = self.there.iter().any(|(_, snapshot)| is_same(snapshot));
        self.skipped += u64::from(is_there);
        is_there
    }

    /// Imports what `from` is called elsewhere.
    fn import(&mut self, from: &str, source: impl Read, described: &Described) -> Result<()> {
        let container_len = backup::Options::default().container_len;
        let (losses, result) = watched(self.console, |progress| {
            let result = import::import_tar(
                &self.opened.repository,
                source,
                described,
                container_len,
                progress,
                &self.cancel,
            );
            (progress.losses.load(std::sync::atomic::Ordering::Relaxed), result)
        });
        self.opened.tell_of_memory(self.console);
        let (id, snapshot) = result.with_context(|| format!("'{from}' was not imported"))?;
        self.losses += losses;
        self.imported += 1;
        let mut output = Output::new();
        let summary = &snapshot.summary;
        if self.console.is_json() {
            output.json_line(&Made {
                r#type: "snapshot",
                from,
                snapshot: id.to_string(),
                time: time::rfc3339(snapshot.time),
                files: summary.files,
                bytes: summary.bytes,
                new_bytes: summary.new_bytes,
            })?;
        } else if !self.console.is_quiet() {
            output.line(format!(
                "'{from}' is snapshot {id}: {}, {}, {} new",
                count::files(summary.files),
                HumanBytes(summary.bytes),
                HumanBytes(summary.new_bytes),
            ))?;
        }
        self.there.push((id, snapshot));
        output.finish()
    }

    fn finish(self) -> Result<Exit> {
        let mut output = Output::new();
        if self.console.is_json() {
            let (imported, there) = (self.imported, self.skipped);
            output.json_line(&Done { r#type: "summary", imported, there })?;
        } else if !self.console.is_quiet() {
            output.line(format!(
                "{} imported, {} already there",
                count::count(self.imported, "snapshot", "snapshots"),
                self.skipped
            ))?;
        }
        output.finish()?;
        match self.losses {
            0 => Ok(Exit::Fine),
            losses => {
                if !self.console.is_json() {
                    let were = if losses == 1 { "entry was" } else { "entries were" };
                    self.console.warn(format_args!("{losses} {were} not imported"));
                }
                Ok(Exit::Incomplete)
            }
        }
    }
}

//! `onefold dump`

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum, ValueHint};
use onefold_store::dump::{self, Part};
use onefold_store::tree::{Entry, Node};

use crate::console::Console;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::interrupt::cancel_output_on_signal;
use crate::name::shown;
use crate::output::{Output, Walked};
use crate::repository::RepositoryArgs;
use crate::snapshot_path::SnapshotPath;
use crate::tar;

const AFTER_HELP: &str = "\
PATH is a path in the snapshot, as `onefold ls` lists it; / is the whole snapshot. A file is written as
its bytes. A directory is written as a tar archive (POSIX.1-2001) with hard links, devices, times in
nanoseconds and extended attributes. Names in the archive are relative to the snapshot's root, or to the
path after a colon. GNU tar needs --xattrs --xattrs-include='*' to restore the attributes, and -p for
modes. Holes are written as zeros. Sockets cannot be in tar archives and are left out with a warning.

Every byte is verified before it is written. If something cannot be read, the output ends there, an
archive without its end mark, and the exit code is 1.

Examples:
  onefold dump --repo /mnt/backup latest etc/passwd
  onefold dump --repo /mnt/backup latest / | tar -x -p -C /tmp/restored
  onefold dump --repo /mnt/backup latest:home ann > ann.tar
  onefold dump --repo /mnt/backup 1a2b3c4d db/dump.sql | psql
  onefold dump --repo /mnt/backup latest projects --target projects.tar";

/// Write a file, or a directory as a tar archive, to standard output
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Dump {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// `latest` or the first digits of an id; after a colon, a path in the snapshot
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = SnapshotPath::parser())]
    snapshot: SnapshotPath,
    /// A file or directory in the snapshot; / for all
    #[arg(value_name = "PATH")]
    path: OsString,
    /// The format of a directory
    #[arg(long, short, value_enum, default_value_t = Archive::Tar)]
    archive: Archive,
    /// Write to this file, and replace it if it exists
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    target: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Archive {
    /// A tar archive
    Tar,
}

impl Dump {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open(console)?;
        let base = self.snapshot.path();
        let found =
            self.snapshot.join(&self.path).find(&opened.repository, &self.filter, console)?;
        let is_directory = match &found.entry.node {
            Node::File { .. } => false,
            Node::Directory { .. } => true,
            other => bail!(
                "'{}' is a {}: expected a file or a directory",
                shown(&found.path),
                other.kind()
            ),
        };
        let Archive::Tar = self.archive;
        if is_directory && self.target.is_none() && io::stdout().is_terminal() {
            bail!(
                "a tar archive cannot be written to a terminal: redirect standard output, or give --target"
            );
        }
        let cancel = cancel_output_on_signal(console, "the output is incomplete")?;
        let mut output = match &self.target {
            Some(path) => to_file(path)?,
            None => Output::new(),
        };
        // Names in the archive are relative to the path of the first argument.
        let prefix = &found.path[base.len()..];
        let prefix = prefix.strip_prefix(b"/").unwrap_or(prefix);
        let mut archive = is_directory.then_some(Tar { prefix, padding: &[] });
        let mut walked = Walked::default();
        let mut at = found.path.clone();
        let result = dump::dump(&opened.repository, &found.entry, &cancel, &mut |part| {
            if let Part::Entry { path, .. } | Part::Link { path, .. } = part {
                at = below(&found.path, path);
                if !at.is_empty() {
                    console.detail(shown(&at));
                }
            }
            let written = match &mut archive {
                Some(tar) => tar.write(part, &mut output, console),
                None => match part {
                    Part::Bytes(bytes) => output.bytes(bytes),
                    Part::Entry { .. } | Part::Link { .. } => Ok(()),
                },
            };
            walked.hear(written.map(|()| !output.is_closed()))
        });
        let is_cut = result.is_err();
        let cannot = || format!("cannot dump '{}' completely", shown(&at));
        match walked.is_over() {
            true => walked.end(result)?,
            false => result.with_context(cannot)?,
        }
        if let (Some(tar), false) = (archive, is_cut) {
            output.bytes(tar.padding)?;
            output.bytes(&tar::END)?;
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

#[expect(clippy::disallowed_methods, reason = "an output of the command")]
fn to_file(path: &Path) -> Result<Output> {
    let name = format!("'{}'", path.display());
    let file = File::create(path).with_context(|| format!("cannot make {name}"))?;
    Ok(Output::to(Box::new(file), name))
}

/// A tar archive in progress.
struct Tar<'a> {
    /// Path of the dumped entry in the archive; empty for its root.
    prefix: &'a [u8],
    /// Padding that must follow the last file.
    padding: &'static [u8],
}

impl Tar<'_> {
    fn write(&mut self, part: Part<'_>, output: &mut Output, console: &Console) -> Result<()> {
        match part {
            Part::Bytes(bytes) => return output.bytes(bytes),
            Part::Entry { path, entry } => {
                output.bytes(std::mem::take(&mut self.padding))?;
                let path = below(self.prefix, path);
                match tar::entry(&path, entry) {
                    // The root of several sources stands for no directory.
                    _ if path.is_empty() && entry.is_synthetic_root() => {}
                    Some(headers) => output.bytes(&headers)?,
                    None => tell_left_out(&path, console),
                }
                self.padding = tar::padding(entry.size());
            }
            Part::Link { path, entry: Entry { node: Node::Socket, .. }, .. } => {
                tell_left_out(&below(self.prefix, path), console);
            }
            Part::Link { path, entry, first } => {
                output.bytes(std::mem::take(&mut self.padding))?;
                let (path, first) = (below(self.prefix, path), below(self.prefix, first));
                output.bytes(&tar::link(&path, &first, &entry.meta))?;
            }
        }
        Ok(())
    }
}

fn tell_left_out(path: &[u8], console: &Console) {
    console.warn(format_args!(
        "'{}' is a socket, which a tar archive cannot hold; left out",
        shown(path)
    ));
}

/// The path of what lies at `path` below `directory`; either may be empty.
fn below(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let parts = [directory, path].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(&b'/')
}

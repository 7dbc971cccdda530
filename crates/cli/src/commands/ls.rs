//! `onefold ls`

use anyhow::{Result, bail};
use clap::Args;
use onefold_store::tree::{Entry, Node};
use rustix::fs::Dev;
use serde::Serialize;

use crate::console::Console;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::name::{PathFields, hex_unless_utf8, lossy};
use crate::output::{Output, Walked};
use crate::repository::RepositoryArgs;
use crate::snapshot_path::SnapshotPath;
use crate::time::{local, rfc3339};

const AFTER_HELP: &str = "\
A directory is listed recursively, anything else by itself. Paths are relative to the snapshot's root,
so you can use them as SNAPSHOT:PATH.

Control characters in names are escaped as \\n or \\u{1b}, and bytes that are not UTF-8 as \\xff, even if
the output is a pipe. Programs get exact names with -0, or from path and path_hex of --json.

Examples:
  onefold ls --repo /mnt/backup latest
  onefold ls --repo /mnt/backup --long 1a2b3c4d:projects/onefold
  onefold ls --repo /mnt/backup -0 latest:photos | xargs -0 -n1 echo

With --json: one object per line with type \"entry\", path, kind (file, directory, symlink, fifo,
socket, char-device, block-device), mode (permission bits), permissions (as ls writes them), uid,
gid, size, mtime, ctime, links, target of a symlink, rdev of a device and xattrs (their number).";

/// List the content of a snapshot
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Ls {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// `latest` or the first digits of an id; after a colon, a path in the snapshot
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = SnapshotPath::parser())]
    snapshot: SnapshotPath,
    #[command(flatten)]
    filter: FilterArgs,
    /// Also show mode, owner, group, size and time
    #[arg(long, short)]
    long: bool,
    /// Do not escape names, and end each with a NUL instead of a line break
    #[arg(long, short = '0')]
    null: bool,
}

/// An entry in JSON.
#[derive(Serialize)]
pub(super) struct Listed {
    r#type: &'static str,
    #[serde(flatten)]
    path: PathFields,
    kind: &'static str,
    mode: u32,
    permissions: String,
    uid: u32,
    gid: u32,
    size: u64,
    mtime: String,
    ctime: String,
    links: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rdev: Option<u64>,
    xattrs: usize,
}

impl Ls {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open(console)?;
        let found = self.snapshot.find(&opened.repository, &self.filter, console)?;
        let listing = Listing::new(self.long, self.null, console)?;
        let mut output = Output::new();
        if matches!(found.entry.node, Node::Directory { .. }) {
            let mut walked = Walked::default();
            let result = opened.repository.walk(&found.entry, &mut |path, entry| {
                let path = below(&found.path, path);
                let shown = listing.show(&mut output, &path, entry);
                walked.hear(shown.map(|()| !output.is_closed()))
            });
            walked.end(result)?;
        } else {
            listing.show(&mut output, &found.path, &found.entry)?;
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

/// How entries are listed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing {
    is_long: bool,
    is_raw: bool,
    is_json: bool,
}

impl Listing {
    pub(super) fn new(is_long: bool, is_raw: bool, console: &Console) -> Result<Self> {
        let is_json = console.is_json();
        if is_raw && is_json {
            bail!("both --null and --json were given, expected either of the two");
        }
        Ok(Self { is_long, is_raw, is_json })
    }

    /// Whether entries are listed for programs.
    pub(super) const fn is_json(self) -> bool {
        self.is_json
    }

    /// Lists an entry.
    pub(super) fn show(self, output: &mut Output, path: &[u8], entry: &Entry) -> Result<()> {
        if self.is_json {
            return output.json_line(&Listed::of(path, entry));
        }
        let (before, name) = match self.is_long {
            true => (long(entry), with_target(path, entry)),
            false => (String::new(), path.to_vec()),
        };
        match self.is_raw {
            true => output.name_with_nul(&before, &name),
            false => output.line_with_name(&before, &name),
        }
    }
}

/// The path of what lies at `path` below `directory`, which is empty for the snapshot's root.
fn below(directory: &[u8], path: &[u8]) -> Vec<u8> {
    match directory {
        b"" => path.to_vec(),
        directory => [directory, path].join(&b'/'),
    }
}

/// Mode, owner, group, size or device number, and time.
fn long(entry: &Entry) -> String {
    let meta = &entry.meta;
    let size = match entry.node {
        Node::CharDevice { rdev } | Node::BlockDevice { rdev } => {
            format!("{}, {}", rustix::fs::major(rdev as Dev), rustix::fs::minor(rdev as Dev))
        }
        _ => entry.size().to_string(),
    };
    let time = local(meta.mtime);
    format!("{} {:>6} {:>6} {size:>13} {time} ", permissions(entry), meta.uid, meta.gid)
}

fn with_target(path: &[u8], entry: &Entry) -> Vec<u8> {
    match &entry.node {
        Node::Symlink { target } => [path, target].join(&b" -> "[..]),
        _ => path.to_vec(),
    }
}

/// Kind and permissions in ten letters, as `ls -l` writes them.
fn permissions(entry: &Entry) -> String {
    let mode = entry.meta.mode;
    let mut text = String::from(entry.node.letter());
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

impl Listed {
    pub(super) fn of(path: &[u8], entry: &Entry) -> Self {
        let meta = &entry.meta;
        let target = match &entry.node {
            Node::Symlink { target } => Some(target),
            _ => None,
        };
        let rdev = match entry.node {
            Node::CharDevice { rdev } | Node::BlockDevice { rdev } => Some(rdev),
            _ => None,
        };
        Self {
            r#type: "entry",
            path: PathFields::new(path),
            kind: entry.node.kind(),
            mode: meta.mode,
            permissions: permissions(entry),
            uid: meta.uid,
            gid: meta.gid,
            size: entry.size(),
            mtime: rfc3339(meta.mtime),
            ctime: rfc3339(meta.ctime),
            links: meta.links,
            target: target.map(|target| lossy(target)),
            target_hex: target.and_then(|target| hex_unless_utf8(target)),
            rdev,
            xattrs: meta.xattrs.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_store::tree::Meta;

    use super::*;

    #[test]
    fn permissions_read_as_ls_writes_them() {
        let fifo = |mode| {
            let meta = Meta { mode, ..Meta::default() };
            permissions(&Entry { name: Vec::new(), meta, node: Node::Fifo })
        };
        assert_eq!(fifo(0o755), "prwxr-xr-x");
        assert_eq!(fifo(0o7777), "prwsrwsrwt");
        assert_eq!(fifo(0o7600), "prwS--S--T");
    }
}

//! `onefold cache`

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use clap::{ArgGroup, Args, Subcommand};
use indicatif::HumanBytes;
use onefold_backend::LocalCache;
use onefold_seal::ObjectId;
use onefold_store::tree::Time;
use serde::Serialize;

use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::index_place::CacheArgs;
use crate::output::Output;
use crate::table;
use crate::time::{local, rfc3339};

/// The maximum number of attempts to remove a directory that fills again.
const MAX_TRIES: usize = 8;

const AFTER_HELP: &str = "\
The cache has the index of each repository that was used on this machine, so that the next command need
not rebuild it. For a repository in S3 it also has copies of snapshots, trees and footers of containers,
encrypted as in the repository. Nothing depends on the cache: removing it only costs the next command
time.

Examples:
  onefold cache list
  onefold cache remove --all";

const LIST_HELP: &str = "\
Examples:
  onefold cache list
  onefold cache list --json

With --json: one document, a list; each repository has id, path, bytes, copy_bytes (the part of bytes
that is copies of objects in S3) and used (when any of it was last used).";

const REMOVE_HELP: &str = "\
A command that is using the cache keeps running. The next one rebuilds the index and fetches what it
needs.

Examples:
  onefold cache remove 1a2b3c4d
  onefold cache remove --all

With --json: one document with removed (repositories) and bytes.";

/// Show and remove the cached data of repositories
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Cache {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    Remove(Remove),
}

/// List the repositories that have a cache
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
struct List {
    #[command(flatten)]
    cache: CacheArgs,
}

/// Remove the caches of repositories
#[derive(Debug, Args)]
#[command(
    after_help = REMOVE_HELP,
    group = ArgGroup::new("which").required(true).args(["repositories", "all"])
)]
struct Remove {
    #[command(flatten)]
    cache: CacheArgs,
    /// The first digits of the repository's id
    #[arg(value_name = "ID")]
    repositories: Vec<String>,
    /// Remove the caches of all repositories
    #[arg(long)]
    all: bool,
}

/// What is kept of a repository.
struct Kept {
    repository: ObjectId,
    path: PathBuf,
    bytes: u64,
    /// Those of them that are copies of what lies far away.
    copy_bytes: u64,
    /// When something was last used.
    used: Time,
}

/// The same in JSON.
#[derive(Serialize)]
struct Shown {
    id: String,
    path: String,
    bytes: u64,
    copy_bytes: u64,
    used: String,
}

/// What was removed, in JSON.
#[derive(Serialize)]
struct Removed {
    removed: u64,
    bytes: u64,
}

impl Cache {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        match self.action {
            Action::List(list) => list.run(console),
            Action::Remove(remove) => remove.run(console),
        }
    }
}

impl List {
    fn run(self, console: &Console) -> Result<Exit> {
        let kept = kept(&self.cache)?;
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&kept.iter().map(Shown::of).collect::<Vec<_>>())?;
        } else if kept.is_empty() {
            output.line("nothing is cached")?;
        } else {
            for line in lines(&kept) {
                output.line(line)?;
            }
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

impl Remove {
    fn run(self, console: &Console) -> Result<Exit> {
        let mut kept = kept(&self.cache)?;
        if !self.all {
            kept = pick(kept, &self.repositories)?;
        }
        let mut removed = Removed { removed: 0, bytes: 0 };
        for Kept { path, bytes, .. } in kept {
            remove(&path).with_context(|| format!("remove '{}'", path.display()))?;
            removed.removed += 1;
            removed.bytes += bytes;
        }
        let mut output = Output::new();
        if console.is_json() {
            output.json_document(&removed)?;
        } else if !console.is_quiet() {
            let repositories = count(removed.removed, "repository", "repositories");
            let bytes = HumanBytes(removed.bytes);
            output.line(format!("removed the cache of {repositories}, {bytes}"))?;
        }
        output.finish()?;
        Ok(Exit::Fine)
    }
}

/// Those of `kept` whose ids begin as one of `wanted`; each must stand for exactly one.
fn pick(kept: Vec<Kept>, wanted: &[String]) -> Result<Vec<Kept>> {
    let begins = |kept: &Kept, digits: &String| kept.repository.to_string().starts_with(digits);
    for digits in wanted {
        match kept.iter().filter(|kept| begins(kept, digits)).count() {
            0 => bail!("nothing is cached for a repository whose id begins with '{digits}'"),
            1 => {}
            several => bail!("the ids of {several} repositories begin with '{digits}'"),
        }
    }
    Ok(kept.into_iter().filter(|kept| wanted.iter().any(|digits| begins(kept, digits))).collect())
}

/// What the cache holds, by id; only what commands name as they name an index.
fn kept(cache: &CacheArgs) -> Result<Vec<Kept>> {
    let directory =
        cache.directory().map_err(|why| anyhow!("{why}; --cache-dir names another place"))?;
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| directory.display().to_string()),
    };
    let mut kept = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| directory.display().to_string())?;
        let path = entry.path();
        // A link is none of what commands keep.
        if !entry.file_type().with_context(|| path.display().to_string())?.is_dir() {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(repository) = name.and_then(|name| name.parse::<ObjectId>().ok()) else {
            continue;
        };
        let (bytes, used) = measure(&path).with_context(|| path.display().to_string())?;
        let since = used.duration_since(UNIX_EPOCH).unwrap_or_default();
        let used = Time { secs: since.as_secs() as i64, nanos: since.subsec_nanos() };
        let copies = path.join(LocalCache::FOLDER);
        let copy_bytes = match measure(&copies) {
            Ok((bytes, _)) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error).with_context(|| copies.display().to_string()),
        };
        kept.push(Kept { repository, path, bytes, copy_bytes, used });
    }
    kept.sort_by_key(|kept| kept.repository.to_string());
    Ok(kept)
}

/// Removes a directory, even if commands concurrently add files to it.
fn remove(directory: &Path) -> io::Result<()> {
    for _ in 0..MAX_TRIES {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => return removed,
        }
    }
    fs::remove_dir_all(directory)
}

/// Bytes of the files below `directory`, and the time of their last use. Ignores files that commands
/// concurrently remove.
fn measure(directory: &Path) -> io::Result<(u64, SystemTime)> {
    let (mut bytes, mut used) = (0, directory.symlink_metadata()?.modified()?);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let of_entry = || {
            let metadata = entry.metadata()?;
            match metadata.is_dir() {
                true => measure(&entry.path()),
                false => Ok((metadata.len(), metadata.modified()?)),
            }
        };
        let (len, modified) = match of_entry() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            measured => measured?,
        };
        bytes += len;
        used = used.max(modified);
    }
    Ok((bytes, used))
}

fn lines(kept: &[Kept]) -> Vec<String> {
    let head = ["repository", "bytes", "copies", "last used"].map(str::to_owned).to_vec();
    let row = |kept: &Kept| {
        let [bytes, copies] =
            [kept.bytes, kept.copy_bytes].map(|bytes| HumanBytes(bytes).to_string());
        vec![kept.repository.to_string(), bytes, copies, local(kept.used)]
    };
    let rows: Vec<_> = std::iter::once(head).chain(kept.iter().map(row)).collect();
    table::lines(&rows, &[1, 2])
}

impl Shown {
    fn of(kept: &Kept) -> Self {
        Self {
            id: kept.repository.to_string(),
            path: kept.path.display().to_string(),
            bytes: kept.bytes,
            copy_bytes: kept.copy_bytes,
            used: rfc3339(kept.used),
        }
    }
}

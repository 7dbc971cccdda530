//! `onefold restore`

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{HumanBytes, HumanCount};
use onefold_store::restore::{self, DeviceOptions, Options, Overwrite, Report};
use serde::Serialize;

use super::restore_device;
use crate::console::Console;
use crate::count;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::interrupt::cancel_on_signal;
use crate::name::PathFields;
use crate::output::Output;
use crate::progress::watched;
use crate::repository::{OpenRepository, RepositoryArgs};
use crate::signer::Signer;
use crate::snapshot_path::{Found, SnapshotPath};

const AFTER_HELP: &str = "\
A directory's content goes to DIR itself; anything else becomes an entry of DIR. What DIR holds
besides is left alone, and nothing is written outside it, whatever links it contains. If something
cannot be restored it is reported, the rest is restored, and the exit code is 1.

--delete makes the target the same as the snapshot: what DIR has and the snapshot has not is removed
once all is restored, as far as --include and --exclude select it. Nothing is removed through symbolic
links, where another file system is mounted, from the repository itself, or if something could not be
restored. What could not be read when the snapshot was made is not in it either. --dry-run shows it
all and changes nothing; with --verbose, each file.

A restore that was stopped or killed is gone on with by the same command with --overwrite if-changed:
files that are complete are recognised by size and time and stay; of the one that was not, the parts
that are right are found by comparing them and stay. Temporary files that are left over are removed.
After a power cut the same goes on; where the file system makes the length of a file durable before
its bytes, as ext4 with data=writeback may, use --overwrite always: of files below 8 MiB, which are
not synced, bytes may be missing though size and time are right.

--seed PATH cuts a file, a device, or the files in a folder as the repository does, and takes from
them whatever the snapshot has in common with them, under whatever names; only the rest comes from the
repository. Give it an older copy where the repository is far away. Files of DIR that are replaced
then serve without being named: restoring over a tree that changed a little receives only what
differs. Each chunk is verified.

--device PATH restores one file, such as the image of a disk, onto a block device or a file. Bytes
that lie where they belong are kept and not written, bytes that lie elsewhere on the device are moved,
and the rest comes from seeds or from the repository. A restore that was stopped or killed leaves a
mixture of both versions; the same command goes on with it. A device that is mounted or too short is
refused. A device keeps what lies behind the end of the file; a file becomes as long as the snapshot's.

Examples:
  onefold restore --repo /mnt/backup latest --target /tmp/restored
  onefold restore --repo /mnt/backup latest --host atlas --path /home \\
      --target /tmp/restored
  onefold restore --repo /mnt/backup 1a2b3c4d:projects/onefold --target . \\
      --overwrite never
  onefold restore --repo /mnt/backup latest --target /srv --include '*.conf' \\
      --verify
  onefold restore --repo /mnt/backup latest --target /srv/images --sparse \\
      --overwrite if-changed
  onefold restore --repo /mnt/backup latest --target /home/ann \\
      --exclude cache/ --delete --dry-run -v
  onefold restore --repo s3://bucket/images latest --target /srv/new \\
      --seed /srv/old

Distributing images: back one up, and bring each host up to date with what changed.
  onefold backup --repo s3://bucket/images --device golden.img
  onefold restore --repo s3://bucket/images latest --device /dev/vg/root
  onefold restore --repo s3://bucket/images latest --device new.img \\
      --seed old.img

With --json: one object a line, told apart by \"type\". \"progress\" comes every second and \"issue\" as
it happens, both as `onefold backup --help` tells, and \"progress\" with current, the file at hand (and
current_hex if it is not UTF-8), and seed_bytes, bytes of seeds that were read; with --verbose, \"act\"
has act (create, replace, keep or delete) and path; \"summary\" comes last with snapshot, path, target,
dry_run, files, directories, others, bytes, reused (of them, bytes that were there), seeded (of them,
bytes that seeds or replaced files had), fetched (bytes that came from the repository), replaced (of
files and others, those in whose place something stood), kept, verified, deleted, undeleted (what stayed because of failures), failed, from_client
(whether a write-only client made the snapshot), client and client_label (null unless its key signed
it). With --device, \"summary\" has snapshot, path, device, bytes, kept, moved, seeded and fetched (of
them, bytes that lay where they belong, lay elsewhere on the device, came from seeds, and came from the
repository), written and failed, all in bytes, and what tells who made the snapshot.";

/// Restore a snapshot, or something in it
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Restore {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// `latest` or the first digits of an id; after a colon, a path in the snapshot
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = SnapshotPath::parser())]
    snapshot: SnapshotPath,
    #[command(flatten)]
    filter: FilterArgs,
    /// Where to; made if it does not exist
    #[arg(long, short, value_name = "DIR", required_unless_present = "device")]
    target: Option<PathBuf>,
    /// Restore one file onto a block device or a file, and keep what that has already
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["target", "includes", "excludes", "delete", "dry_run", "overwrite", "sparse"],
    )]
    device: Option<PathBuf>,
    /// Restore only what matches, as gitignore writes patterns; may be repeated
    #[arg(long = "include", value_name = "GLOB")]
    includes: Vec<String>,
    /// Leave out what matches, whatever is included; may be repeated
    #[arg(long = "exclude", value_name = "GLOB")]
    excludes: Vec<String>,
    /// Remove from DIR what the snapshot does not have
    #[arg(long)]
    delete: bool,
    /// Let --delete work on the root directory
    #[arg(long, requires = "delete")]
    unsafe_allow_delete_in_root: bool,
    /// Only show what would be done
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// What happens to files that are there already
    #[arg(long, value_enum, default_value_t = OverwriteArg::Always)]
    overwrite: OverwriteArg,
    /// Make holes of blocks of zeros; what was a hole is one without this as well
    #[arg(long)]
    sparse: bool,
    /// Read every restored file again and compare it with the snapshot
    #[arg(long)]
    verify: bool,
    /// Take what this file or device, or files in this folder, have from there and not from the
    /// repository; may be repeated
    #[arg(long = "seed", value_name = "PATH")]
    seeds: Vec<PathBuf>,
    /// Threads that write [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverwriteArg {
    /// They are replaced
    Always,
    /// They are replaced unless size and time of last change are the snapshot's
    IfChanged,
    /// They stay
    Never,
}

/// A restore in JSON.
#[derive(Serialize)]
struct Done {
    r#type: &'static str,
    snapshot: String,
    #[serde(flatten)]
    path: PathFields,
    target: String,
    dry_run: bool,
    files: u64,
    directories: u64,
    others: u64,
    bytes: u64,
    reused: u64,
    seeded: u64,
    fetched: u64,
    replaced: u64,
    kept: u64,
    verified: u64,
    deleted: u64,
    undeleted: u64,
    failed: u64,
    #[serde(flatten)]
    signer: Signer,
}

/// The sources of the snapshot that lie below what is restored of it; none if there is just one, which
/// is the snapshot's root.
fn sources_below(Found { snapshot, path, .. }: &Found) -> Vec<Vec<u8>> {
    if !snapshot.root.is_synthetic_root() {
        return Vec::new();
    }
    let mut base = path.clone();
    if !base.is_empty() {
        base.insert(0, b'/');
    }
    base.push(b'/');
    let below = snapshot.paths.iter().filter_map(|source| source.strip_prefix(&base[..]));
    below.map(<[u8]>::to_vec).collect()
}

impl Restore {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        let opened = self.repository.open(console)?;
        let found = self.snapshot.find(&opened.repository, &self.filter, console)?;
        console.detail(format_args!("restoring snapshot {}", found.id));
        match (&self.device, &self.target) {
            (Some(device), _) => {
                let options = DeviceOptions {
                    seeds: self.seeds.clone(),
                    verify: self.verify,
                    threads: self.threads,
                };
                restore_device::run(&opened.repository, &found, device, &options, console)
            }
            (None, Some(target)) => self.restore(&opened, &found, target, console),
            (None, None) => unreachable!("the parser demands one of them"),
        }
    }

    fn restore(
        &self,
        opened: &OpenRepository,
        found: &Found,
        target: &Path,
        console: &Console,
    ) -> Result<Exit> {
        if self.delete {
            self.expect_deletes(target, opened.place.directory())?;
            let unreadable = found.snapshot.summary.unreadable;
            if unreadable > 0 {
                console.warn(format_args!(
                    "{unreadable} could not be read when the snapshot was made: it does not have \
                     them, and --delete removes what the target has of them"
                ));
            }
        }
        let options = Options {
            includes: self.includes.clone(),
            excludes: self.excludes.clone(),
            delete: self.delete,
            sources: sources_below(found),
            dry_run: self.dry_run,
            own_repository: opened.place.identity()?,
            count_first: console.is_json() || !console.bars().is_hidden(),
            overwrite: self.overwrite.into(),
            sparse: self.sparse,
            verify: self.verify,
            seeds: self.seeds.clone(),
            threads: self.threads,
        };
        let cancel = cancel_on_signal(
            console,
            "what is written stays; --overwrite if-changed goes on with it",
        )?;
        let report = watched(console, |progress| {
            let Found { snapshot, entry, path, .. } = found;
            if path.is_empty() && self.includes.is_empty() && self.excludes.is_empty() {
                progress.total_files.store(snapshot.summary.files, Ordering::Relaxed);
                progress.total_bytes.store(snapshot.summary.bytes, Ordering::Relaxed);
            }
            restore::restore(&opened.repository, entry, target, &options, progress, &cancel)
        })?;
        self.show(&report, found, target, console)?;
        if report.failed == 0 {
            return Ok(Exit::Fine);
        }
        if !console.is_json() {
            console.line(format_args!("error: {} could not be restored", report.failed));
            if report.undeleted > 0 {
                console.line(format_args!(
                    "error: nothing was deleted because of that; {} would have been",
                    count::count(report.undeleted, "name", "names")
                ));
            }
        }
        Ok(Exit::Fatal)
    }

    /// Fails where a delete would take more than the user can have meant.
    fn expect_deletes(&self, target: &Path, repository: Option<&Path>) -> Result<()> {
        // What does not exist yet has nothing to delete.
        let shown = target.display();
        let Ok(target) = target.canonicalize() else { return Ok(()) };
        if target == Path::new("/") && !self.unsafe_allow_delete_in_root {
            bail!(
                "--delete in '{shown}' would remove all of the system that the snapshot does not \
                 have: name a directory, or give --unsafe-allow-delete-in-root"
            );
        }
        if repository.is_some_and(|root| target.starts_with(root)) {
            bail!("'{shown}' is in the repository itself: --delete would remove it");
        }
        Ok(())
    }

    fn show(&self, report: &Report, found: &Found, target: &Path, console: &Console) -> Result<()> {
        let mut output = Output::new();
        if console.is_json() {
            output.json_line(&self.done(report, found, target))?;
        } else if !console.is_quiet() {
            output.line(describe(report, self.verify, self.dry_run))?;
        }
        output.finish()
    }

    fn done(&self, report: &Report, found: &Found, target: &Path) -> Done {
        let Report { files, directories, others, bytes, reused, kept, verified, .. } = *report;
        Done {
            r#type: "summary",
            snapshot: found.id.to_string(),
            path: PathFields::new(&found.path),
            target: target.to_string_lossy().into_owned(),
            dry_run: self.dry_run,
            files,
            directories,
            others,
            bytes,
            reused,
            seeded: report.seeded,
            fetched: report.fetched,
            replaced: report.replaced,
            kept,
            verified,
            deleted: report.deleted,
            undeleted: report.undeleted,
            failed: report.failed,
            signer: found.signer.clone(),
        }
    }
}

fn describe(report: &Report, verify: bool, dry_run: bool) -> String {
    let Report { files, directories, others, bytes, reused, kept, verified, .. } = *report;
    let Report { replaced, deleted, failed, .. } = *report;
    let restored = if dry_run { "would restore" } else { "restored" };
    let mut text = format!(
        "{restored} {} with {}, {}, {}",
        count::files(files),
        HumanBytes(bytes),
        count::directories(directories),
        count::others(others)
    );
    if reused > 0 {
        text.push_str(&format!("; {} were there already", HumanBytes(reused)));
    }
    if report.seeded > 0 {
        text.push_str(&format!("; {} from files that are here", HumanBytes(report.seeded)));
    }
    if replaced > 0 {
        text.push_str(&format!("; {} in place of what was there", HumanCount(replaced)));
    }
    if kept > 0 {
        text.push_str(&format!("; {} left as they were", HumanCount(kept)));
    }
    if verify {
        text.push_str(&format!("; {} verified", HumanCount(verified)));
    }
    if deleted > 0 {
        text.push_str(&format!("; {} deleted", HumanCount(deleted)));
    }
    if failed > 0 {
        text.push_str(&format!("; {} failed", HumanCount(failed)));
    }
    text
}

impl From<OverwriteArg> for Overwrite {
    fn from(arg: OverwriteArg) -> Self {
        match arg {
            OverwriteArg::Always => Self::Always,
            OverwriteArg::IfChanged => Self::IfChanged,
            OverwriteArg::Never => Self::Never,
        }
    }
}

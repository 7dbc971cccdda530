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
The content of a directory is restored into DIR itself; anything else becomes an entry of DIR. Other
files in DIR stay, and nothing is written outside DIR, whatever links it contains. If something cannot
be restored, the restore reports it, restores the rest and ends with exit code 1.

--delete makes the target equal to the snapshot: after the restore it removes files of DIR that the
snapshot does not have and that --include and --exclude select. It removes nothing through symbolic
links, on other mounted file systems, or from the repository itself, and nothing at all if something
could not be restored. Note that files which could not be read when the snapshot was made are not in it.
--dry-run shows the totals and changes nothing; with --verbose it shows each file.

To resume a restore that was stopped or killed, run the same command with --overwrite if-changed.
Complete files are recognised by size and time and stay. An incomplete file is compared, and its correct
parts stay. Leftover temporary files are removed. This also works after a power cut. But if the file
system may make a file's length durable before its bytes, such as ext4 with data=writeback, use
--overwrite always: files below 8 MiB are not synced, so bytes may be missing although size and time
are right.

--seed PATH names a file, a device or a folder of files. The restore cuts them as the repository does
and takes from them all chunks that the snapshot shares with them, whatever their names. Only the rest
comes from the repository. If the repository is remote, give an older copy as a seed. Files of DIR that
are replaced then serve as seeds automatically, so restoring over a tree that changed a little downloads
only the differences. Each chunk is verified.

--device PATH restores one file, such as a disk image, onto a block device or a file. Bytes that are
already in place are not written, bytes that are elsewhere on the device are moved, and the rest comes
from seeds or from the repository. A restore that was stopped or killed leaves a mixture of both
versions; run the same command again to complete it. A device that is mounted or too short is refused. A
device keeps the bytes after the end of the file; a file gets the length of the snapshot's file.

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

To distribute images, back one up and update each host with the changes:
  onefold backup --repo s3://bucket/images --device golden.img
  onefold restore --repo s3://bucket/images latest --device /dev/vg/root
  onefold restore --repo s3://bucket/images latest --device new.img \\
      --seed old.img

With --json: one object per line, with a \"type\". \"progress\" is written every second and \"issue\"
for each problem, both as described in `onefold backup --help`. \"progress\" also has current, the current
file (and current_hex if it is not UTF-8), and seed_bytes, the bytes of seeds read. With --verbose,
\"act\" has act (create, replace, keep or delete) and path. \"summary\" is the last and has snapshot,
path, target, dry_run, files, directories, others and bytes; of these bytes, reused (already in the
target), seeded (from seeds or replaced files) and fetched (from the repository); replaced (files and
others that replaced an existing entry), kept, verified, deleted, undeleted (kept because of failures)
and failed; from_client (whether a write-only client made the snapshot), client and client_label (null
unless its key signed the snapshot). With --device, \"summary\" has snapshot, path, device and bytes; of
these bytes, kept (in place), moved (from elsewhere on the device), seeded and fetched; written and
failed, in bytes; and from_client, client and client_label.";

/// Restore a snapshot, or a part of it
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
    /// The target directory; created if it does not exist
    #[arg(long, short, value_name = "DIR", required_unless_present = "device")]
    target: Option<PathBuf>,
    /// Restore one file onto a block device or a file, and write only the differences
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["target", "includes", "excludes", "delete", "dry_run", "overwrite", "sparse"],
    )]
    device: Option<PathBuf>,
    /// Restore only files that match this gitignore pattern; may be repeated
    #[arg(long = "include", value_name = "GLOB")]
    includes: Vec<String>,
    /// Exclude files that match, even included ones; may be repeated
    #[arg(long = "exclude", value_name = "GLOB")]
    excludes: Vec<String>,
    /// Remove files of DIR that the snapshot does not have
    #[arg(long)]
    delete: bool,
    /// Allow --delete in the root directory
    #[arg(long, requires = "delete")]
    unsafe_allow_delete_in_root: bool,
    /// Show what would be done and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// What to do with existing files
    #[arg(long, value_enum, default_value_t = OverwriteArg::Always)]
    overwrite: OverwriteArg,
    /// Write blocks of zeros as holes; holes are restored even without this
    #[arg(long)]
    sparse: bool,
    /// Read every restored file again and compare it with the snapshot
    #[arg(long)]
    verify: bool,
    /// Take chunks from this file, device or folder of files instead of the repository; may be
    /// repeated
    #[arg(long = "seed", value_name = "PATH")]
    seeds: Vec<PathBuf>,
    /// The number of writing threads [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverwriteArg {
    /// Replace them
    Always,
    /// Replace them unless size and modification time are the snapshot's
    IfChanged,
    /// Keep them
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

/// The snapshot's sources below the restored entry; none if there is only one source, which is the
/// snapshot's root.
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
                    "{unreadable} could not be read when the snapshot was made: the snapshot lacks \
                     them, and --delete removes them from the target"
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
        let cancel =
            cancel_on_signal(console, "written files stay; --overwrite if-changed resumes")?;
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

    /// Fails if --delete would certainly remove more than the user intends.
    fn expect_deletes(&self, target: &Path, repository: Option<&Path>) -> Result<()> {
        // What does not exist yet has nothing to delete.
        let shown = target.display();
        let Ok(target) = target.canonicalize() else { return Ok(()) };
        if target == Path::new("/") && !self.unsafe_allow_delete_in_root {
            bail!(
                "--delete in '{shown}' would remove all files of the system that the snapshot does \
                 not have: name a directory, or give --unsafe-allow-delete-in-root"
            );
        }
        if repository.is_some_and(|root| target.starts_with(root)) {
            bail!("'{shown}' is in the repository itself, which --delete would remove");
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
        text.push_str(&format!("; {} already there", HumanBytes(reused)));
    }
    if report.seeded > 0 {
        text.push_str(&format!("; {} from local files", HumanBytes(report.seeded)));
    }
    if replaced > 0 {
        text.push_str(&format!("; {} replaced existing entries", HumanCount(replaced)));
    }
    if kept > 0 {
        text.push_str(&format!("; {} left unchanged", HumanCount(kept)));
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

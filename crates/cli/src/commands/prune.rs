//! `onefold prune`

use std::time::Duration;

use anyhow::{Error, Result, bail};
use clap::Args;
use indicatif::HumanBytes;
use onefold_backend::ErrorKind;
use onefold_store::prune::{self, Options, Report, Unused, Waiting};
use serde::Serialize;

use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::interrupt::cancel_on_signal;
use crate::name::shown;
use crate::output::Output;
use crate::progress::watched_in_silence;
use crate::repository::{OpenRepository, RepositoryArgs};
use crate::size;
use crate::time::{duration, local, rfc3339};

const AFTER_HELP: &str = "\
A prune takes no locks: backups may run at the same time, on this machine and others. The prune condemns
containers that a running backup may need; a later prune deletes them once that backup has ended. A
backup that began more than a week ago is treated as dead. If it still runs, it fails at its end, and
the next backup reuses what it stored. A backup that was killed on this machine, with the same
--state-dir, is recognised as dead immediately. The next prune completes an interrupted one.

Whatever --max-unused says, a container is copied only if the copy and its index entries are expected
to take less space than deleting the container frees: at least a few percent of it must be unused.

Small containers, such as many small backups leave, are merged, and so are their index runs. Containers
below 4 MiB are merged if at least eight of them hold data, or metadata, or if they fill a container of
16 MiB. With --max-unused unlimited nothing is merged.

Finally, if at least 64 log entries, snapshots or index runs are not in bundles, they are copied into
bundles, from which they are read faster over a network. Bundles with copies of forgotten snapshots are
replaced.

A repository on a local disk has a file RESERVE. It holds 8 MiB that `onefold forget` and `onefold
prune` may use when the disk is full. If it is missing, a prune creates it. A prune without space for
copies copies nothing and only deletes.

Examples:
  onefold prune --repo /mnt/backup --dry-run
  onefold prune --repo /mnt/backup
  onefold prune --repo /mnt/backup --max-unused 0 --max-repack-size 50G
  onefold prune --repo /mnt/backup --max-unused unlimited

With --json: one document with dry_run, snapshots, containers and bytes (before), dead_containers,
dead_bytes, repacked_containers, repacked_bytes, merged_containers, merged_bytes, copied_bytes (null
in a dry run), unused_bytes (after, about), deleted_containers, deleted_runs, put_bundles,
deleted_bundles, rescued_chunks, waiting_containers, waiting and fenced (backups with snapshot, host,
user, process and time) and warnings.";

/// Free the space of data that no snapshot needs
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Prune {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Show what would be done and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    options: PruneOptions,
}

/// A multipart upload that began this long ago is treated as abandoned.
const UPLOAD_AGE: Duration = Duration::from_secs(24 * 3600);

/// The limits of a prune.
#[derive(Debug, Args)]
pub(crate) struct PruneOptions {
    /// How much unused data may stay: a percentage of the data that stay, bytes, or 'unlimited'
    #[arg(long, value_name = "LIMIT", default_value = "5%", value_parser = unused)]
    max_unused: Unused,
    /// Repack and merge at most this many bytes of containers [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    max_repack_size: Option<usize>,
    /// Treat a running backup as dead after this time, in days (7d) or hours (12h)
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    fence_after: Duration,
    /// Prune in spite of --no-conditional-put. If a backup then runs at the same time, on any
    /// machine, its snapshot may lack chunks: make sure that none runs
    #[arg(long)]
    unsafe_no_conditional_put: bool,
}

/// A prune in JSON.
#[derive(Serialize)]
pub(crate) struct Pruned {
    dry_run: bool,
    snapshots: u64,
    containers: u64,
    bytes: u64,
    dead_containers: u64,
    dead_bytes: u64,
    repacked_containers: u64,
    repacked_bytes: u64,
    merged_containers: u64,
    merged_bytes: u64,
    copied_bytes: Option<u64>,
    unused_bytes: u64,
    deleted_containers: u64,
    deleted_runs: u64,
    put_bundles: u64,
    deleted_bundles: u64,
    rescued_chunks: u64,
    waiting_containers: u64,
    waiting: Vec<Running>,
    fenced: Vec<Running>,
    warnings: Vec<String>,
}

/// A backup that has not ended, with the details that are known.
#[derive(Serialize)]
struct Running {
    snapshot: String,
    host: Option<String>,
    user: Option<String>,
    process: Option<u32>,
    time: Option<String>,
}

impl Prune {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        if !self.dry_run {
            self.repository.expect_deletes("a prune")?;
        }
        self.options.expect_safe(&self.repository, self.dry_run)?;
        let opened = self.repository.open_unloaded(console)?;
        let report = self.options.prune(&opened, self.dry_run, console)?;
        if console.is_json() {
            let mut output = Output::new();
            output.json_document(&Pruned::of(&report, self.dry_run))?;
            output.finish()?;
        } else {
            show(&report, self.dry_run, console)?;
        }
        Ok(Exit::Fine)
    }
}

impl PruneOptions {
    /// Fails if the service cannot decide a race between a backup and the prune.
    pub(crate) fn expect_safe(&self, repository: &RepositoryArgs, dry_run: bool) -> Result<()> {
        let is_undecided = repository.is_without_conditional_put();
        if is_undecided && !dry_run && !self.unsafe_no_conditional_put {
            bail!(
                "--no-conditional-put does without conditional puts, which a prune needs if \
                 backups run at the same time: if no backup runs on any machine until the prune \
                 ends, add --unsafe-no-conditional-put"
            );
        }
        Ok(())
    }

    /// Prunes, and warns about unreadable objects.
    pub(crate) fn prune(
        &self,
        opened: &OpenRepository,
        dry_run: bool,
        console: &Console,
    ) -> Result<Report> {
        if console.is_alarmed() && !dry_run {
            bail!(
                "nothing is pruned: a prune would delete data that only the missing snapshots need, \
                 and these may be restored"
            );
        }
        if console.has_forgotten() && !dry_run {
            bail!(
                "nothing is pruned: this client's memory of the repository cannot be read, so it \
                 cannot tell whether snapshots are missing that may be restored; correct the problem \
                 named in the warning above, or start a new memory with --state-dir DIR"
            );
        }
        let options = Options {
            max_unused: self.max_unused,
            max_repack: self.max_repack_size.map_or(u64::MAX, |bytes| bytes as u64),
            fence_after: self.fence_after,
            dry_run,
            ..Options::default()
        };
        let cancel = cancel_on_signal(console, "the next prune completes this one")?;
        let prune = || {
            let prune =
                |progress: &_| prune::prune(&opened.repository, &options, progress, &cancel);
            Ok(watched_in_silence(console, prune)?)
        };
        let report = match dry_run {
            true => prune()?,
            false => opened.with_reserve(console, prune)?,
        };
        report.warnings.iter().for_each(|warning| console.warn(warning));
        if !dry_run {
            discard_uploads(opened, console)?;
        }
        Ok(report)
    }
}

/// Aborts abandoned uploads, for whose parts services charge.
fn discard_uploads(opened: &OpenRepository, console: &Console) -> Result<()> {
    match opened.repository.discard_unfinished(UPLOAD_AGE) {
        Ok(0) => {}
        Ok(number) => {
            let uploads = count(number, "upload", "uploads");
            console.notice(format_args!("{uploads} aborted that never ended"));
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error.into()),
        // The prune has done its work.
        Err(error) => console.warn(format_args!(
            "abandoned uploads could not be aborted and may take space: {:#}; the next prune tries \
             again, and docs/s3.md has a lifecycle rule for them",
            Error::new(error)
        )),
    }
    Ok(())
}

/// Reads a percentage, a number of bytes, or `unlimited`.
fn unused(text: &str) -> Result<Unused, String> {
    if text == "unlimited" {
        return Ok(Unused::Unlimited);
    }
    match text.strip_suffix('%') {
        Some(number) => number
            .trim_end()
            .parse()
            .ok()
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(Unused::Percent)
            .ok_or_else(|| "expected a percentage from 0% to 100%".into()),
        None => size::parse(text).map(|bytes| Unused::Bytes(bytes as u64)),
    }
}

/// Prints what was done, or would be.
pub(crate) fn show(report: &Report, dry_run: bool, console: &Console) -> Result<()> {
    if console.is_quiet() {
        return Ok(());
    }
    let mut output = Output::new();
    for line in describe(report, dry_run) {
        output.line(line)?;
    }
    output.finish()
}

fn describe(report: &Report, dry_run: bool) -> Vec<String> {
    let containers = |number| count(number, "container", "containers");
    let would = if dry_run { "would be " } else { "" };
    let mut lines = vec![
        format!(
            "{} in {}, needed by {}",
            HumanBytes(report.bytes),
            containers(report.containers),
            count(report.snapshots, "snapshot", "snapshots")
        ),
        format!(
            "{} ({}) not needed at all; {} ({}) {would}repacked",
            containers(report.dead_containers),
            HumanBytes(report.dead_bytes),
            containers(report.repacked_containers),
            HumanBytes(report.repacked_bytes),
        ),
    ];
    if report.merged_containers > 0 {
        lines.push(format!(
            "{} ({}) {would}merged",
            count(report.merged_containers, "small container", "small containers"),
            HumanBytes(report.merged_bytes),
        ));
    }
    if !dry_run {
        let copied = HumanBytes(report.copied_bytes);
        let deleted = containers(report.deleted_containers);
        lines.push(format!("{deleted} deleted; {copied} of copies stored"));
        if report.put_bundles + report.deleted_bundles > 0 {
            let put = count(report.put_bundles, "bundle", "bundles");
            lines.push(format!("{put} written, {} deleted", report.deleted_bundles));
        }
    }
    let unused = HumanBytes(report.unused_bytes);
    lines.push(format!("about {unused} of unused data {would}left"));
    for fenced in &report.fenced {
        lines.push(format!("treated as dead: {}", backup(fenced)));
    }
    if report.waiting_containers > 0 {
        for waiting in &report.waiting {
            let stay = count(report.waiting_containers, "container stays", "containers stay");
            lines.push(format!("{stay} until this has ended: {}", backup(waiting)));
        }
        let them = if report.waiting_containers == 1 { "it" } else { "them" };
        lines.push(format!("the next prune deletes {them}"));
    }
    lines
}

/// A backup, in words.
fn backup(one: &Waiting) -> String {
    match &one.intent {
        Some(intent) => format!(
            "the backup of {} on {}, begun {}, process {}",
            shown(intent.user.as_bytes()),
            shown(intent.host.as_bytes()),
            local(intent.time),
            intent.process
        ),
        None => format!("the backup of snapshot {}, whose intent is damaged", one.snapshot),
    }
}

impl Pruned {
    pub(crate) fn of(report: &Report, dry_run: bool) -> Self {
        Self {
            dry_run,
            snapshots: report.snapshots,
            containers: report.containers,
            bytes: report.bytes,
            dead_containers: report.dead_containers,
            dead_bytes: report.dead_bytes,
            repacked_containers: report.repacked_containers,
            repacked_bytes: report.repacked_bytes,
            merged_containers: report.merged_containers,
            merged_bytes: report.merged_bytes,
            copied_bytes: (!dry_run).then_some(report.copied_bytes),
            unused_bytes: report.unused_bytes,
            deleted_containers: report.deleted_containers,
            deleted_runs: report.deleted_runs,
            put_bundles: report.put_bundles,
            deleted_bundles: report.deleted_bundles,
            rescued_chunks: report.rescued_chunks,
            waiting_containers: report.waiting_containers,
            waiting: report.waiting.iter().map(Running::of).collect(),
            fenced: report.fenced.iter().map(Running::of).collect(),
            warnings: report.warnings.clone(),
        }
    }
}

impl Running {
    fn of(one: &Waiting) -> Self {
        let intent = one.intent.as_ref();
        Self {
            snapshot: one.snapshot.to_string(),
            host: intent.map(|intent| intent.host.clone()),
            user: intent.map(|intent| intent.user.clone()),
            process: intent.map(|intent| intent.process),
            time: intent.map(|intent| rfc3339(intent.time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shares_bytes_or_none() {
        assert_eq!(unused("5%"), Ok(Unused::Percent(5.0)));
        assert_eq!(unused("0"), Ok(Unused::Bytes(0)));
        assert_eq!(unused("10MiB"), Ok(Unused::Bytes(10 << 20)));
        assert_eq!(unused("unlimited"), Ok(Unused::Unlimited));
        for text in ["", "%", "-1%", "101%", "NaN%", "none"] {
            assert!(unused(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patience_is_in_days_or_hours() {
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86400)));
        assert_eq!(duration("0h"), Ok(Duration::ZERO));
        for text in ["", "7", "d", "-1d", "1w", "1.5d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}

//! `onefold forget`

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::tz::TimeZone;
use onefold_seal::ObjectId;
use onefold_store::forget::{
    self, Count, Duration, Group, GroupBy, Judged, Period, Policy, Shared,
};
use onefold_store::tree::Time;
use onefold_store::{Repository, Snapshot, SnapshotSpec};
use serde::Serialize;

use super::prune::{self, PruneOptions};
use crate::console::Console;
use crate::count::count;
use crate::exit::Exit;
use crate::filter::FilterArgs;
use crate::grouping::{describe, group_by};
use crate::name::{lossy, shown};
use crate::output::Output;
use crate::repository::RepositoryArgs;
use crate::table;
use crate::tags::TagList;
use crate::time::{local, rfc3339};

const AFTER_HELP: &str = "\
Snapshots are grouped by host and paths, and the rules apply to each group. A rule keeps the newest
snapshot of each of the last N hours, days, weeks, months or years that have one, by the calendar
of this machine's time zone; N may be 'unlimited'. The --keep-within rules take a duration such as
2y5m7d3h and look back from the newest snapshot. A snapshot is kept if any rule keeps it. Snapshots with
a time in the future are kept and count for no rule. The chunks of forgotten snapshots, and copies of
them in bundles, which no command shows, stay until `onefold prune` or --prune.

Examples:
  onefold forget --repo /mnt/backup --keep-daily 7 --keep-weekly 5 \\
      --keep-monthly 12 --dry-run
  onefold forget --repo /mnt/backup --keep-within 30d --keep-tag important \\
      --prune
  onefold forget --repo /mnt/backup --host atlas --keep-last 3
  onefold forget --repo /mnt/backup 3f2c 81ab

With --json: one document with dry_run, groups, named and, with --prune, prune as in `onefold prune
--json`. A group has those of host, paths and tags that it is grouped by; from_client, whether
write-only clients made its snapshots, which are always grouped separately; and keep and remove, lists
of snapshots with id, time, host, paths, tags and reasons. named lists the snapshots named on the
command line with id, and with time, host, paths and tags if they can be read.";

/// The number of digits of an id that are shown.
const SHORT: usize = 8;

/// Remove snapshots, by rules or by their ids
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Forget {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Snapshots to forget; cannot be combined with rules
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<SnapshotSpec>,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    filter: FilterArgs,
    /// Group snapshots by these: host, paths, tags, or nothing
    #[arg(long, value_name = "GROUP", default_value = "host,paths", value_parser = group_by)]
    group_by: GroupBy,
    /// Show what would be done and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Allow a group to lose all of its snapshots
    #[arg(long)]
    unsafe_allow_remove_all: bool,
    /// Prune afterwards if any snapshot was forgotten
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    options: PruneOptions,
}

/// The rules for snapshots to keep.
#[derive(Debug, Args)]
struct Rules {
    /// Keep the last N snapshots
    #[arg(long, short = 'l', value_name = "N")]
    keep_last: Option<Count>,
    /// Keep one of each of the last N hours
    #[arg(long, short = 'H', value_name = "N")]
    keep_hourly: Option<Count>,
    /// Keep one of each of the last N days
    #[arg(long, short = 'd', value_name = "N")]
    keep_daily: Option<Count>,
    /// Keep one of each of the last N weeks
    #[arg(long, short = 'w', value_name = "N")]
    keep_weekly: Option<Count>,
    /// Keep one of each of the last N months
    #[arg(long, short = 'm', value_name = "N")]
    keep_monthly: Option<Count>,
    /// Keep one of each of the last N years
    #[arg(long, short = 'y', value_name = "N")]
    keep_yearly: Option<Count>,
    /// Keep all snapshots that are not older than this
    #[arg(long, value_name = "DURATION")]
    keep_within: Option<Duration>,
    /// Keep hourly snapshots that are not older than this
    #[arg(long, value_name = "DURATION")]
    keep_within_hourly: Option<Duration>,
    /// Keep daily snapshots that are not older than this
    #[arg(long, value_name = "DURATION")]
    keep_within_daily: Option<Duration>,
    /// Keep weekly snapshots that are not older than this
    #[arg(long, value_name = "DURATION")]
    keep_within_weekly: Option<Duration>,
    /// Keep monthly snapshots that are not older than this
    #[arg(long, value_name = "DURATION")]
    keep_within_monthly: Option<Duration>,
    /// Keep yearly snapshots that are not older than this
    #[arg(long, value_name = "DURATION")]
    keep_within_yearly: Option<Duration>,
    /// Keep snapshots with all of these tags; may be repeated
    #[arg(long = "keep-tag", value_name = "T[,T]", value_parser = TagList::some)]
    keep_tags: Vec<TagList>,
}

/// The snapshots that were or would be forgotten, in JSON.
#[derive(Serialize)]
struct Forgotten<'a> {
    dry_run: bool,
    groups: Vec<GroupShown<'a>>,
    named: Vec<NamedShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prune: Option<prune::Pruned>,
}

#[derive(Serialize)]
struct GroupShown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'a [String]>,
    from_client: bool,
    keep: Vec<SnapshotShown<'a>>,
    remove: Vec<SnapshotShown<'a>>,
}

#[derive(Serialize)]
struct SnapshotShown<'a> {
    id: String,
    time: String,
    host: &'a str,
    paths: Vec<String>,
    tags: &'a [String],
    reasons: &'a [String],
}

/// A snapshot that was named; without details if it cannot be read.
#[derive(Serialize)]
struct NamedShown {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<Vec<String>>,
}

/// A snapshot that was named, if it can be read.
struct Named {
    id: ObjectId,
    snapshot: Option<Snapshot>,
}

impl Forget {
    pub(crate) fn run(self, console: &Console) -> Result<Exit> {
        if !self.dry_run {
            self.repository.expect_deletes("a forget")?;
        }
        if self.prune {
            self.options.expect_safe(&self.repository, self.dry_run)?;
        }
        let opened = self.repository.open_unloaded(console)?;
        let repository = &opened.repository;
        let named = self.named(repository, console)?;
        let (groups, ids, damaged) = match named.is_empty() {
            true => self.judge(repository)?,
            false => (Vec::new(), named.iter().map(|one| one.id).collect(), Vec::new()),
        };
        for error in &damaged {
            console.line(format_args!("error: a snapshot cannot be read and stays: {error}"));
        }
        if !self.dry_run {
            opened.with_reserve(console, || Ok(forget::forget(repository, &ids)?))?;
            opened.tell_of_memory(console);
            if console.is_alarmed() {
                // A snapshot that was missing is given up by it.
                console.alarm(!repository.recall()?.is_empty());
            }
        }
        if !console.is_json() {
            self.show(&groups, &named, ids.len(), console)?;
        }
        let pruned = match self.prune && !ids.is_empty() {
            true => Some(self.options.prune(&opened, self.dry_run, console)?),
            false => None,
        };
        if console.is_json() {
            let mut output = Output::new();
            let groups = groups.iter().map(GroupShown::of).collect();
            let named = named.iter().map(NamedShown::of).collect();
            let prune = pruned.map(|report| prune::Pruned::of(&report, self.dry_run));
            output.json_document(&Forgotten { dry_run: self.dry_run, groups, named, prune })?;
            output.finish()?;
        } else if let Some(report) = pruned {
            prune::show(&report, self.dry_run, console)?;
        }
        Ok(if damaged.is_empty() { Exit::Fine } else { Exit::Fatal })
    }

    /// The snapshots that were named.
    fn named(&self, repository: &Repository, console: &Console) -> Result<Vec<Named>> {
        if !self.snapshots.is_empty() && !self.rules.policy().is_empty() {
            bail!("both snapshots and rules were given, expected either of the two");
        }
        let mut named: Vec<Named> = Vec::new();
        for spec in &self.snapshots {
            let id = self.filter.find_id(repository, spec)?;
            if named.iter().any(|one| one.id == id) {
                continue;
            }
            let snapshot = match repository.find(&SnapshotSpec::Prefix(id.to_string())) {
                Ok((_, snapshot)) => Some(snapshot),
                Err(error) => {
                    console.detail(format_args!("snapshot {id} cannot be read: {error}"));
                    None
                }
            };
            named.push(Named { id, snapshot });
        }
        Ok(named)
    }

    /// The groups, the snapshots to forget, and the errors of snapshots that cannot be read.
    fn judge(
        &self,
        repository: &Repository,
    ) -> Result<(Vec<Group>, Vec<ObjectId>, Vec<onefold_store::StoreError>)> {
        let policy = self.rules.policy();
        if policy.is_empty() && !(self.unsafe_allow_remove_all && self.filter.is_given()) {
            bail!(
                "no rule says what to keep: give a rule, such as --keep-daily 7, or name the \
                 snapshots to forget; to forget all snapshots of a host, tag or path, give that and \
                 --unsafe-allow-remove-all"
            );
        }
        let (mut snapshots, damaged) = repository.snapshots()?;
        snapshots.retain(|(_, snapshot)| self.filter.wants(snapshot));
        let now =
            SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let now = Time { secs: now.as_secs() as i64, nanos: now.subsec_nanos() };
        let groups = forget::judge(snapshots, self.group_by, &policy, now, &TimeZone::system());
        if let Some(lost) = groups.iter().find(|group| group.is_lost())
            && !self.unsafe_allow_remove_all
        {
            bail!(
                "no snapshot of {} would be left; use --unsafe-allow-remove-all if you want that",
                describe(&lost.shared)
            );
        }
        let judged = groups.iter().flat_map(|group| &group.snapshots);
        let ids = judged.filter(|one| one.reasons.is_empty()).map(|one| one.id).collect();
        Ok((groups, ids, damaged))
    }

    fn show(
        &self,
        groups: &[Group],
        named: &[Named],
        count_of_ids: usize,
        console: &Console,
    ) -> Result<()> {
        let mut output = Output::new();
        for line in named_lines(named) {
            output.line(line)?;
        }
        for group in groups {
            output.line(format!("{}:", describe(&group.shared)))?;
            for line in lines(&group.snapshots) {
                output.line(line)?;
            }
            output.line("")?;
        }
        if !console.is_quiet() {
            let what = count(count_of_ids as u64, "snapshot", "snapshots");
            output.line(match self.dry_run {
                true => format!("would forget {what}"),
                false => format!("forgot {what}"),
            })?;
        }
        output.finish()
    }
}

impl Rules {
    fn policy(&self) -> Policy {
        let counts = [
            (Period::Snapshot, self.keep_last),
            (Period::Hour, self.keep_hourly),
            (Period::Day, self.keep_daily),
            (Period::Week, self.keep_weekly),
            (Period::Month, self.keep_monthly),
            (Period::Year, self.keep_yearly),
        ];
        let within = [
            (Period::Snapshot, self.keep_within),
            (Period::Hour, self.keep_within_hourly),
            (Period::Day, self.keep_within_daily),
            (Period::Week, self.keep_within_weekly),
            (Period::Month, self.keep_within_monthly),
            (Period::Year, self.keep_within_yearly),
        ];
        let tags = self.keep_tags.iter().map(|list| list.tags().to_vec());
        Policy {
            counts: counts.into_iter().filter_map(|(of, count)| Some((of, count?))).collect(),
            within: within.into_iter().filter_map(|(of, back)| Some((of, back?))).collect(),
            tags: tags.collect(),
        }
    }
}

fn named_lines(named: &[Named]) -> Vec<String> {
    if named.is_empty() {
        return Vec::new();
    }
    let header = ["", "ID", "Time", "Host", "Tags", "Paths"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Named { id, snapshot } in named {
        let mut row = vec!["remove".to_owned(), id.short()];
        match snapshot {
            Some(snapshot) => {
                let paths: Vec<_> = snapshot.paths.iter().map(|path| shown(path)).collect();
                row.extend([
                    local(snapshot.time),
                    shown(snapshot.host.as_bytes()),
                    shown(snapshot.tags.join(",").as_bytes()),
                    paths.join(" "),
                ]);
            }
            None => row.extend(["cannot be read", "", "", ""].map(str::to_owned)),
        }
        rows.push(row);
    }
    table::lines(&rows, &[])
}

fn lines(snapshots: &[Judged]) -> Vec<String> {
    let header = ["", "ID", "Time", "Host", "Tags", "Reasons", "Paths"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Judged { id, snapshot, reasons } in snapshots {
        let paths: Vec<_> = snapshot.paths.iter().map(|path| shown(path)).collect();
        rows.push(vec![
            if reasons.is_empty() { "remove" } else { "keep" }.to_owned(),
            id.to_string()[..SHORT].to_owned(),
            local(snapshot.time),
            shown(snapshot.host.as_bytes()),
            shown(snapshot.tags.join(",").as_bytes()),
            shown(reasons.join(", ").as_bytes()),
            paths.join(" "),
        ]);
    }
    table::lines(&rows, &[])
}

impl<'a> GroupShown<'a> {
    fn of(group: &'a Group) -> Self {
        let Shared { host, paths, tags, is_from_client } = &group.shared;
        let of = |is_kept: bool| {
            let wanted = group.snapshots.iter().filter(|one| one.reasons.is_empty() != is_kept);
            wanted.map(SnapshotShown::of).collect()
        };
        Self {
            host: host.as_deref(),
            paths: paths.as_ref().map(|paths| paths.iter().map(|path| lossy(path)).collect()),
            tags: tags.as_deref(),
            from_client: *is_from_client,
            keep: of(true),
            remove: of(false),
        }
    }
}

impl NamedShown {
    fn of(Named { id, snapshot }: &Named) -> Self {
        let snapshot = snapshot.as_ref();
        let paths = |one: &Snapshot| one.paths.iter().map(|path| lossy(path)).collect();
        Self {
            id: id.to_string(),
            time: snapshot.map(|one| rfc3339(one.time)),
            host: snapshot.map(|one| one.host.clone()),
            paths: snapshot.map(paths),
            tags: snapshot.map(|one| one.tags.clone()),
        }
    }
}

impl<'a> SnapshotShown<'a> {
    fn of(Judged { id, snapshot, reasons }: &'a Judged) -> Self {
        Self {
            id: id.to_string(),
            time: rfc3339(snapshot.time),
            host: &snapshot.host,
            paths: snapshot.paths.iter().map(|path| lossy(path)).collect(),
            tags: &snapshot.tags,
            reasons,
        }
    }
}

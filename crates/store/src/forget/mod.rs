//! Forgetting: taking snapshots away. Their chunks stay until [`prune`](crate::prune).

mod retention;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use onefold_backend::Objects;
use onefold_seal::ObjectId;

pub use self::retention::{
    Candidate, Count, Duration, ParseDurationError, Period, Policy, reasons,
};
use crate::history::fence::{self, Fate};
use crate::history::log;
use crate::objects::intent::intent_name;
use crate::objects::receipt::{self, receipt_name};
use crate::objects::snapshot::{self, snapshot_name};
use crate::seeded::{self, Bug};
use crate::tree::Time;
use crate::{Repository, Snapshot, StoreError};

/// What the snapshots of a group have in common; a policy is applied to each group on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupBy {
    /// The host.
    pub host: bool,
    /// The sources, in any order.
    pub paths: bool,
    /// The tags, in any order.
    pub tags: bool,
}

/// What all snapshots of a group share; `None` where they were not grouped by it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shared {
    /// The host.
    pub host: Option<String>,
    /// The sources, sorted.
    pub paths: Option<Vec<Vec<u8>>>,
    /// The tags, sorted.
    pub tags: Option<Vec<String>>,
    /// Whether write-only clients made them. Such a client can add snapshots under any host's name, so
    /// these never count beside others.
    pub is_from_client: bool,
}

/// A snapshot and why it is kept; no reason means that it is to be forgotten.
#[derive(Debug, Clone)]
pub struct Judged {
    /// Which snapshot.
    pub id: ObjectId,
    /// What it says.
    pub snapshot: Snapshot,
    /// Why it is kept.
    pub reasons: Vec<String>,
}

/// Snapshots that a policy was applied to.
#[derive(Debug, Clone)]
pub struct Group {
    /// What they share.
    pub shared: Shared,
    /// Each with what came of it, in the order in which they were given.
    pub snapshots: Vec<Judged>,
}

impl Group {
    /// Whether nothing of the group would be left.
    pub fn is_lost(&self) -> bool {
        self.snapshots.iter().all(|judged| judged.reasons.is_empty())
    }
}

/// Applies `policy` to each group of `snapshots`. Those of write-only clients have groups of their own.
pub fn judge(
    snapshots: Vec<(ObjectId, Snapshot)>,
    by: GroupBy,
    policy: &Policy,
    now: Time,
    zone: &TimeZone,
) -> Vec<Group> {
    let judge_group = |(shared, members): (Shared, Vec<(ObjectId, Snapshot)>)| {
        let candidates: Vec<_> = members
            .iter()
            .map(|(_, snapshot)| Candidate { time: snapshot.time, tags: &snapshot.tags })
            .collect();
        let reasons = reasons(policy, &candidates, now, zone);
        let snapshots = members
            .into_iter()
            .zip(reasons)
            .map(|((id, snapshot), reasons)| Judged { id, snapshot, reasons })
            .collect();
        Group { shared, snapshots }
    };
    group(snapshots, by).into_iter().map(judge_group).collect()
}

/// Groups `snapshots`, which keep their order in each group. Those of write-only clients have groups
/// of their own.
pub fn group(
    snapshots: Vec<(ObjectId, Snapshot)>,
    by: GroupBy,
) -> BTreeMap<Shared, Vec<(ObjectId, Snapshot)>> {
    let mut groups = BTreeMap::<Shared, Vec<_>>::new();
    for (id, snapshot) in snapshots {
        groups.entry(Shared::of(&snapshot, by)).or_default().push((id, snapshot));
    }
    groups
}

impl Shared {
    fn of(snapshot: &Snapshot, by: GroupBy) -> Self {
        let mut paths = snapshot.paths.clone();
        let mut tags = snapshot.tags.clone();
        paths.sort();
        tags.sort();
        Self {
            host: by.host.then(|| snapshot.host.clone()),
            paths: by.paths.then_some(paths),
            tags: by.tags.then_some(tags),
            is_from_client: snapshot.is_from_client,
        }
    }
}

/// Takes snapshots away. When this returns, none of them can come back.
///
/// The log says it first, so that nobody takes them for lost. Then their receipts go: a receipt
/// without its snapshot would say that the snapshot was lost. Stopped half-way it leaves snapshots
/// without receipts that no log names, which are whole. Of a backup that has not ended it takes the
/// snapshot as well: either the receipt is found here once the snapshot is deleted, or the backup
/// finds no snapshot once it has put the receipt, and fails.
pub fn forget(repository: &Repository, ids: &[ObjectId]) -> Result<(), StoreError> {
    repository.expect_reading()?;
    let objects = &*repository.objects;
    // Before anything is written: one that only a later program reads is not forgotten by this one.
    if let Some(early) = &repository.early {
        let names = ids.iter().map(|id| snapshot_name(*id));
        early.ask(&[], names.collect(), snapshot::MAX_LEN);
    }
    let mut over = Vec::new();
    for id in ids {
        if fence::fate(repository, *id)? != Fate::Open {
            over.push(*id);
        }
    }
    if !seeded::active(Bug::ForgottenLoggedLast) {
        let appended = log::append(repository, &[], ids)?;
        repository.remember(&appended);
    }
    // A client that may not delete leaves its intent behind. Without its snapshot it would look like
    // that of a running backup, for which prunes wait.
    objects.delete_many(&over.into_iter().map(intent_name).collect::<Vec<_>>())?;
    let receipts = || delete(objects, receipt::PREFIX, ids, receipt_name);
    let snapshots = || delete(objects, snapshot::PREFIX, ids, snapshot_name);
    match seeded::active(Bug::ReceiptForgottenLast) {
        // A backup that was about to acknowledge a snapshot may have put its receipt since. One that
        // puts it later finds no snapshot any more.
        false => receipts().and_then(|()| snapshots()).and_then(|()| receipts())?,
        true => snapshots().and_then(|()| receipts())?,
    }
    if seeded::active(Bug::ForgottenLoggedLast) {
        log::append(repository, &[], ids)?;
    }
    Ok(())
}

/// Deletes an object for each id, all of which lie right below `prefix`, for good.
fn delete(
    objects: &dyn Objects,
    prefix: &str,
    ids: &[ObjectId],
    name: fn(ObjectId) -> String,
) -> Result<(), StoreError> {
    objects.delete_many(&ids.iter().map(|id| name(*id)).collect::<Vec<_>>())?;
    // A listing makes deletes durable.
    objects.list_names(prefix)?;
    Ok(())
}

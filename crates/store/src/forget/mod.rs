//! Forgetting: taking snapshots away. Their chunks stay until [`prune`](crate::prune).

mod retention;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use onefold_seal::ObjectId;

pub use self::retention::{
    Candidate, Count, Duration, ParseDurationError, Period, Policy, reasons,
};
use crate::Snapshot;
use crate::tree::Time;
pub use crate::writing::forget::forget;

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

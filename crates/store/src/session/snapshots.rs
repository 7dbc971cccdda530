//! Which snapshots a repository has, and the one that is meant.

use std::collections::HashSet;

use onefold_backend::Objects;
use onefold_seal::ObjectId;

use crate::objects::receipt::receipt_name;
use crate::objects::seen::Seen;
use crate::objects::snapshot;
use crate::{Repository, Snapshot, SnapshotSpec, StoreError};

/// The snapshots that could be read, with their ids, and what was wrong with the others.
pub type SnapshotList = (Vec<(ObjectId, Snapshot)>, Vec<StoreError>);

impl Repository {
    /// Every snapshot with its id, oldest first. Snapshots that cannot be read are given apart.
    pub fn snapshots(&self) -> Result<SnapshotList, StoreError> {
        self.expect_reading()?;
        let listed = self.listed_snapshots()?;
        let list = |take: &mut TakeSnapshot<'_>| Snapshot::find_many(self, &listed, take);
        Ok(oldest_first(list)?.0)
    }

    /// The same only to be shown, from bundles where there are many; and the ids of those of which no
    /// more than a copy in a bundle was read.
    fn look_over(&self) -> Result<(SnapshotList, HashSet<ObjectId>), StoreError> {
        self.expect_reading()?;
        let listed = snapshot::ids(&self.objects.list(snapshot::PREFIX)?);
        oldest_first(|take| Snapshot::show_many(self, &listed, take))
    }

    /// The same as [`snapshots`](Self::snapshots), only to be shown: where there are many, most are
    /// read in bundles.
    pub fn shown_snapshots(&self) -> Result<SnapshotList, StoreError> {
        Ok(self.look_over()?.0)
    }

    /// The snapshot that `spec` names.
    pub fn find(&self, spec: &SnapshotSpec) -> Result<(ObjectId, Snapshot), StoreError> {
        match spec {
            SnapshotSpec::Latest => self.latest(|_| true),
            SnapshotSpec::Prefix(digits) => self.find_by_prefix(digits),
        }
    }

    /// The newest of the snapshots that are `wanted`, as they are shown; itself it is read by its name.
    pub fn latest(
        &self,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Result<(ObjectId, Snapshot), StoreError> {
        let (shown, copied) = self.look_over()?;
        let (id, snapshot) = match newest(shown, &wanted) {
            // A copy may say what no snapshot is.
            Err(StoreError::NoSnapshot { .. }) if !copied.is_empty() => {
                return self.latest_read(wanted);
            }
            newest => newest?,
        };
        if !copied.contains(&id) {
            return Ok((id, snapshot));
        }
        match Snapshot::find(self, id) {
            Ok(Some(original)) if original == snapshot => Ok((id, original)),
            Err(error) if error.is_unreachable() => Err(error),
            // The copy was not what the snapshot is.
            Ok(_) | Err(_) => self.latest_read(wanted),
        }
    }

    /// The newest of the snapshots that are `wanted`, all of which are read by their names: for whoever
    /// takes it away.
    pub fn latest_read(
        &self,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Result<(ObjectId, Snapshot), StoreError> {
        newest(self.snapshots()?, wanted)
    }

    fn find_by_prefix(&self, digits: &str) -> Result<(ObjectId, Snapshot), StoreError> {
        let (id, found) = self.only_fitting(digits)?;
        Ok((id, found?))
    }

    /// The id of the snapshot that `spec` names, even if it is damaged; or even if it is missing, as
    /// long as all digits are given and its receipt is there or a log names it.
    pub fn find_id(&self, spec: &SnapshotSpec) -> Result<ObjectId, StoreError> {
        let digits = match spec {
            SnapshotSpec::Latest => return Ok(self.latest_read(|_| true)?.0),
            SnapshotSpec::Prefix(digits) => digits,
        };
        match (self.only_fitting(digits), digits.parse()) {
            (Err(StoreError::NoSnapshot { .. }), Ok(id)) if self.should_have(id)? => Ok(id),
            (found, _) => Ok(found?.0),
        }
    }

    /// Whether there was a snapshot `id` that nobody forgot.
    fn should_have(&self, id: ObjectId) -> Result<bool, StoreError> {
        match self.objects.size(&receipt_name(id)) {
            Ok(_) => return Ok(true),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let mut seen = Seen::default();
        seen.compare(self, None)?;
        Ok(seen.has(id))
    }

    /// The one snapshot whose id begins so, or why it cannot be read.
    fn only_fitting(
        &self,
        digits: &str,
    ) -> Result<(ObjectId, Result<Snapshot, StoreError>), StoreError> {
        self.expect_reading()?;
        let mut listed = self.listed_snapshots()?;
        listed.retain(|(id, _)| id.to_string().starts_with(digits));
        let mut found = Vec::new();
        Snapshot::find_many(self, &listed, &mut |id, read| {
            found.extend(read.transpose().map(|read| (id, read)));
        })?;
        match (found.pop(), found.len()) {
            (Some(only), 0) => Ok(only),
            (None, _) => Err(StoreError::NoSnapshot { spec: digits.into(), hint: String::new() }),
            (_, others) => {
                Err(StoreError::AmbiguousSnapshot { spec: digits.into(), count: others + 1 })
            }
        }
    }
}

/// Takes what was found of a snapshot.
type TakeSnapshot<'t> = dyn FnMut(ObjectId, Result<Option<Snapshot>, StoreError>) + 't;

/// What `list` hands out, oldest first, and what it gives.
fn oldest_first<T>(
    list: impl FnOnce(&mut TakeSnapshot<'_>) -> Result<T, StoreError>,
) -> Result<(SnapshotList, T), StoreError> {
    let (mut snapshots, mut damaged) = (Vec::new(), Vec::<(ObjectId, StoreError)>::new());
    let listed = list(&mut |id, found| match found {
        Ok(Some(snapshot)) => snapshots.push((id, snapshot)),
        Ok(None) => {}
        // Forgotten since it was listed.
        Err(StoreError::Backend(error)) if error.is_not_found() => {}
        Err(error) => damaged.push((id, error)),
    })?;
    if let Some(at) = damaged.iter().position(|(_, error)| error.is_unreachable()) {
        return Err(damaged.swap_remove(at).1);
    }
    // Answers come in any order, and messages in the order of the listing.
    damaged.sort_unstable_by_key(|(id, _)| *id);
    let damaged = damaged.into_iter().map(|(_, error)| error).collect();
    snapshots.sort_by_key(|(id, snapshot)| (snapshot.time, *id));
    Ok(((snapshots, damaged), listed))
}

/// The newest of `snapshots` that are `wanted`.
fn newest(
    (snapshots, mut damaged): SnapshotList,
    wanted: impl Fn(&Snapshot) -> bool,
) -> Result<(ObjectId, Snapshot), StoreError> {
    // A damaged snapshot may be the newest: saying nothing would restore an older one.
    if let Some(error) = damaged.pop() {
        return Err(error);
    }
    let count = snapshots.len();
    let newest = snapshots.into_iter().rev().find(|(_, snapshot)| wanted(snapshot));
    newest.ok_or_else(|| StoreError::NoSnapshot {
        spec: SnapshotSpec::Latest.to_string(),
        hint: match count {
            0 => ": the repository has none yet".into(),
            _ => format!(": none of {count} snapshots is of the host, tags and paths asked for"),
        },
    })
}

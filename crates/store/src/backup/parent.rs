//! The parent of a backup: the snapshot by which it recognises unchanged files.
//!
//! Any snapshot of the same sources will do, and a recent one saves the most. So the snapshots that the
//! host's own log names are looked through first, from the last one back: the one before is almost
//! always the parent, however many snapshots there are. Only where none of them fits is every snapshot
//! read, as after a copy or for sources that are new.

use std::collections::HashMap;

use onefold_seal::ObjectId;

use super::options::Options;
use super::sources::{Shape, Sources};
use crate::objects::entry::Writer;
use crate::objects::snapshot::Snapshot;
use crate::{Repository, StoreError};

/// The most snapshots that are read together. The first read takes one, each later one eight times as
/// many.
const MAX_READ: usize = 1024;

/// A snapshot and its id.
pub(super) type Parent = (ObjectId, Snapshot);

/// A recent snapshot of the same sources on the same host, if there is one. What a write-only client
/// says of files is not believed in the place of reading them.
pub(super) fn find(
    repository: &Repository,
    sources: &Sources<'_>,
    options: &Options,
) -> Result<Option<Parent>, StoreError> {
    let is_stream = matches!(sources.shape, Shape::Stream(_));
    if options.force || is_stream || repository.is_write_only() {
        return Ok(None);
    }
    let fits = |snapshot: &Snapshot| {
        snapshot.paths == sources.paths && snapshot.host == options.host && !snapshot.is_from_client
    };
    if let Some(parent) = last_of_log(repository, &options.host, fits)? {
        return Ok(Some(parent));
    }
    let (snapshots, _damaged) = repository.snapshots()?;
    Ok(snapshots.into_iter().rev().find(|(_, snapshot)| fits(snapshot)))
}

/// The last snapshot that the log of `host` names and that `fits`, as far as logs were followed.
fn last_of_log(
    repository: &Repository,
    host: &str,
    fits: impl Fn(&Snapshot) -> bool,
) -> Result<Option<Parent>, StoreError> {
    let Some(logs) = repository.logs_followed() else { return Ok(None) };
    let writer = Writer::of(&repository.envelope, host);
    let ids = logs.committed_in(writer);
    // Copies are found by their lengths.
    let lengths: HashMap<ObjectId, u64> = match repository.cache() {
        Some(_) => repository.listed_snapshots()?.into_iter().collect(),
        None => HashMap::new(),
    };
    let (mut rest, mut count) = (&ids[..], 1);
    while !rest.is_empty() {
        let (next, others) = rest.split_at(count.min(rest.len()));
        (rest, count) = (others, (8 * count).min(MAX_READ));
        let mut read = find_many(repository, next, &lengths)?;
        let parent = next.iter().find_map(|id| {
            let snapshot = read.remove(id).filter(|snapshot| fits(snapshot))?;
            Some((*id, snapshot))
        });
        if parent.is_some() {
            return Ok(parent);
        }
    }
    Ok(None)
}

/// Those of the snapshots `ids` that are there and can be read.
fn find_many(
    repository: &Repository,
    ids: &[ObjectId],
    lengths: &HashMap<ObjectId, u64>,
) -> Result<HashMap<ObjectId, Snapshot>, StoreError> {
    let listed: Vec<_> =
        ids.iter().map(|id| (*id, lengths.get(id).copied().unwrap_or(0))).collect();
    let (mut read, mut unreachable) = (HashMap::new(), None);
    Snapshot::find_many(repository, &listed, &mut |id, found| match found {
        Ok(Some(snapshot)) => drop(read.insert(id, snapshot)),
        Err(error) if error.is_unreachable() => unreachable = Some(error),
        // One that is gone, refused or damaged is no parent.
        Ok(None) | Err(_) => {}
    })?;
    unreachable.map_or(Ok(read), Err)
}

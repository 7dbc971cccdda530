//! Clones in shards of their own.

use anyhow::{Context, Result};
use onefold_block::BlockDevice;
use onefold_cluster::{Gateway, OpenShard, detach_while};
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use crate::service::answer::Answer;

/// How snapshots begin that are made for the time of a copy. The id of the gateway's lease follows, so that what
/// a dead gateway left is recognised, and an id of its own.
const TEMPORARY: &str = ".detach-";

/// Makes volume `to` in a shard of its own as `from`, a volume or snapshot of `source`, is now. `gateway` has
/// `source`, and then has the new shard as well. Stops, and makes nothing, when `go_on` says no.
pub(crate) fn detach(
    gateway: &Gateway,
    source: &OpenShard,
    (from, to): (&str, &str),
    go_on: &dyn Fn() -> bool,
) -> Result<Answer> {
    if !gateway.names().is_free(to)? {
        return Err(VolumeError::VolumeExists { name: to.to_owned() }.into());
    }
    let is_snapshot = source.pool().volume(from)?.is_read_only();
    let temporary = format!("{TEMPORARY}{}-{}", gateway.lease().id(), ObjectId::random());
    let snapshot = if is_snapshot { from } else { &temporary };
    if !is_snapshot {
        let mut changing = source.change();
        changing.claim(snapshot)?;
        let made = source.pool().clone_volume(from, snapshot, true);
        changing.sync()?;
        made?;
    }
    let copied = gateway.create_shard(to, |target| {
        detach_while(source.shared(), snapshot, target, to, go_on).map(drop)
    });
    let removed = if is_snapshot { Ok(()) } else { remove(source, snapshot) };
    copied?;
    removed.with_context(|| {
        format!("volume '{to}' was made; its temporary snapshot '{snapshot}' is removed later")
    })?;
    Ok(Answer::Done)
}

fn remove(shard: &OpenShard, name: &str) -> Result<(), VolumeError> {
    let mut changing = shard.change();
    changing.ensure_current()?;
    shard.pool().delete_volume(name)?;
    changing.sync()
}

/// Removes temporary snapshots of `shard` that gateways left whose lease is over; how many. `withdraw` is called
/// for each before.
pub(crate) fn remove_left(
    gateway: &Gateway,
    shard: &OpenShard,
    withdraw: impl Fn(&str),
) -> Result<usize> {
    let own = gateway.lease().id();
    let is_left = |name: &str| lease_of(name).is_some_and(|lease| lease != own);
    let volumes = shard.pool().volumes().into_iter();
    let left: Vec<String> =
        volumes.filter(|one| one.is_read_only && is_left(&one.name)).map(|one| one.name).collect();
    for name in &left {
        withdraw(name);
        remove(shard, name).with_context(|| format!("the temporary snapshot '{name}'"))?;
    }
    Ok(left.len())
}

/// Whether volume `name` is a temporary snapshot of a gateway whose lease is over, as `gateway` sees it.
pub(crate) fn has_left(gateway: &Gateway, name: &str) -> bool {
    lease_of(name).is_some_and(|lease| !gateway.has_lease(lease))
}

/// The lease under which a temporary snapshot was made; none if `name` is that of something else.
fn lease_of(name: &str) -> Option<ObjectId> {
    let (lease, own) = name.strip_prefix(TEMPORARY)?.split_once('-')?;
    own.parse::<ObjectId>().ok()?;
    lease.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_snapshots_tell_whose_they_are() {
        let (lease, own) = (ObjectId::random(), ObjectId::random());
        assert_eq!(lease_of(&format!("{TEMPORARY}{lease}-{own}")), Some(lease));
        for other in [format!("{TEMPORARY}{lease}"), format!("{TEMPORARY}x-{own}"), "disk".into()] {
            assert_eq!(lease_of(&other), None, "{other}");
        }
    }
}

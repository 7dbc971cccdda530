//! Finding registrations that no journal knows, and containers that nobody is registered in.
//!
//! All of it is safe at any time. Late registrations and creations leave such things; nothing else does.

use std::collections::BTreeMap;

use onefold_backend::Operation;
use onefold_backend::rados::{Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_seal::ObjectId;
use onefold_volume::{Pool, Use, VolumeError, Writer};

use super::ask;
use super::guard::{Access, Value};
use super::release::{remove_unused, sweep_names};
use super::shared::{SharedContainers, shared_name, value_of};
use crate::error::failed;
use crate::hints::ContainerName;
use crate::seeded::fault;

/// What a sweep found and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Guards that were looked at.
    pub guards: u64,
    /// Registrations that no journal knew, of this shard or of one that is gone: they were dropped.
    pub dropped: u64,
    /// Guards and containers that nobody needed, and what shards that are gone said of them: all of this was
    /// removed.
    pub removed: u64,
    /// Containers of this shard's pages that are closing.
    pub closing: u64,
}

impl SharedContainers {
    /// Looks at all guards and containers for `pool`, which must be the open pool of this shard: drops its
    /// registrations that it does not know, and those of shards that are gone; removes what nobody needs; and
    /// tells it which of its containers are closing.
    ///
    /// # Errors
    /// [`VolumeError::Superseded`] if a later writer of the shard is registered somewhere; or if the pools of
    /// RADOS refuse something or give no answer.
    pub fn sweep(&self, pool: &Pool) -> Result<Swept, VolumeError> {
        let refused = |error| failed(Operation::Read, error);
        let (meta, data) = (&*self.guards.pool, &*self.containers.pool);
        let found = sweep_names(meta, data).map_err(refused)?;
        let (mut swept, mut heads) = (Swept::default(), BTreeMap::new());
        for name in &found.guards {
            let early = fault!(SweptByOldMemory).then(|| pool.use_of(&shared_name(name)));
            // read before the pool's memory is looked at: else a registration that begins in between would
            // be taken for a dead one
            let Some(guard) = self.guards.read(name).map_err(refused)? else { continue };
            swept.guards += 1;
            for (user, value) in &guard.users {
                let is_dead = if *user == self.guards.own() {
                    let known = early.unwrap_or_else(|| pool.use_of(&shared_name(name)));
                    let is_closing = guard.access == Access::Closing;
                    !is_known(pool, name, *value, known, is_closing, &mut swept)?
                } else {
                    !has_head(meta, user, &mut heads).map_err(refused)?
                };
                if is_dead && !fault!(NeverSwept) {
                    self.guards.drop_of(name, *user, *value).map_err(refused)?;
                    swept.dropped += 1;
                }
            }
        }
        for shard in &found.tellers {
            if has_head(meta, shard, &mut heads).map_err(refused)? {
                continue;
            }
            let removal = Update::existing().then(Step::Remove);
            match meta.update(&Self::live_object(shard), removal) {
                Ok(_) => swept.removed += 1,
                Err(error) if error.refusal() == Some(Refusal::Absent) => {}
                Err(error) => return Err(failed(Operation::Delete, error)),
            }
        }
        for name in found.guards.union(&found.containers) {
            let is_removed =
                remove_unused(&self.guards, &self.containers, name).map_err(refused)?;
            swept.removed += u64::from(is_removed);
        }
        Ok(swept)
    }
}

impl SharedContainers {
    /// Does for these containers and this shard what [`sweep`](Self::sweep) does for all: drops its registrations that
    /// `pool`, its open pool, does not know, and tells it which of those that it knows are closing.
    ///
    /// # Errors
    /// As [`sweep`](Self::sweep).
    pub fn sweep_own<'a>(
        &self,
        pool: &Pool,
        names: impl IntoIterator<Item = &'a ContainerName>,
    ) -> Result<Swept, VolumeError> {
        let refused = |error| failed(Operation::Read, error);
        let mut swept = Swept::default();
        for name in names {
            let early = fault!(SweptByOldMemory).then(|| pool.use_of(&shared_name(name)));
            // in this order, as a sweep does
            let Some(guard) = self.guards.read(name).map_err(refused)? else { continue };
            let Some(value) = guard.users.get(&self.guards.own()) else { continue };
            swept.guards += 1;
            let known = early.unwrap_or_else(|| pool.use_of(&shared_name(name)));
            let is_closing = guard.access == Access::Closing;
            if !is_known(pool, name, *value, known, is_closing, &mut swept)? {
                self.guards.drop(name, *value).map_err(refused)?;
                swept.dropped += 1;
                let removed = remove_unused(&self.guards, &self.containers, name);
                swept.removed += u64::from(removed.map_err(refused)?);
            }
        }
        Ok(swept)
    }
}

/// Whether `pool`, which uses container `name` as `known` says, knows the registration of its shard by `value`. One
/// that is closing it is told.
fn is_known(
    pool: &Pool,
    name: &ContainerName,
    value: Value,
    known: Option<Use>,
    is_closing: bool,
    swept: &mut Swept,
) -> Result<bool, VolumeError> {
    let is_known = known.is_some_and(|one| value_of(one.registered) == value);
    if !is_known && value.writer > pool.writer().0 {
        let (writer, by) = (pool.writer(), Writer(value.writer));
        return Err(VolumeError::Superseded { writer, by });
    }
    if is_known && is_closing && pool.note_closing(&shared_name(name)) {
        swept.closing += 1;
    }
    Ok(is_known)
}

/// Whether shard `shard` exists in `meta`.
pub(super) fn has_head(
    meta: &dyn RadosPool,
    shard: &ObjectId,
    known: &mut BTreeMap<ObjectId, bool>,
) -> Result<bool, RadosError> {
    if let Some(known) = known.get(shard) {
        return Ok(*known);
    }
    let found = ask(meta, &format!("{shard}.head"), &Query::default())?.is_some();
    known.insert(*shard, found);
    Ok(found)
}

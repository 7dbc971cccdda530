//! Finding registrations that no journal knows, and containers that nobody is registered in.
//!
//! All of it is safe at any time. Late registrations and creations leave such things; nothing else does.

use std::collections::BTreeMap;

use onefold_backend::Operation;
use onefold_backend::rados::{Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_seal::ObjectId;
use onefold_volume::{Pool, VolumeError, Writer};

use super::ask;
use super::guard::Access;
use super::release::{remove_unused, sweep_names};
use super::shared::{SharedContainers, shared_name, value_of};
use crate::error::failed;
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
                    let is_known = known.is_some_and(|one| value_of(one.registered) == *value);
                    if !is_known && value.writer > pool.writer().0 {
                        let (writer, by) = (pool.writer(), Writer(value.writer));
                        return Err(VolumeError::Superseded { writer, by });
                    }
                    let is_closing = is_known && guard.access == Access::Closing;
                    if is_closing && pool.note_closing(&shared_name(name)) {
                        swept.closing += 1;
                    }
                    !is_known
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

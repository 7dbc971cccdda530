//! Shards that no gateway has: opened so that they let containers go, and given back.

use std::collections::BTreeSet;

use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use crate::containers::Swept;
use crate::gateway::gateway::Gateway;
use crate::gateway::records::ShardRecord;
use crate::gateway::shards::SeenShard;
use crate::hints::ContainerName;
use crate::seeded::fault;

/// Whether no gateway has the shard of this record, or is to have it.
pub(super) fn is_unserved(record: &ShardRecord) -> bool {
    record.gateway.is_none() && record.wanted.is_none() && !record.is_doomed
}

impl Gateway {
    /// Takes the shard `id`, as a client that asks for it would make it, if no gateway has it, and lets it give
    /// `names` back as [`SharedShard::tend`](crate::SharedShard::tend) does. None if another gateway has it by now.
    /// Clients can use the shard from here on: [`give_back_unless`](Self::give_back_unless) ends that.
    ///
    /// # Errors
    /// If the shard cannot be taken. If it cannot give containers back, that is the result.
    pub fn tend(
        &self,
        id: ObjectId,
        names: &BTreeSet<ContainerName>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Result<Swept, VolumeError>>, VolumeError> {
        let is_free = |seen: &SeenShard| is_unserved(&seen.record) || fault!(ServedTended);
        let Some(seen) = self.shards.find(id)?.filter(is_free) else {
            return Ok(None);
        };
        let Some(shard) = self.take(id, seen, self.now())? else { return Ok(None) };
        let goes_on = || go_on() && shard.tenure().is_current();
        Ok(Some(shard.shared().tend(names, &goes_on)))
    }
}

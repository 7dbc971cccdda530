//! What a gateway does now and then for the containers that shards share.

use std::sync::Arc;

use onefold_backend::rados::RadosPool;
use onefold_volume::VolumeError;

use super::gateway::Gateway;
use super::open::OpenShard;
use crate::containers::{Checked, Containers, fsck_in};
use crate::shard::SharedShard;

impl Gateway {
    /// The pool for containers.
    pub(super) fn data(&self) -> &Arc<dyn RadosPool> {
        self.settings.data.as_ref().unwrap_or(&self.pool)
    }

    /// All containers. What is removed of them is counted.
    pub(super) fn containers(&self) -> Containers {
        Containers::new(Arc::clone(self.data())).counted(Arc::clone(self.room.usage()))
    }

    /// Checks all containers of the domain by what these open shards know, as [`fsck_while`](crate::containers::fsck_while) does. What only a
    /// shard's gateway can tell is left out if this one may have lost the shard meanwhile, and counted as not
    /// asked.
    ///
    /// # Errors
    /// As [`fsck_while`](crate::containers::fsck_while).
    pub fn fsck(
        &self,
        open: &[Arc<OpenShard>],
        repair: bool,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Checked, VolumeError> {
        let shared: Vec<&SharedShard> = open.iter().map(|shard| shard.shared()).collect();
        let mut checked = fsck_in(&self.pool, self.containers(), &shared, repair, go_on)?;
        let before = checked.problems.len();
        let is_current = |open: &Arc<OpenShard>| open.tenure().is_current();
        checked.problems.retain(|problem| match problem.told_by() {
            Some(shard) => open.iter().any(|one| one.id() == shard && is_current(one)),
            // the shards that are open say whether pages of a container are needed
            None => problem.is_leak() || open.iter().all(is_current),
        });
        checked.unasked += (before - checked.problems.len()) as u64;
        Ok(checked)
    }
}

//! What one gateway sees of the others' leases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::RadosPool;
use onefold_seal::{Check, ObjectId};
use onefold_volume::VolumeError;

use super::lease::{VALID, WAIT, gateways_table};
use super::records::{GatewayRecord, decode, id_of};
use super::table::{Changed, Table, before_id};
use crate::clock::LeaseClock;
use crate::error::failed;

/// The leases of a domain as one gateway has seen them.
pub(super) struct Watch {
    table: Table,
    clock: Arc<dyn LeaseClock>,
    seen: BTreeMap<ObjectId, Seen>,
}

struct Seen {
    value: Bytes,
    /// None if a later version wrote it.
    record: Option<GatewayRecord>,
    /// Until this time of the own clock the value did not change: it was written before.
    since: Duration,
}

impl Watch {
    pub(super) fn new(pool: &Arc<dyn RadosPool>, clock: &Arc<dyn LeaseClock>) -> Self {
        let (table, clock) = (gateways_table(pool), Arc::clone(clock));
        Self { table, clock, seen: BTreeMap::new() }
    }

    /// Looks at all leases.
    pub(super) fn look(&mut self) -> Result<(), VolumeError> {
        let found = self.table.all().map_err(|error| failed(Operation::Read, error))?;
        // A value that is found was sent before now, however long the answer took. So counting from now is
        // on the safe side.
        let now = self.clock.now();
        let mut seen = BTreeMap::new();
        for (key, value) in found {
            let id = id_of(self.table.object(), &key)?;
            let one = match self.seen.remove(&id) {
                Some(before) if before.value == value => before,
                _ => {
                    let record =
                        match decode(self.table.object(), &key, &value, GatewayRecord::read) {
                            Err(VolumeError::NewerVersion { .. }) => None,
                            decoded => Some(decoded?),
                        };
                    Seen { value, record, since: now }
                }
            };
            seen.insert(id, one);
        }
        self.seen = seen;
        Ok(())
    }

    /// Whether the gateway `id` had a lease at the last look, which may be over.
    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.seen.contains_key(&id)
    }

    /// The gateways that had a lease at the last look.
    pub(super) fn present(&self) -> BTreeSet<ObjectId> {
        self.seen.keys().copied().collect()
    }

    pub(super) fn record(&self, id: ObjectId) -> Option<&GatewayRecord> {
        self.seen.get(&id)?.record.as_ref()
    }

    /// The gateways whose leases have not changed for [`WAIT`].
    pub(super) fn silent(&self) -> Vec<ObjectId> {
        let now = self.clock.now();
        let is_silent = |seen: &Seen| now.saturating_sub(seen.since) >= WAIT;
        self.seen.iter().filter(|(_, seen)| is_silent(seen)).map(|(id, _)| *id).collect()
    }

    /// Breaks the lease of `id` as it was seen; false if it has changed since.
    pub(super) fn break_lease(&mut self, id: ObjectId) -> Result<bool, VolumeError> {
        let Some(seen) = self.seen.get(&id) else { return Ok(false) };
        let key = id.to_string();
        let broken = self.table.settle(before_id(&key), &key, Some(&seen.value), None)?;
        if broken == Changed::Done {
            self.seen.remove(&id);
        }
        Ok(broken == Changed::Done)
    }

    /// Treats the lease of `id` as broken: what the seeded bug does.
    pub(super) fn forget(&mut self, id: ObjectId) {
        self.seen.remove(&id);
    }

    /// The serving gateways that renewed their leases lately.
    fn living(&self) -> impl Iterator<Item = ObjectId> {
        let now = self.clock.now();
        let is_living = move |seen: &Seen| {
            let serves = seen.record.as_ref().is_some_and(|record| record.about.is_serving);
            serves && now.saturating_sub(seen.since) < VALID
        };
        self.seen.iter().filter(move |(_, seen)| is_living(seen)).map(|(id, _)| *id)
    }

    pub(super) fn living_count(&self) -> usize {
        self.living().count()
    }

    /// How many living gateways come before `id` when the shard `shard` is taken over. All gateways
    /// answer alike, and each gets an equal share of shards.
    pub(super) fn rank(&self, shard: ObjectId, id: ObjectId) -> usize {
        let weight = |id: ObjectId| *Check::of(&[shard.as_bytes(), id.as_bytes()]).as_bytes();
        let own = (weight(id), id);
        self.living().filter(|other| (weight(*other), *other) > own).count()
    }
}

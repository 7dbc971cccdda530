//! What gateways look after together: space, its quota, and scrubs of containers.
//!
//! | file | has |
//! | --- | --- |
//! | records | the records |
//! | space | turns to look over all containers, what was counted, and the quota |
//! | room | how much one gateway may store |
//! | scrubs | which gateway scrubs which container |
//! | damage | what scrubs found |
//! | tending | shards that no gateway has |
//!
//! Every change of a record compares the whole record, as those of the domain do. What these records say never
//! decides whether a container may go.

mod damage;
mod records;
mod room;
mod scrubs;
mod space;
mod tending;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::{RadosError, RadosPool, Refusal};
use onefold_seal::wire::{Reader, WireError};
use onefold_volume::VolumeError;

use super::table::{Changed, Table, before_id};
use crate::error::failed;

pub use records::{Count, Damage, ScrubCycle};
pub(crate) use records::{QuotaRecord, TurnRecord, UsageRecord};
pub(crate) use room::RoomKeeper;
pub use scrubs::{ScrubStep, Scrubbing};
pub(crate) use space::respace;
pub use space::{LookedOver, Stored};

/// The records by which gateways look after a domain.
#[derive(Clone)]
pub struct Care {
    pool: Arc<dyn RadosPool>,
    /// One record of each kind, by the name of the kind.
    single: Table,
    /// What each process has stored, by its id.
    usage: Table,
    /// Damaged containers, by their names.
    damage: Table,
}

impl Care {
    /// That of the domain in `pool`.
    pub fn new(pool: &Arc<dyn RadosPool>) -> Self {
        let table = |object| Table::new(pool, object);
        let (single, usage, damage) = (table("care"), table("usage"), table("damage"));
        Self { pool: Arc::clone(pool), single, usage, damage }
    }

    /// Makes the objects of the records. The first one is made last, so that the others exist once it does.
    pub(crate) fn create_tables(&self) -> Result<(), VolumeError> {
        [&self.usage, &self.damage, &self.single].into_iter().try_for_each(Table::create)
    }

    /// Makes them unless they exist: a domain of an earlier version has none.
    pub(crate) fn ensure_tables(&self) -> Result<(), VolumeError> {
        match self.single.get(String::new(), "") {
            Err(error) if error.refusal() == Some(Refusal::Absent) => self.create_tables(),
            found => found.map(drop).map_err(|error| failed(Operation::Read, error)),
        }
    }

    /// The record of a kind as it was read; none if there is none yet.
    fn find<T>(
        &self,
        kind: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>,
    ) -> Result<Option<(T, Bytes)>, VolumeError> {
        let found = or_empty(self.single.get(before_id(kind), kind))?;
        let decoded = |value: Bytes| {
            let record = super::records::decode(self.single.object(), kind, &value, read)?;
            Ok((record, value))
        };
        found.map(decoded).transpose()
    }

    /// Changes the record of a kind; false if it was not `from`.
    fn change(
        &self,
        kind: &str,
        from: Option<&Bytes>,
        to: Option<Bytes>,
    ) -> Result<bool, VolumeError> {
        Ok(self.single.settle(before_id(kind), kind, from, to)? == Changed::Done)
    }
}

/// What was asked of an object, or nothing of one that was never made.
fn or_empty<T: Default>(found: Result<T, RadosError>) -> Result<T, VolumeError> {
    match found {
        Err(error) if error.refusal() == Some(Refusal::Absent) => Ok(T::default()),
        found => found.map_err(|error| failed(Operation::Read, error)),
    }
}

/// Milliseconds since 1970 by the clock of this machine. Gateways whose clocks differ do more or less often what
/// they do now and then, and nothing else.
pub fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Whether what was done at `last` and is done every so often is due at `now`. A time that is far ahead is that of a
/// clock that is wrong.
fn is_due(last: u64, every: Duration, now: u64) -> bool {
    let every = every.as_millis() as u64;
    now >= last.saturating_add(every) || last > now.saturating_add(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wrong_clock_noted_is_due_as_well() {
        let every = Duration::from_secs(300);
        let due = |last, now| is_due(last, every, now);
        assert!(due(0, 300_000) && !due(1, 300_000) && due(1, 300_001));
        assert!(!due(600_000, 300_000) && due(600_001, 300_000));
    }
}

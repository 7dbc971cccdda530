//! How a gateway gives shards away, lets go of them, and removes them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use onefold_backend::Operation;
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::events::GatewayEvent;
use super::gateway::{Gateway, Slot};
use super::lease::GatewayLease;
use super::open::OpenShard;
use super::records::ShardRecord;
use super::shards::SeenShard;
use crate::error::failed;
use crate::seeded::fault;
use crate::shard;

impl Gateway {
    /// Removes the doomed shard `id`, which this gateway has by the record `doomed`: its objects, names that
    /// lead to it, and last its record.
    pub(super) fn erase(&self, id: ObjectId, doomed: &SeenShard) -> Result<(), VolumeError> {
        shard::remove(&self.pool, id)?;
        for (name, record) in self.names.of(id)? {
            self.names.change(&name, Some(&record), None)?;
        }
        self.shards.remove(id, doomed)?;
        self.audience.tell(GatewayEvent::Removed(id));
        Ok(())
    }

    /// Gives the shard `id` back, or removes it if it has no volume left: completes what clients asked for,
    /// makes a checkpoint, and lets other gateways take it. Does nothing if it is not open.
    ///
    /// # Errors
    /// If it is not known to be given back. Others take it when the lease of this gateway has ended.
    pub fn give_back(&self, id: ObjectId) -> Result<(), VolumeError> {
        self.give_back_unless(id, &|| false).map(drop)
    }

    /// The same unless `is_used` says that a client has asked for the shard; whether it is not open any more. A client
    /// that asks later waits until it is given back, and then it is taken again.
    ///
    /// # Errors
    /// As [`give_back`](Self::give_back).
    pub fn give_back_unless(
        &self,
        id: ObjectId,
        is_used: &dyn Fn() -> bool,
    ) -> Result<bool, VolumeError> {
        let Some(shard) = self.close_unless(id, is_used) else {
            return Ok(!self.has_slot(id));
        };
        let is_empty = shard.change().is_empty();
        let settled = match is_empty {
            // what it leaves other shards' sweeps remove
            true => shard.shared().vacate(),
            // what it filled nobody fills any more; and others close what this shard uses little of
            false => shard.pool().seal_open().and_then(|()| shard.shared().store_uses()),
        };
        if let Err(error) = settled {
            self.audience.tell(GatewayEvent::Failed(error));
        }
        let error = if is_empty { None } else { shard.pool().checkpoint().err() };
        drop(shard);
        let given = self.give_record(id, is_empty);
        self.settle(id, None);
        given?;
        if !is_empty {
            self.audience.tell(GatewayEvent::Gave { shard: id, error });
        }
        Ok(true)
    }

    /// Ends the use of an open shard, whose slot is busy then.
    fn close(&self, id: ObjectId) -> Option<Arc<OpenShard>> {
        self.close_unless(id, &|| false)
    }

    /// The same unless `is_used`, which is asked while no client finds the shard.
    fn close_unless(&self, id: ObjectId, is_used: &dyn Fn() -> bool) -> Option<Arc<OpenShard>> {
        let shard = match self.slots().get_mut(&id) {
            Some(slot @ Slot::Open(_)) if !is_used() || fault!(GivenBackAsked) => {
                std::mem::replace(slot, Slot::Busy)
            }
            _ => return None,
        };
        let Slot::Open(shard) = shard else { return None };
        // a change of volumes that has begun is completed
        drop(shard.change());
        self.audience.closing(&shard);
        shard.tenure().end();
        Some(shard)
    }

    /// Says in the record of a closed shard that nobody has it, or removes it.
    fn give_record(&self, id: ObjectId, is_empty: bool) -> Result<(), VolumeError> {
        let own = self.lease().id();
        loop {
            let Some(seen) = self.shards.find(id)?.filter(|seen| seen.record.gateway == Some(own))
            else {
                return Ok(());
            };
            let record = if is_empty {
                ShardRecord::doomed(own)
            } else {
                ShardRecord::new(None, seen.record.wanted.filter(|wanted| *wanted != own))
            };
            // refused if a move was asked for since
            if let Some(changed) = self.shards.change(id, &seen, record)? {
                return if is_empty { self.erase(id, &changed) } else { Ok(()) };
            }
        }
    }

    /// Lets go of a shard that another gateway has, or that takes no more changes.
    pub(super) fn drop_shard(&self, id: ObjectId, why: String) {
        if self.close(id).is_some() {
            self.settle(id, None);
            self.audience.tell(GatewayEvent::Dropped { shard: id, why });
        }
    }

    /// Takes another lease after one was lost. What is open under that is let go by rounds, and no read of it is
    /// answered until then.
    pub(super) fn begin_anew(&self) -> Result<(), VolumeError> {
        self.audience.tell(GatewayEvent::Lost);
        let lease = GatewayLease::claim(&self.pool, &self.clock, self.settings.about.clone())?;
        self.audience.tell(GatewayEvent::Began(lease.id()));
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(lease);
        Ok(())
    }

    /// Gives all shards and the lease back, so that no other gateway waits.
    ///
    /// # Errors
    /// The first error, after everything was tried. Others take the shards when the lease has ended.
    pub fn end(&self) -> Result<(), VolumeError> {
        self.is_ending.store(true, Ordering::Release);
        let mut outcome = Ok(());
        for shard in self.open_shards() {
            let id = shard.id();
            drop(shard);
            outcome = outcome.and(self.give_back(id));
        }
        // what it stored last is in no count
        if let Err(error) = self.room.keep() {
            self.audience.tell(GatewayEvent::Failed(error));
        }
        let released = self.lease().release();
        outcome.and(released.map_err(|error| failed(Operation::Write, error)))
    }
}

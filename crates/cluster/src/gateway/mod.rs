//! Many gateways and many shards in one namespace.
//!
//! | file | has |
//! | --- | --- |
//! | running | the threads of a gateway: some look around, each other one works on a shard |
//! | round | what a gateway does by itself: breaking leases, taking over, handing over |
//! | taking, giving | taking, opening and making shards; giving back, letting go and removing them |
//! | gateway | what a gateway has, and where a shard is |
//! | upkeep | what a gateway does now and then for containers that shards share |
//! | care | what gateways look after together: space, quota, scrubs, shards that no gateway has |
//! | events | what a gateway tells, and asks of the server of its volumes |
//! | open, device, tenure, unsettled | an open shard, its volumes as clients see them, and until when |
//! | domain, place | the root object, and in which cluster of Ceph and pools it must be |
//! | watch | what is seen of other gateways' leases |
//! | lease | the lease of a gateway: when reads are answered, and when it is broken |
//! | shards, names | who has which shard, and which shard has a volume |
//! | records, table | the records of all these, and how they change |
//!
//! # The order of a take-over
//!
//! 1. *See.* The successor sees no change of a lease for [`WAIT`] of its own clock.
//! 2. *Break.* It removes the lease by an update that compares its value. Reads of the former gateway ended
//!    before, and from now on no renewal succeeds.
//! 3. *Take.* It changes the record of each shard of that gateway to its own id, by an update that compares
//!    the record. Living gateways share the shards by a hash; one that does not take its share within some
//!    seconds leaves it to the next.
//! 4. *Open.* It opens the shard: the writers of its files and journal rise, so that the engine refuses every
//!    later write of the former gateway. Everything that was acknowledged is in the journal.
//! 5. *Serve.* Its reads are answered under its own lease.
//!
//! A gateway that gives a shard away completes what clients asked for, ends its tenure, makes a checkpoint,
//! and then says in the record that nobody has the shard.

mod care;
mod device;
mod domain;
mod events;
#[expect(clippy::module_inception, reason = "the file has the type of this name")]
mod gateway;
mod giving;
mod lease;
mod names;
mod open;
mod place;
mod records;
mod round;
mod running;
mod shards;
mod table;
mod taking;
mod tenure;
mod unsettled;
mod upkeep;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::Operation;
use onefold_backend::rados::RadosPool;
use onefold_seal::ObjectId;
use onefold_seal::wire::{Reader, WireError};
use onefold_volume::VolumeError;

pub(crate) use care::respace;
pub use care::{
    Care, Count, Damage, LookedOver, ScrubCycle, ScrubStep, Scrubbing, Stored, wall_clock,
};
pub use device::LeasedDevice;
pub use domain::Domain;
pub use events::{Audience, GatewayEvent};
pub use gateway::{Gateway, Reached, Settings};
pub use lease::{GatewayLease, RENEWAL, VALID, WAIT};
pub use names::Names;
pub use open::{Changing, OpenShard};
pub use place::Place;
pub use records::{About, GatewayRecord, NameRecord, ShardRecord};
pub use running::Running;
pub use shards::{SeenShard, Shards};
pub use tenure::Tenure;

/// What the fuzz target `domain_records` decodes and encodes again: a record of this kind.
pub(crate) fn rerecord(kind: u8, reader: &mut Reader<'_>) -> Result<Bytes, WireError> {
    if reader.u8("the version")? != records::FORMAT {
        return Err(reader.error("version 1"));
    }
    let bytes = match kind % 9 {
        0 => GatewayRecord::read(reader)?.encode(),
        1 => ShardRecord::read(reader)?.encode(),
        2 => NameRecord::read(reader)?.encode(),
        3 => care::QuotaRecord::read(reader)?.encode(),
        4 => care::TurnRecord::read(reader)?.encode(),
        5 => care::UsageRecord::read(reader)?.encode(),
        6 => care::Count::read(reader)?.encode(),
        7 => care::ScrubCycle::read(reader)?.encode(),
        _ => care::Damage::read(reader)?.encode(),
    };
    reader.finish()?;
    Ok(bytes)
}

/// The gateways that have a lease in the domain of `pool`, which may be over. Those of a later version are
/// left out.
///
/// # Errors
/// If a record cannot be read.
pub fn gateways(pool: &Arc<dyn RadosPool>) -> Result<Vec<(ObjectId, GatewayRecord)>, VolumeError> {
    let table = lease::gateways_table(pool);
    let all = table.all().map_err(|error| crate::error::failed(Operation::Read, error))?;
    let mut found = Vec::new();
    for (key, value) in all {
        match records::decode(table.object(), &key, &value, GatewayRecord::read) {
            Err(VolumeError::NewerVersion { .. }) => {}
            record => found.push((records::id_of(table.object(), &key)?, record?)),
        }
    }
    Ok(found)
}

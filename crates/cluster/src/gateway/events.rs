//! What a gateway tells its user, and what it asks of the server of its volumes.

use std::sync::Arc;

use onefold_backend::rados::RadosError;
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::open::OpenShard;

/// What happened to a gateway.
#[derive(Debug)]
#[non_exhaustive]
pub enum GatewayEvent {
    /// Its lease was not renewed; reads are answered until it ends.
    NotRenewed(RadosError),
    /// Another gateway has broken its lease: it has no shard any more, and goes on under a new id.
    Lost,
    /// It goes on under this id.
    Began(ObjectId),
    /// It could not look at the domain, or could not do what it saw is due; it tries again.
    Failed(VolumeError),
    /// It broke the lease of this gateway, which did not renew it.
    Broke {
        /// The id.
        gateway: ObjectId,
        /// The name, if it is known.
        host: String,
    },
    /// It has a shard.
    Took {
        /// The shard.
        shard: ObjectId,
        /// Which had the shard before, if any.
        from: Option<ObjectId>,
        /// The names of its volumes.
        volumes: Vec<String>,
    },
    /// It could not open a shard that it took.
    NotOpened {
        /// The shard.
        shard: ObjectId,
        /// Why.
        error: VolumeError,
    },
    /// It gave a shard away.
    Gave {
        /// The shard.
        shard: ObjectId,
        /// Why no checkpoint was made, if none was: the next gateway reads more then.
        error: Option<VolumeError>,
    },
    /// It has let go of a shard that another gateway has, or that takes no more changes.
    Dropped {
        /// The shard.
        shard: ObjectId,
        /// Why.
        why: String,
    },
    /// It removed a shard without volumes.
    Removed(ObjectId),
}

/// The server of a gateway's volumes.
pub trait Audience: Send + Sync {
    /// Clients may use the volumes of `shard`, in which this is `damage`.
    fn opened(&self, shard: &Arc<OpenShard>, damage: Vec<VolumeError>);

    /// No client may use the volumes of `shard` when this returns; requests in flight are completed.
    fn closing(&self, shard: &Arc<OpenShard>);

    /// Called for each event; must not block.
    fn tell(&self, event: GatewayEvent);
}

/// No server: nobody uses the volumes but the caller.
impl Audience for () {
    fn opened(&self, _: &Arc<OpenShard>, _: Vec<VolumeError>) {}

    fn closing(&self, _: &Arc<OpenShard>) {}

    fn tell(&self, _: GatewayEvent) {}
}

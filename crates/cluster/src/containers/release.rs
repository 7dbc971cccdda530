//! Taking registrations back, and what nobody is registered in any more.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use onefold_backend::rados::{RadosError, RadosPool};
use onefold_seal::ObjectId;

use super::closing::LIVE;
use super::container::Containers;
use super::guard::{Guards, Value};
use crate::hints::ContainerName;

/// Drops this shard's registration by `value` in container `name`, and removes the container if nobody is
/// registered there then. The drop must be announced in a durable batch; once this returns it may be settled.
///
/// # Errors
/// If there is no answer: the caller must do it again.
pub fn release(
    guards: &Guards,
    containers: &Containers,
    name: &ContainerName,
    value: Value,
) -> Result<(), RadosError> {
    guards.drop(name, value)?;
    remove_unused(guards, containers, name).map(drop)
}

/// Removes container `name` if nobody is registered there; whether there was anything to remove.
pub(super) fn remove_unused(
    guards: &Guards,
    containers: &Containers,
    name: &ContainerName,
) -> Result<bool, RadosError> {
    loop {
        match guards.read(name)? {
            Some(guard) if !guard.users.is_empty() => return Ok(false),
            Some(guard) => {
                if guards.remove(name, guard.version)? {
                    return containers.remove(name).map(|()| true);
                }
            }
            // An absent guard alone may be one that a superseded gateway is about to make. It makes the
            // container after the guard, so if that was seen first, the guard was there and is gone.
            None => {
                if containers.look(name)?.is_some() && guards.read(name)?.is_none() {
                    return containers.remove(name).map(|()| true);
                }
                return Ok(false);
            }
        }
    }
}

/// The names of guards and containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Those that have a guard.
    pub guards: BTreeSet<ContainerName>,
    /// Those that have pages.
    pub containers: BTreeSet<ContainerName>,
    /// The shards that said what they use.
    pub tellers: BTreeSet<ObjectId>,
}

/// All guards in `meta` and containers in `data`, which may be the same pool.
///
/// # Errors
/// If a pool refuses it or gives no answer.
pub fn sweep_names(meta: &dyn RadosPool, data: &dyn RadosPool) -> Result<Found, RadosError> {
    let mut found = Found::default();
    // Containers first: of one that is seen here the guard was made before.
    data.list(&mut |object| {
        found.containers.extend(Containers::name_of(object));
        ControlFlow::Continue(())
    })?;
    meta.list(&mut |object| {
        found.guards.extend(Guards::name_of(object));
        let teller = object.strip_suffix(LIVE).and_then(|shard| shard.strip_suffix('.'));
        found.tellers.extend(teller.and_then(|shard| shard.parse::<ObjectId>().ok()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

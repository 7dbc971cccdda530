//! What all containers hold, and who uses it: by what guards, containers and shards say.
//!
//! Nothing that is stored depends on a census. It says what is closed, which shards have to be opened so that
//! space comes back, and what operators are shown.

use std::collections::{BTreeMap, BTreeSet};

use onefold_backend::Operation;
use onefold_backend::rados::RadosError;
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::closing::{Live, live_of};
use super::container::Containers;
use super::guard::{Access, Guards};
use super::release::sweep_names;
use crate::error::failed;
use crate::hints::ContainerName;

/// A container of one shard is worth opening the shard for, if less than this part of it is in use.
const SPARSE: f64 = 0.5;

/// What the containers of a domain hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Census {
    /// How many there are.
    pub containers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of those in which several shards are registered.
    pub shared_bytes: u64,
    /// Bytes of volumes that are no holes, as shards told last.
    pub mapped_bytes: u64,
    /// What shards use.
    pub shards: BTreeMap<ObjectId, ShardSpace>,
    /// Shards that no gateway has, and that must be opened so that these containers can be given back: they are
    /// closing or not sealed, little of them is used, or the shard has not told how much it uses.
    pub waiting: BTreeMap<ObjectId, BTreeSet<ContainerName>>,
    /// The shared containers of which all users told what they use.
    pub(super) candidates: Vec<Candidate>,
}

/// What one shard uses of all containers, as it told last, in stored bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardSpace {
    /// What it uses of containers in which it alone is registered.
    pub unique_bytes: u64,
    /// What it uses of all.
    pub used_bytes: u64,
}

/// A container of which all users told what they use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: ContainerName,
    pub(super) len: u64,
    pub(super) live_bytes: u64,
}

/// Looks at all containers, as long as `go_on` says so: none if it said no. `unserved` are the shards that no
/// gateway has.
///
/// # Errors
/// If a pool of RADOS refuses something or gives no answer, or an object is damaged.
pub(crate) fn take_census(
    guards: &Guards,
    containers: &Containers,
    unserved: &BTreeSet<ObjectId>,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Census>, VolumeError> {
    let refused = |error: RadosError| failed(Operation::Read, error);
    let meta = &*guards.pool;
    let found = sweep_names(meta, &*containers.pool).map_err(refused)?;
    let (mut census, mut told) = (Census::default(), BTreeMap::<ObjectId, Option<Live>>::new());
    for name in found.guards.union(&found.containers) {
        if !go_on() {
            return Ok(None);
        }
        let guard = guards.read(name).map_err(refused)?;
        let look = containers.look(name).map_err(refused)?;
        if let Some(look) = look {
            census.containers += 1;
            census.bytes += look.length;
        }
        let Some(guard) = guard else { continue };
        let (len, is_alone) = (look.map_or(0, |look| look.length), guard.users.len() == 1);
        if guard.users.len() > 1 {
            census.shared_bytes += len;
        }
        let mut live_bytes = Some(0_u64);
        for user in guard.users.keys() {
            if !told.contains_key(user) {
                told.insert(*user, live_of(meta, user)?);
            }
            // one that registered since says nothing of this container yet
            let of = told[user].as_ref().and_then(|live| live.uses.get(name)).copied();
            live_bytes = live_bytes.zip(of).map(|(sum, of)| sum.saturating_add(of));
            let space = census.shards.entry(*user).or_default();
            space.used_bytes += of.unwrap_or(0);
            space.unique_bytes += if is_alone { of.unwrap_or(0) } else { 0 };
            let is_sparse = |of: u64| is_alone && (of as f64) < SPARSE * len as f64;
            // its creator alone can seal it
            let is_unsealed = *user == name.shard && look.is_some_and(|look| look.sealed.is_none());
            if unserved.contains(user)
                && (guard.access != Access::Open || is_unsealed || of.is_none_or(is_sparse))
            {
                census.waiting.entry(*user).or_default().insert(*name);
            }
        }
        let is_own = guard.users.keys().eq([&name.shard]);
        if guard.access != Access::Open || guard.users.is_empty() || is_own {
            continue;
        }
        let is_sealed = look.is_some_and(|look| look.sealed.is_some());
        if let Some(live_bytes) = live_bytes.filter(|_| is_sealed) {
            let live_bytes = live_bytes.min(len);
            census.candidates.push(Candidate { name: *name, len, live_bytes });
        }
    }
    census.mapped_bytes = told.values().flatten().map(|live| live.mapped_bytes).sum();
    Ok(Some(census))
}

//! What a namespace has of guards and containers that it should not have, or lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use onefold_backend::Operation;
use onefold_backend::rados::RadosError;
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::guard::{Access, Value};
use super::release::{remove_unused, sweep_names};
use super::shared::{shared_name, value_of};
use crate::error::failed;
use crate::hints::ContainerName;
use crate::seeded::fault;
use crate::shard::SharedShard;

/// Something that is wrong with a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// A shard is registered that knows nothing of it: its container would stay for ever.
    LeakedRegistration {
        /// The container.
        container: ContainerName,
        /// The shard.
        shard: ObjectId,
        /// By what it is registered.
        value: Value,
    },
    /// A shard is registered that does not exist.
    NoShard {
        /// The container.
        container: ContainerName,
        /// The shard.
        shard: ObjectId,
        /// By what it is registered.
        value: Value,
    },
    /// Nobody is registered in it.
    Unused {
        /// The container.
        container: ContainerName,
    },
    /// Its pages are gone, though shards are registered: what they map of it is lost.
    Missing {
        /// The container.
        container: ContainerName,
    },
    /// A shard counts as registered by what its journal says, and the guard has not that registration: its
    /// pages may go at any time.
    Unprotected {
        /// The container.
        container: ContainerName,
        /// The shard.
        shard: ObjectId,
    },
}

impl Problem {
    /// Whether a repair takes it away, and nothing is lost.
    pub fn is_leak(&self) -> bool {
        !matches!(self, Self::Missing { .. } | Self::Unprotected { .. })
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shared_name(self).fmt(f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeakedRegistration { container, shard, value } => write!(
                f,
                "{container}: shard {shard} is registered by {value}, which its journal does not know"
            ),
            Self::NoShard { container, shard, value } => write!(
                f,
                "{container}: shard {shard}, which does not exist, is registered by {value}"
            ),
            Self::Unused { container } => write!(f, "{container}: no shard needs it"),
            Self::Missing { container } => {
                write!(f, "{container}: its pages are gone, and shards are registered there")
            }
            Self::Unprotected { container, shard } => write!(
                f,
                "{container}: shard {shard} needs it and is not registered, so that it may go"
            ),
        }
    }
}

/// What a check of a namespace found.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// Containers that were looked at.
    pub containers: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// Registrations of shards that were not asked: whether they are leaked is not known.
    pub unasked: u64,
    /// Problems that were repaired.
    pub repaired: u64,
}

/// Looks at all guards and containers. Only the gateway that has a shard open can tell which of its
/// registrations are leaked, so `served` are those that are open here; they learn which of their containers are
/// closing. With `repair`, leaks are taken away, which is safe while others serve the namespace.
///
/// # Errors
/// If a pool of RADOS refuses something or gives no answer. What was repaired until then is.
pub fn fsck(served: &[&SharedShard], repair: bool) -> Result<Checked, VolumeError> {
    let refused = |error: RadosError| failed(Operation::Read, error);
    let Some(first) = served.first() else { return Ok(Checked::default()) };
    let containers = first.containers();
    let (guards, data) = (&containers.guards, &containers.containers);
    let own: BTreeMap<ObjectId, &SharedShard> = served.iter().map(|one| (one.id(), *one)).collect();
    let mut checked = Checked::default();
    let mut heads = BTreeMap::new();
    // what journals say is asked before the guards are read, and again where one seems not to be protected
    let mut unprotected = BTreeSet::new();
    for shard in served {
        for one in shard.pool().uses().into_iter().filter(|one| one.is_registered) {
            let name = super::shared::name_of(&one.container);
            let guard = guards.read(&name).map_err(refused)?;
            let found = guard.and_then(|guard| guard.users.get(&shard.id()).copied());
            let now = shard.pool().use_of(&one.container).filter(|now| now.is_registered);
            let is_same = now.is_some_and(|now| now.registered == one.registered);
            if is_same && found != Some(value_of(one.registered)) {
                unprotected.insert((name, shard.id()));
            }
        }
    }
    let found = sweep_names(&*guards.pool, &*data.pool).map_err(refused)?;
    for name in found.guards.union(&found.containers) {
        checked.containers += 1;
        let Some(guard) = guards.read(name).map_err(refused)? else {
            // in that order, as one whose guard is about to be made has no pages yet
            let is_left = data.look(name).map_err(refused)?.is_some()
                && guards.read(name).map_err(refused)?.is_none();
            checked.problems.extend(is_left.then_some(Problem::Unused { container: *name }));
            continue;
        };
        let (mut leaked, container) = (0, *name);
        for (&shard, &value) in &guard.users {
            let problem = match own.get(&shard) {
                Some(open) => {
                    let known = open.pool().use_of(&shared_name(name));
                    let is_known = known.is_some_and(|one| value_of(one.registered) == value);
                    let is_later = value.writer > open.pool().writer().0;
                    if !is_known && is_later && !fault!(SuccessorTakenForLeak) {
                        // another gateway has the shard by now, and knows it
                        checked.unasked += 1;
                        continue;
                    }
                    if is_known && guard.access == Access::Closing {
                        open.pool().note_closing(&shared_name(name));
                    }
                    (!is_known).then_some(Problem::LeakedRegistration { container, shard, value })
                }
                None if containers.has_head(&shard, &mut heads).map_err(refused)? => {
                    checked.unasked += 1;
                    None
                }
                None => Some(Problem::NoShard { container, shard, value }),
            };
            leaked += usize::from(problem.is_some());
            checked.problems.extend(problem);
        }
        if guard.users.is_empty() {
            checked.problems.push(Problem::Unused { container });
        } else if leaked < guard.users.len()
            && guard.access != Access::New
            && data.look(name).map_err(refused)?.is_none()
            && guards.read(name).map_err(refused)?.is_some_and(|now| now.version == guard.version)
            && is_needed(&own, name)
        {
            checked.problems.push(Problem::Missing { container });
        }
    }
    let unprotected = unprotected.into_iter();
    checked
        .problems
        .extend(unprotected.map(|(container, shard)| Problem::Unprotected { container, shard }));
    if repair {
        for problem in checked.problems.iter().filter(|problem| problem.is_leak()) {
            let repaired = match *problem {
                Problem::LeakedRegistration { container, shard, value }
                | Problem::NoShard { container, shard, value } => guards
                    .drop_of(&container, shard, value)
                    .and_then(|()| remove_unused(guards, data, &container)),
                Problem::Unused { container } => remove_unused(guards, data, &container),
                Problem::Missing { .. } | Problem::Unprotected { .. } => continue,
            };
            repaired.map_err(|error| failed(Operation::Delete, error))?;
            checked.repaired += 1;
        }
    }
    Ok(checked)
}

/// Whether one of these shards counts as registered in container `name`.
fn is_needed(own: &BTreeMap<ObjectId, &SharedShard>, name: &ContainerName) -> bool {
    let uses = own.values().filter_map(|shard| shard.pool().use_of(&shared_name(name)));
    uses.into_iter().any(|one| one.is_registered)
}

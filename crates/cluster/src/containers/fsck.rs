//! What a namespace has of guards and containers that it should not have, or lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use onefold_backend::Operation;
use onefold_backend::rados::{RadosError, RadosPool};
use onefold_seal::ObjectId;
use onefold_volume::VolumeError;

use super::container::Containers;
use super::guard::{Access, Guard, Guards, Value};
use super::release::{remove_unused, sweep_names};
use super::shared::{name_of, shared_name, value_of};
use super::sweep::has_head;
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
    /// The shard whose gateway alone can tell that, if so.
    pub fn told_by(&self) -> Option<ObjectId> {
        match self {
            Self::LeakedRegistration { shard, .. } | Self::Unprotected { shard, .. } => {
                Some(*shard)
            }
            Self::NoShard { .. } | Self::Unused { .. } | Self::Missing { .. } => None,
        }
    }

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
    /// What is wrong, or was until it was repaired.
    pub problems: Vec<Problem>,
    /// Registrations of shards that were not asked: whether they are leaked is not known.
    pub unasked: u64,
    /// Problems that were repaired.
    pub repaired: u64,
    /// Whether the caller stopped the check.
    pub is_stopped: bool,
}

/// Checks the namespace of these shards as [`fsck_while`] does, to its end.
///
/// # Errors
/// As [`fsck_while`].
pub fn fsck(served: &[&SharedShard], repair: bool) -> Result<Checked, VolumeError> {
    let Some(first) = served.first() else { return Ok(Checked::default()) };
    let containers = first.containers();
    let (meta, data) = (&containers.guards.pool, &containers.containers.pool);
    fsck_while(meta, data, served, repair, &|| true)
}

/// Looks at all guards in `meta` and containers in `data`, as long as `go_on` says so. Only the gateway that has a
/// shard open can tell which of its registrations are leaked, so `served` are those that are open here; they learn
/// which of their containers are closing. With `repair`, leaks are taken away, which is safe while others serve the
/// namespace. A leak is reported only if it is still there at a second look.
///
/// # Errors
/// If a pool of RADOS refuses something or gives no answer. What was repaired until then is.
pub fn fsck_while(
    meta: &Arc<dyn RadosPool>,
    data: &Arc<dyn RadosPool>,
    served: &[&SharedShard],
    repair: bool,
    go_on: &dyn Fn() -> bool,
) -> Result<Checked, VolumeError> {
    fsck_in(meta, Containers::new(Arc::clone(data)), served, repair, go_on)
}

/// The same of these containers.
pub(crate) fn fsck_in(
    meta: &Arc<dyn RadosPool>,
    containers: Containers,
    served: &[&SharedShard],
    repair: bool,
    go_on: &dyn Fn() -> bool,
) -> Result<Checked, VolumeError> {
    let fsck = Fsck {
        // as no shard: nothing is registered
        guards: Guards::new(Arc::clone(meta), ObjectId::random()),
        containers,
        own: served.iter().map(|one| (one.id(), *one)).collect(),
    };
    let mut checked = Checked::default();
    fsck.check(&mut checked, go_on).map_err(|error| failed(Operation::Read, error))?;
    if repair {
        fsck.repair(&mut checked, go_on).map_err(|error| failed(Operation::Delete, error))?;
    }
    checked.is_stopped = !go_on();
    Ok(checked)
}

/// A check of a namespace.
struct Fsck<'a> {
    guards: Guards,
    containers: Containers,
    /// The shards that are open here.
    own: BTreeMap<ObjectId, &'a SharedShard>,
}

impl Fsck<'_> {
    fn check(&self, checked: &mut Checked, go_on: &dyn Fn() -> bool) -> Result<(), RadosError> {
        // what journals say is asked before the guards are read, and again where one seems not to be protected
        let unprotected = self.unprotected(go_on)?;
        let found = sweep_names(&*self.guards.pool, &*self.containers.pool)?;
        let (mut heads, mut seen) = (BTreeMap::new(), Vec::new());
        for name in found.guards.union(&found.containers) {
            if !go_on() {
                return Ok(());
            }
            checked.containers += 1;
            match self.guards.read(name)? {
                Some(guard) => self.check_guard(name, &guard, &mut heads, checked, &mut seen)?,
                None => seen.push(Problem::Unused { container: *name }),
            }
        }
        for problem in seen {
            if self.is_still(&problem)? {
                checked.problems.push(problem);
            }
        }
        let unprotected = unprotected.into_iter();
        checked.problems.extend(
            unprotected.map(|(container, shard)| Problem::Unprotected { container, shard }),
        );
        Ok(())
    }

    /// Containers in which shards count as registered and are not.
    fn unprotected(
        &self,
        go_on: &dyn Fn() -> bool,
    ) -> Result<BTreeSet<(ContainerName, ObjectId)>, RadosError> {
        let mut unprotected = BTreeSet::new();
        for (id, shard) in &self.own {
            for one in shard.pool().uses().into_iter().filter(|one| one.is_registered) {
                if !go_on() {
                    return Ok(unprotected);
                }
                let name = name_of(&one.container);
                let guard = self.guards.read(&name)?;
                let found = guard.and_then(|guard| guard.users.get(id).copied());
                let now = shard.pool().use_of(&one.container).filter(|now| now.is_registered);
                let is_same = now.is_some_and(|now| now.registered == one.registered);
                let is_later = found.is_some_and(|found| found.writer > shard.pool().writer().0);
                if is_same && !is_later && found != Some(value_of(one.registered)) {
                    // so that its pages are moved, and no block maps more of them
                    shard.pool().note_closing(&one.container);
                    unprotected.insert((name, *id));
                }
            }
        }
        Ok(unprotected)
    }

    fn check_guard(
        &self,
        name: &ContainerName,
        guard: &Guard,
        heads: &mut BTreeMap<ObjectId, bool>,
        checked: &mut Checked,
        seen: &mut Vec<Problem>,
    ) -> Result<(), RadosError> {
        let (mut leaked, container) = (0, *name);
        for (&shard, &value) in &guard.users {
            let problem = match self.own.get(&shard) {
                Some(open) if self.is_superseded(open, name, value) => {
                    checked.unasked += 1;
                    None
                }
                Some(open) => {
                    let is_known = is_known(open, name, value);
                    if is_known && guard.access == Access::Closing {
                        open.pool().note_closing(&shared_name(name));
                    }
                    (!is_known).then_some(Problem::LeakedRegistration { container, shard, value })
                }
                None if has_head(&*self.guards.pool, &shard, heads)? => {
                    checked.unasked += 1;
                    None
                }
                None => Some(Problem::NoShard { container, shard, value }),
            };
            leaked += usize::from(problem.is_some());
            seen.extend(problem);
        }
        if guard.users.is_empty() {
            seen.push(Problem::Unused { container });
        } else if leaked < guard.users.len()
            && guard.access != Access::New
            && self.containers.look(name)?.is_none()
            && self.guards.read(name)?.is_some_and(|now| now.version == guard.version)
            && self.is_needed(name)
        {
            checked.problems.push(Problem::Missing { container });
        }
        Ok(())
    }

    /// Whether a later writer of a shard that is open here registered by `value`: another gateway has the shard
    /// then, and knows registrations of which this one never hears.
    fn is_superseded(&self, open: &SharedShard, name: &ContainerName, value: Value) -> bool {
        !fault!(SuccessorTakenForLeak)
            && value.writer > open.pool().writer().0
            && !is_known(open, name, value)
    }

    /// Whether one of the shards counts as registered in container `name`.
    fn is_needed(&self, name: &ContainerName) -> bool {
        let uses = self.own.values().filter_map(|shard| shard.pool().use_of(&shared_name(name)));
        uses.into_iter().any(|one| one.is_registered)
    }

    /// Whether a leak is still there: what was being dropped or removed is gone by now.
    fn is_still(&self, problem: &Problem) -> Result<bool, RadosError> {
        let has = |container, shard, value| {
            let guard = self.guards.read(container)?;
            Ok(guard.is_some_and(|guard| guard.users.get(shard) == Some(value)))
        };
        match problem {
            Problem::LeakedRegistration { container, shard, value } => {
                let open = self.own.get(shard);
                Ok(has(container, shard, value)?
                    && open.is_none_or(|open| !is_known(open, container, *value)))
            }
            Problem::NoShard { container, shard, value } => has(container, shard, value),
            Problem::Unused { container } => match self.guards.read(container)? {
                Some(guard) => Ok(guard.users.is_empty()),
                // in that order, as one whose guard is about to be made has no pages yet
                None => Ok(self.containers.look(container)?.is_some()
                    && self.guards.read(container)?.is_none()),
            },
            Problem::Missing { .. } | Problem::Unprotected { .. } => Ok(true),
        }
    }

    fn repair(&self, checked: &mut Checked, go_on: &dyn Fn() -> bool) -> Result<(), RadosError> {
        for problem in checked.problems.iter().filter(|problem| problem.is_leak()) {
            if !go_on() {
                return Ok(());
            }
            let (container, registered) = match *problem {
                Problem::LeakedRegistration { container, shard, value }
                | Problem::NoShard { container, shard, value } => (container, Some((shard, value))),
                Problem::Unused { container } => (container, None),
                Problem::Missing { .. } | Problem::Unprotected { .. } => continue,
            };
            if let Some((shard, value)) = registered {
                self.guards.drop_of(&container, shard, value)?;
            }
            remove_unused(&self.guards, &self.containers, &container)?;
            checked.repaired += 1;
        }
        Ok(())
    }
}

/// Whether the journal of `open` knows its registration by `value` in container `name`.
fn is_known(open: &SharedShard, name: &ContainerName, value: Value) -> bool {
    let known = open.pool().use_of(&shared_name(name));
    known.is_some_and(|one| value_of(one.registered) == value)
}

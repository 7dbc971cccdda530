//! Which gateway scrubs which container.
//!
//! A cycle goes over all containers in the order of their names. Its record has how far it went, and which gateway
//! has begun which container. A gateway takes the next container by a guarded change of the record, and says by
//! another one that it has read it. So each container is read by one gateway in a cycle. What a gateway began whose
//! lease is over, another one begins again. A cycle ends when nothing is left and nothing is being read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use onefold_backend::Operation;
use onefold_backend::rados::{RadosError, Refusal};
use onefold_volume::{Scrubbed, ScrubbedContainer, VolumeError, scrub_shared};

use super::records::{Damage, ScrubCycle};
use super::{Care, is_due};
use crate::containers::{Containers, name_of, shared_name};
use crate::error::failed;
use crate::gateway::gateway::Gateway;
use crate::hints::ContainerName;
use crate::seeded::fault;

const SCRUB: &str = "scrub";
/// Containers that are being read at most.
const MOST_IN_FLIGHT: usize = 1024;

/// What came of reading a container.
enum Looked {
    Gone,
    /// Not sealed yet: its directory, by which pages are found, is missing.
    Unsealed,
    Read(ScrubbedContainer),
}

impl Looked {
    fn into_read(self) -> Option<ScrubbedContainer> {
        match self {
            Self::Read(found) => Some(found),
            Self::Gone | Self::Unsealed => None,
        }
    }
}

/// What a gateway remembers between two steps: the containers of the cycle.
#[derive(Debug, Default)]
pub struct Scrubbing {
    cycle: u64,
    names: Vec<ContainerName>,
}

/// What a step of scrubbing did.
#[derive(Debug)]
pub enum ScrubStep {
    /// Nothing: no cycle is due.
    Idle,
    /// Nothing: other gateways read what is left of the cycle, or the lease of this one is over.
    Waiting,
    /// A container was read, or was gone, or was not sealed yet.
    Scrubbed {
        /// The cycle.
        cycle: u64,
        /// The container.
        container: ContainerName,
        /// What was found, if it was read.
        found: Option<ScrubbedContainer>,
        /// Whether it counts: false if another gateway began it again meanwhile, or it was stopped.
        counts: bool,
    },
    /// The cycle ended.
    Ended(ScrubCycle),
}

impl Care {
    /// The scrub cycle that runs or that ran last, if there was one.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn scrub_cycle(&self) -> Result<Option<ScrubCycle>, VolumeError> {
        Ok(self.find(SCRUB, ScrubCycle::read)?.map(|(cycle, _)| cycle))
    }
}

impl Gateway {
    /// Reads one container if one is left in the cycle that runs; begins a cycle if none runs and the last one began
    /// `every` before `now`, in milliseconds since 1970. `go_on` is asked before each read and hears of how many
    /// bytes: it may wait, so that scrubs leave the disks to others.
    ///
    /// # Errors
    /// If a pool of RADOS refuses something or gives no answer. What was begun is begun again by the next step.
    pub fn scrub_step(
        &self,
        scrubbing: &mut Scrubbing,
        (now, every): (u64, Duration),
        go_on: &dyn Fn(u64) -> bool,
    ) -> Result<ScrubStep, VolumeError> {
        let (care, own) = (self.care(), self.lease());
        loop {
            if !own.is_valid() {
                return Ok(ScrubStep::Waiting);
            }
            let found = care.find(SCRUB, ScrubCycle::read)?;
            let (cycle, value) =
                found.map_or_else(Default::default, |(cycle, value)| (cycle, Some(value)));
            let change = |next: ScrubCycle| {
                care.change(SCRUB, value.as_ref(), Some(next.with_token().encode()))
            };
            if !cycle.is_running {
                if value.is_some() && !is_due(cycle.begun, every, now) {
                    return Ok(ScrubStep::Idle);
                }
                change(ScrubCycle {
                    cycle: cycle.cycle + 1,
                    begun: now,
                    ended: cycle.ended,
                    is_running: true,
                    ..ScrubCycle::default()
                })?;
                continue;
            }
            if scrubbing.cycle != cycle.cycle {
                // all that were sealed before the cycle began are there
                scrubbing.names = all_names(&self.containers())?;
                scrubbing.cycle = cycle.cycle;
            }
            let Some(next) = self.next(scrubbing, &cycle) else {
                if !cycle.in_flight.is_empty() {
                    return Ok(ScrubStep::Waiting);
                }
                let ended = ScrubCycle { is_running: false, ended: now, cursor: None, ..cycle };
                if change(ended.clone())? {
                    return Ok(ScrubStep::Ended(ended));
                }
                continue;
            };
            if cycle.in_flight.len() >= MOST_IN_FLIGHT && cycle.cursor < Some(next) {
                return Ok(ScrubStep::Waiting);
            }
            let mut begun = ScrubCycle { cursor: cycle.cursor.max(Some(next)), ..cycle };
            begun.in_flight.retain(|(_, container)| *container != next);
            begun.in_flight.push((own.id(), next));
            let number = begun.cycle;
            if change(begun)? {
                return self.scrub(&care, number, next, now, go_on);
            }
        }
    }

    /// What is to be read next: what this gateway began, or one whose lease is over, or what no gateway began.
    fn next(&self, scrubbing: &Scrubbing, cycle: &ScrubCycle) -> Option<ContainerName> {
        let own = self.lease().id();
        let is_left = |gateway| gateway == own || !self.has_lease(gateway) || fault!(ScrubbedTwice);
        let left = cycle.in_flight.iter().find(|(gateway, _)| is_left(*gateway));
        left.map(|(_, container)| *container).or_else(|| {
            let from = cycle
                .cursor
                .map_or(0, |cursor| scrubbing.names.partition_point(|name| *name <= cursor));
            scrubbing.names.get(from).copied()
        })
    }

    /// Reads container `name`, which this gateway has begun in `cycle`, and says that it has.
    fn scrub(
        &self,
        care: &Care,
        number: u64,
        name: ContainerName,
        now: u64,
        go_on: &dyn Fn(u64) -> bool,
    ) -> Result<ScrubStep, VolumeError> {
        let step =
            |found, counts| ScrubStep::Scrubbed { cycle: number, container: name, found, counts };
        let looked = match self.read_all(&name, go_on)? {
            Some(looked) => looked,
            None => return Ok(step(None, false)),
        };
        // noted before it counts: a gateway that dies in between is followed by one that notes it again
        let is_bad = matches!(&looked, Looked::Read(found) if found.bad > 0);
        let is_damaged = if fault!(DamageNotedLate) {
            is_bad
        } else {
            self.note_looked(care, &name, &looked, now)?
        };
        let is_read = matches!(looked, Looked::Read(_));
        let own = self.lease().id();
        loop {
            let Some((cycle, value)) = care.find(SCRUB, ScrubCycle::read)? else {
                return Ok(step(looked.into_read(), false));
            };
            if cycle.cycle != number || !cycle.in_flight.contains(&(own, name)) {
                return Ok(step(looked.into_read(), false));
            }
            let mut done = ScrubCycle {
                containers: cycle.containers + u64::from(is_read),
                damaged: cycle.damaged + u64::from(is_damaged),
                ..cycle
            };
            done.in_flight.retain(|claim| *claim != (own, name));
            if care.change(SCRUB, Some(&value), Some(done.with_token().encode()))? {
                fault!(DamageNotedLate => self.note_looked(care, &name, &looked, now)?);
                return Ok(step(looked.into_read(), true));
            }
        }
    }

    /// Notes the damage of container `name` that was found in it, or that there is none; whether there is. What was
    /// noted of one that is not sealed stays.
    fn note_looked(
        &self,
        care: &Care,
        name: &ContainerName,
        looked: &Looked,
        now: u64,
    ) -> Result<bool, VolumeError> {
        let damage = match looked {
            Looked::Unsealed => return Ok(false),
            Looked::Read(found) if found.bad > 0 => {
                Some(Damage::new(now, found.bad, found.problem.as_deref().unwrap_or_default()))
            }
            Looked::Read(_) | Looked::Gone => None,
        };
        if damage.is_some() {
            // a shard that registers there verifies pages by the directory alone
            self.guards().close(name).map_err(|error| failed(Operation::Write, error))?;
        }
        care.note_damage(name, damage.as_ref())?;
        Ok(damage.is_some())
    }

    /// Tells the other users of containers what a scrub of one shard found, by the records of
    /// [`scrub_step`](Self::scrub_step): each container with a bad page is read as a whole, at `now` in milliseconds
    /// since 1970, as long as `go_on` says so. Of one that is not sealed yet, what the scrub found is noted. Returns
    /// how many are damaged.
    ///
    /// # Errors
    /// If a pool of RADOS refuses something or gives no answer. What was noted until then is.
    pub fn note_scrubbed(
        &self,
        scrubbed: &Scrubbed,
        now: u64,
        go_on: &dyn Fn(u64) -> bool,
    ) -> Result<u64, VolumeError> {
        let mut bad: BTreeMap<ContainerName, ScrubbedContainer> = BTreeMap::new();
        for page in &scrubbed.bad {
            let Some(shared) = &page.shared else { continue };
            let found = bad.entry(name_of(shared)).or_default();
            found.bad += 1;
            found.problem.get_or_insert_with(|| page.problem.clone());
        }
        let (care, mut damaged) = (self.care(), 0);
        for (name, found) in bad {
            let looked = match self.read_all(&name, go_on)? {
                Some(Looked::Unsealed) => Looked::Read(found),
                Some(looked) => looked,
                None => break,
            };
            damaged += u64::from(self.note_looked(&care, &name, &looked, now)?);
        }
        Ok(damaged)
    }

    /// What is wrong with container `name`; none if `go_on` said no.
    fn read_all(
        &self,
        name: &ContainerName,
        go_on: &dyn Fn(u64) -> bool,
    ) -> Result<Option<Looked>, VolumeError> {
        let (containers, refused) = (self.containers(), RefCell::new(None));
        let damaged = |problem: String| {
            Ok(Some(Looked::Read(ScrubbedContainer { pages: 0, bad: 1, problem: Some(problem) })))
        };
        let look = match containers.look(name) {
            Ok(None) => return Ok(Some(Looked::Gone)),
            Ok(Some(look)) if look.sealed.is_none() => return Ok(Some(Looked::Unsealed)),
            Ok(Some(look)) => look,
            Err(error) if error.refusal() == Some(Refusal::Damaged) => {
                return damaged("its attributes are not those of a container".to_owned());
            }
            Err(error) => return Err(failed(Operation::Read, error)),
        };
        let read = |range: Range<u64>| {
            let len = (range.end - range.start) as usize;
            let error = match containers.read(name, range) {
                Ok(Some(bytes)) if bytes.len() == len => return Ok(bytes.to_vec()),
                Ok(Some(_)) => containers.refused(name, Refusal::Damaged),
                Ok(None) => containers.refused(name, Refusal::Absent),
                Err(error) => error,
            };
            *refused.borrow_mut() = error.refusal();
            Err(containers.backend(name, Operation::Read, error))
        };
        match scrub_shared(shared_name(name), self.domain.hash, look.length, &read, go_on) {
            Ok(found) => Ok(found.map(Looked::Read)),
            Err(error) => match refused.into_inner() {
                // it went meanwhile
                Some(Refusal::Absent) => Ok(Some(Looked::Gone)),
                Some(Refusal::Damaged) => damaged(format!("it cannot be read: {error}")),
                // what else is wrong says nothing of the container
                _ => Err(error.into()),
            },
        }
    }
}

/// All containers, in the order of their names.
fn all_names(containers: &Containers) -> Result<Vec<ContainerName>, VolumeError> {
    let listed = |error: RadosError| failed(Operation::List, error);
    let mut names = Vec::new();
    let mut each = |object: &str| {
        names.extend(Containers::name_of(object));
        ControlFlow::Continue(())
    };
    containers.list(&mut each).map_err(listed)?;
    names.sort_unstable();
    Ok(names)
}

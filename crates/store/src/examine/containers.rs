//! Containers, and the index at rest held against them.

use std::collections::{BTreeMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use onefold_backend::{ObjectInfo, Request, Span};
use onefold_container::{ContainerError, Content, Directory, container_id, container_name};
use onefold_fingerprint::Fingerprint;
use onefold_index::{IndexError, MAX_RUN_ENTRIES, Run, run_id, run_name};
use onefold_seal::ObjectId;

use super::{Check, Reading};
use crate::chunks::place::listed;
use crate::objects::read::{or_end, until_error};
use crate::threads::{cores, each};
use crate::{Place, Progress, Repository, StoreError};

/// No container that a writer makes is longer; memory is taken for as much at once.
const MAX_READ_WHOLE: u64 = 128 << 20;

/// About how many entries the runs have, at most, that are held together. The footers of all containers
/// that they cover are read together.
const MAX_HELD: usize = MAX_RUN_ENTRIES;

/// How many chunks of missing containers are remembered, at most, to report where they were.
const MAX_GONE: usize = 1 << 16;

/// A run, and what is wrong with it.
struct Held {
    id: ObjectId,
    run: Run,
    wrong: Vec<String>,
}

/// A container's size in bytes and its id.
type Sized = (ObjectId, u64);

/// Takes what was read of a container's footer.
type TakeFooter<'a, C> =
    dyn FnMut(&mut C, Sized, Result<Directory, ContainerError>) -> Result<(), StoreError> + 'a;

impl Check<'_> {
    /// Takes note of the containers that are there.
    pub(super) fn list(&mut self, infos: &[ObjectInfo]) {
        for info in infos {
            match container_id(&info.name) {
                Some(id) => drop(self.there.insert(id, info.size)),
                None => self.note(format!("{} is no container and was not read", info.name)),
            }
        }
        let total = self.there.values().sum();
        self.progress.total_bytes.store(total, Ordering::Relaxed);
    }

    /// Holds the index at rest against the containers.
    pub(super) fn runs(&mut self, infos: &[ObjectInfo]) -> Result<(), StoreError> {
        let ids = self.named(infos, run_id, "index run");
        let (mut held, mut covered) = (Vec::new(), HashSet::new());
        let Repository { objects, envelope, .. } = self.repository;
        until_error(|failed| {
            Run::read_many(&**objects, envelope, &ids, &mut |at, run| {
                or_end(self.run(ids[at], run, &mut held, &mut covered), failed)
            })
        })?;
        self.compare(held, &mut covered)?;
        let is_left =
            |(id, _): &(&ObjectId, &u64)| !self.sound.contains(id) && !self.is_damaged(**id);
        let left: Vec<Sized> =
            self.there.iter().filter(is_left).map(|(id, size)| (*id, *size)).collect();
        self.containers(&left, &mut |_, _| {})?;
        let is_uncovered =
            |(id, _): &(&ObjectId, &u64)| !covered.contains(*id) && self.sound.contains(id);
        self.found.uncovered =
            self.there.iter().filter(is_uncovered).map(|(id, size)| (*id, *size)).collect();
        let uncovered = self.found.uncovered.len();
        if uncovered > 0 {
            self.note(format!(
                "{uncovered} containers are in no index run, as a backup that is running or was \
                 cut off leaves them; their footers are read instead"
            ));
        }
        Ok(())
    }

    /// Holds a run that came until there are enough.
    fn run(
        &mut self,
        id: ObjectId,
        run: Result<Run, IndexError>,
        held: &mut Vec<Held>,
        covered: &mut HashSet<ObjectId>,
    ) -> Result<(), StoreError> {
        self.cancel.check()?;
        let run = run.map_err(StoreError::from);
        // A prune has put another in its place since it was listed; it is gone for good.
        if run.as_ref().is_err_and(StoreError::is_not_found) {
            return Ok(());
        }
        self.found.report.runs += 1;
        match run {
            Ok(run) => held.push(Held { id, run, wrong: Vec::new() }),
            Err(error) => {
                let problem = self.problem(error)?;
                self.find(run_name(id), problem);
                self.found.bad_runs.push(id);
            }
        }
        let entries: usize = held.iter().map(|held| held.run.entries.len()).sum();
        match entries > MAX_HELD {
            true => self.compare(std::mem::take(held), covered),
            false => Ok(()),
        }
    }

    /// Notes which containers the runs that are right cover, and what is wrong with the others.
    fn compare(
        &mut self,
        mut held: Vec<Held>,
        covered: &mut HashSet<ObjectId>,
    ) -> Result<(), StoreError> {
        let said = self.by_container(&mut held);
        let wanted: Vec<Sized> = said
            .keys()
            .filter(|id| !self.is_damaged(**id))
            .map(|id| (*id, self.there[id]))
            .collect();
        self.containers(&wanted, &mut |id, directory| {
            for (number, entries) in &said[&id] {
                let Held { run, wrong, .. } = &mut held[*number];
                compare(directory, entries.iter().map(|at| &run.entries[*at as usize]), wrong);
            }
        })?;
        for Held { id, run, wrong } in held {
            if wrong.is_empty() {
                covered.extend(run.covers);
                continue;
            }
            wrong.into_iter().for_each(|problem| self.find(run_name(id), problem));
            self.found.bad_runs.push(id);
        }
        Ok(())
    }

    /// Which runs list chunks of each container that is there, and in which of their entries.
    fn by_container(&mut self, held: &mut [Held]) -> BTreeMap<ObjectId, Vec<(usize, Vec<u32>)>> {
        let mut said = BTreeMap::<_, Vec<_>>::new();
        for (number, Held { run, wrong, .. }) in held.iter_mut().enumerate() {
            let mut by_container = vec![Vec::new(); run.covers.len()];
            for (at, (fingerprint, place)) in (0u32..).zip(&run.entries) {
                match by_container.get_mut(place.container as usize) {
                    Some(entries) => entries.push(at),
                    None => wrong
                        .push(format!("chunk {fingerprint} is in container {}", place.container)),
                }
            }
            for (id, entries) in run.covers.iter().zip(by_container) {
                if self.there.contains_key(id) {
                    said.entry(*id).or_default().push((number, entries));
                    continue;
                }
                // A prune deletes containers and leaves runs that cover others as well.
                let room = MAX_GONE.saturating_sub(self.gone.len());
                let chunks = entries.iter().map(|at| run.entries[*at as usize].0);
                self.gone.extend(chunks.take(room).map(|fingerprint| (fingerprint, *id)));
            }
        }
        said
    }

    fn is_damaged(&self, id: ObjectId) -> bool {
        self.found.damaged.iter().any(|(damaged, _)| *damaged == id)
    }

    /// Reads containers, or their footers, and gives to `take` what each lists, if that can be read.
    /// They are checked when they are first asked for.
    fn containers(
        &mut self,
        wanted: &[Sized],
        take: &mut dyn FnMut(ObjectId, &Directory),
    ) -> Result<(), StoreError> {
        let (known, new): (Vec<Sized>, Vec<Sized>) =
            wanted.iter().partition(|(id, _)| self.sound.contains(id));
        let (picked, others): (Vec<Sized>, Vec<Sized>) =
            new.into_iter().partition(|_| is_picked(self.reading));
        let (whole, long): (Vec<Sized>, Vec<Sized>) =
            picked.into_iter().partition(|(_, size)| *size <= MAX_READ_WHOLE);
        self.footers(&known, &mut |_, (id, _), read| match read.map_err(StoreError::from) {
            Err(error) if error.is_unreachable() => Err(error),
            read => {
                read.iter().for_each(|directory| take(id, directory));
                Ok(())
            }
        })?;
        self.footers(&others, &mut |check, container, read| {
            check.container(container, read.map_err(StoreError::from), &HashSet::new(), take)
        })?;
        self.footers(&long, &mut |check, container, read| {
            let mut bad_groups = HashSet::new();
            if let Ok(directory) = &read {
                check.groups(directory, &mut bad_groups)?;
                check.found.report.read_bytes += container.1;
            }
            check.container(container, read.map_err(StoreError::from), &bad_groups, take)
        })?;
        self.whole_containers(&whole, take)
    }

    /// Reads the footers of `containers`, many at a time.
    fn footers(
        &mut self,
        containers: &[Sized],
        take: &mut TakeFooter<'_, Self>,
    ) -> Result<(), StoreError> {
        let Repository { objects, envelope, .. } = self.repository;
        until_error(|failed| {
            Directory::read_many(&**objects, envelope, containers, &mut |at, read| {
                let read = read.map(|(directory, _)| directory);
                let taken = self.cancel.check().and_then(|()| take(self, containers[at], read));
                or_end(taken, failed)
            })
        })
    }

    /// Reads whole containers, many at a time, and verifies each of their chunks.
    fn whole_containers(
        &mut self,
        containers: &[Sized],
        take: &mut dyn FnMut(ObjectId, &Directory),
    ) -> Result<(), StoreError> {
        // With its length it is known how many of them there is room for.
        let request =
            |(id, size): &Sized| Request { name: container_name(*id), span: Span::Range(0..*size) };
        let objects = &self.repository.objects;
        until_error(|failed| {
            objects.get_many(&mut containers.iter().map(request), &mut |at, answer| {
                let (id, _) = containers[at];
                let object = answer
                    .map_err(|source| ContainerError::Backend { container: id, source }.into());
                let taken = self.cancel.check().and_then(|()| {
                    let mut bad_groups = HashSet::new();
                    let read = object.and_then(|object| self.whole(id, &object, &mut bad_groups));
                    self.container(containers[at], read, &bad_groups, take)
                });
                or_end(taken, failed)
            })
        })
    }

    /// Verifies each chunk of the whole container `object`.
    fn whole(
        &mut self,
        id: ObjectId,
        object: &Bytes,
        bad_groups: &mut HashSet<u32>,
    ) -> Result<Directory, StoreError> {
        let Repository { envelope, fingerprinter, .. } = self.repository;
        self.found.report.read_bytes += object.len() as u64;
        let directory = Directory::of_object(envelope, id, object)?;
        let groups: Vec<u32> = groups(&directory).collect();
        let bad = Mutex::new(BTreeMap::new());
        let _ = each(cores(), &groups, |group| {
            let bytes = directory.group_of_object(object, *group);
            let verified =
                bytes.and_then(|bytes| directory.verify_group(*group, &bytes, fingerprinter));
            if let Err(error) = verified {
                bad.lock().unwrap_or_else(PoisonError::into_inner).insert(*group, error);
            }
            ControlFlow::Continue(())
        });
        for (group, error) in bad.into_inner().unwrap_or_else(PoisonError::into_inner) {
            bad_groups.insert(group);
            self.damaged_container(id, error.into())?;
        }
        Ok(directory)
    }

    /// Reads the groups of a container that is too long to be read whole.
    fn groups(
        &mut self,
        directory: &Directory,
        bad_groups: &mut HashSet<u32>,
    ) -> Result<(), StoreError> {
        let Repository { objects, fingerprinter, .. } = self.repository;
        let groups: Vec<u32> = groups(directory).collect();
        until_error(|failed| {
            directory.read_groups(&**objects, &groups, &mut |group, read| {
                let verified = read
                    .and_then(|bytes| directory.verify_group(group, &bytes, fingerprinter))
                    .or_else(|error| {
                        bad_groups.insert(group);
                        self.damaged_container(directory.id, error.into())
                    });
                or_end(verified.and_then(|()| self.cancel.check()), failed)
            })
        })
    }

    /// Takes up what came of a container, and publishes the chunks that are as they were written.
    fn container(
        &mut self,
        (id, size): Sized,
        read: Result<Directory, StoreError>,
        bad_groups: &HashSet<u32>,
        take: &mut dyn FnMut(ObjectId, &Directory),
    ) -> Result<(), StoreError> {
        self.found.report.containers += 1;
        self.progress.at(|| container_name(id).into());
        Progress::add(&self.progress.bytes, size);
        let directory = match read {
            Ok(directory) => Some(directory),
            // A prune has deleted it since it was listed. What it takes along is missed elsewhere.
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => {
                self.damaged_container(id, error)?;
                None
            }
        };
        let is_whole = directory.is_some() && bad_groups.is_empty();
        if !is_whole && !self.condemned.contains(&id) {
            self.found.damaged.push((id, size));
        }
        let Some(directory) = directory else { return Ok(()) };
        let number = self.containers.add(id, size);
        let mut chunks = listed(&directory);
        for ((_, len), chunk) in chunks.iter_mut().zip(&directory.chunks) {
            if bad_groups.contains(&chunk.group) {
                *len = 0;
            }
        }
        self.index.publish(id, number, &chunks);
        self.found.report.chunks += directory.chunks.len() as u64;
        self.sound.insert(id);
        if directory.content == Content::Metadata {
            self.with_trees.push(number);
        }
        take(id, &directory);
        Ok(())
    }

    fn damaged_container(&mut self, id: ObjectId, error: StoreError) -> Result<(), StoreError> {
        let (name, problem) = (container_name(id), self.problem(error)?);
        match self.condemned.contains(&id) {
            true => self.note(format!("{name}, which is condemned: {problem}")),
            false => self.find(name, problem),
        }
        Ok(())
    }
}

/// Adds to `wrong` where `entries`, which a run has for a container, are not what its footer lists.
fn compare<'a>(
    directory: &Directory,
    entries: impl Iterator<Item = &'a (Fingerprint, Place)>,
    wrong: &mut Vec<String>,
) {
    let (id, mut found) = (directory.id, 0);
    for (fingerprint, place) in entries {
        found += 1;
        let is_there = directory
            .chunk(place.slot)
            .is_ok_and(|chunk| chunk.fingerprint == *fingerprint && chunk.len == place.len);
        if !is_there {
            wrong.push(format!(
                "chunk {fingerprint} is not in slot {} of container {id}",
                place.slot
            ));
        }
    }
    if found != directory.chunks.len() {
        wrong.push(format!("lists {found} chunks of container {id}, which has more"));
    }
}

/// The groups of a container, by their numbers.
fn groups(directory: &Directory) -> Range<u32> {
    0..directory.groups.len() as u32
}

fn is_picked(reading: Reading) -> bool {
    match reading {
        Reading::Nothing => false,
        Reading::All => true,
        Reading::Percent(percent) => {
            let draw = ObjectId::random();
            let [a, b, c, d, ..] = *draw.as_bytes();
            f64::from(u32::from_be_bytes([a, b, c, d])) < percent / 100.0 * 2f64.powi(32)
        }
    }
}

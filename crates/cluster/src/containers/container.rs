//! The pages of a container: an object that grows at its end until it is sealed.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use onefold_backend::rados::{Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_backend::{BackendError, Operation};

use super::usage::Usage;
use super::{TRIES, ask, object, parse};
use crate::hints::ContainerName;

/// The kind in the object's name.
const CONTAINER: &str = "container";
/// Attribute: the length in bytes.
const LENGTH: &str = "length";
/// Attribute: where the directory begins, in bytes; empty until there is one.
const SEALED: &str = "sealed";

/// What a container is at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Its bytes, the directory included.
    pub length: u64,
    /// Where its directory begins, if it has one. Then it never changes.
    pub sealed: Option<u64>,
}

/// The containers of a namespace.
#[derive(Clone)]
pub struct Containers {
    pub(super) pool: Arc<dyn RadosPool>,
    /// Whether they may grow in a full pool now.
    grow_if_full: Arc<AtomicBool>,
    /// Counts what is written and removed.
    pub(super) usage: Arc<Usage>,
}

fn number(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

impl Containers {
    /// Those in `pool`, which is the pool for data.
    pub fn new(pool: Arc<dyn RadosPool>) -> Self {
        Self { pool, grow_if_full: Arc::default(), usage: Arc::default() }
    }

    /// The same, whose growth and removal `usage` counts.
    pub fn counted(self, usage: Arc<Usage>) -> Self {
        Self { usage, ..self }
    }

    /// The same, which grow in a full pool while `grow_if_full` is true.
    pub(super) fn growing(self, grow_if_full: Arc<AtomicBool>) -> Self {
        Self { grow_if_full, ..self }
    }

    /// `update`, which makes a container grow.
    fn growth(&self, update: Update) -> Update {
        if self.grow_if_full.load(Ordering::Acquire) { update.even_if_full() } else { update }
    }

    /// The alignment of the pool, in bytes: every write has a multiple of it, except that of the directory.
    pub fn alignment(&self) -> u64 {
        self.pool.kind().alignment
    }

    /// Makes container `name`, without bytes. Its guard must be open.
    ///
    /// # Errors
    /// If there is no answer the update is *not* sent again: the caller must give the container up.
    pub fn create(&self, name: &ContainerName) -> Result<(), RadosError> {
        let update = self.growth(Update::creating().set(LENGTH, number(0)));
        self.pool.update(&object(CONTAINER, name), update).map(drop)
    }

    /// Writes `pages` at byte `at`, which must be the end, padded with zeros to the pool's alignment; where
    /// the container ends then. Only the writer in its name writes into a container.
    ///
    /// # Errors
    /// [`Refusal::Guard`] if it is sealed: the caller is superseded. [`Refusal::Full`]: nothing was written, and the
    /// call may be repeated once there is room. If there is no answer after all tries, the
    /// caller must repeat the call with the same pages.
    pub fn write(&self, name: &ContainerName, at: u64, pages: Bytes) -> Result<u64, RadosError> {
        let padded = (pages.len() as u64).next_multiple_of(self.alignment());
        let pages = match padded - pages.len() as u64 {
            0 => pages,
            missing => Bytes::from([&pages[..], &vec![0; missing as usize]].concat()),
        };
        let end = at + padded;
        let (mut tries, mut unanswered) = (0, None);
        loop {
            tries += 1;
            let update = Update::existing()
                .expect(LENGTH, number(at))
                .expect(SEALED, Bytes::new())
                .then(Step::Write(at, pages.clone()))
                .set(LENGTH, number(end));
            let written = || {
                self.usage.note_written(padded);
                Ok(end)
            };
            let Err(error) = self.pool.update(&object(CONTAINER, name), self.growth(update)) else {
                return written();
            };
            match error.refusal() {
                // Nobody else writes here, so a greater length proves that these bytes are there: unless it
                // is that of a directory which a successor wrote in their place.
                Some(Refusal::Guard) => {
                    let is_applied = |now: Look| now.sealed.unwrap_or(now.length) >= end;
                    let is_applied = self.look(name)?.is_some_and(is_applied);
                    return if is_applied { written() } else { Err(error) };
                }
                // an earlier try may be applied yet: it is not known that nothing was
                Some(_) => return Err(unanswered.unwrap_or(error)),
                None if tries == TRIES => return Err(error),
                None => unanswered = Some(error),
            }
        }
    }

    /// Seals container `name`: appends the directory for the length that `directory` is called with, so that
    /// it takes no bytes any more. What it is then. Nothing changes if it is sealed.
    ///
    /// # Errors
    /// [`Refusal::Absent`] if there is none, or if there is no answer after all tries.
    pub fn seal(
        &self,
        name: &ContainerName,
        directory: &dyn Fn(u64) -> Vec<u8>,
    ) -> Result<Look, RadosError> {
        let (object, mut tries) = (object(CONTAINER, name), 0);
        loop {
            tries += 1;
            let Some(found) = self.look(name)? else {
                return Err(self.refused(name, Refusal::Absent));
            };
            if found.sealed.is_some() {
                return Ok(found);
            }
            let directory = Bytes::from(directory(found.length));
            let length = found.length + directory.len() as u64;
            let update = Update::existing()
                .expect(LENGTH, number(found.length))
                .expect(SEALED, Bytes::new())
                .then(Step::Write(found.length, directory))
                .set(LENGTH, number(length))
                .set(SEALED, number(found.length))
                .even_if_full();
            let Err(error) = self.pool.update(&object, update) else {
                self.usage.note_written(length - found.length);
                return Ok(Look { length, sealed: Some(found.length) });
            };
            match error.refusal() {
                // a late write came before, or a late sealing
                Some(Refusal::Guard) | None if tries < TRIES => {}
                _ => return Err(error),
            }
        }
    }

    /// Removes container `name`, whose guard is gone for ever. Nothing happens if there is none.
    ///
    /// # Errors
    /// If there is no answer after all tries.
    pub fn remove(&self, name: &ContainerName) -> Result<(), RadosError> {
        // what cannot be looked at can be removed all the same
        let length = self.look(name).ok().flatten().map_or(0, |look| look.length);
        let mut tries = 0;
        loop {
            tries += 1;
            let update = Update::existing().then(Step::Remove);
            match self.pool.update(&object(CONTAINER, name), update) {
                Ok(_) => {
                    self.usage.note_removed(length);
                    return Ok(());
                }
                Err(error) => match error.refusal() {
                    Some(Refusal::Absent) => return Ok(()),
                    None if tries < TRIES => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// What container `name` is now; none if there is none.
    ///
    /// # Errors
    /// If there is no answer after all tries, or it is not a container.
    pub fn look(&self, name: &ContainerName) -> Result<Option<Look>, RadosError> {
        Ok(self.look_when(name)?.map(|(look, _)| look))
    }

    /// The same, and when it last changed, in seconds since 1970 by the clock of the gateway that changed it.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn look_when(&self, name: &ContainerName) -> Result<Option<(Look, u64)>, RadosError> {
        let object = object(CONTAINER, name);
        let query = Query { xattrs: true, ..Query::default() };
        let Some(answer) = ask(&*self.pool, &object, &query)? else { return Ok(None) };
        let of = |attribute: &str| answer.xattrs.get(attribute).filter(|value| !value.is_empty());
        let number = |value: &Bytes| <[u8; 8]>::try_from(&value[..]).ok().map(u64::from_be_bytes);
        let length = of(LENGTH).and_then(number);
        let sealed = of(SEALED).map(number);
        match (length, sealed) {
            (Some(length), None) => Ok(Some((Look { length, sealed: None }, answer.changed))),
            (Some(length), Some(Some(sealed))) if sealed <= length => {
                Ok(Some((Look { length, sealed: Some(sealed) }, answer.changed)))
            }
            _ => Err(self.refused(name, Refusal::Damaged)),
        }
    }

    /// The bytes of container `name` in `range`, fewer where it ends; none if there is none.
    ///
    /// # Errors
    /// If there is no answer after all tries.
    pub fn read(
        &self,
        name: &ContainerName,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, RadosError> {
        let query = Query { range: Some(range), ..Query::default() };
        Ok(ask(&*self.pool, &object(CONTAINER, name), &query)?.map(|answer| answer.bytes))
    }

    /// Fills `into` with the bytes of container `name` from `offset` on, which it has.
    pub(super) fn read_into(
        &self,
        name: &ContainerName,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), BackendError> {
        if into.is_empty() {
            return Ok(());
        }
        let range = offset..offset + into.len() as u64;
        let read = self.read(name, range.clone());
        let read = read.map_err(|error| self.backend(name, Operation::Read, error))?;
        let bytes = read.ok_or_else(|| self.missing(name))?;
        if bytes.len() != into.len() {
            let (name, size) = (self.object(name), offset + bytes.len() as u64);
            return Err(BackendError::OutOfRange { name, range, size });
        }
        into.copy_from_slice(&bytes);
        Ok(())
    }

    /// Bytes that a container has at most.
    pub(super) fn max_len(&self) -> u64 {
        self.pool.kind().max_object
    }

    /// The object of container `name`.
    pub(super) fn object(&self, name: &ContainerName) -> String {
        object(CONTAINER, name)
    }

    pub(super) fn place(&self) -> String {
        format!("pool {}", self.pool.kind().name)
    }

    /// The error of container `name` that is not there.
    pub(super) fn missing(&self, name: &ContainerName) -> BackendError {
        BackendError::NotFound { name: self.object(name), place: self.place() }
    }

    /// The error of an operation on container `name` that the pool refused or did not answer.
    pub(crate) fn backend(
        &self,
        name: &ContainerName,
        operation: Operation,
        error: RadosError,
    ) -> BackendError {
        let (object, place) = (self.object(name), self.place());
        match error.refusal() {
            Some(Refusal::Absent) => BackendError::NotFound { name: object, place },
            Some(Refusal::Full) => {
                BackendError::Full { name: object, operation, place, source: error.into() }
            }
            Some(Refusal::Fenced | Refusal::Guard) => BackendError::InUse { name: object, place },
            _ => BackendError::Io { name: object, operation, place, source: error.into() },
        }
    }

    pub(crate) fn refused(&self, name: &ContainerName, why: Refusal) -> RadosError {
        let (object, pool) = (self.object(name), self.pool.kind().name.clone());
        RadosError::Refused { object, pool, why }
    }

    /// Calls `each` with the name of each object of the pool, until it breaks.
    pub(crate) fn list(
        &self,
        each: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<(), RadosError> {
        self.pool.list(each).map(drop)
    }

    /// The container whose pages are the object called `object`.
    pub fn name_of(object: &str) -> Option<ContainerName> {
        parse(CONTAINER, object)
    }
}

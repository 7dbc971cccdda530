//! What a pool of volumes asks for, done by guards and containers.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use onefold_backend::rados::RadosPool;
use onefold_backend::{BackendError, LogReader, Operation};
use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;
use onefold_volume::{
    PageHint, RegisteredAs, SharedLog, SharedLook, SharedName, SharedRoom, SharedState, Sharing,
    VolumeError, Writer,
};

use super::container::{Containers, Look};
use super::guard::{Guards, Registered, Value};
use super::log::{ContainerLog, ContainerReader};
use super::release;
use super::usage::Usage;
use crate::error::failed;
use crate::hints::{ContainerName, Hint, Hints};

/// The containers of a namespace, as one shard uses them.
pub struct SharedContainers {
    pub(super) guards: Guards,
    pub(super) containers: Containers,
    hints: Arc<dyn Hints>,
    /// What the shard told last of what it uses.
    pub(super) told: Mutex<Option<(Bytes, u64)>>,
}

impl SharedContainers {
    /// Those of which guards are in `meta` and pages in `data`, for shard `own`. `usage` counts what it stores, and
    /// bounds it.
    pub fn new(
        meta: Arc<dyn RadosPool>,
        data: Arc<dyn RadosPool>,
        own: ObjectId,
        hints: Arc<dyn Hints>,
        grow_if_full: Arc<AtomicBool>,
        usage: Arc<Usage>,
    ) -> Self {
        let containers = Containers::new(data).growing(grow_if_full).counted(usage);
        Self { guards: Guards::new(meta, own), containers, hints, told: Mutex::default() }
    }
}

pub(crate) fn name_of(name: &SharedName) -> ContainerName {
    let SharedName { shard, writer, number } = *name;
    ContainerName { shard, writer: writer.0, number }
}

pub(crate) fn shared_name(name: &ContainerName) -> SharedName {
    let ContainerName { shard, writer, number } = *name;
    SharedName { shard, writer: Writer(writer), number }
}

pub(super) fn value_of(value: RegisteredAs) -> Value {
    Value { writer: value.writer.0, number: value.number.into() }
}

impl Sharing for SharedContainers {
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<PageHint>> {
        let page_hint = |hint: Hint| {
            let Hint { container, offset, stored_len, check } = hint;
            PageHint { container: shared_name(&container), offset, stored_len, check }
        };
        let mut found = self.hints.find(fingerprints);
        found.resize(fingerprints.len(), None);
        found.into_iter().map(|hint| hint.map(page_hint)).collect()
    }

    fn add(&self, pages: &[(Fingerprint, PageHint)]) {
        let hint = |(fingerprint, hint): &(Fingerprint, PageHint)| {
            let PageHint { container, offset, stored_len, check } = *hint;
            (*fingerprint, Hint { container: name_of(&container), offset, stored_len, check })
        };
        self.hints.add(&pages.iter().map(hint).collect::<Vec<_>>());
    }

    fn create(
        &self,
        name: SharedName,
        value: RegisteredAs,
    ) -> Result<Box<dyn SharedLog>, VolumeError> {
        let name = name_of(&name);
        let refused = |error| failed(Operation::Put, error);
        let version = self.guards.create(&name, value_of(value)).map_err(refused)?;
        if !self.guards.open(&name, version).map_err(refused)? {
            let why = "the guard of a new container changed before it was opened";
            return Err(VolumeError::Unanswered { source: why.into() });
        }
        self.containers.create(&name).map_err(refused)?;
        Ok(Box::new(ContainerLog::new(self.containers.clone(), name)))
    }

    fn register(&self, name: SharedName, value: RegisteredAs) -> Result<bool, VolumeError> {
        let registered = self.guards.register(&name_of(&name), value_of(value));
        match registered.map_err(|error| failed(Operation::Write, error))? {
            Registered::Done => Ok(true),
            Registered::Refused => Ok(false),
            Registered::Superseded { by } => {
                Err(VolumeError::Superseded { writer: value.writer, by: Writer(by) })
            }
        }
    }

    fn release(&self, name: SharedName, value: RegisteredAs) -> Result<(), VolumeError> {
        let released =
            release::release(&self.guards, &self.containers, &name_of(&name), value_of(value));
        released.map_err(|error| failed(Operation::Delete, error))
    }

    fn seal(
        &self,
        name: SharedName,
        directory: &dyn Fn(u64) -> Vec<u8>,
    ) -> Result<(), VolumeError> {
        let sealed = self.containers.seal(&name_of(&name), directory);
        sealed.map(drop).map_err(|error| failed(Operation::Write, error))
    }

    fn look(&self, name: SharedName) -> Result<Option<SharedLook>, VolumeError> {
        let (name, containers) = (name_of(&name), self.containers.clone());
        let found = containers.look(&name).map_err(|error| failed(Operation::Read, error))?;
        let Some(Look { length: len, sealed, .. }) = found else { return Ok(None) };
        let state = SharedState { len, is_sealed: sealed.is_some() };
        Ok(Some((state, Box::new(ContainerReader { containers, name, len }))))
    }

    fn reader(&self, name: SharedName) -> Result<Box<dyn LogReader>, BackendError> {
        let (name, containers) = (name_of(&name), self.containers.clone());
        let found = containers.look(&name);
        let found = found.map_err(|error| containers.backend(&name, Operation::Open, error))?;
        let len = found.ok_or_else(|| containers.missing(&name))?.length;
        Ok(Box::new(ContainerReader { containers, name, len }))
    }

    fn has_others(&self, name: SharedName) -> Result<bool, VolumeError> {
        let guard = self.guards.read(&name_of(&name));
        let guard = guard.map_err(|error| failed(Operation::Read, error))?;
        Ok(guard.is_some_and(|guard| guard.users.keys().any(|user| *user != self.guards.own())))
    }

    fn room(&self) -> Option<SharedRoom> {
        self.containers.usage.room()
    }

    fn ask_room(&self, needed: u64) -> bool {
        self.containers.usage.ask(needed)
    }

    fn note_stored(&self, bytes: u64) {
        self.containers.usage.take(bytes);
    }
}

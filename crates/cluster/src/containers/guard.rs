//! Guards: which shards may have live pages in a container, and whether more may come.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::rados::{OmapRange, Query, RadosError, RadosPool, Refusal, Step, Update};
use onefold_seal::ObjectId;

use super::{TRIES, ask, object, parse};
use crate::hints::ContainerName;
use crate::seeded::fault;

/// The kind in the object's name.
const GUARD: &str = "guard";
/// Attribute: whether the guard takes registrations, one byte.
const ACCESS: &str = "access";

/// The most shards that register in a container. A further one stores its page anew. The bound may be
/// exceeded by those that register at the same moment.
pub const MOST_USERS: usize = 512;

/// Entries of an omap that are read at a time.
const ENTRIES: u64 = 1024;

/// What a shard writes under its id into a guard. None is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value {
    /// The writer that registers.
    pub writer: u64,
    /// The number of the registration, by which the shard's maps name the container.
    pub number: u64,
}

impl Value {
    const LEN: usize = 16;

    fn encode(self) -> Bytes {
        let (writer, number) = (self.writer.to_be_bytes(), self.number.to_be_bytes());
        Bytes::from([writer, number].concat())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (writer, number) = <&[u8; Self::LEN]>::try_from(bytes).ok()?.split_at(8);
        let number_of = |half: &[u8]| half.try_into().ok().map(u64::from_be_bytes);
        Some(Self { writer: number_of(writer)?, number: number_of(number)? })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.writer, self.number)
    }
}

/// Whether a guard takes registrations. It only ever moves on to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Not yet: its creator has not opened it.
    New,
    /// It does.
    Open,
    /// No longer.
    Closing,
}

impl Access {
    fn code(self) -> Bytes {
        Bytes::copy_from_slice(&[self as u8])
    }
}

/// A guard at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The version of the object.
    pub version: u64,
    /// Whether it takes registrations.
    pub access: Access,
    /// The shards that are registered, and their values.
    pub users: BTreeMap<ObjectId, Value>,
}

/// What came of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The guard has the value.
    Done,
    /// It does not, and never will: the container is closing or gone, or has as many users as it may have.
    Refused,
    /// A later writer of the shard is registered: the caller is superseded.
    Superseded {
        /// That writer.
        by: u64,
    },
}

/// The guards of a namespace, as one shard changes them.
#[derive(Clone)]
pub struct Guards {
    pub(super) pool: Arc<dyn RadosPool>,
    own: ObjectId,
}

impl Guards {
    /// Those in `pool`, which is the pool for metadata, for shard `own`.
    pub fn new(pool: Arc<dyn RadosPool>, own: ObjectId) -> Self {
        Self { pool, own }
    }

    /// The shard that registers.
    pub fn own(&self) -> ObjectId {
        self.own
    }

    /// Makes the guard of container `name`, with this shard registered by `value`; its version. It takes no
    /// registrations before it is opened.
    ///
    /// # Errors
    /// If there is no answer the update is *not* sent again, as the guard may be made and removed meanwhile:
    /// the caller must give the container up.
    pub fn create(&self, name: &ContainerName, value: Value) -> Result<u64, RadosError> {
        let access = if fault!(CreatedOpen) { Access::Open } else { Access::New };
        let update = || {
            Update::creating()
                .set(ACCESS, access.code())
                .then(Step::SetOmap(vec![(self.own.to_string(), value.encode())]))
                .even_if_full()
        };
        let created = self.pool.update(&object(GUARD, name), update());
        fault!(CreatedAgain => if matches!(&created, Err(error) if error.refusal().is_none()) {
            return self.pool.update(&object(GUARD, name), update());
        });
        created
    }

    /// Opens the guard that [`create`](Self::create) made as `version`; whether it is open. If it is not, it
    /// never will be.
    ///
    /// # Errors
    /// If there is no answer after all tries.
    pub fn open(&self, name: &ContainerName, version: u64) -> Result<bool, RadosError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut update = Update::existing();
            if !fault!(OpenedAnyVersion) {
                update = update.then(Step::Version(version));
            }
            let update = update.set(ACCESS, Access::Open.code());
            let Err(error) = self.pool.update(&object(GUARD, name), update) else {
                return Ok(true);
            };
            match error.refusal() {
                Some(Refusal::Guard) => {}
                Some(Refusal::Absent) => return Ok(false),
                Some(_) => return Err(error),
                None if tries == TRIES => return Err(error),
                None => {}
            }
            match self.read(name)? {
                Some(guard) if guard.version == version => {}
                // whatever changed it came after its opening, or it is another creation that arrived late
                found => return Ok(found.is_some_and(|guard| guard.access != Access::New)),
            }
        }
    }

    /// Registers this shard in container `name`. `value` must be in a durable batch as announced.
    ///
    /// # Errors
    /// If there is no answer after all tries: the caller must drop `value`.
    pub fn register(&self, name: &ContainerName, value: Value) -> Result<Registered, RadosError> {
        let before = self.read(name)?;
        if before.is_none_or(|guard| {
            guard.users.len() >= MOST_USERS && !guard.users.contains_key(&self.own)
        }) {
            return Ok(Registered::Refused);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let mut update = Update::existing().expect(ACCESS, Access::Open.code());
            if !fault!(RegisteredOverAnyValue) {
                let (key, value) = (self.own.to_string(), Bytes::new());
                update = update.then(Step::Omap { key, value });
            }
            let set = Step::SetOmap(vec![(self.own.to_string(), value.encode())]);
            let update = update.then(set).even_if_full();
            let Err(error) = self.pool.update(&object(GUARD, name), update) else {
                return Ok(Registered::Done);
            };
            match error.refusal() {
                Some(Refusal::Guard) => {}
                Some(Refusal::Absent) => return Ok(Registered::Refused),
                Some(_) => return Err(error),
                None if tries == TRIES => return Err(error),
                None => continue,
            }
            let Some(guard) = self.read(name)? else { return Ok(Registered::Refused) };
            match guard.users.get(&self.own) {
                Some(found) if *found == value => return Ok(Registered::Done),
                Some(found) if found.writer > value.writer => {
                    return Ok(Registered::Superseded { by: found.writer });
                }
                // a late one of this shard, which no journal needs any more
                Some(late) => self.drop(name, *late)?,
                None if guard.access != Access::Open => return Ok(Registered::Refused),
                // one was in the way, and is dropped by now
                None if tries == TRIES => return Err(error),
                None => {}
            }
        }
    }

    /// Drops this shard's registration by `value`: once this returns it is not there.
    ///
    /// # Errors
    /// If there is no answer after all tries: the caller must drop it again.
    pub fn drop(&self, name: &ContainerName, value: Value) -> Result<(), RadosError> {
        self.drop_of(name, self.own, value)
    }

    /// The same of another shard, which nobody serves any more.
    pub fn drop_of(
        &self,
        name: &ContainerName,
        user: ObjectId,
        value: Value,
    ) -> Result<(), RadosError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let key = user.to_string();
            let mut update = Update::existing();
            if !fault!(DroppedAnyValue) {
                update = update.then(Step::Omap { key: key.clone(), value: value.encode() });
            }
            match self.pool.update(&object(GUARD, name), update.then(Step::RemoveOmap(vec![key]))) {
                Ok(_) => return Ok(()),
                Err(error) => match error.refusal() {
                    Some(Refusal::Guard | Refusal::Absent) => return Ok(()),
                    Some(_) => return Err(error),
                    None if tries == TRIES => return Err(error),
                    None => {}
                },
            }
        }
    }

    /// Lets container `name` take no registrations from now on. Nothing happens if it never took any.
    ///
    /// # Errors
    /// If there is no answer after all tries.
    pub fn close(&self, name: &ContainerName) -> Result<(), RadosError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let update = Update::existing()
                .expect(ACCESS, Access::Open.code())
                .set(ACCESS, Access::Closing.code());
            match self.pool.update(&object(GUARD, name), update) {
                Ok(_) => return Ok(()),
                Err(error) => match error.refusal() {
                    Some(Refusal::Guard | Refusal::Absent) => return Ok(()),
                    Some(_) => return Err(error),
                    None if tries == TRIES => return Err(error),
                    None => {}
                },
            }
        }
    }

    /// Removes the guard of container `name`, whose set was read as empty at `version`; whether it is gone.
    /// It is not if anything changed it since.
    ///
    /// # Errors
    /// If there is no answer after all tries.
    pub fn remove(&self, name: &ContainerName, version: u64) -> Result<bool, RadosError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut update = Update::existing();
            if !fault!(RemovedUnversioned) {
                update = update.then(Step::Version(version));
            }
            match self.pool.update(&object(GUARD, name), update.then(Step::Remove)) {
                Ok(_) => return Ok(true),
                Err(error) => match error.refusal() {
                    Some(Refusal::Absent) => return Ok(true),
                    Some(Refusal::Guard) => return Ok(false),
                    Some(_) => return Err(error),
                    None if tries == TRIES => return Err(error),
                    None => {}
                },
            }
            match self.read(name)? {
                None => return Ok(true),
                Some(guard) if guard.version == version => {}
                Some(_) => return Ok(false),
            }
        }
    }

    /// The guard of container `name` now; none if it is absent.
    ///
    /// # Errors
    /// If there is no answer after all tries, or the guard is not one.
    pub fn read(&self, name: &ContainerName) -> Result<Option<Guard>, RadosError> {
        let object = object(GUARD, name);
        loop {
            let omap = Some(OmapRange { after: String::new(), limit: ENTRIES });
            let query = Query { xattrs: true, omap, ..Query::default() };
            let Some(mut answer) = ask(&*self.pool, &object, &query)? else { return Ok(None) };
            let (version, mut entries) = (answer.version, std::mem::take(&mut answer.omap));
            let mut is_whole = true;
            while answer.has_more && is_whole {
                let after = entries.last().map(|(key, _)| key.clone()).unwrap_or_default();
                let guards = vec![Step::Version(version)];
                let omap = Some(OmapRange { after, limit: ENTRIES });
                let query = Query { guards, omap, ..Query::default() };
                match ask(&*self.pool, &object, &query) {
                    Ok(Some(more)) => {
                        entries.extend(more.omap);
                        answer.has_more = more.has_more;
                    }
                    // it changed in between
                    Ok(None) => is_whole = false,
                    Err(error) if error.refusal() == Some(Refusal::Guard) => is_whole = false,
                    Err(error) => return Err(error),
                }
            }
            if !is_whole {
                continue;
            }
            let access = match answer.xattrs.get(ACCESS).map(|value| &value[..]) {
                Some([0]) => Access::New,
                Some([1]) => Access::Open,
                Some([2]) => Access::Closing,
                _ => return Err(self.damaged(object)),
            };
            let users = entries
                .iter()
                .map(|(user, value)| Some((user.parse::<ObjectId>().ok()?, Value::decode(value)?)));
            let Some(users) = users.collect() else { return Err(self.damaged(object)) };
            return Ok(Some(Guard { version, access, users }));
        }
    }

    fn damaged(&self, object: String) -> RadosError {
        let pool = self.pool.kind().name.clone();
        RadosError::Refused { object, pool, why: Refusal::Damaged }
    }

    /// The container whose guard is the object called `object`.
    pub fn name_of(object: &str) -> Option<ContainerName> {
        parse(GUARD, object)
    }
}

//! The root object of a namespace: which domain it holds, and how its pages are named and compressed.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::rados::{Query, RadosPool, Refusal, Update};
use onefold_backend::{BackendError, Operation};
use onefold_seal::ObjectId;
use onefold_volume::{Codec, Hash, VolumeError};

use super::care::Care;
use super::names::Names;
use super::place::{PLACE, Place};
use super::shards::Shards;
use crate::containers::Containers;
use crate::error::{ClusterError, failed};
use crate::gateway::lease::gateways_table;
use crate::peers::Authority;
use crate::shard;

/// The object that says what the namespace holds.
const ROOT: &str = "onefold";
const FORMAT: &str = "format";
const DOMAIN: &str = "domain";
const HASH: &str = "hash";
const CODEC: &str = "codec";
const DATA: &str = "data";
/// In the pool for containers: the pool whose namespace has the domain.
const META: &str = "meta";
/// The longest name of a pool, in bytes.
const LONGEST_POOL: usize = 128;

/// The version that is written.
const VERSION: u8 = 1;

/// What all shards of a namespace have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The id of the domain.
    pub id: ObjectId,
    /// What names pages.
    pub hash: Hash,
    /// How new pages are compressed, unless the options of a gateway say otherwise.
    pub codec: Codec,
    /// The name of the pool for containers, whose namespace has the same name; none if they are with all else.
    pub data: Option<String>,
    /// Where it must be; none if it was made by an earlier version and no gateway has noted it since.
    pub place: Option<Place>,
}

impl Domain {
    /// Makes a domain in the empty namespace `pool`, with its containers there.
    ///
    /// # Errors
    /// As [`create_with`](Self::create_with).
    pub fn create(
        pool: &Arc<dyn RadosPool>,
        hash: Hash,
        codec: Codec,
    ) -> Result<Self, VolumeError> {
        Self::create_with(pool, None, hash, codec)
    }

    /// Makes a domain in the empty namespace `pool`, with its containers in the empty namespace `data` if there is
    /// one. The root object is made last, so that all else exists once it does.
    ///
    /// # Errors
    /// [`BackendError::AlreadyExists`] if there is a domain; [`BackendError::Io`] with [`ClusterError::OtherData`] if
    /// `data` is of another one, or has containers. After any other error the call may be repeated.
    pub fn create_with(
        pool: &Arc<dyn RadosPool>,
        data: Option<&Arc<dyn RadosPool>>,
        hash: Hash,
        codec: Codec,
    ) -> Result<Self, VolumeError> {
        let exists = || -> VolumeError {
            let place = format!("pool {}", pool.kind().name);
            BackendError::AlreadyExists { name: ROOT.to_owned(), place }.into()
        };
        shard::ensure_fitting(pool)?;
        if Self::find(&**pool)?.is_some() {
            return Err(exists());
        }
        let place = Place::of(&**pool, data.map(|data| &**data));
        let id = match data {
            Some(data) => claim(&**data, &pool.kind().name, &place)?,
            None => ObjectId::random(),
        };
        Authority::create(&**pool)?;
        gateways_table(pool).create()?;
        Shards::new(pool).create_table()?;
        Names::new(pool).create_table()?;
        Care::new(pool).create_tables()?;
        let data = data.map(|data| data.kind().name.clone());
        let domain = Self { id, hash, codec, data, place: Some(place.clone()) };
        let mut named = Update::creating()
            .set(FORMAT, vec![VERSION])
            .set(DOMAIN, Bytes::copy_from_slice(domain.id.as_bytes()))
            .set(HASH, vec![hash.code()])
            .set(CODEC, vec![codec.code()])
            .set(PLACE, place.encode());
        if let Some(data) = &domain.data {
            named = named.set(DATA, data.clone().into_bytes());
        }
        match pool.update(ROOT, named) {
            Ok(_) => Ok(domain),
            // an update whose answer was lost may have made it
            Err(_) if Self::find(&**pool)?.as_ref() == Some(&domain) => Ok(domain),
            Err(error) if error.refusal() == Some(Refusal::Exists) => Err(exists()),
            Err(error) => Err(failed(Operation::Put, error)),
        }
    }

    /// Fails unless `data` is the namespace for containers of this domain, or none if they are with all else: the
    /// containers of another domain would be taken for unused.
    ///
    /// # Errors
    /// [`BackendError::Io`] with a [`ClusterError`].
    pub fn ensure_data(&self, data: Option<&dyn RadosPool>) -> Result<(), VolumeError> {
        let refused = |pool: &str, why: String| {
            Err(of_data(ClusterError::OtherData { pool: pool.to_owned(), why }))
        };
        match (&self.data, data) {
            (None, None) => Ok(()),
            (None, Some(data)) => {
                refused(&data.kind().name, "the domain has them with all else".to_owned())
            }
            (Some(name), None) => refused(name, "it was not opened".to_owned()),
            (Some(_), Some(data)) => match owner(data)? {
                Some(owner) if owner.id == self.id => self.ensure_place_of(data, &owner),
                Some(other) => refused(&data.kind().name, other.told()),
                None => refused(
                    &data.kind().name,
                    format!(
                        "the object '{ROOT}', which says whose containers are there, is missing"
                    ),
                ),
            },
        }
    }

    /// Fails unless `data`, which has the containers of this domain, is the pool that it has to be in, and they are of
    /// no copy of this domain.
    fn ensure_place_of(&self, data: &dyn RadosPool, owner: &Owner) -> Result<(), VolumeError> {
        let Some(place) = &self.place else { return Ok(()) };
        let (name, number) = (data.kind().name.clone(), data.kind().identity.number);
        let other = |why| Err(of_data(ClusterError::OtherData { pool: name, why }));
        if place.data != Some(number) {
            let expected = place.data.map_or("none".to_owned(), |number| number.to_string());
            return other(format!(
                "the number of the pool is {number}, and that of the pool with the containers {expected}; if this is \
                 a copy that takes its place for good, accept it with `onefold cluster adopt`"
            ));
        }
        match &owner.place {
            Some(of) if of != place => other(format!("they are of volumes in {of}")),
            _ => Ok(()),
        }
    }

    /// Notes where a domain is that was made by a version that did not.
    pub(super) fn note_place(
        &mut self,
        pool: &dyn RadosPool,
        data: Option<&dyn RadosPool>,
    ) -> Result<(), VolumeError> {
        if self.place.is_some() {
            return Ok(());
        }
        let place = Place::of(pool, data);
        // that of the containers first: they are of one domain, whichever copies of it there are
        if let Some(data) = data {
            place.write(data, ROOT, false)?;
        }
        place.write(pool, ROOT, false)?;
        self.place = Some(place);
        self.ensure_place(pool)?;
        self.ensure_data(data)
    }

    /// Lets the domain be where these pools are: those of a copy that takes its place for good. Returns where it had
    /// to be before, if that was noted and is elsewhere. After an error the call may be repeated.
    ///
    /// # Errors
    /// [`BackendError::Io`] with a [`ClusterError`] if `data` has not the containers of this domain, or of a domain in
    /// a pool of another name.
    pub fn adopt(
        &self,
        pool: &dyn RadosPool,
        data: Option<&dyn RadosPool>,
    ) -> Result<Option<Place>, VolumeError> {
        let here = Place::of(pool, data);
        let anywhere = Self { place: None, ..self.clone() };
        anywhere.ensure_data(data)?;
        if let Some(data) = data {
            let owner = owner(data)?;
            if let Some(owner) = owner.filter(|owner| owner.meta != pool.kind().name) {
                let (pool, why) = (data.kind().name.clone(), owner.told());
                return Err(of_data(ClusterError::OtherData { pool, why }));
            }
            // first: from now on the other copy is refused
            here.write(data, ROOT, true)?;
        }
        here.write(pool, ROOT, true)?;
        Ok(self.place.clone().filter(|place| *place != here))
    }

    fn ensure_place(&self, pool: &dyn RadosPool) -> Result<(), VolumeError> {
        let Some(expected) = &self.place else { return Ok(()) };
        let found = Place { data: expected.data, ..Place::of(pool, None) };
        if found == *expected {
            return Ok(());
        }
        let (expected, found) = (expected.to_string(), found.to_string());
        let pool = pool.kind().name.clone();
        Err(of_root(ClusterError::Elsewhere { pool, expected, found }))
    }

    /// The domain that the namespace `pool` holds, if any.
    ///
    /// # Errors
    /// [`VolumeError::NewerVersion`] if a later version made it; [`VolumeError::Damaged`] if the root object
    /// has not the attributes that it must have; [`BackendError::Io`] with [`ClusterError::Elsewhere`] if it is in
    /// another cluster of Ceph or another pool than it was made in.
    pub fn find(pool: &dyn RadosPool) -> Result<Option<Self>, VolumeError> {
        let found = Self::find_anywhere(pool)?;
        found.iter().try_for_each(|domain| domain.ensure_place(pool))?;
        Ok(found)
    }

    /// The same, wherever it was made: to [adopt](Self::adopt) it.
    ///
    /// # Errors
    /// The others of [`find`](Self::find).
    pub fn find_anywhere(pool: &dyn RadosPool) -> Result<Option<Self>, VolumeError> {
        let answer = match pool.query(ROOT, &Query { xattrs: true, ..Query::default() }) {
            Ok(answer) => answer,
            Err(error) if error.refusal() == Some(Refusal::Absent) => return Ok(None),
            Err(error) => return Err(failed(Operation::Read, error)),
        };
        let of = |name: &str| answer.xattrs.get(name).map_or(&b""[..], |value| value);
        let damaged = |name: &str, expected: &str| VolumeError::Damaged {
            object: ROOT.to_owned(),
            at: 0,
            problem: format!("attribute '{name}' is {:02x?}, expected {expected}", of(name)),
        };
        if answer.xattrs.contains_key(META) {
            let (pool, meta) = (pool.kind().name.clone(), String::from_utf8_lossy(of(META)));
            return Err(of_data(ClusterError::OnlyData { pool, meta: meta.into_owned() }));
        }
        match of(FORMAT) {
            [VERSION] => {}
            [found] if *found > VERSION => {
                let (found, newest) = ((*found).into(), VERSION.into());
                return Err(VolumeError::NewerVersion { found, newest });
            }
            _ => return Err(damaged(FORMAT, "[01]")),
        }
        let id = <[u8; ObjectId::LEN]>::try_from(of(DOMAIN));
        let id = id.map_err(|_| damaged(DOMAIN, "16 bytes"))?;
        let byte = |name: &str| <[u8; 1]>::try_from(of(name)).map(|[byte]| byte).ok();
        let hash = byte(HASH).and_then(Hash::from_code);
        let codec = byte(CODEC).and_then(Codec::from_code);
        let data = answer.xattrs.get(DATA).map(|name| pool_name(name));
        let data = data.map(|name| name.ok_or_else(|| damaged(DATA, "the name of a pool")));
        // an empty attribute is an absent one to guards
        let place = answer.xattrs.get(PLACE).filter(|place| !place.is_empty()).map(|place| {
            let expected = "the fsid of a cluster and the numbers of pools";
            Place::decode(place).ok_or_else(|| damaged(PLACE, expected))
        });
        Ok(Some(Self {
            data: data.transpose()?,
            place: place.transpose()?,
            id: ObjectId::from_bytes(id),
            hash: hash.ok_or_else(|| damaged(HASH, "the code of SHA3-256 or BLAKE3"))?,
            codec: codec.ok_or_else(|| damaged(CODEC, "the code of a codec"))?,
        }))
    }
}

/// Claims the namespace `data` for the containers of a domain in pool `meta`, which has none yet; its id. A claim that
/// a crash left is used again: it is for this pool at `place`, and there are no containers. Any others are of volumes
/// that exist elsewhere, or whose metadata may be restored.
fn claim(data: &dyn RadosPool, meta: &str, place: &Place) -> Result<ObjectId, VolumeError> {
    let refused = |why| {
        let pool = data.kind().name.clone();
        Err(of_data(ClusterError::OtherData { pool, why }))
    };
    let (earlier, container) = (owner(data)?, a_container(data)?);
    if let Some(other) = earlier.filter(|owner| !owner.is_left_of(meta, place)) {
        return refused(format!(
            "{}; if its metadata were lost or copied, restore them, and accept them where they are then with `onefold \
             cluster adopt`",
            other.told()
        ));
    }
    if let Some(container) = container {
        return refused(format!(
            "the namespace has containers, among them '{container}', of volumes whose metadata are missing in pool \
             {meta}: restore the metadata"
        ));
    }
    let id = ObjectId::random();
    let claimed = Update::creating()
        .set(FORMAT, vec![VERSION])
        .set(DOMAIN, Bytes::copy_from_slice(id.as_bytes()))
        .set(META, meta.to_owned().into_bytes())
        .set(PLACE, place.encode());
    let made = data.update(ROOT, claimed);
    match (owner(data)?, made) {
        (Some(found), _) if found.id == id => Ok(id),
        (Some(found), _) if found.is_left_of(meta, place) => {
            // of a version that noted none
            match place.write(data, ROOT, false)? == place.encode() {
                true => Ok(found.id),
                false => refused(found.told()),
            }
        }
        (Some(other), _) => refused(other.told()),
        (None, Err(error)) => Err(failed(Operation::Put, error)),
        (None, Ok(_)) => refused("its claim was removed".to_owned()),
    }
}

/// A container in the namespace `data`, if there is one.
fn a_container(data: &dyn RadosPool) -> Result<Option<String>, VolumeError> {
    let mut found = None;
    let listed = data.list(&mut |object| match Containers::name_of(object) {
        Some(_) => {
            found = Some(object.to_owned());
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    listed.map_err(|error| failed(Operation::List, error))?;
    Ok(found)
}

/// The domain whose containers a namespace has.
struct Owner {
    id: ObjectId,
    /// The name of the pool that has all else of it.
    meta: String,
    /// Where it is, if that is noted.
    place: Option<Place>,
}

impl Owner {
    /// Whether this may be the claim of a domain in pool `meta` at `place` that was never completed.
    fn is_left_of(&self, meta: &str, place: &Place) -> bool {
        self.meta == meta && self.place.as_ref().is_none_or(|at| at == place)
    }

    fn told(&self) -> String {
        let Self { id, meta, place } = self;
        let place = place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        format!("the namespace is of domain {id}, in pool {meta}{place}")
    }
}

/// The domain whose containers are in the namespace `data`.
fn owner(data: &dyn RadosPool) -> Result<Option<Owner>, VolumeError> {
    let answer = match data.query(ROOT, &Query { xattrs: true, ..Query::default() }) {
        Ok(answer) => answer,
        Err(error) if error.refusal() == Some(Refusal::Absent) => return Ok(None),
        Err(error) => return Err(failed(Operation::Read, error)),
    };
    let of = |name: &str| answer.xattrs.get(name).map_or(&b""[..], |value| value);
    let id = <[u8; ObjectId::LEN]>::try_from(of(DOMAIN)).map(ObjectId::from_bytes);
    match (of(FORMAT), id, pool_name(of(META))) {
        ([VERSION], Ok(id), Some(meta)) => {
            Ok(Some(Owner { id, meta, place: Place::decode(of(PLACE)) }))
        }
        ([found, ..], ..) if *found > VERSION => {
            Err(VolumeError::NewerVersion { found: (*found).into(), newest: VERSION.into() })
        }
        _ => {
            let (pool, why) = (
                data.kind().name.clone(),
                format!("the object '{ROOT}' there does not say that it is for containers alone"),
            );
            Err(of_data(ClusterError::OtherData { pool, why }))
        }
    }
}

fn pool_name(bytes: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(bytes).ok()?;
    (1..=LONGEST_POOL).contains(&name.len()).then(|| name.to_owned())
}

fn of_data(error: ClusterError) -> VolumeError {
    unopened("the pool for containers", error)
}

fn of_root(error: ClusterError) -> VolumeError {
    unopened("the pool for metadata", error)
}

fn unopened(place: &str, error: ClusterError) -> VolumeError {
    let (name, place) = (ROOT.to_owned(), place.to_owned());
    BackendError::Io { name, operation: Operation::Open, place, source: error.into() }.into()
}

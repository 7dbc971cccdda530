//! Keys for passwords and for key pairs: what is known of them, adding and removing them.

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::{Cost, Envelope, Keys, ObjectId, Password, PublicKey, SealError, WrappedKey};

use crate::objects::key::{KeyRemark, MAX_LEN, MAX_READ, PREFIX, key_id, key_name};
use crate::objects::read::{read_object, read_objects};
use crate::{Repository, StoreError};

/// A repository has no more keys than this: each costs a try to whoever opens it.
pub(crate) const MAX_KEYS: usize = 64;

/// A key of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its object's id.
    pub id: ObjectId,
    /// What is remembered of it.
    pub remark: KeyRemark,
    /// What it costs to try a password; none if a private key opens it.
    pub cost: Option<Cost>,
    /// Whether the repository was opened with it.
    pub in_use: bool,
}

/// The keys that could be read, oldest first, and what was wrong with the others.
pub type KeyList = (Vec<KeyInfo>, Vec<StoreError>);

/// Whether a key belongs to another repository: an init that was cut off leaves its key behind.
pub(crate) fn is_left_behind(error: &StoreError) -> bool {
    matches!(error, StoreError::Envelope { source: SealError::WrongRepository { .. }, .. })
}

/// What was read of a key.
pub(crate) type ReadKey = (ObjectId, Result<Bytes, StoreError>);

/// What lies below `keys/`.
pub(crate) struct KeyObjects {
    pub(crate) read: Vec<ReadKey>,
    /// Keys that were not read, because there are so many.
    pub(crate) unread: Vec<ObjectId>,
}

/// Reads the keys whose ids begin with `digits`.
pub(crate) fn read_all(objects: &dyn Objects, digits: &str) -> Result<KeyObjects, StoreError> {
    read_listed(objects, &objects.list_names(PREFIX)?, digits)
}

/// The same of those that a listing gave as `names`.
pub(crate) fn read_listed(
    objects: &dyn Objects,
    names: &[String],
    digits: &str,
) -> Result<KeyObjects, StoreError> {
    let ids = names.iter().filter_map(|name| key_id(name));
    let mut fitting: Vec<_> = ids.filter(|id| id.to_string().starts_with(digits)).collect();
    let unread = fitting.split_off(fitting.len().min(MAX_READ));
    let names = fitting.iter().map(|id| key_name(*id));
    let mut read = Vec::new();
    read_objects(objects, names, MAX_LEN, &mut |at, object| read.push((fitting[at], object)))?;
    read.sort_unstable_by_key(|(id, _)| *id);
    Ok(KeyObjects { read, unread })
}

/// Puts a key for the private half of `public`.
fn put_key_for(
    objects: &dyn Objects,
    repository: ObjectId,
    keys: &Keys,
    public: &PublicKey,
    remark: &KeyRemark,
) -> Result<ObjectId, StoreError> {
    let id = ObjectId::random();
    let name = key_name(id);
    let object = WrappedKey::wrap_for(repository, id, keys, public, &remark.encode())
        .map_err(|source| StoreError::Envelope { object: name.clone(), source })?;
    objects.put(&name, object.into())?;
    Ok(id)
}

/// Puts a key for `password`.
pub(crate) fn put_key(
    objects: &dyn Objects,
    envelope: &Envelope,
    keys: &Keys,
    password: &Password,
    cost: Cost,
    remark: &KeyRemark,
) -> Result<ObjectId, StoreError> {
    let (repository, id) = (envelope.repository(), ObjectId::random());
    let name = key_name(id);
    let object = WrappedKey::wrap(repository, id, keys, password, cost, &remark.encode())
        .map_err(|source| StoreError::Envelope { object: name.clone(), source })?;
    objects.put(&name, object.into())?;
    Ok(id)
}

impl Repository {
    /// Every key. Those that cannot be read are given apart.
    pub fn keys(&self) -> Result<KeyList, StoreError> {
        let keys = self.expect_keys()?;
        Ok(self.key_infos(read_all(&*self.objects, "")?.read, keys))
    }

    /// What of the objects of keys is known, and what is wrong with the others, but those that belong to
    /// another repository.
    pub(crate) fn key_infos(&self, objects: Vec<ReadKey>, keys: &Keys) -> KeyList {
        let (mut infos, mut damaged) = (Vec::new(), Vec::new());
        for (id, read) in objects {
            match read.and_then(|object| self.key_info(id, &object, keys)) {
                Ok(info) => infos.push(info),
                Err(error) if is_left_behind(&error) => {}
                Err(error) => damaged.push(error),
            }
        }
        infos.sort_by_key(|info| (info.remark.created, info.id));
        (infos, damaged)
    }

    pub(crate) fn key_info(
        &self,
        id: ObjectId,
        object: &[u8],
        keys: &Keys,
    ) -> Result<KeyInfo, StoreError> {
        let sealed = |source| StoreError::Envelope { object: key_name(id), source };
        let wrapped = WrappedKey::read(self.id(), id, object).map_err(sealed)?;
        let remark = wrapped.remark(keys).map_err(sealed)?;
        let remark = KeyRemark::decode(&remark)
            .map_err(|source| StoreError::Malformed { object: key_name(id), source })?;
        Ok(KeyInfo { id, remark, cost: wrapped.cost(), in_use: self.key == Some(id) })
    }

    /// Adds a key for one more password; durable when this returns.
    pub fn add_key(
        &self,
        password: &Password,
        cost: Cost,
        remark: &KeyRemark,
    ) -> Result<ObjectId, StoreError> {
        let keys = self.expect_room()?;
        put_key(&*self.objects, &self.envelope, keys, password, cost, remark)
    }

    /// Adds a key for the private half of `public`; durable when this returns.
    pub fn add_public_key(
        &self,
        public: &PublicKey,
        remark: &KeyRemark,
    ) -> Result<ObjectId, StoreError> {
        let keys = self.expect_room()?;
        put_key_for(&*self.objects, self.id(), keys, public, remark)
    }

    /// The keys, if one more may be added to those that there are.
    fn expect_room(&self) -> Result<&Keys, StoreError> {
        let found = self.keys()?.0.len() + 1;
        match found > MAX_KEYS {
            true => Err(StoreError::TooManyKeys { found, max: MAX_KEYS }),
            false => self.expect_keys(),
        }
    }

    /// Removes key `id`, which must not be the one that the repository was opened with: so one key
    /// remains of which somebody knows the password.
    pub fn remove_key(&self, id: ObjectId) -> Result<(), StoreError> {
        self.expect_keys()?;
        if self.key == Some(id) {
            return Err(StoreError::KeyInUse { key: id });
        }
        let name = key_name(id);
        let removed = match read_object(&*self.objects, &name, MAX_LEN) {
            Err(error) if error.is_not_found() => {
                return Err(StoreError::NoKey { spec: id.to_string(), count: 0 });
            }
            // No key is as long as that, so it need not be put back.
            Err(StoreError::TooLong { .. }) => None,
            removed => Some(removed?),
        };
        self.objects.delete(&name)?;
        // Two who remove each other's key at the same time would leave none.
        let own = self.key.map(key_name).unwrap_or_default();
        match self.objects.size(&own) {
            Err(error) if error.is_not_found() => {
                removed.map(|removed| self.objects.put(&name, removed)).transpose()?;
                Err(StoreError::KeyInUse { key: id })
            }
            size => size.map(drop).map_err(StoreError::from),
        }
    }
}

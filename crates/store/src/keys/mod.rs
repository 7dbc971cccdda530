//! The keys of an encrypted repository: unlocking it, and adding, removing and rotating keys.
//!
//! One object for each password wraps the master key. The sealing keys of epochs from 1 on are
//! objects of their own, sealed under a key that follows from the master key; so a rotation needs
//! no other password than the one at hand, and rewrites nothing.

pub(crate) mod pair;
pub(crate) mod text;
pub(crate) mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects};
use onefold_seal::wire::Reader;
use onefold_seal::{
    Cost, Envelope, HEADER_LEN, Key, Keys, Kind, ObjectId, Password, PublicKey, SealError,
    WrappedKey,
};

use crate::finding::Finding;
use crate::finding::describe;
use crate::local::early::Opening;
use crate::objects::client::{Step, word_at, word_name};
use crate::objects::key::{
    EPOCHS, KeyRemark, PREFIX, epoch_name, epoch_number, epoch_object, key_id, key_name,
};
use crate::objects::read::{read_object, read_objects};
use crate::{Config, KeyPair, Repository, StoreError};

/// No wrapped key is longer than this, and no epoch.
const MAX_LEN: u64 = 64 << 10;

/// A repository has no more keys than this: each costs a try to whoever opens it.
const MAX_KEYS: usize = 64;

/// So many objects below `keys/` or `epochs/` are read at most: anybody may put some.
const MAX_READ: usize = 1024;

/// What may be spent on trying a password, if the last key that is tried is left out.
const MAX_WORK: u64 = MAX_KEYS as u64 * Cost::STANDARD.work();

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

/// By what a key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyId {
    /// A password's or a private key's: the id of its object.
    Key(ObjectId),
    /// A write-only client's: its number.
    Client(u32),
}

/// What was removed from among the keys, and what was left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleared {
    /// The names of what was removed.
    pub removed: Vec<String>,
    /// What does not open and may be a real one that is damaged, with the reason.
    pub left: Vec<Finding>,
}

/// The keys that could be read, oldest first, and what was wrong with the others.
pub type KeyList = (Vec<KeyInfo>, Vec<StoreError>);

/// An encrypted repository that waits for a password.
pub struct Locked {
    objects: Arc<dyn Objects>,
    id: ObjectId,
    config: Bytes,
    /// Answers that the objects have early.
    early: Option<Opening>,
    /// What the ids of keys to try begin with.
    only: String,
}

impl Locked {
    pub(crate) fn new(
        objects: Arc<dyn Objects>,
        id: ObjectId,
        config: Bytes,
        early: Option<Opening>,
    ) -> Self {
        Self { objects, id, config, early, only: String::new() }
    }

    /// Which repository this is.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    pub(crate) fn into_parts(self) -> (Arc<dyn Objects>, ObjectId) {
        (self.objects, self.id)
    }

    /// Tries only keys whose ids begin with `digits`.
    pub fn only_key(self, digits: &str) -> Self {
        Self { only: digits.to_ascii_lowercase(), ..self }
    }

    /// Opens the repository with a key that `password` unwraps; cheap keys are tried first.
    ///
    /// Whoever can put objects can put garbage below `keys/` and `epochs/`. It costs no more than a
    /// bounded number of reads and tries, and what is not looked at for that is named.
    pub fn unlock(self, password: &Password) -> Result<Repository, StoreError> {
        self.early.iter().for_each(Opening::read);
        let unwrapped = self.unwrap(password)?;
        self.open(unwrapped)
    }

    /// Opens the repository with the key that was wrapped for `pair`, if it is one that the pair was
    /// told of. Anybody can wrap a master key of his own for a public key.
    pub fn unlock_by(self, pair: &KeyPair) -> Result<Repository, StoreError> {
        self.early.iter().for_each(Opening::read);
        let (mut tried, mut strange, mut damaged) = (0, 0, Vec::new());
        let all = read_all(&*self.objects, &self.only)?;
        for (id, read) in all.read {
            let object = match read {
                Ok(object) => object,
                Err(error) => {
                    damaged.push(error);
                    continue;
                }
            };
            let sealed = |source| StoreError::Envelope { object: key_name(id), source };
            let wrapped = match WrappedKey::read(self.id, id, &object) {
                Ok(wrapped) if wrapped.cost().is_some() => continue,
                Ok(wrapped) => wrapped,
                Err(SealError::WrongRepository { .. }) => continue,
                Err(source) => {
                    damaged.push(sealed(source));
                    continue;
                }
            };
            tried += 1;
            match wrapped.unwrap_by(&pair.private) {
                Ok(Some(keys)) => match keys.identity() {
                    Ok(identity) if pair.trusts(self.id, &identity) => {
                        return self.open((id, keys));
                    }
                    _ => strange += 1,
                },
                Ok(None) => {}
                Err(source) => damaged.push(sealed(source)),
            }
        }
        if let Some(first) = all.unread.first() {
            let left = all.unread.len();
            return Err(StoreError::UntriedKeys { tried, left, first: key_name(*first) });
        }
        if strange > 0 {
            return Err(StoreError::StrangeRepository { repository: self.id });
        }
        // A key that cannot be read may be the one for this pair: it is what went wrong.
        Err(damaged.into_iter().next().unwrap_or(StoreError::WrongPair { tried }))
    }

    fn open(self, (key, mut keys): (ObjectId, Keys)) -> Result<Repository, StoreError> {
        let mut unread = Vec::new();
        for (epoch, read) in read_epochs(&*self.objects, self.id, &keys, epochs(&*self.objects)?)? {
            match read {
                Ok(sealing) => keys.add_epoch(epoch, sealing),
                Err(error) if error.is_no_answer() || error.is_unknown_version() => {
                    return Err(error);
                }
                Err(error) => unread.push(error),
            }
        }
        let envelope = Envelope::encrypted(self.id, keys);
        let config = Config::open(&envelope, &self.config)?;
        let mut repository = Repository::assemble(self.objects, envelope, config, Some(key))?;
        repository.early = self.early.map(Opening::into_early);
        repository.lacks_epochs.store(!unread.is_empty(), Ordering::Relaxed);
        for error in unread {
            repository.note_trouble(format_args!(
                "{}; what was sealed in this key epoch cannot be read, if it was one",
                describe(&error)
            ));
        }
        Ok(repository)
    }

    fn unwrap(&self, password: &Password) -> Result<(ObjectId, Keys), StoreError> {
        let mut all = read_all(&*self.objects, &self.only)?;
        let (mut damaged, mut whole, mut others) = (Vec::new(), Vec::new(), 0);
        for (id, read) in &all.read {
            let Ok(object) = read else { continue };
            match WrappedKey::read(self.id, *id, object) {
                Ok(wrapped) => whole.extend(wrapped.cost().map(|cost| (cost.work(), *id, wrapped))),
                Err(SealError::WrongRepository { .. }) => others += 1,
                Err(source) => {
                    damaged.push(StoreError::Envelope { object: key_name(*id), source });
                }
            }
        }
        whole.sort_by_key(|(work, id, _)| (*work, *id));
        let (mut tried, mut spent) = (0, 0);
        for (work, id, wrapped) in whole {
            // Beyond that a stranger would decide how long it takes.
            if spent >= MAX_WORK {
                all.unread.push(id);
                continue;
            }
            spent += work;
            match wrapped.unwrap(password) {
                Ok(Some(keys)) => return Ok((id, keys)),
                Ok(None) => tried += 1,
                Err(source) => {
                    damaged.push(StoreError::Envelope { object: key_name(id), source });
                }
            }
        }
        damaged.extend(all.read.into_iter().filter_map(|(_, read)| read.err()));
        if let Some(first) = all.unread.first() {
            let left = all.unread.len();
            return Err(StoreError::UntriedKeys { tried, left, first: key_name(*first) });
        }
        // A key that cannot be read may be the one for this password: it is what went wrong.
        Err(match damaged.into_iter().next() {
            Some(error) => error,
            None if tried == 0 => StoreError::NoKeys { repository: self.id, others },
            None => StoreError::WrongPassword { tried },
        })
    }
}

/// Whether an object is none that this program, or a later one, put there for this repository.
fn is_garbage(error: &StoreError) -> bool {
    let is_wrong = matches!(
        error,
        StoreError::Envelope { .. } | StoreError::Malformed { .. } | StoreError::TooLong { .. }
    );
    is_wrong && !error.is_unknown_version() && !is_left_behind(error)
}

/// Whether a key belongs to another repository: an init that was cut off leaves its key behind.
fn is_left_behind(error: &StoreError) -> bool {
    matches!(error, StoreError::Envelope { source: SealError::WrongRepository { .. }, .. })
}

/// What was read of a key.
type ReadKey = (ObjectId, Result<Bytes, StoreError>);

/// What lies below `keys/`.
struct KeyObjects {
    read: Vec<ReadKey>,
    /// Keys that were not read, because there are so many.
    unread: Vec<ObjectId>,
}

/// Reads the keys whose ids begin with `digits`.
fn read_all(objects: &dyn Objects, digits: &str) -> Result<KeyObjects, StoreError> {
    read_listed(objects, &objects.list_names(PREFIX)?, digits)
}

/// The same of those that a listing gave as `names`.
fn read_listed(
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

/// The epochs that have an object, in order.
fn epochs(objects: &dyn Objects) -> Result<Vec<u32>, StoreError> {
    Ok(epoch_numbers(&objects.list_names(EPOCHS)?))
}

fn epoch_numbers(names: &[String]) -> Vec<u32> {
    names.iter().filter_map(|name| epoch_number(name)).collect()
}

/// The sealing keys of those epochs that were `found`, in order; those that cannot be read with the
/// reason.
#[expect(clippy::type_complexity, reason = "a number and a result")]
fn read_epochs(
    objects: &dyn Objects,
    repository: ObjectId,
    keys: &Keys,
    mut found: Vec<u32>,
) -> Result<Vec<(u32, Result<Key, StoreError>)>, StoreError> {
    found.truncate(MAX_READ);
    let mut read = Vec::new();
    let names = found.iter().map(|epoch| epoch_name(*epoch));
    read_objects(objects, names, MAX_LEN, &mut |at, object| {
        let opened = object.and_then(|bytes| open_epoch(repository, keys, found[at], &bytes));
        read.push((found[at], opened));
    })?;
    read.sort_unstable_by_key(|(epoch, _)| *epoch);
    Ok(read)
}

fn read_epoch(
    objects: &dyn Objects,
    repository: ObjectId,
    keys: &Keys,
    epoch: u32,
) -> Result<Key, StoreError> {
    let bytes = read_object(objects, &epoch_name(epoch), MAX_LEN)?;
    open_epoch(repository, keys, epoch, &bytes)
}

/// The sealing key that the object `bytes` of `epoch` holds.
fn open_epoch(
    repository: ObjectId,
    keys: &Keys,
    epoch: u32,
    bytes: &[u8],
) -> Result<Key, StoreError> {
    let object = epoch_name(epoch);
    let body = Envelope::encrypted(repository, keys.clone())
        .open(Kind::Epoch, epoch_object(epoch), bytes)
        .map_err(|source| StoreError::Envelope { object: object.clone(), source })?;
    let mut reader = Reader::new(&body);
    let key = reader.array("a sealing key").and_then(|key| reader.finish().map(|()| key));
    Ok(Key::new(key.map_err(|source| StoreError::Malformed { object, source })?))
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
    fn key_infos(&self, objects: Vec<ReadKey>, keys: &Keys) -> KeyList {
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

    fn key_info(&self, id: ObjectId, object: &[u8], keys: &Keys) -> Result<KeyInfo, StoreError> {
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

    /// Removes what lies among keys and words on clients and opens with none of this repository's keys,
    /// and epochs behind the latest that opens: what somebody put there.
    ///
    /// What may be a real one that is damaged stays, unless `even_damaged`.
    pub fn remove_unreadable_keys(&self, even_damaged: bool) -> Result<Cleared, StoreError> {
        let objects = &*self.objects;
        let (mut cleared, mut used) = (Cleared::default(), None);
        loop {
            let mut garbage = Vec::new();
            cleared.left.clear();
            for (name, error) in self.unreadable_keys()? {
                let why = match even_damaged {
                    true => None,
                    false => self.why_real(&name, &error, &mut used)?,
                };
                match why {
                    Some(why) => cleared.left.push(Finding { object: name, problem: why.into() }),
                    None => garbage.push(name),
                }
            }
            if garbage.is_empty() {
                return Ok(cleared);
            }
            // What was not read may be more of it.
            garbage.iter().try_for_each(|name| objects.delete(name))?;
            cleared.removed.append(&mut garbage);
        }
    }

    /// What of keys, later epochs and words on clients does not open, and was put by nobody who has a
    /// key, or is damaged.
    fn unreadable_keys(&self) -> Result<Vec<(String, StoreError)>, StoreError> {
        let keys = self.expect_keys()?;
        let objects = &*self.objects;
        let mut unreadable = Vec::new();
        for (id, read) in read_all(objects, "")?.read {
            let info = read.and_then(|object| self.key_info(id, &object, keys));
            unreadable.extend(info.err().map(|error| (key_name(id), error)));
        }
        for (epoch, read) in read_epochs(objects, self.id(), keys, epochs(objects)?)? {
            let error = read.err().filter(|_| epoch > self.epoch());
            unreadable.extend(error.map(|error| (epoch_name(epoch), error)));
        }
        for (client, step) in self.listed_words()?.into_iter().take(MAX_READ) {
            let error = self.word(client, step).err();
            unreadable.extend(error.map(|error| (word_name(client, step), error)));
        }
        unreadable.retain(|(_, error)| is_garbage(error));
        Ok(unreadable)
    }

    /// Why what does not open may be a real key, epoch or word that is damaged; nothing if it is none.
    fn why_real(
        &self,
        name: &str,
        error: &StoreError,
        used: &mut Option<BTreeSet<u32>>,
    ) -> Result<Option<&'static str>, StoreError> {
        if let Some(epoch) = epoch_number(name) {
            if epoch <= self.last_remembered().map_err(StoreError::Memory)?.epoch() {
                return Ok(Some("this client has seen a key epoch of this number"));
            }
            if used.is_none() {
                *used = Some(self.named_epochs()?);
            }
            if used.as_ref().is_some_and(|used| used.contains(&epoch)) {
                return Ok(Some(
                    "something in the repository says that it was sealed in this key epoch",
                ));
            }
        }
        if let Some((client, step @ (Step::Removed | Step::Kept))) = word_at(name) {
            if self.last_remembered().map_err(StoreError::Memory)?.is_removed(client) {
                return Ok(Some("this client has seen that the key of this client was taken back"));
            }
            let others = [Step::Added, Step::Removed, Step::Kept].into_iter();
            let is_there = |other| self.word(client, other).is_ok_and(|word| word.is_some());
            if others.filter(|other| *other != step).any(is_there) {
                return Ok(Some("there is a client of this number, whose key may be taken back"));
            }
        }
        // A key has a check that needs no key: if that fits and it does not open, it was made so.
        let is_changed = match error {
            StoreError::Envelope { source: SealError::BadTag, .. } => key_id(name).is_none(),
            error => matches!(error, StoreError::Envelope { .. }),
        };
        let header = match is_changed {
            true => self.objects.get(name)?,
            false => Bytes::new(),
        };
        let id = name.rsplit('/').next().and_then(|id| id.parse::<ObjectId>().ok());
        let is_ours = header.get(16..32) == Some(&self.id().as_bytes()[..])
            || id.is_some_and(|id| header.get(32..48) == Some(&id.as_bytes()[..]));
        Ok(is_ours.then_some("it begins as one of this repository does, and may be damaged"))
    }

    /// The key epochs that snapshots, log entries and index runs name, without anything that vouches
    /// for it.
    fn named_epochs(&self) -> Result<BTreeSet<u32>, StoreError> {
        let mut named = BTreeSet::new();
        for prefix in
            [crate::objects::snapshot::PREFIX, crate::objects::entry::PREFIX, onefold_index::PREFIX]
        {
            for info in self.objects.list(prefix)? {
                let len = info.size.min(HEADER_LEN as u64);
                match self.objects.get_range(&info.name, 0..len) {
                    Ok(header) => named.extend(Envelope::claimed_epoch(&header)),
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(named)
    }

    /// The key whose id begins with `digits`.
    pub fn find_key(&self, digits: &str) -> Result<KeyId, StoreError> {
        self.expect_keys()?;
        let digits = digits.to_ascii_lowercase();
        let infos = self.objects.list(PREFIX)?;
        let ids = infos.iter().filter_map(|info| key_id(&info.name));
        let keys = ids.filter(|id| id.to_string().starts_with(&digits)).map(KeyId::Key);
        let clients: BTreeSet<u32> = self.listed_words()?.iter().map(|(one, _)| *one).collect();
        // A whole number: somebody may have put a key there whose id begins so.
        let whole = clients.iter().find(|one| format!("{one:08x}") == digits);
        if let Some(client) = whole {
            return Ok(KeyId::Client(*client));
        }
        let clients = clients.into_iter().filter(|one| format!("{one:08x}").starts_with(&digits));
        let fitting: Vec<_> = keys.chain(clients.map(KeyId::Client)).collect();
        match fitting[..] {
            [id] if !digits.is_empty() => Ok(id),
            _ => Err(StoreError::NoKey { spec: digits, count: fitting.len() }),
        }
    }

    /// Begins the next key epoch and gives its number.
    ///
    /// Whoever opens the repository from now on seals in it. This open repository goes on in the
    /// epoch it was opened in.
    pub fn rotate(&self) -> Result<u32, StoreError> {
        self.expect_keys()?;
        let latest = epochs(&*self.objects)?.last().copied().unwrap_or(0).max(self.epoch());
        // An epoch behind garbage would leave a gap when that is removed.
        if latest > self.epoch() {
            self.read_epoch(latest)?;
        }
        let epoch = latest.checked_add(1).ok_or(StoreError::LastEpoch)?;
        let id = epoch_object(epoch);
        let object = self.envelope.seal(Kind::Epoch, id, Key::random().as_bytes());
        match self.objects.put(&epoch_name(epoch), object.into()) {
            Ok(()) => Ok(epoch),
            Err(BackendError::AlreadyExists { .. }) => Err(StoreError::EpochTaken { epoch }),
            Err(error) => Err(error.into()),
        }
    }

    /// What is wrong with keys and epochs, by name, and what is only worth knowing.
    pub(crate) fn check_keys(&self) -> Result<(Vec<StoreError>, Vec<String>), StoreError> {
        let (objects, mut notes) = (&*self.objects, Vec::new());
        let Some(keys) = self.envelope.keys() else {
            let stray = objects.list(PREFIX)?.into_iter().chain(objects.list(EPOCHS)?);
            let note = |name| format!("{name} is not read: the repository is not encrypted");
            return Ok((Vec::new(), stray.map(|info| note(info.name)).collect()));
        };
        let (listed, found) = (objects.list_names(PREFIX)?, objects.list_names(EPOCHS)?);
        for name in listed.iter().chain(&found) {
            if key_id(name).is_none() && epoch_number(name).is_none() {
                notes.push(format!("{name} is no key and was not read"));
            }
        }
        let KeyObjects { read, unread } = read_listed(objects, &listed, "")?;
        let tried = read.len();
        let (infos, mut findings) = self.key_infos(read, keys);
        let left_behind = tried - infos.len() - findings.len();
        if let Some(first) = unread.first() {
            findings.push(StoreError::UntriedKeys {
                tried,
                left: unread.len(),
                first: key_name(*first),
            });
        }
        if left_behind > 0 {
            notes.push(format!(
                "{left_behind} keys belong to another repository, as an interrupted init leaves them"
            ));
        }
        let found = epoch_numbers(&found);
        // Garbage may have any number; only behind an epoch that opens is another one missing.
        for (_, read) in read_epochs(objects, self.id(), keys, found.clone())? {
            findings.extend(read.err());
        }
        for epoch in (1..keys.epoch()).filter(|epoch| !found.contains(epoch)) {
            findings.push(StoreError::MissingEpoch { object: epoch_name(epoch) });
        }
        let (clients, wrong) = self.clients()?;
        findings.extend(wrong);
        for client in clients.iter().filter(|client| client.is_hidden) {
            findings.push(StoreError::RemovalHidden {
                object: word_name(client.number, Step::Kept),
                client: client.number,
            });
        }
        for client in clients.iter().filter(|client| client.is_half_removed) {
            notes.push(format!(
                "the key of write-only client {:08x} was to be taken back, which was cut off: its \
                 snapshots still count; remove it again",
                client.number
            ));
        }
        Ok((findings, notes))
    }

    /// The sealing key of `epoch`, if it is there by now.
    pub(crate) fn read_epoch(&self, epoch: u32) -> Result<Key, StoreError> {
        read_epoch(&*self.objects, self.id(), self.expect_keys()?, epoch)
    }

    /// What `open` gives; if the object was sealed in a key epoch that began after this repository
    /// was opened, `open` is tried again with the key of that epoch.
    pub(crate) fn with_later_epoch<T>(
        &self,
        open: impl Fn(&Envelope) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let opened = open(&self.envelope);
        let Err(error) = &opened else { return opened };
        let (Some(epoch), Some(keys)) = (error.unknown_epoch(), self.envelope.keys()) else {
            return opened;
        };
        match self.read_epoch(epoch) {
            Ok(key) => {
                let mut keys = keys.clone();
                keys.add_epoch(epoch, key);
                open(&Envelope::encrypted(self.id(), keys))
            }
            Err(error) if error.is_no_answer() => Err(error),
            Err(_) => opened,
        }
    }
}

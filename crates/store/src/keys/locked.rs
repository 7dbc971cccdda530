//! Unlocking an encrypted repository.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::{Cost, Envelope, Keys, ObjectId, Password, SealError, WrappedKey};

use crate::finding::describe;
use crate::keys::epochs::{epochs, read_epochs};
use crate::keys::wrapped::{MAX_KEYS, read_all};
use crate::local::early::Opening;
use crate::objects::key::key_name;
use crate::{Config, KeyPair, Repository, StoreError};

/// What may be spent on trying a password, if the last key that is tried is left out.
const MAX_WORK: u64 = MAX_KEYS as u64 * Cost::STANDARD.work();

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

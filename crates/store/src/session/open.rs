//! Making a repository, and opening one.

use std::sync::Arc;

use onefold_backend::Objects;
use onefold_seal::{Cost, Envelope, Key, Keys, ObjectId, Password, Suite};

use crate::keys::wrapped::put_key;
use crate::local::early::{Early, Opening};
use crate::objects::config;
use crate::objects::key::key_id;
use crate::repository::fingerprinter;
use crate::seeded::fault;
use crate::{Config, KeyRemark, Locked, Repository, StoreError};

/// A repository as it is found: open, or in need of a password.
pub enum Located {
    /// It is not encrypted.
    Open(Box<Repository>),
    /// It is encrypted.
    Locked(Locked),
}

impl Repository {
    /// Makes a repository where there is nothing yet, not encrypted, and opens it.
    pub fn init(objects: Arc<dyn Objects>, config: Config) -> Result<Self, StoreError> {
        config.check_recordable()?;
        // Refused before anything is written.
        fingerprinter(&config, None)?;
        config.expect_possible(None)?;
        Self::expect_free(&*objects)?;
        let envelope = Envelope::plain(ObjectId::random());
        config.create(&*objects, &envelope)?;
        Self::assemble(objects, envelope, config, None)
    }

    /// Makes an encrypted repository where there is nothing yet, with a first key for `password`,
    /// and opens it. Chunks are named by keyed BLAKE3 and cut with a secret, whatever `config`
    /// says, if its algorithm has anything to key.
    pub fn init_encrypted(
        objects: Arc<dyn Objects>,
        config: Config,
        password: &Password,
        cost: Cost,
        remark: &KeyRemark,
    ) -> Result<Self, StoreError> {
        config.check_recordable()?;
        Self::expect_free(&*objects)?;
        let keys = Keys::new(Key::random());
        let envelope = Envelope::encrypted(ObjectId::random(), keys.clone());
        let config = config.keyed(&keys);
        fault!(ConfigBeforeKey => config.create(&*objects, &envelope)?);
        // The key first: a configuration without a key is a repository that nobody can open.
        let key = put_key(&*objects, &envelope, &keys, password, cost, remark)?;
        if !fault!(ConfigBeforeKey) {
            config.create(&*objects, &envelope)?;
        }
        Self::assemble(objects, envelope, config, Some(key))
    }

    /// Looks for the repository, and opens it unless that takes a password.
    pub fn locate(objects: Arc<dyn Objects>) -> Result<Located, StoreError> {
        Self::locate_with(objects, None)
    }

    /// The same for a command, which compares the logs with what it remembers next
    /// ([`recall`](Self::recall)), and then reads chunks if it `needs_index`. Where requests take time
    /// to travel, all that it will ask for is asked at once.
    pub fn locate_early(
        objects: Arc<dyn Objects>,
        needs_index: bool,
    ) -> Result<Located, StoreError> {
        if objects.gap() == 0 {
            return Self::locate(objects);
        }
        let early = Arc::new(Early::new(objects));
        let opening = Opening::begin(Arc::clone(&early), needs_index);
        Self::locate_with(early, Some(opening))
    }

    fn locate_with(
        objects: Arc<dyn Objects>,
        early: Option<Opening>,
    ) -> Result<Located, StoreError> {
        let (id, suite, config) = Config::find(&*objects)?;
        if suite != Suite::Plain {
            return Ok(Located::Locked(Locked::new(objects, id, config, early)));
        }
        early.iter().for_each(Opening::read);
        let envelope = Envelope::plain(id);
        let config = Config::open(&envelope, &config)?;
        let mut repository = Self::assemble(objects, envelope, config, None)?;
        repository.early = early.map(Opening::into_early);
        Ok(Located::Open(Box::new(repository)))
    }

    /// Opens the repository, which must not be encrypted.
    pub fn open(objects: Arc<dyn Objects>) -> Result<Self, StoreError> {
        match Self::locate(objects)? {
            Located::Open(repository) => Ok(*repository),
            Located::Locked(_) => Err(StoreError::Locked),
        }
    }

    /// Fails unless a repository can be made: there is nothing but, at most, the keys of inits that
    /// were cut off.
    pub fn expect_free(objects: &dyn Objects) -> Result<(), StoreError> {
        let is_taken = |name: &String| key_id(name).is_none();
        match objects.list_names("")?.into_iter().find(is_taken) {
            Some(found) if found == config::NAME => Err(StoreError::Exists),
            Some(found) => Err(StoreError::NotEmpty { found }),
            None => Ok(()),
        }
    }
}

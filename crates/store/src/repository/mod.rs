//! An open repository.

pub(crate) mod bundles;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use onefold_backend::{BackendError, Folder, Objects};
use onefold_fingerprint::{FingerprintAlgorithm, Fingerprinter};
use onefold_seal::{Envelope, Keys, ObjectId};

use crate::chunks::loaded::{IndexPlace, Loaded};
use crate::finding::Warning;
use crate::local::cache::ObjectCache;
use crate::local::early::Early;
use crate::objects::client::Removal;
use crate::objects::entry::OwnHead;
use crate::objects::seen::Seen;
use crate::repository::bundles::Bundles;
use crate::{Config, StoreError};

/// An open repository.
///
/// Any number of processes may have the same repository open and back up to it at the same time:
/// they write objects under names of their own and never modify one.
pub struct Repository {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) envelope: Envelope,
    pub(crate) config: Config,
    pub(crate) fingerprinter: Fingerprinter,
    /// The key that it was opened with.
    pub(crate) key: Option<ObjectId>,
    /// For which host it was opened; empty if nobody said.
    pub(crate) host: String,
    /// Where it is remembered what was seen of its logs.
    pub(crate) memory: Option<Arc<dyn Folder>>,
    /// Where a file is locked for each backup of this machine.
    pub(crate) locks: Option<Arc<dyn Folder>>,
    /// What went wrong with these two.
    pub(crate) trouble: Mutex<Vec<Warning>>,
    /// Whether something among the key epochs could not be opened: perhaps one that sealed containers.
    pub(crate) lacks_epochs: AtomicBool,
    /// By number of a write-only client, what stays of it if its key was taken back.
    pub(crate) kept: Mutex<HashMap<u32, Option<Arc<Removal>>>>,
    /// What the logs say, as far as it was read last.
    pub(crate) logged: Mutex<Option<Arc<Seen>>>,
    /// Answers that the objects have early.
    pub(crate) early: Option<Arc<Early>>,
    /// The last entry of this host's log, if nothing contradicted the logs when they were read last.
    pub(crate) own_head: Mutex<Option<OwnHead>>,
    /// Copies of what does not change.
    pub(crate) cache: Option<ObjectCache>,
    /// Whether these are not to be used.
    pub(crate) past_cache: AtomicBool,
    /// Its bundles, as far as they were read.
    pub(crate) bundles: Bundles,
    /// Where its index is kept besides.
    pub(crate) index_place: IndexPlace,
    pub(crate) loaded: OnceLock<Loaded>,
}

impl Repository {
    /// Discards what the storage holds of puts that began longer than `age` ago and never ended, and
    /// returns of how many.
    pub fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
        self.objects.discard_unfinished(age)
    }

    /// Which repository this is.
    pub fn id(&self) -> ObjectId {
        self.envelope.repository()
    }

    /// What was chosen when it was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What names the repository's chunks, with its key if it has one.
    pub fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }

    pub(crate) fn assemble(
        objects: Arc<dyn Objects>,
        envelope: Envelope,
        config: Config,
        key: Option<ObjectId>,
    ) -> Result<Self, StoreError> {
        let fingerprinter = fingerprinter(&config, envelope.keys())?;
        let envelope = envelope.padding(config.padding);
        Ok(Self {
            objects,
            envelope,
            config,
            fingerprinter,
            key,
            host: String::new(),
            memory: None,
            locks: None,
            trouble: Mutex::default(),
            lacks_epochs: AtomicBool::new(false),
            kept: Mutex::default(),
            logged: Mutex::default(),
            early: None,
            own_head: Mutex::default(),
            cache: None,
            past_cache: AtomicBool::new(false),
            bundles: Bundles::default(),
            index_place: IndexPlace::default(),
            loaded: OnceLock::new(),
        })
    }

    /// Whether the repository is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.envelope.keys().is_some()
    }

    /// The epoch in which this open repository seals what it writes; 0 without encryption.
    pub fn epoch(&self) -> u32 {
        self.envelope.keys().map_or(0, Keys::epoch)
    }

    pub(crate) fn expect_keys(&self) -> Result<&Keys, StoreError> {
        self.expect_reading()?;
        self.envelope.keys().ok_or(StoreError::NotEncrypted)
    }

    /// Whether it was opened with a key that can write and not read.
    pub fn is_write_only(&self) -> bool {
        self.envelope.keys().is_some_and(Keys::is_write_only)
    }

    /// Fails if it was opened with a key that can write and not read.
    pub fn expect_reading(&self) -> Result<(), StoreError> {
        match self.is_write_only() {
            true => Err(StoreError::WriteOnly),
            false => Ok(()),
        }
    }

    /// Uses and keeps copies in `cache` from now on.
    pub fn keep_copies(&mut self, cache: ObjectCache) {
        self.cache = Some(cache);
    }

    /// Uses no copies from now on: for whoever examines what the repository itself holds, or deletes
    /// by it.
    pub(crate) fn go_past_cache(&self) {
        self.early.iter().for_each(|early| early.end());
        self.past_cache.store(true, Ordering::Relaxed);
    }

    pub(crate) fn cache(&self) -> Option<&ObjectCache> {
        self.cache.as_ref().filter(|_| !self.is_past_cache())
    }

    pub(crate) fn is_past_cache(&self) -> bool {
        self.past_cache.load(Ordering::Relaxed)
    }

    /// Acts for `host` from now on, whose log tells what is done here, and remembers in `memory` what
    /// it sees of all logs.
    pub fn act_as(&mut self, host: String, memory: Option<Arc<dyn Folder>>) {
        self.host = host;
        self.memory = memory;
    }

    /// Locks a file in `folder` for each backup from now on, by which prunes of this machine tell whether
    /// it lives. The logs of `folder` must have one owner at a time, and the folder must be that of all
    /// who open this repository here.
    pub fn lock_backups_in(&mut self, folder: Arc<dyn Folder>) {
        self.locks = Some(folder);
    }

    /// What the logs say, as far as they were followed.
    pub(crate) fn logs_followed(&self) -> Option<Arc<Seen>> {
        self.logged.lock().expect("no thread panics with it locked").clone()
    }

    pub(crate) fn note_logged(&self, seen: Option<Arc<Seen>>) {
        *self.logged.lock().expect("no thread panics with it locked") = seen;
    }

    /// What went wrong since it was asked last, and stopped nothing: with remembering, or with keys.
    pub fn trouble(&self) -> Vec<Warning> {
        let mut trouble = self.trouble.lock().expect("no thread panics with it locked");
        trouble.extend(self.cache.as_ref().and_then(ObjectCache::take_trouble));
        std::mem::take(&mut *trouble)
    }

    pub(crate) fn note_trouble(&self, text: impl std::fmt::Display) {
        self.trouble.lock().expect("no thread panics with it locked").push(text.to_string());
    }
}

/// What names chunks. Encrypted repositories use keyed BLAKE3, the others anything without a key
/// but SHA-1, whose collisions can be made.
pub(crate) fn fingerprinter(
    config: &Config,
    keys: Option<&Keys>,
) -> Result<Fingerprinter, StoreError> {
    let refused = |expected| {
        let name = config.fingerprint.name();
        let text = format!("a repository cannot name chunks by '{name}': expected {expected}");
        Err(StoreError::Unusable(text))
    };
    match (config.fingerprint, keys) {
        (FingerprintAlgorithm::Blake3Keyed, Some(keys)) => {
            Ok(Fingerprinter::blake3_keyed(*keys.fingerprint().as_bytes()))
        }
        (_, Some(_)) => refused("blake3-keyed, because it is encrypted"),
        (FingerprintAlgorithm::Blake3, None) => Ok(Fingerprinter::blake3()),
        (FingerprintAlgorithm::Sha256, None) => Ok(Fingerprinter::sha256()),
        (FingerprintAlgorithm::Sha3, None) => Ok(Fingerprinter::sha3()),
        _ => refused("blake3, sha256 or sha3-256"),
    }
}

//! Removing what was put among keys and client records and opens with no key of the repository.

use std::collections::BTreeSet;

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::{Envelope, HEADER_LEN, ObjectId, SealError};

use crate::finding::Finding;
use crate::keys::epochs::{epochs, read_epochs};
use crate::keys::wrapped::{is_left_behind, read_all};
use crate::objects::client::{ClientState, record_at, record_name};
use crate::objects::key::{MAX_READ, epoch_name, epoch_number, key_id, key_name};
use crate::objects::{entry, snapshot};
use crate::{Repository, StoreError};

/// What was removed from among the keys, and what was left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleared {
    /// The names of what was removed.
    pub removed: Vec<String>,
    /// What does not open and may be a real one that is damaged, with the reason.
    pub left: Vec<Finding>,
}

impl Repository {
    /// Removes what lies among keys and client records and opens with none of this repository's keys,
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

    /// What of keys, later epochs and client records does not open, and was put by nobody who has a
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
        for (client, state) in self.listed_records()?.into_iter().take(MAX_READ) {
            let error = self.record(client, state).err();
            unreadable.extend(error.map(|error| (record_name(client, state), error)));
        }
        unreadable.retain(|(_, error)| is_garbage(error));
        Ok(unreadable)
    }

    /// Why what does not open may be a real key, epoch or record that is damaged; nothing if it is none.
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
        if let Some((client, state @ (ClientState::Removed | ClientState::Kept))) = record_at(name)
        {
            if self.last_remembered().map_err(StoreError::Memory)?.is_removed(client) {
                return Ok(Some("this client has seen that the key of this client was revoked"));
            }
            let others = [ClientState::Added, ClientState::Removed, ClientState::Kept].into_iter();
            let is_there = |other| self.record(client, other).is_ok_and(|record| record.is_some());
            if others.filter(|other| *other != state).any(is_there) {
                return Ok(Some("there is a client of this number, whose key may be revoked"));
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
        for prefix in [snapshot::PREFIX, entry::PREFIX, onefold_index::PREFIX] {
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
}

/// Whether an object is none that this program, or a later one, put there for this repository.
fn is_garbage(error: &StoreError) -> bool {
    let is_wrong = matches!(
        error,
        StoreError::Envelope { .. } | StoreError::Malformed { .. } | StoreError::TooLong { .. }
    );
    is_wrong && !error.is_unknown_version() && !is_left_behind(error)
}

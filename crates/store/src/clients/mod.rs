//! Write-only clients: each has a number and a key of its own, which its owner can take back.
//!
//! What is known of a client is in words on it, at most three objects that are put one after the
//! other: that it was added, that its key is taken back, and which of its snapshots stay. With the
//! third its snapshots count no more, but for those that it names, each with the check of its object:
//! what was backed up while the key was good stays, and nothing can take its place. Where these are too
//! many for one object, *parts* name them that are put before, and the third word has their checks.
//!
//! A client that commits looks, once its snapshot is there, whether its key is being taken back, and
//! whoever takes it back says so before he looks for its snapshots. So of a snapshot that was
//! acknowledged the third word always knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects};
use onefold_seal::wire::Reader;
use onefold_seal::{Check, Envelope, HEADER_LEN, Kind, ObjectId, SealError};

use crate::finding::describe;
use crate::history::look::Found;
use crate::objects::client::{
    ClientWord, Kept, MAX_LEN, PREFIX, Removal, Step, decode_kept, encode_kept, part_id, part_name,
    part_number, word_at, word_id, word_name,
};
use crate::objects::read::read_object;
use crate::objects::receipt::{self, receipt_name};
use crate::objects::seen::{Commit, Seen};
use crate::objects::snapshot::{self, snapshot_id, snapshot_name};
use crate::seeded::{self, Bug};
use crate::tree::Time;
use crate::{KeyRemark, Repository, Snapshot, StoreError, WriteOnlyKey};

/// So many words are read at most to list clients: anybody may put some.
const MAX_READ: usize = 1024;

/// So many snapshots are named in one object at most.
const MAX_NAMED: usize = 1 << 18;

/// So often another number is drawn if there is a client that has it.
const MAX_DRAWS: u32 = 16;

/// A write-only client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// By which it is known; not 0.
    pub number: u32,
    /// What is remembered of its key. Nothing where that is gone, and only its removal is left.
    pub remark: KeyRemark,
    /// Whether its key was taken back.
    pub is_removed: bool,
    /// Whether that was begun and cut off: its snapshots still count.
    pub is_half_removed: bool,
    /// Whether this was seen to be done and is not there any more: what was put since counts again.
    pub is_hidden: bool,
}

/// The clients that could be read, by their numbers, and what was wrong with others.
pub type ClientList = (Vec<ClientInfo>, Vec<StoreError>);

impl Repository {
    /// Adds a client that is to back up and not to read. The key is given once and stored nowhere.
    pub fn add_client(&self, remark: &KeyRemark) -> Result<WriteOnlyKey, StoreError> {
        let keys = self.expect_keys()?;
        for _ in 0..MAX_DRAWS {
            let [a, b, c, d, ..] = *ObjectId::random().as_bytes();
            let client = u32::from_be_bytes([a, b, c, d]).max(1);
            match self.put_word(client, &ClientWord::Added(remark.clone())) {
                Err(StoreError::Backend(BackendError::AlreadyExists { .. })) => {}
                put => return put.and_then(|()| WriteOnlyKey::new(self, keys, client)),
            }
        }
        let text = "the numbers of clients are all taken: somebody filled 'clients/'";
        Err(StoreError::Unusable(text.into()))
    }

    /// Every write-only client. Those of which something cannot be read are given apart as well.
    pub fn clients(&self) -> Result<ClientList, StoreError> {
        self.expect_keys()?;
        let (mut infos, mut damaged) = (BTreeMap::<u32, ClientInfo>::new(), Vec::new());
        let words = self.listed_words()?;
        let left = words.len().saturating_sub(MAX_READ);
        if left > 0 {
            damaged.push(StoreError::Unusable(format!(
                "{left} more words on clients lie in 'clients/' and were not read: somebody put \
                 garbage there"
            )));
        }
        for (number, step) in words.into_iter().take(MAX_READ) {
            let word = match self.word(number, step) {
                Ok(Some(word)) => word,
                Ok(None) => continue,
                Err(error) if error.is_unreachable() => return Err(error),
                Err(error) => {
                    damaged.push(error);
                    continue;
                }
            };
            let info = infos.entry(number).or_insert_with(|| ClientInfo {
                number,
                remark: KeyRemark::default(),
                is_removed: false,
                is_half_removed: false,
                is_hidden: false,
            });
            match word {
                ClientWord::Added(remark) => info.remark = remark,
                ClientWord::Removed(_) => info.is_half_removed = true,
                ClientWord::Kept(..) => info.is_removed = true,
            }
        }
        // Who cannot remember is told so when the repository is opened.
        let remembered = self.last_remembered().unwrap_or_default();
        for info in infos.values_mut() {
            info.is_hidden = !info.is_removed && remembered.is_removed(info.number);
            info.is_half_removed &= !info.is_removed && !info.is_hidden;
        }
        Ok((infos.into_values().collect(), damaged))
    }

    /// The write-only client that sealed snapshot `id`, if one did, with what is remembered of its key
    /// where that can be read.
    pub fn signer(&self, id: ObjectId) -> Result<Option<(u32, Option<KeyRemark>)>, StoreError> {
        let (_, client) = Snapshot::look_alone(self, id)?;
        let Some(client) = client else { return Ok(None) };
        let remark = match self.word(client, Step::Added) {
            Ok(Some(ClientWord::Added(remark))) => Some(remark),
            Ok(_) => None,
            Err(error) if self.is_damage(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(Some((client, remark)))
    }

    /// The words that a listing shows, in order.
    pub(crate) fn listed_words(&self) -> Result<Vec<(u32, Step)>, StoreError> {
        let listed = self.objects.list_names(PREFIX)?;
        Ok(listed.iter().filter_map(|name| word_at(name)).collect())
    }

    /// Takes the key of a client back. Its snapshots that are there stay, and none that comes counts;
    /// gives those that stay. Doing it again finishes what was cut off, and is harmless.
    ///
    /// Fails if this was seen to be done and is not there any more, or if a snapshot that the client
    /// committed cannot be read and so would not stay, unless `anyway`. All that the client has put then
    /// stays, as far as it can be read.
    pub fn remove_client(&self, client: u32, anyway: bool) -> Result<Vec<ObjectId>, StoreError> {
        self.expect_keys()?;
        self.forget_kept(client);
        let is_hidden = self.kept_of(client)?.is_none()
            && self.last_remembered().map_err(StoreError::Memory)?.is_removed(client);
        if is_hidden && !anyway {
            return Err(StoreError::RemovalHidden {
                object: word_name(client, Step::Kept),
                client,
            });
        }
        let early = match seeded::active(Bug::ClientListedEarly) {
            true => Some(self.snapshots_of(client, anyway)?),
            false => None,
        };
        match self.put_word(client, &ClientWord::Removed(Time::now())) {
            // Whatever it is, a client that looks for it finds it.
            Err(StoreError::Backend(BackendError::AlreadyExists { .. })) => {}
            put => put?,
        }
        self.objects.settle()?;
        let kept = match early {
            Some(early) => early,
            None => self.snapshots_of(client, anyway)?,
        };
        self.forget_kept(client);
        if self.kept_of(client)?.is_none() {
            if !anyway {
                self.expect_all_of(client, &kept)?;
            }
            self.forget_kept(client);
            match self.put_kept(client, &kept) {
                Err(StoreError::Backend(BackendError::AlreadyExists { .. })) => {}
                put => put?,
            }
        }
        // What it committed counts no more.
        self.note_logged(None);
        let there = self.removal(client)?;
        if let (true, Some(removal)) = (is_hidden, &there) {
            self.believe_removal(client, removal.check).map_err(StoreError::Memory)?;
        }
        Ok(there.iter().flat_map(|there| there.kept.keys().copied()).collect())
    }

    /// Fails if `kept` lacks a snapshot that a client committed and nobody forgot, or if it is not known
    /// what it committed.
    fn expect_all_of(&self, client: u32, kept: &Kept) -> Result<(), StoreError> {
        // Who remembers has passed over what a later program wrote.
        let (anew, later) = Seen::anew(self)?;
        if let Some((_, error)) = later.into_iter().find(|(by, _)| *by == client) {
            return Err(error);
        }
        self.note_logged(None);
        let mut committed: BTreeSet<_> = anew.committed_by(client).into_iter().collect();
        committed.extend(self.logged()?.committed_by(client));
        let mut lacking = Vec::new();
        for id in committed.into_iter().filter(|id| !kept.contains_key(id)) {
            match self.is_anothers(client, id)? {
                true => self.note_trouble(format_args!(
                    "{}, which write-only client {client:08x} says it committed, is another's; it is \
                     not kept as its own",
                    snapshot_name(id)
                )),
                false => lacking.push(id),
            }
        }
        match lacking.first() {
            None => Ok(()),
            Some(first) => Err(StoreError::UnreadSnapshots {
                client,
                count: lacking.len(),
                first: snapshot_name(*first),
            }),
        }
    }

    /// Whether a snapshot can be read that another client sealed, or nobody's client.
    fn is_anothers(&self, client: u32, id: ObjectId) -> Result<bool, StoreError> {
        match Snapshot::look_alone(self, id) {
            Ok((Found::Snapshot(_), by)) => Ok(by != Some(client)),
            Ok((Found::Fence | Found::Refused, _)) => Ok(false),
            Err(error) if self.is_damage(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The snapshots that a client has made, as they are now. What cannot be opened is no client's.
    /// Fails at one that only a later program opens, unless `anyway`.
    fn snapshots_of(&self, client: u32, anyway: bool) -> Result<Kept, StoreError> {
        let mut kept = Kept::new();
        for id in self.objects.list_names(snapshot::PREFIX)?.iter().filter_map(|i| snapshot_id(i)) {
            let name = snapshot_name(id);
            let bytes = match read_object(&*self.objects, &name, snapshot::MAX_LEN) {
                Err(error) if error.is_not_found() => continue,
                Err(error) if error.is_no_answer() => return Err(error),
                Err(error) => {
                    self.note_trouble(format_args!("{}; it is not kept", describe(&error)));
                    continue;
                }
                Ok(bytes) => bytes,
            };
            if Envelope::client_of(&bytes) != Some(client) {
                continue;
            }
            match self.envelope.open(Kind::Snapshot, id, &bytes) {
                Ok(_) => drop(kept.insert(id, Check::of(&[&bytes]))),
                Err(source @ SealError::Version { .. }) if !anyway => {
                    return Err(StoreError::Envelope { object: name, source });
                }
                Err(source) => self.note_trouble(format_args!("{name} {source}; it is not kept")),
            }
        }
        Ok(kept)
    }

    /// Whether the snapshot `id`, whose object was found right, counts: it does unless the key of the
    /// client that sealed it was taken back before it was there. Fails if it is another object than
    /// the one that was there then.
    pub(crate) fn counts(&self, id: ObjectId, object: &[u8]) -> Result<bool, StoreError> {
        let Some(client) = Envelope::client_of(object) else { return Ok(true) };
        let Some(kept) = self.kept_of(client)? else { return Ok(true) };
        let Some(check) = kept.get(&id) else { return Ok(false) };
        match check.verify(&[object]) {
            Ok(()) => Ok(true),
            Err(source) => Err(StoreError::Envelope { object: snapshot_name(id), source }),
        }
    }

    /// Whether the key of this client was taken back, and `id` is no snapshot of it that stays.
    pub(crate) fn refuses(&self, client: u32, id: ObjectId) -> Result<bool, StoreError> {
        // A client cannot read what is said of clients, and its snapshots neither.
        if self.is_write_only() {
            return Ok(false);
        }
        Ok(self.kept_of(client)?.is_some_and(|kept| !kept.contains_key(&id)))
    }

    /// Fails if the snapshot `id`, which the write-only client `client` sealed, is by a log or a receipt
    /// somebody else's: then it was put in that one's place.
    pub(crate) fn expect_own_place(&self, id: ObjectId, client: u32) -> Result<(), StoreError> {
        let replaced = |by| Err(StoreError::Replaced { snapshot: id, client, by });
        match self.logged()?.commit(id) {
            Some(Commit { client: Some(by), .. }) if by == client => Ok(()),
            Some(Commit { at, client: Some(other) }) => {
                let by = at.name();
                Err(StoreError::Disputed { snapshot: id, client, by, other })
            }
            Some(Commit { at, client: None }) => replaced(at.name()),
            None => match receipt::read(&*self.objects, &self.envelope, id) {
                Ok(None) => replaced(receipt_name(id)),
                Err(error) if error.is_no_answer() => Err(error),
                // None is there as long as it is not acknowledged; anybody may put a bad one.
                Ok(Some(_)) | Err(_) => Ok(()),
            },
        }
    }

    /// The write-only client that the object `name` says it was sealed by. Nothing vouches for it.
    pub(crate) fn claimed_client(&self, name: &str) -> Result<Option<u32>, StoreError> {
        let len = self.objects.size(name)?.min(HEADER_LEN as u64);
        Ok(Envelope::client_of(&self.objects.get_range(name, 0..len)?))
    }

    /// The snapshots of a client that stay; nothing as long as its key is good.
    pub(crate) fn kept_of(&self, client: u32) -> Result<Option<Arc<Kept>>, StoreError> {
        Ok(self.removal(client)?.map(|removal| Arc::clone(&removal.kept)))
    }

    /// What the last word on a client says; nothing as long as its key is good.
    pub(crate) fn removal(&self, client: u32) -> Result<Option<Arc<Removal>>, StoreError> {
        let mut known = self.kept.lock().expect("no thread panics with it locked");
        if let Some(removal) = known.get(&client) {
            return Ok(removal.clone());
        }
        let removal = match self.checked_word(client, Step::Kept)? {
            Some((ClientWord::Kept(mut kept, parts), check)) => {
                for (part, check) in parts {
                    kept.extend(self.part(client, part, check)?);
                }
                Some(Arc::new(Removal { check, kept: Arc::new(kept) }))
            }
            _ => None,
        };
        known.insert(client, removal.clone());
        Ok(removal)
    }

    fn forget_kept(&self, client: u32) {
        self.kept.lock().expect("no thread panics with it locked").remove(&client);
    }

    /// Clients whose keys were taken back, as far as a listing shows them and they can be read.
    pub(crate) fn removed_clients(&self) -> Result<BTreeMap<u32, Check>, StoreError> {
        let mut removed = BTreeMap::new();
        let words = self.listed_words()?.into_iter().filter(|(_, step)| *step == Step::Kept);
        for (client, _) in words.take(MAX_READ) {
            match self.removal(client) {
                Ok(removal) => removed.extend(removal.map(|removal| (client, removal.check))),
                Err(error) if self.is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// Fails if this is a write-only client whose key was taken back.
    pub(crate) fn expect_good_key(&self) -> Result<(), StoreError> {
        let Some(client) = self.envelope.keys().and_then(onefold_seal::Keys::client) else {
            return Ok(());
        };
        // It cannot open what stands there, and need not: nobody else looks for its name.
        match self.objects.size(&word_name(client, Step::Removed)) {
            Ok(_) => Err(StoreError::KeyTakenBack { client }),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn put_word(&self, client: u32, word: &ClientWord) -> Result<(), StoreError> {
        let (id, name) = (word_id(client, word.step()), word_name(client, word.step()));
        self.put_object(id, name, &word.encode()).map(drop)
    }

    /// Puts an object about a client, and gives its check.
    fn put_object(&self, id: ObjectId, name: String, body: &[u8]) -> Result<Check, StoreError> {
        let object = self.envelope.seal(Kind::Client, id, body);
        let (check, len) = (Check::of(&[&object]), object.len() as u64);
        if len > MAX_LEN {
            return Err(StoreError::TooLong { object: name, len, max: MAX_LEN });
        }
        self.objects.put(&name, Bytes::from(object))?;
        Ok(check)
    }

    /// Puts the last word on a client: of many snapshots, parts that name them before it. Parts of
    /// which no word tells, because it was cut off, mean nothing.
    fn put_kept(&self, client: u32, kept: &Kept) -> Result<(), StoreError> {
        let max = if seeded::are_words_short() { 1 } else { MAX_NAMED };
        if kept.len() <= max {
            return self.put_word(client, &ClientWord::Kept(kept.clone(), Vec::new()));
        }
        let all: Vec<_> = kept.iter().map(|(id, check)| (*id, *check)).collect();
        let (mut parts, mut late) = (Vec::new(), Vec::new());
        for named in all.chunks(max) {
            let part = part_number();
            let body = encode_kept(named.iter().copied(), named.len());
            let check = match seeded::active(Bug::PartsPutLast) {
                true => {
                    let object = self.envelope.seal(Kind::Client, part_id(client, part), &body);
                    let check = Check::of(&[&object]);
                    late.push((part, object));
                    check
                }
                false => self.put_object(part_id(client, part), part_name(client, part), &body)?,
            };
            parts.push((part, check));
        }
        self.put_word(client, &ClientWord::Kept(Kept::new(), parts))?;
        for (part, object) in late {
            self.objects.put(&part_name(client, part), Bytes::from(object))?;
        }
        Ok(())
    }

    /// What a part of the last word on a client names; its object must have `check`.
    fn part(&self, client: u32, part: u64, check: Check) -> Result<Kept, StoreError> {
        let (id, object) = (part_id(client, part), part_name(client, part));
        let bytes = match read_object(&*self.objects, &object, MAX_LEN) {
            // No snapshot that it names may pass for one that is gone.
            Err(error) if error.is_not_found() => {
                return Err(StoreError::Unusable(format!(
                    "{object} is missing, which names snapshots of write-only client {client:08x} \
                     that stay: put it back from a copy"
                )));
            }
            read => read?,
        };
        let opened =
            check.verify(&[&bytes]).and_then(|()| self.envelope.open(Kind::Client, id, &bytes));
        let body =
            opened.map_err(|source| StoreError::Envelope { object: object.clone(), source })?;
        let mut reader = Reader::new(&body);
        decode_kept(&mut reader)
            .and_then(|kept| reader.finish().map(|()| kept))
            .map_err(|source| StoreError::Malformed { object, source })
    }

    /// What is said of a client, if it is.
    pub(crate) fn word(&self, client: u32, step: Step) -> Result<Option<ClientWord>, StoreError> {
        Ok(self.checked_word(client, step)?.map(|(word, _)| word))
    }

    /// What is said of a client, if it is, with the check of its object.
    fn checked_word(
        &self,
        client: u32,
        step: Step,
    ) -> Result<Option<(ClientWord, Check)>, StoreError> {
        let (id, object) = (word_id(client, step), word_name(client, step));
        let bytes = match read_object(&*self.objects, &object, MAX_LEN) {
            Err(error) if error.is_not_found() => return Ok(None),
            read => read?,
        };
        match self.envelope.open(Kind::Client, id, &bytes) {
            Ok(body) => ClientWord::decode(step as u64, &body)
                .map(|word| Some((word, Check::of(&[&bytes]))))
                .map_err(|source| StoreError::Malformed { object, source }),
            Err(source) => Err(StoreError::Envelope { object, source }),
        }
    }
}

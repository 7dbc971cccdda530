//! What the repository says of write-only clients: which were added, whose keys were taken back, and
//! what of these stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_backend::Objects;
use onefold_seal::wire::Reader;
use onefold_seal::{Check, Envelope, HEADER_LEN, Kind, ObjectId};

use crate::objects::client::{
    ClientRecord, ClientState, KeptSnapshots, MAX_LEN, PREFIX, Removal, decode_kept, part_id,
    part_name, record_at, record_id, record_name,
};
use crate::objects::read::read_object;
use crate::objects::snapshot::snapshot_name;
use crate::{Repository, StoreError};

/// So many records are read at most to list clients: anybody may put some.
pub(crate) const MAX_RECORDS: usize = 1024;

impl Repository {
    /// The records that a listing shows, in order.
    pub(crate) fn listed_records(&self) -> Result<Vec<(u32, ClientState)>, StoreError> {
        let listed = self.objects.list_names(PREFIX)?;
        Ok(listed.iter().filter_map(|name| record_at(name)).collect())
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

    /// The snapshots of a client that stay; nothing as long as its key is good.
    pub(crate) fn kept_of(&self, client: u32) -> Result<Option<Arc<KeptSnapshots>>, StoreError> {
        Ok(self.removal(client)?.map(|removal| Arc::clone(&removal.kept)))
    }

    /// What the last record of a client says; nothing as long as its key is good.
    pub(crate) fn removal(&self, client: u32) -> Result<Option<Arc<Removal>>, StoreError> {
        let mut known = self.kept.lock().expect("no thread panics with it locked");
        if let Some(removal) = known.get(&client) {
            return Ok(removal.clone());
        }
        let removal = match self.checked_record(client, ClientState::Kept)? {
            Some((ClientRecord::Kept(mut kept, parts), check)) => {
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

    pub(crate) fn forget_kept(&self, client: u32) {
        self.kept.lock().expect("no thread panics with it locked").remove(&client);
    }

    /// Clients whose keys were taken back, as far as a listing shows them and they can be read.
    pub(crate) fn removed_clients(&self) -> Result<BTreeMap<u32, Check>, StoreError> {
        let mut removed = BTreeMap::new();
        let records =
            self.listed_records()?.into_iter().filter(|(_, state)| *state == ClientState::Kept);
        for (client, _) in records.take(MAX_RECORDS) {
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
        match self.objects.size(&record_name(client, ClientState::Removed)) {
            Ok(_) => Err(StoreError::KeyTakenBack { client }),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What a part of the last record of a client names; its object must have `check`.
    fn part(&self, client: u32, part: u64, check: Check) -> Result<KeptSnapshots, StoreError> {
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
    pub(crate) fn record(
        &self,
        client: u32,
        state: ClientState,
    ) -> Result<Option<ClientRecord>, StoreError> {
        Ok(self.checked_record(client, state)?.map(|(record, _)| record))
    }

    /// What is said of a client, if it is, with the check of its object.
    fn checked_record(
        &self,
        client: u32,
        state: ClientState,
    ) -> Result<Option<(ClientRecord, Check)>, StoreError> {
        let (id, object) = (record_id(client, state), record_name(client, state));
        let bytes = match read_object(&*self.objects, &object, MAX_LEN) {
            Err(error) if error.is_not_found() => return Ok(None),
            read => read?,
        };
        match self.envelope.open(Kind::Client, id, &bytes) {
            Ok(body) => ClientRecord::decode(state as u64, &body)
                .map(|record| Some((record, Check::of(&[&bytes]))))
                .map_err(|source| StoreError::Malformed { object, source }),
            Err(source) => Err(StoreError::Envelope { object, source }),
        }
    }

    /// The write-only client that the object `name` says it was sealed by. Nothing vouches for it.
    pub(crate) fn claimed_client(&self, name: &str) -> Result<Option<u32>, StoreError> {
        let len = self.objects.size(name)?.min(HEADER_LEN as u64);
        Ok(Envelope::client_of(&self.objects.get_range(name, 0..len)?))
    }
}

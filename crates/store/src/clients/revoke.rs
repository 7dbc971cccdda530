//! Taking the key of a client back.

use std::collections::BTreeSet;

use bytes::Bytes;
use onefold_backend::{BackendError, Objects};
use onefold_seal::{Check, Envelope, Kind, ObjectId, SealError};

use crate::finding::describe;
use crate::history::look::Found;
use crate::objects::client::{
    ClientRecord, ClientState, KeptSnapshots, encode_kept, part_id, part_name, part_number,
    record_name,
};
use crate::objects::read::read_object;
use crate::objects::seen::Seen;
use crate::objects::snapshot::{self, snapshot_id, snapshot_name};
use crate::seeded::{self, fault};
use crate::tree::Time;
use crate::{Repository, Snapshot, StoreError};

/// So many snapshots are named in one object at most.
const MAX_NAMED: usize = 1 << 18;

impl Repository {
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
                object: record_name(client, ClientState::Kept),
                client,
            });
        }
        let early = match fault!(ClientListedEarly) {
            true => Some(self.snapshots_of(client, anyway)?),
            false => None,
        };
        match self.put_record(client, &ClientRecord::Removed(Time::now())) {
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
    fn expect_all_of(&self, client: u32, kept: &KeptSnapshots) -> Result<(), StoreError> {
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
    fn snapshots_of(&self, client: u32, anyway: bool) -> Result<KeptSnapshots, StoreError> {
        let mut kept = KeptSnapshots::new();
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

    /// Puts the last record of a client: of many snapshots, parts that name them before it. Parts of
    /// which no record tells, because it was cut off, mean nothing.
    fn put_kept(&self, client: u32, kept: &KeptSnapshots) -> Result<(), StoreError> {
        let max = if seeded::are_words_short() { 1 } else { MAX_NAMED };
        if kept.len() <= max {
            return self.put_record(client, &ClientRecord::Kept(kept.clone(), Vec::new()));
        }
        let all: Vec<_> = kept.iter().map(|(id, check)| (*id, *check)).collect();
        let (mut parts, mut late) = (Vec::new(), Vec::new());
        for named in all.chunks(max) {
            let part = part_number();
            let body = encode_kept(named.iter().copied(), named.len());
            let check = match fault!(PartsPutLast) {
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
        self.put_record(client, &ClientRecord::Kept(KeptSnapshots::new(), parts))?;
        for (part, object) in late {
            self.objects.put(&part_name(client, part), Bytes::from(object))?;
        }
        Ok(())
    }
}

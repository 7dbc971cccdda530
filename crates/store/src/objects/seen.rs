//! What a client has seen of a repository's logs, as it keeps it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{Check, ObjectId, PSEUDONYM_LEN};

use crate::objects::entry::{At, OwnHead, Writer};
use crate::objects::read::{ids, text};

/// What was seen of a repository's logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub(crate) heads: BTreeMap<Writer, Head>,
    /// Snapshots that were committed and not forgotten.
    pub(crate) committed: BTreeMap<ObjectId, Commit>,
    /// Snapshots that were forgotten and of whose commit no entry was seen.
    pub(crate) forgotten: BTreeSet<ObjectId>,
    /// Write-only clients whose keys were taken back, each with the check of what says what stays.
    pub(crate) removed: BTreeMap<u32, Check>,
    /// The latest key epoch.
    pub(crate) epoch: u32,
}

/// What says that a snapshot is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Which entry.
    pub(crate) at: At,
    /// The write-only client that sealed it; nobody if it was somebody who can read.
    pub(crate) client: Option<u32>,
}

/// The last entry that was seen of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) sequence: u64,
    /// Over the whole entry as it is stored.
    pub(crate) check: Check,
    /// As the log says; empty for who cannot read it.
    pub(crate) host: String,
}

impl Seen {
    /// Whether some log names the snapshot as one that is there.
    pub(crate) fn has(&self, snapshot: ObjectId) -> bool {
        self.committed.contains_key(&snapshot)
    }

    /// The snapshots that a write-only client committed.
    pub(crate) fn committed_by(&self, client: u32) -> Vec<ObjectId> {
        let by_it = |commit: &Commit| commit.client == Some(client);
        self.committed.iter().filter(|(_, commit)| by_it(commit)).map(|(id, _)| *id).collect()
    }

    /// The snapshots that somebody who can read committed in `writer`'s log, the last first.
    pub(crate) fn committed_in(&self, writer: Writer) -> Vec<ObjectId> {
        let is_in = |commit: &Commit| commit.at.writer == writer && commit.client.is_none();
        let mut committed: Vec<_> =
            self.committed.iter().filter(|(_, commit)| is_in(commit)).collect();
        committed.sort_by_key(|(_, commit)| Reverse(commit.at.sequence));
        committed.into_iter().map(|(id, _)| *id).collect()
    }

    /// How many entries the logs have, as far as they were seen.
    pub(crate) fn entry_count(&self) -> u64 {
        self.heads.values().fold(0, |sum, head| sum.saturating_add(head.sequence).saturating_add(1))
    }

    /// How many snapshots are there, as far as logs tell.
    pub(crate) fn snapshot_count(&self) -> u64 {
        self.committed.len() as u64
    }

    /// What says that the snapshot is there.
    pub(crate) fn commit(&self, snapshot: ObjectId) -> Option<Commit> {
        self.committed.get(&snapshot).copied()
    }

    /// The latest key epoch that was seen.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The last entry of `writer`'s log that was seen, with its check.
    pub(crate) fn head(&self, writer: Writer) -> OwnHead {
        let head = self.heads.get(&writer)?;
        Some((At { writer, sequence: head.sequence }, head.check))
    }

    /// The last entry of `writer`'s log that was seen.
    pub(crate) fn last(&self, writer: Writer) -> Option<At> {
        Some(At { writer, sequence: self.heads.get(&writer)?.sequence })
    }

    /// The host whose log this is, if that is known.
    pub(crate) fn host(&self, writer: Writer) -> Option<&str> {
        Some(&*self.heads.get(&writer)?.host).filter(|host| !host.is_empty())
    }

    /// Whether the key of this write-only client was taken back.
    pub(crate) fn is_removed(&self, client: u32) -> bool {
        self.removed.contains_key(&client)
    }

    /// Believes another removal of the same key.
    pub(crate) fn believe_removal(&mut self, client: u32, check: Check) {
        self.removed.insert(client, check);
    }

    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        body.put_varint(self.heads.len() as u64);
        for (writer, head) in &self.heads {
            body.extend_from_slice(&writer.0);
            body.put_varint(head.sequence);
            body.extend_from_slice(head.check.as_bytes());
            body.put_bytes(head.host.as_bytes());
        }
        body.put_varint(self.committed.len() as u64);
        for (id, Commit { at, client }) in &self.committed {
            body.extend_from_slice(id.as_bytes());
            body.extend_from_slice(at.id().as_bytes());
            body.put_u32(client.unwrap_or(0));
        }
        body.put_varint(self.forgotten.len() as u64);
        self.forgotten.iter().for_each(|id| body.extend_from_slice(id.as_bytes()));
        body.put_varint(self.removed.len() as u64);
        for (client, check) in &self.removed {
            body.put_u32(*client);
            body.extend_from_slice(check.as_bytes());
        }
        body.put_u32(self.epoch);
    }

    /// Decodes what was seen, as a client keeps it.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let mut seen = Self::default();
        for _ in 0..reader.count(PSEUDONYM_LEN, "the count of logs")? {
            let writer = Writer(reader.array("a writer")?);
            let sequence = reader.varint("a number")?;
            let check = Check::from_bytes(reader.array("a check")?);
            let host = text(&mut reader)?;
            seen.heads.insert(writer, Head { sequence, check, host });
        }
        for _ in 0..reader.count(2 * ObjectId::LEN, "the count of snapshots")? {
            let id = ObjectId::from_bytes(reader.array("a snapshot")?);
            let at = At::of(ObjectId::from_bytes(reader.array("an entry")?));
            let client = Some(reader.u32("a client")?).filter(|client| *client != 0);
            seen.committed.insert(id, Commit { at, client });
        }
        seen.forgotten =
            ids(&mut reader, "the count of forgotten snapshots")?.into_iter().collect();
        for _ in 0..reader.count(size_of::<u32>(), "the count of removed clients")? {
            let client = reader.u32("a client")?;
            seen.removed.insert(client, Check::from_bytes(reader.array("a check")?));
        }
        seen.epoch = reader.u32("a key epoch")?;
        reader.finish()?;
        Ok(seen)
    }
}

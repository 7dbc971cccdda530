//! Entries of logs: their names, and what they hold.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use bytes::Bytes;
use onefold_backend::Objects;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, Envelope, Kind, ObjectId, PSEUDONYM_LEN};

use crate::StoreError;
use crate::objects::read::{ids, read_object, text};
use crate::tree::Time;

/// Under which prefix of a repository log entries lie.
pub(crate) const PREFIX: &str = "logs/";

/// No log entry is longer than this.
pub(crate) const MAX_LEN: u64 = 16 << 20;

/// So many snapshots are named in one entry at most.
pub(crate) const MAX_NAMED: usize = 1 << 16;

/// Whose log it is: a host's pseudonym.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Writer(pub(crate) [u8; PSEUDONYM_LEN]);

impl Writer {
    /// What the host `host` is in the logs.
    pub(crate) fn of(envelope: &Envelope, host: &str) -> Self {
        Self(envelope.pseudonym(host.as_bytes()))
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Which entry of which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct At {
    pub(crate) writer: Writer,
    /// Counted from 0.
    pub(crate) sequence: u64,
}

impl At {
    /// The entry that is called `name`, or `None` if that is no log entry's name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(Self::of(name.strip_prefix(PREFIX)?.parse().ok()?))
    }

    /// The entry whose object has this id.
    pub(crate) fn of(id: ObjectId) -> Self {
        let (writer, sequence) = id.as_bytes().split_at(PSEUDONYM_LEN);
        let sequence = u64::from_be_bytes(sequence.try_into().expect("the other half"));
        Self { writer: Writer(writer.try_into().expect("one half")), sequence }
    }

    /// The id of the object: writer, then number.
    pub(crate) fn id(self) -> ObjectId {
        let mut id = [0; ObjectId::LEN];
        id[..PSEUDONYM_LEN].copy_from_slice(&self.writer.0);
        id[PSEUDONYM_LEN..].copy_from_slice(&self.sequence.to_be_bytes());
        ObjectId::from_bytes(id)
    }

    /// The name of the object.
    pub(crate) fn name(self) -> String {
        format!("{PREFIX}{}", self.id())
    }

    /// The object, if it is there.
    pub(crate) fn fetch(self, objects: &dyn Objects) -> Result<Option<Bytes>, StoreError> {
        if_there(read_object(objects, &self.name(), MAX_LEN))
    }
}

/// An entry of a writer's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The check of the entry before it; none if there is none, or it is gone and settled.
    pub previous: Option<Check>,
    /// When it was put.
    pub time: Time,
    /// The writer's host.
    pub host: String,
    /// Snapshots that are there.
    pub committed: Vec<ObjectId>,
    /// Snapshots that are about to be forgotten.
    pub forgotten: Vec<ObjectId>,
    /// Numbers of entries of this log, first and last of each range, that are missing or wrong, as a
    /// repair has found: nobody need miss them any more.
    pub settled: Vec<(u64, u64)>,
}

impl LogEntry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.put_bytes(self.previous.as_ref().map_or(&[][..], |check| check.as_bytes()));
        self.time.encode(&mut body);
        body.put_bytes(self.host.as_bytes());
        for list in [&self.committed, &self.forgotten] {
            body.put_varint(list.len() as u64);
            list.iter().for_each(|id| body.extend_from_slice(id.as_bytes()));
        }
        body.put_varint(self.settled.len() as u64);
        for (first, last) in &self.settled {
            body.put_varint(*first);
            body.put_varint(*last);
        }
        body
    }

    /// Decodes an entry's body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let previous = match reader.bytes("a check")? {
            [] => None,
            check => {
                let check: [u8; CHECK_LEN] =
                    check.try_into().map_err(|_| reader.error("a check of 16 bytes"))?;
                Some(Check::from_bytes(check))
            }
        };
        let time = Time::decode(&mut reader)?;
        let host = text(&mut reader)?;
        let mut named = |count, most| match ids(&mut reader, count)? {
            ids if ids.len() > MAX_NAMED => Err(reader.error(most)),
            ids => Ok(ids),
        };
        let committed = named("the count of snapshots", "at most 65,536 snapshots")?;
        let forgotten = named("the count of forgotten snapshots", "at most 65,536 forgotten ones")?;
        let count = reader.count(2, "the count of settled entries")?;
        let mut range = || Ok((reader.varint("a number")?, reader.varint("a number")?));
        let settled = (0..count).map(|_| range()).collect::<Result<_, WireError>>()?;
        reader.finish()?;
        Ok(Self { previous, time, host, committed, forgotten, settled })
    }

    /// The entry `at`, whose object is `bytes`.
    pub(crate) fn open(envelope: &Envelope, at: At, bytes: &[u8]) -> Result<Self, StoreError> {
        let object = at.name();
        match envelope.open(Kind::LogEntry, at.id(), bytes) {
            Ok(body) => {
                Self::decode(&body).map_err(|source| StoreError::Malformed { object, source })
            }
            Err(source) => Err(StoreError::Envelope { object, source }),
        }
    }
}

/// The numbers of the entries that a listing shows of each log, in order.
pub(crate) fn list(objects: &dyn Objects) -> Result<Vec<At>, StoreError> {
    Ok(objects.list_names(PREFIX)?.iter().filter_map(|name| At::parse(name)).collect())
}

/// Of the entries in `names`, which are sorted, the last of each log.
pub(crate) fn last_of_each(names: &[String]) -> impl Iterator<Item = String> {
    let mut last = BTreeMap::new();
    for at in names.iter().filter_map(|name| At::parse(name)) {
        last.insert(at.writer, at.sequence);
    }
    last.into_iter().map(|(writer, sequence)| At { writer, sequence }.name())
}

pub(crate) fn if_there(read: Result<Bytes, StoreError>) -> Result<Option<Bytes>, StoreError> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The last entry of this host's log, and its check; nothing if it has none.
pub(crate) type OwnHead = Option<(At, Check)>;

/// An entry that was put, and its object.
pub(crate) type Appended = (At, Bytes);

/// Entries, as far as they were read ahead; nothing in the place of those that are not there.
pub(crate) type Fetched = HashMap<At, Result<Option<Bytes>, StoreError>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_stand_for_each_other() {
        for sequence in [0, 1, 256, u64::MAX] {
            let at = At { writer: Writer([7; 8]), sequence };
            assert_eq!(At::parse(&at.name()), Some(at));
        }
        let at = At { writer: Writer([0xab; 8]), sequence: 258 };
        assert_eq!(at.name(), "logs/abababababababab0000000000000102");
        for wrong in ["logs/1", "log/abababababababab0000000000000102", "logs/"] {
            assert_eq!(At::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_encoded_decodes_and_nothing_shorter_does() {
        let entry = LogEntry {
            previous: Some(Check::from_bytes([3; 16])),
            time: Time { secs: -1, nanos: 2 },
            host: "host".into(),
            committed: vec![ObjectId::from_bytes([1; 16])],
            forgotten: vec![ObjectId::from_bytes([2; 16]), ObjectId::from_bytes([4; 16])],
            settled: vec![(3, 3), (300, u64::MAX)],
        };
        let body = entry.encode();
        assert_eq!(LogEntry::decode(&body), Ok(entry.clone()));
        assert!((0..body.len()).all(|len| LogEntry::decode(&body[..len]).is_err()));
        let first = LogEntry { previous: None, ..entry.clone() };
        assert_eq!(LogEntry::decode(&first.encode()), Ok(first));
        let named = |count| vec![ObjectId::from_bytes([1; 16]); count];
        let many = LogEntry { committed: named(MAX_NAMED), ..entry.clone() };
        assert_eq!(LogEntry::decode(&many.encode()), Ok(many));
        for list in 0..2 {
            let mut lists = [Vec::new(), Vec::new()];
            lists[list] = named(MAX_NAMED + 1);
            let [committed, forgotten] = lists;
            let more = LogEntry { committed, forgotten, ..entry.clone() };
            assert!(LogEntry::decode(&more.encode()).is_err());
        }
    }
}

//! Records of write-only clients: their names, and what they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::objects::key::KeyRemark;
use crate::tree::Time;

/// Under which prefix of a repository client records lie.
pub(crate) const PREFIX: &str = "clients/";

/// No record of a client is longer than this.
pub(crate) const MAX_LEN: u64 = 16 << 20;

/// The snapshots of a client that stay, each with the check of its object.
pub(crate) type KeptSnapshots = BTreeMap<ObjectId, Check>;

/// What the last record of a client says.
#[derive(Debug)]
pub(crate) struct Removal {
    /// Over the whole record as it is stored.
    pub(crate) check: Check,
    pub(crate) kept: Arc<KeptSnapshots>,
}

/// The state that a record says a client is in; it goes through them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClientState {
    Added = 0,
    Removed = 1,
    Kept = 2,
}

/// The id of a record: the number of its client, then the state.
pub(crate) fn record_id(client: u32, state: ClientState) -> ObjectId {
    ObjectId::from_bytes((u128::from(client) << 64 | state as u128).to_be_bytes())
}

/// The name of a record.
pub(crate) fn record_name(client: u32, state: ClientState) -> String {
    format!("{PREFIX}{}", record_id(client, state))
}

/// The id of a part of the last record of a client: their numbers, which no state has.
pub(crate) fn part_id(client: u32, part: u64) -> ObjectId {
    ObjectId::from_bytes((u128::from(client) << 64 | u128::from(part)).to_be_bytes())
}

pub(crate) fn part_name(client: u32, part: u64) -> String {
    format!("{PREFIX}{}", part_id(client, part))
}

/// Which record of which client `name` is; nothing if it is no such name.
pub(crate) fn record_at(name: &str) -> Option<(u32, ClientState)> {
    let id: ObjectId = name.strip_prefix(PREFIX)?.parse().ok()?;
    let id = u128::from_be_bytes(*id.as_bytes());
    let client = u32::try_from(id >> 64).ok().filter(|client| *client != 0)?;
    let is_it = |state: &ClientState| *state as u64 == id as u64;
    Some((
        client,
        [ClientState::Added, ClientState::Removed, ClientState::Kept].into_iter().find(is_it)?,
    ))
}

/// What the repository says of a write-only client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientRecord {
    /// It was added.
    Added(KeyRemark),
    /// Its key is taken back, since this time.
    Removed(Time),
    /// Its snapshots count no more but for these, each with the check of its object, and those that
    /// parts name: their numbers, each with the check of its object.
    Kept(BTreeMap<ObjectId, Check>, Vec<(u64, Check)>),
}

impl ClientRecord {
    pub(crate) const fn state(&self) -> ClientState {
        match self {
            Self::Added(_) => ClientState::Added,
            Self::Removed(_) => ClientState::Removed,
            Self::Kept(..) => ClientState::Kept,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        match self {
            Self::Added(remark) => body = remark.encode(),
            Self::Removed(time) => time.encode(&mut body),
            Self::Kept(kept, parts) => {
                body = encode_kept(kept.iter().map(|(id, check)| (*id, *check)), kept.len());
                body.put_varint(parts.len() as u64);
                for (part, check) in parts {
                    body.put_u64(*part);
                    body.extend_from_slice(check.as_bytes());
                }
            }
        }
        body
    }

    /// Decodes the body of the record whose number, counted from 0, is `state`.
    pub fn decode(state: u64, body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let record = match state {
            0 => return KeyRemark::decode(body).map(Self::Added),
            1 => Self::Removed(Time::decode(&mut reader)?),
            2 => {
                let kept = decode_kept(&mut reader)?;
                let count = reader.count(size_of::<u64>() + CHECK_LEN, "the count of parts")?;
                let mut one = || {
                    let part = reader.u64("a part")?;
                    Ok((part, Check::from_bytes(reader.array("a check")?)))
                };
                let parts = (0..count).map(|_| one()).collect::<Result<_, WireError>>()?;
                Self::Kept(kept, parts)
            }
            _ => return Err(reader.error("a client record of state 0, 1 or 2")),
        };
        reader.finish()?;
        Ok(record)
    }
}

pub(crate) fn encode_kept(kept: impl Iterator<Item = (ObjectId, Check)>, count: usize) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_varint(count as u64);
    for (id, check) in kept {
        body.extend_from_slice(id.as_bytes());
        body.extend_from_slice(check.as_bytes());
    }
    body
}

pub(crate) fn decode_kept(reader: &mut Reader<'_>) -> Result<KeptSnapshots, WireError> {
    let count = reader.count(ObjectId::LEN + CHECK_LEN, "the count of snapshots")?;
    let mut one = || {
        let id = ObjectId::from_bytes(reader.array("a snapshot")?);
        Ok((id, Check::from_bytes(reader.array("a check")?)))
    };
    let kept = (0..count).map(|_| one()).collect::<Result<Vec<_>, WireError>>()?;
    match kept.is_sorted_by(|(a, _), (b, _)| a < b) {
        true => Ok(kept.into_iter().collect()),
        false => Err(reader.error("snapshots in ascending order")),
    }
}

/// The number of a part: drawn, and above those of records.
pub(crate) fn part_number() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *ObjectId::random().as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_records_stand_for_each_other() {
        let name = record_name(258, ClientState::Kept);
        assert_eq!(name, "clients/00000000000001020000000000000002");
        for state in [ClientState::Added, ClientState::Removed, ClientState::Kept] {
            for client in [1, 258, u32::MAX] {
                assert_eq!(record_at(&record_name(client, state)), Some((client, state)));
            }
        }
        for wrong in [
            "00000000000000000000000000000001", // no client 0
            "00000001000000000000000000000001", // above 32 bits
            "00000000000000010000000000000003", // no such state
            "1",
        ] {
            assert_eq!(record_at(&format!("clients/{wrong}")), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_encoded_decodes_and_nothing_shorter_does() {
        let id = |byte| ObjectId::from_bytes([byte; 16]);
        let kept = KeptSnapshots::from([1, 2].map(|n| (id(n), Check::from_bytes([n; 16]))));
        let remark = KeyRemark { label: "one".into(), ..KeyRemark::default() };
        for record in [
            ClientRecord::Added(remark),
            ClientRecord::Removed(Time { secs: -1, nanos: 2 }),
            ClientRecord::Kept(kept, Vec::new()),
            ClientRecord::Kept(KeptSnapshots::new(), vec![(1 << 63, Check::from_bytes([5; 16]))]),
        ] {
            let (state, body) = (record.state() as u64, record.encode());
            assert_eq!(ClientRecord::decode(state, &body), Ok(record));
            assert!((0..body.len()).all(|len| ClientRecord::decode(state, &body[..len]).is_err()));
            assert!(ClientRecord::decode(3, &body).is_err());
        }
        assert_eq!(record_at(&part_name(258, part_number())), None);
        let twice = [&[2][..], &[1; 32], &[1; 32], &[0]].concat();
        assert!(ClientRecord::decode(2, &twice).is_err());
    }
}

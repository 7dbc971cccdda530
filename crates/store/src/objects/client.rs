//! Records of write-only clients: their names, and what they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::objects::key::KeyRemark;
use crate::tree::Time;

/// Under which prefix of a repository words on clients lie.
pub(crate) const PREFIX: &str = "clients/";

/// No word on a client is longer than this.
pub(crate) const MAX_LEN: u64 = 16 << 20;

/// The snapshots of a client that stay, each with the check of its object.
pub(crate) type Kept = BTreeMap<ObjectId, Check>;

/// What the last word on a client says.
#[derive(Debug)]
pub(crate) struct Removal {
    /// Over the whole word as it is stored.
    pub(crate) check: Check,
    pub(crate) kept: Arc<Kept>,
}

/// What is said of a client, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Added = 0,
    Removed = 1,
    Kept = 2,
}

/// The id of what is said of a client: its number, then the step.
pub(crate) fn word_id(client: u32, step: Step) -> ObjectId {
    ObjectId::from_bytes((u128::from(client) << 64 | step as u128).to_be_bytes())
}

/// The name of what is said of a client.
pub(crate) fn word_name(client: u32, step: Step) -> String {
    format!("{PREFIX}{}", word_id(client, step))
}

/// The id of a part of the last word on a client: their numbers, which no step has.
pub(crate) fn part_id(client: u32, part: u64) -> ObjectId {
    ObjectId::from_bytes((u128::from(client) << 64 | u128::from(part)).to_be_bytes())
}

pub(crate) fn part_name(client: u32, part: u64) -> String {
    format!("{PREFIX}{}", part_id(client, part))
}

/// Which word on which client `name` is; nothing if it is no such name.
pub(crate) fn word_at(name: &str) -> Option<(u32, Step)> {
    let id: ObjectId = name.strip_prefix(PREFIX)?.parse().ok()?;
    let id = u128::from_be_bytes(*id.as_bytes());
    let client = u32::try_from(id >> 64).ok().filter(|client| *client != 0)?;
    let is_it = |step: &Step| *step as u64 == id as u64;
    Some((client, [Step::Added, Step::Removed, Step::Kept].into_iter().find(is_it)?))
}

/// What is said of a write-only client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientWord {
    /// It was added.
    Added(KeyRemark),
    /// Its key is taken back, since this time.
    Removed(Time),
    /// Its snapshots count no more but for these, each with the check of its object, and those that
    /// parts name: their numbers, each with the check of its object.
    Kept(BTreeMap<ObjectId, Check>, Vec<(u64, Check)>),
}

impl ClientWord {
    pub(crate) const fn step(&self) -> Step {
        match self {
            Self::Added(_) => Step::Added,
            Self::Removed(_) => Step::Removed,
            Self::Kept(..) => Step::Kept,
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

    /// Decodes the body of the word whose number, counted from 0, is `step`.
    pub fn decode(step: u64, body: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let word = match step {
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
            _ => return Err(reader.error("one of three words")),
        };
        reader.finish()?;
        Ok(word)
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

pub(crate) fn decode_kept(reader: &mut Reader<'_>) -> Result<Kept, WireError> {
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

/// The number of a part: drawn, and above those of words.
pub(crate) fn part_number() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *ObjectId::random().as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_stand_for_each_other() {
        let name = word_name(258, Step::Kept);
        assert_eq!(name, "clients/00000000000001020000000000000002");
        for step in [Step::Added, Step::Removed, Step::Kept] {
            for client in [1, 258, u32::MAX] {
                assert_eq!(word_at(&word_name(client, step)), Some((client, step)));
            }
        }
        for wrong in [
            "00000000000000000000000000000001", // no client 0
            "00000001000000000000000000000001", // above 32 bits
            "00000000000000010000000000000003", // no such word
            "1",
        ] {
            assert_eq!(word_at(&format!("clients/{wrong}")), None, "{wrong}");
        }
    }

    #[test]
    fn what_was_encoded_decodes_and_nothing_shorter_does() {
        let id = |byte| ObjectId::from_bytes([byte; 16]);
        let kept = Kept::from([1, 2].map(|n| (id(n), Check::from_bytes([n; 16]))));
        let remark = KeyRemark { label: "one".into(), ..KeyRemark::default() };
        for word in [
            ClientWord::Added(remark),
            ClientWord::Removed(Time { secs: -1, nanos: 2 }),
            ClientWord::Kept(kept, Vec::new()),
            ClientWord::Kept(Kept::new(), vec![(1 << 63, Check::from_bytes([5; 16]))]),
        ] {
            let (step, body) = (word.step() as u64, word.encode());
            assert_eq!(ClientWord::decode(step, &body), Ok(word));
            assert!((0..body.len()).all(|len| ClientWord::decode(step, &body[..len]).is_err()));
            assert!(ClientWord::decode(3, &body).is_err());
        }
        assert_eq!(word_at(&part_name(258, part_number())), None);
        let twice = [&[2][..], &[1; 32], &[1; 32], &[0]].concat();
        assert!(ClientWord::decode(2, &twice).is_err());
    }
}

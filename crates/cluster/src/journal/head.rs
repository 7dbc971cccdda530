//! The head of a shard: who writes it, and where what it knows begins.

use std::fmt;

use bytes::Bytes;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_seal::{CHECK_LEN, Check, ObjectId};
use onefold_volume::{VolumeError, Writer};

/// The version of the format that this program writes, and the newest that it reads.
const FORMAT: u8 = 1;

/// The name of a segment or a checkpoint: what its writer counted when it made it. No other ever has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Made {
    pub(super) writer: Writer,
    pub(super) number: u64,
}

impl Made {
    pub(super) const LEN: usize = 16;

    pub(super) fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.writer.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// The name that `text` shows.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (writer, count) = text.split_once('.')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let made = Self { writer: Writer(number(writer)?), number: number(count)? };
        (made.to_string() == text).then_some(made)
    }

    pub(super) fn decode(bytes: [u8; Self::LEN]) -> Self {
        let number = |from| {
            let bytes: &[u8; 8] = bytes[from..from + 8].try_into().expect("eight bytes");
            u64::from_be_bytes(*bytes)
        };
        Self { writer: Writer(number(0)), number: number(8) }
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{:016x}", self.writer.0, self.number)
    }
}

/// A checkpoint that is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) name: Made,
    /// In how many objects it is.
    pub(super) parts: u32,
    /// How many frames these have.
    pub(super) frames: u64,
}

/// What a head says besides the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// The first batch that is not in the checkpoint.
    pub(super) sequence: u64,
    /// The segment that begins with it.
    pub(super) segment: Made,
    pub(super) checkpoint: Option<Whole>,
    /// A checkpoint that was begun, and of which there may be parts.
    pub(super) begun: Option<Made>,
    /// What may be left of things that no head names any more, nor will.
    pub(super) trash: Trash,
}

/// What is to be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Trash {
    pub(super) checkpoint: Option<Made>,
    /// The first of a chain of segments, which ends before the head's.
    pub(super) segment: Option<Made>,
}

impl State {
    /// That of a new shard, with its first segment.
    pub(super) fn new(segment: Made) -> Self {
        let trash = Trash::default();
        Self { sequence: 0, segment, checkpoint: None, begun: None, trash }
    }

    /// The attribute of the head of `shard`.
    pub(super) fn encode(&self, shard: ObjectId) -> Bytes {
        let mut bytes = self.fields();
        let check = Check::of(&[shard.as_bytes(), &bytes]);
        bytes.extend_from_slice(check.as_bytes());
        bytes.into()
    }

    /// The same without the check.
    pub(crate) fn fields(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        let put = |bytes: &mut Vec<u8>, made: Option<Made>| {
            bytes.put_u8(made.is_some().into());
            bytes.extend(made.into_iter().flat_map(Made::encode));
        };
        bytes.put_u64(self.sequence);
        bytes.extend(self.segment.encode());
        put(&mut bytes, self.checkpoint.map(|checkpoint| checkpoint.name));
        if let Some(Whole { parts, frames, .. }) = self.checkpoint {
            bytes.put_u32(parts);
            bytes.put_u64(frames);
        }
        put(&mut bytes, self.begun);
        put(&mut bytes, self.trash.checkpoint);
        put(&mut bytes, self.trash.segment);
        bytes
    }

    /// What the attribute `bytes` of the object `head` of `shard` says.
    pub(super) fn decode(shard: ObjectId, head: &str, bytes: &[u8]) -> Result<Self, VolumeError> {
        match bytes.first() {
            Some(&found) if found > FORMAT => {
                let (found, newest) = (found.into(), FORMAT.into());
                return Err(VolumeError::NewerVersion { found, newest });
            }
            _ => {}
        }
        let checked = bytes.split_last_chunk::<CHECK_LEN>();
        let fields = checked.and_then(|(fields, check)| {
            let check = Check::from_bytes(*check);
            check.verify(&[shard.as_bytes(), fields]).is_ok().then_some(fields)
        });
        let Some(fields) = fields else {
            return Err(VolumeError::Damaged {
                object: head.to_owned(),
                at: 0,
                problem: format!("its state of {} bytes does not have its check", bytes.len()),
            });
        };
        let malformed = |source| VolumeError::Malformed { object: head.to_owned(), source };
        Self::read(&mut Reader::new(fields)).map_err(malformed)
    }

    /// The fields alone, without a check.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let made = |reader: &mut Reader<'_>| {
            reader.array("the name of a segment or checkpoint").map(Made::decode)
        };
        let some = |reader: &mut Reader<'_>| match reader.u8("whether there is one")? {
            0 => Ok(None),
            1 => made(reader).map(Some),
            _ => Err(reader.error("0 or 1")),
        };
        if reader.u8("the version")? != FORMAT {
            return Err(reader.error("version 1"));
        }
        let (sequence, segment) = (reader.u64("a batch")?, made(reader)?);
        let checkpoint = match some(reader)? {
            None => None,
            Some(name) => {
                let (parts, frames) = (reader.u32("parts")?, reader.u64("frames")?);
                Some(Whole { name, parts, frames })
            }
        };
        let begun = some(reader)?;
        let trash = Trash { checkpoint: some(reader)?, segment: some(reader)? };
        reader.finish()?;
        Ok(Self { sequence, segment, checkpoint, begun, trash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ObjectId = ObjectId::from_bytes([3; 16]);

    fn made(number: u64) -> Made {
        Made { writer: Writer(number + 1), number }
    }

    fn states() -> Vec<State> {
        let new = State::new(made(0));
        let name = made(1 << 40);
        let checkpoint = Some(Whole { name, parts: 7, frames: 1 << 33 });
        let trash = Trash { checkpoint: Some(made(4)), segment: Some(made(5)) };
        let full = State { sequence: u64::MAX, checkpoint, begun: Some(made(3)), trash, ..new };
        vec![new, full, State { begun: None, ..full }, State { trash: Trash::default(), ..full }]
    }

    #[test]
    fn names_come_back() {
        for made in [made(0), made(1 << 40), Made { writer: Writer(0), number: u64::MAX }] {
            assert_eq!(Made::parse(&made.to_string()), Some(made));
            assert_eq!(Made::decode(made.encode()), made);
        }
        let other = [
            "",
            ".",
            "1.1",
            "0000000000000001.+000000000000001",
            "000000000000000A.0000000000000001",
            "0000000000000001.0000000000000001.00000000",
        ];
        other.iter().for_each(|text| assert_eq!(Made::parse(text), None, "{text}"));
    }

    #[test]
    fn states_come_back() {
        for state in states() {
            let bytes = state.encode(SHARD);
            assert_eq!(State::decode(SHARD, "head", &bytes).unwrap(), state);
        }
    }

    #[test]
    fn a_state_that_is_damaged_or_of_another_shard_is_refused() {
        for state in states() {
            let bytes = state.encode(SHARD);
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(State::decode(SHARD, "head", &damaged).is_err(), "{bit}");
            }
            for len in 0..bytes.len() {
                assert!(State::decode(SHARD, "head", &bytes[..len]).is_err(), "{len}");
            }
            let other = ObjectId::from_bytes([4; 16]);
            let error = State::decode(other, "the head", &bytes).unwrap_err();
            assert!(error.to_string().contains("the head"), "{error}");
        }
    }

    #[test]
    fn a_newer_version_is_told() {
        let error = State::decode(SHARD, "head", &[FORMAT + 1, 0, 0]).unwrap_err();
        assert!(matches!(error, VolumeError::NewerVersion { found: 2, newest: 1 }), "{error}");
    }
}

//! The records by which gateways look after a domain, and their bytes.

use bytes::Bytes;
use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};

use crate::gateway::records::{FORMAT, fitting, flag, text, token};
use crate::hints::ContainerName;

/// Bytes of a container's name.
const NAME_LEN: usize = ObjectId::LEN + 16;

/// How much the containers of a domain may have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaRecord {
    /// In bytes.
    pub(super) bytes: u64,
    token: u64,
}

/// Which gateway looks over all containers, since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnRecord {
    pub(super) gateway: ObjectId,
    /// In milliseconds since 1970 by its clock.
    pub(super) begun: u64,
    token: u64,
}

/// What a process has stored in containers, and removed of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UsageRecord {
    pub(super) written: u64,
    pub(super) removed: u64,
}

/// What was counted when all containers were looked over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Count {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// How many containers there were.
    pub containers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of those in which several shards are registered.
    pub shared_bytes: u64,
    /// What each process had written before and removed after: more than that is in no count yet.
    pub(super) processes: Vec<(ObjectId, UsageRecord)>,
    pub(super) token: u64,
}

/// A scrub of all containers of a domain, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubCycle {
    /// How many cycles began, this one included.
    pub cycle: u64,
    /// When it began, in milliseconds since 1970.
    pub begun: u64,
    /// When the last complete cycle ended, or 0.
    pub ended: u64,
    /// Whether it has not ended yet.
    pub is_running: bool,
    /// Containers that were scrubbed in it.
    pub containers: u64,
    /// How many of these were damaged.
    pub damaged: u64,
    /// All containers up to this one were begun.
    pub(super) cursor: Option<ContainerName>,
    /// Which gateways have begun which.
    pub(super) in_flight: Vec<(ObjectId, ContainerName)>,
    pub(super) token: u64,
}

/// A damaged container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// When it was found, in milliseconds since 1970.
    pub found: u64,
    /// How many of its pages are damaged; 1 if its directory is.
    pub pages: u64,
    /// What is wrong with the first.
    pub problem: String,
    token: u64,
}

fn put_name(bytes: &mut Vec<u8>, name: &ContainerName) {
    bytes.extend(name.shard.as_bytes());
    bytes.put_u64(name.writer);
    bytes.put_u64(name.number);
}

fn read_name(reader: &mut Reader<'_>) -> Result<ContainerName, WireError> {
    let shard = ObjectId::from_bytes(reader.array("a shard")?);
    Ok(ContainerName { shard, writer: reader.u64("a writer")?, number: reader.u64("a number")? })
}

impl QuotaRecord {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, token: token() }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        bytes.put_u64(self.bytes);
        bytes.put_u64(self.token);
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { bytes: reader.u64("a quota")?, token: reader.u64("a token")? })
    }
}

impl TurnRecord {
    pub(super) fn new(gateway: ObjectId, begun: u64) -> Self {
        Self { gateway, begun, token: token() }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        bytes.extend(self.gateway.as_bytes());
        bytes.put_u64(self.begun);
        bytes.put_u64(self.token);
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let gateway = ObjectId::from_bytes(reader.array("a gateway")?);
        Ok(Self { gateway, begun: reader.u64("a time")?, token: reader.u64("a token")? })
    }
}

impl UsageRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        self.put(&mut bytes);
        bytes.into()
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.put_u64(self.written);
        bytes.put_u64(self.removed);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { written: reader.u64("written bytes")?, removed: reader.u64("removed bytes")? })
    }
}

impl Count {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        for number in [self.at, self.containers, self.bytes, self.shared_bytes] {
            bytes.put_u64(number);
        }
        bytes.put_varint(self.processes.len() as u64);
        for (process, usage) in &self.processes {
            bytes.extend(process.as_bytes());
            usage.put(&mut bytes);
        }
        bytes.put_u64(self.token);
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (at, containers) = (reader.u64("a time")?, reader.u64("containers")?);
        let (bytes, shared_bytes) = (reader.u64("bytes")?, reader.u64("shared bytes")?);
        let many = reader.count(ObjectId::LEN + 16, "no more processes than there are bytes")?;
        let process = |reader: &mut Reader<'_>| {
            let id = ObjectId::from_bytes(reader.array("a process")?);
            Ok((id, UsageRecord::read(reader)?))
        };
        let processes = (0..many).map(|_| process(reader)).collect::<Result<_, _>>()?;
        let token = reader.u64("a token")?;
        Ok(Self { at, containers, bytes, shared_bytes, processes, token })
    }

    pub(super) fn with_token(self) -> Self {
        Self { token: token(), ..self }
    }
}

impl ScrubCycle {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        for number in [self.cycle, self.begun, self.ended, self.containers, self.damaged] {
            bytes.put_u64(number);
        }
        bytes.put_u8(self.is_running.into());
        bytes.put_u8(self.cursor.is_some().into());
        if let Some(cursor) = &self.cursor {
            put_name(&mut bytes, cursor);
        }
        bytes.put_varint(self.in_flight.len() as u64);
        for (gateway, container) in &self.in_flight {
            bytes.extend(gateway.as_bytes());
            put_name(&mut bytes, container);
        }
        bytes.put_u64(self.token);
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (cycle, begun) = (reader.u64("a cycle")?, reader.u64("a time")?);
        let ended = reader.u64("a time")?;
        let (containers, damaged) = (reader.u64("containers")?, reader.u64("containers")?);
        let (is_running, has_cursor) = (flag(reader)?, flag(reader)?);
        let cursor = has_cursor.then(|| read_name(reader)).transpose()?;
        let many = reader.count(ObjectId::LEN + NAME_LEN, "no more claims than there are bytes")?;
        let claim = |reader: &mut Reader<'_>| {
            let gateway = ObjectId::from_bytes(reader.array("a gateway")?);
            Ok((gateway, read_name(reader)?))
        };
        let in_flight = (0..many).map(|_| claim(reader)).collect::<Result<_, _>>()?;
        let token = reader.u64("a token")?;
        Ok(Self { cycle, begun, ended, is_running, containers, damaged, cursor, in_flight, token })
    }

    /// The same as a value that was never there.
    pub(super) fn with_token(self) -> Self {
        Self { token: token(), ..self }
    }
}

impl Damage {
    pub(super) fn new(found: u64, pages: u64, problem: &str) -> Self {
        Self { found, pages, problem: fitting(problem).to_owned(), token: token() }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        bytes.put_u64(self.found);
        bytes.put_u64(self.pages);
        bytes.put_bytes(fitting(&self.problem).as_bytes());
        bytes.put_u64(self.token);
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (found, pages) = (reader.u64("a time")?, reader.u64("pages")?);
        Ok(Self { found, pages, problem: text(reader)?, token: reader.u64("a token")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::records::decode;

    const ID: ObjectId = ObjectId::from_bytes([7; 16]);

    #[test]
    fn records_come_back_and_cut_ones_are_refused() {
        let name = ContainerName { shard: ID, writer: 3, number: 4 };
        let cycle = ScrubCycle {
            cycle: 2,
            begun: 5,
            ended: 4,
            is_running: true,
            containers: 9,
            damaged: 1,
            cursor: Some(name),
            in_flight: vec![(ID, name), (ObjectId::from_bytes([8; 16]), name)],
            token: 6,
        };
        let usage = UsageRecord { written: 1 << 40, removed: 7 };
        let processes = vec![(ID, usage)];
        let count = Count { at: 1, containers: 2, bytes: 3, shared_bytes: 4, processes, token: 5 };
        let damage = Damage::new(8, 9, "größe");
        let back = |bytes: &Bytes, kind: &str| match kind {
            "cycle" => decode("o", "k", bytes, ScrubCycle::read).map(|one| one.encode()),
            "count" => decode("o", "k", bytes, Count::read).map(|one| one.encode()),
            "usage" => decode("o", "k", bytes, UsageRecord::read).map(|one| one.encode()),
            "quota" => decode("o", "k", bytes, QuotaRecord::read).map(|one| one.encode()),
            "turn" => decode("o", "k", bytes, TurnRecord::read).map(|one| one.encode()),
            _ => decode("o", "k", bytes, Damage::read).map(|one| one.encode()),
        };
        for (kind, bytes) in [
            ("cycle", cycle.encode()),
            ("cycle", ScrubCycle { cursor: None, ..cycle.clone() }.encode()),
            ("count", count.encode()),
            ("usage", usage.encode()),
            ("quota", QuotaRecord::new(99).encode()),
            ("turn", TurnRecord::new(ID, 99).encode()),
            ("damage", damage.encode()),
        ] {
            assert_eq!(back(&bytes, kind).unwrap(), bytes, "{kind}");
            for len in 0..bytes.len() {
                assert!(back(&bytes.slice(..len), kind).is_err(), "{kind}, {len}");
            }
        }
        assert_eq!(decode("o", "k", &cycle.encode(), ScrubCycle::read).unwrap(), cycle);
        assert_eq!(decode("o", "k", &count.encode(), Count::read).unwrap(), count);
        assert_eq!(decode("o", "k", &damage.encode(), Damage::read).unwrap(), damage);
    }
}

//! What the records of a domain say, and their bytes.

use bytes::Bytes;
use onefold_seal::ObjectId;
use onefold_seal::wire::{Put, Reader, WireError};
use onefold_volume::VolumeError;

/// The version of every record.
pub(super) const FORMAT: u8 = 1;
/// The longest text, in bytes.
const MAX_TEXT: usize = 255;
/// The longest address for requests between gateways, in bytes.
const MAX_RPC: usize = 4096;

/// What a gateway tells others of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The process: it keeps this id when it has lost its lease and takes another one.
    pub process: ObjectId,
    /// Whether it takes over shards of gateways that died. A command does not.
    pub is_serving: bool,
    /// Its name, for people; at most 255 bytes.
    pub host: String,
    /// The address at which NBD clients and other gateways reach it, or nothing; at most 255 bytes.
    pub nbd: String,
    /// How gateways reach it for requests of their own, or nothing; at most 4,096 bytes.
    pub rpc: Bytes,
}

/// The record of a gateway: its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayRecord {
    /// How often it was renewed.
    pub renewals: u64,
    /// When it was renewed, in milliseconds since 1970 by the clock of the gateway. For people alone.
    pub renewed_at: u64,
    /// The gateway.
    pub about: About,
}

/// The record of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRecord {
    /// The gateway that has the shard.
    pub gateway: Option<ObjectId>,
    /// The gateway that is to have it.
    pub wanted: Option<ObjectId>,
    /// Whether it is being made or removed: no volume in it can be used.
    pub is_doomed: bool,
    /// Random in each value, so that no value comes twice.
    pub(super) token: u64,
}

/// The record of a volume's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameRecord {
    /// The shard that has the volume.
    pub shard: ObjectId,
    /// Random in each claim of the name.
    pub(super) token: u64,
    /// The size of the volume in bytes, as its gateway noted it last.
    pub size: u64,
    /// The size of its blocks in bytes.
    pub block_size: u32,
    /// Whether it is a snapshot.
    pub is_read_only: bool,
}

/// Decodes a record, the value of `key` of `object`.
pub(super) fn decode<T>(
    object: &str,
    key: &str,
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<T, VolumeError> {
    if let Some(&found) = bytes.first()
        && found > FORMAT
    {
        return Err(VolumeError::NewerVersion { found: found.into(), newest: FORMAT.into() });
    }
    let mut reader = Reader::new(bytes);
    let all = |reader: &mut Reader<'_>| {
        if reader.u8("the version")? != FORMAT {
            return Err(reader.error("version 1"));
        }
        let read = read(reader)?;
        reader.finish()?;
        Ok(read)
    };
    let malformed =
        |source| VolumeError::Malformed { object: format!("{object}, {key:?}"), source };
    all(&mut reader).map_err(malformed)
}

/// Decodes the id that a key is.
pub(super) fn id_of(object: &str, key: &str) -> Result<ObjectId, VolumeError> {
    key.parse().map_err(|_| VolumeError::Damaged {
        object: object.to_owned(),
        at: 0,
        problem: format!("the key {key:?}, expected 32 hexadecimal digits"),
    })
}

/// A random number.
pub(super) fn token() -> u64 {
    let random = ObjectId::random();
    u64::from_be_bytes(*random.as_bytes().first_chunk().expect("it has 16 bytes"))
}

pub(super) fn text(reader: &mut Reader<'_>) -> Result<String, WireError> {
    let bytes = reader.bytes("a text")?;
    let text = str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_TEXT);
    text.map(str::to_owned).ok_or_else(|| reader.error("at most 255 bytes of UTF-8"))
}

pub(super) fn flag(reader: &mut Reader<'_>) -> Result<bool, WireError> {
    match reader.u8("0 or 1")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.error("0 or 1")),
    }
}

/// `text` without what a record has no room for.
pub(super) fn fitting(text: &str) -> &str {
    let ends = (0..=MAX_TEXT.min(text.len())).rev();
    &text[..ends.into_iter().find(|at| text.is_char_boundary(*at)).unwrap_or(0)]
}

impl GatewayRecord {
    pub(super) fn encode(&self) -> Bytes {
        let About { process, is_serving, host, nbd, rpc } = &self.about;
        let mut bytes = vec![FORMAT];
        bytes.put_u64(self.renewals);
        bytes.put_u64(self.renewed_at);
        bytes.extend(process.as_bytes());
        bytes.put_u8((*is_serving).into());
        bytes.put_bytes(fitting(host).as_bytes());
        bytes.put_bytes(fitting(nbd).as_bytes());
        bytes.put_bytes(rpc.get(..MAX_RPC).unwrap_or(rpc));
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (renewals, renewed_at) = (reader.u64("renewals")?, reader.u64("a time")?);
        let process = ObjectId::from_bytes(reader.array("a process")?);
        let is_serving = flag(reader)?;
        let (host, nbd) = (text(reader)?, text(reader)?);
        let rpc = reader.bytes("an address")?;
        if rpc.len() > MAX_RPC {
            return Err(reader.error("at most 4,096 bytes"));
        }
        let rpc = Bytes::copy_from_slice(rpc);
        let about = About { process, is_serving, host, nbd, rpc };
        Ok(Self { renewals, renewed_at, about })
    }
}

impl ShardRecord {
    pub(super) fn new(gateway: Option<ObjectId>, wanted: Option<ObjectId>) -> Self {
        Self { gateway, wanted, is_doomed: false, token: token() }
    }

    /// That of a shard that is being made or removed.
    pub(super) fn doomed(gateway: ObjectId) -> Self {
        Self { is_doomed: true, ..Self::new(Some(gateway), None) }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        for id in [self.gateway, self.wanted] {
            bytes.extend(id.map_or([0; ObjectId::LEN], |id| *id.as_bytes()));
        }
        bytes.put_u8(self.is_doomed.into());
        bytes.put_u64(self.token);
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut some = |what| {
            let bytes = reader.array(what)?;
            Ok((bytes != [0; ObjectId::LEN]).then_some(ObjectId::from_bytes(bytes)))
        };
        let (gateway, wanted) = (some("a gateway")?, some("the wanted gateway")?);
        let is_doomed = flag(reader)?;
        Ok(Self { gateway, wanted, is_doomed, token: reader.u64("a token")? })
    }
}

impl NameRecord {
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = vec![FORMAT];
        bytes.extend(self.shard.as_bytes());
        bytes.put_u64(self.token);
        bytes.put_u64(self.size);
        bytes.put_u32(self.block_size);
        bytes.put_u8(self.is_read_only.into());
        bytes.into()
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let shard = ObjectId::from_bytes(reader.array("a shard")?);
        let (token, size) = (reader.u64("a token")?, reader.u64("a size")?);
        let block_size = reader.u32("a block size")?;
        Ok(Self { shard, token, size, block_size, is_read_only: flag(reader)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ObjectId = ObjectId::from_bytes([7; 16]);

    fn about() -> About {
        let (host, nbd) = ("größe".to_owned(), "10.0.0.1:10809".to_owned());
        About { process: ID, is_serving: true, host, nbd, rpc: Bytes::from_static(b"\0x") }
    }

    #[test]
    fn records_come_back() {
        let gateway = GatewayRecord { renewals: 1 << 40, renewed_at: 3, about: about() };
        let bytes = gateway.encode();
        assert_eq!(decode("o", "k", &bytes, GatewayRecord::read).unwrap(), gateway);
        for record in [ShardRecord::new(None, Some(ID)), ShardRecord::doomed(ID)] {
            assert_eq!(decode("o", "k", &record.encode(), ShardRecord::read).unwrap(), record);
        }
        let name = NameRecord { shard: ID, token: 5, size: 9, block_size: 512, is_read_only: true };
        let bytes = name.encode();
        assert_eq!(decode("o", "k", &bytes, NameRecord::read).unwrap(), name);
    }

    #[test]
    fn records_that_are_cut_or_longer_or_newer_are_refused() {
        let record = GatewayRecord { renewals: 1, renewed_at: 3, about: about() };
        let bytes = record.encode();
        for len in 0..bytes.len() {
            assert!(decode("o", "k", &bytes[..len], GatewayRecord::read).is_err(), "{len}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(decode("o", "k", &longer, GatewayRecord::read).is_err());
        let newer = [&[2], &bytes[1..]].concat();
        let error = decode("o", "k", &newer, GatewayRecord::read).unwrap_err();
        assert!(matches!(error, VolumeError::NewerVersion { found: 2, newest: 1 }), "{error}");
    }

    #[test]
    fn texts_that_are_too_long_are_cut_between_characters() {
        let about = About { host: "ü".repeat(200), ..about() };
        let record = GatewayRecord { renewals: 1, renewed_at: 3, about };
        let again = decode("o", "k", &record.encode(), GatewayRecord::read).unwrap();
        assert_eq!(again.about.host, "ü".repeat(127));
    }
}

//! What gateways say to one another.
//!
//! A message is a POST request of HTTP/2 whose path is its name; an unknown one is answered by 404, so a gateway
//! of an older version refuses what it does not know and stays usable for the rest. Numbers are little-endian.

use onefold_seal::wire::{Put, Reader, WireError};

use crate::hints::encoding::{Decoder, Encoder, MOST};
use crate::hints::{GatewayId, Hint, KEY_LEN, Key};

/// The version of the messages that this program speaks, which each side tells in its hello.
pub const VERSION: u32 = 1;

/// The most fingerprints or pages of a message.
pub const MAX_PAGES: usize = 4096;
/// The longest control request, in bytes.
pub const MAX_CONTROL: usize = 64 << 10;
/// The longest answer to a control request, in bytes.
pub const MAX_CONTROL_ANSWER: usize = 16 << 20;

/// A kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Who is there, and which version.
    Hello,
    /// Which hints there are of some fingerprints.
    Find,
    /// Where some pages are.
    Add,
    /// A control request.
    Control,
}

impl Message {
    pub(crate) const ALL: [Self; 4] = [Self::Hello, Self::Find, Self::Add, Self::Control];

    /// Its path without the slash.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Find => "find",
            Self::Add => "add",
            Self::Control => "control",
        }
    }

    /// The most bytes of a request. Later versions may make a hello longer.
    pub(crate) fn most(self) -> usize {
        match self {
            Self::Hello => 1024,
            Self::Find => MAX_PAGES * KEY_LEN,
            Self::Add => MAX_PAGES * (KEY_LEN + MOST),
            Self::Control => MAX_CONTROL,
        }
    }

    /// The most bytes of an answer.
    pub(crate) fn most_answered(self) -> usize {
        match self {
            Self::Hello => 1024,
            Self::Find => MAX_PAGES * MOST,
            Self::Add => 0,
            Self::Control => MAX_CONTROL_ANSWER,
        }
    }
}

/// What each side of a connection says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    /// The gateway; zeros if a command asks.
    pub(crate) gateway: GatewayId,
}

impl Hello {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u32(self.version);
        bytes.extend_from_slice(self.gateway.as_bytes());
        bytes
    }

    /// Ignores bytes at the end: fields of a later version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u32("a version")?;
        Ok(Self { version, gateway: GatewayId::from_bytes(reader.array("a gateway")?) })
    }
}

pub(crate) fn encode_find(keys: &[Key]) -> Vec<u8> {
    keys.as_flattened().to_vec()
}

pub(crate) fn decode_find(bytes: &[u8]) -> Result<&[Key], WireError> {
    let (keys, rest) = bytes.as_chunks();
    match rest {
        [] if keys.len() <= MAX_PAGES => Ok(keys),
        _ => {
            Err(WireError { at: keys.len() * KEY_LEN, expected: "at most 4096 whole fingerprints" })
        }
    }
}

pub(crate) fn encode_found(hints: &[Option<Hint>]) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::with_capacity(hints.len()));
    hints.iter().for_each(|hint| encoder.hint(hint.as_ref()));
    encoder.bytes
}

/// The answer for `count` fingerprints.
pub(crate) fn decode_found(bytes: &[u8], count: usize) -> Result<Vec<Option<Hint>>, WireError> {
    Decoder::new(Reader::new(bytes)).hints(count)
}

pub(crate) fn encode_add(pages: &[(Key, Hint)]) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::with_capacity(pages.len() * (KEY_LEN + 12)));
    pages.iter().for_each(|(key, hint)| encoder.page(key, hint));
    encoder.bytes
}

pub(crate) fn decode_add(bytes: &[u8]) -> Result<Vec<(Key, Hint)>, WireError> {
    Decoder::new(Reader::new(bytes)).pages(MAX_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::encoding::tests::made;

    #[test]
    fn messages_come_back_and_are_no_longer_than_they_may() {
        let mut pages = made(1, MAX_PAGES);
        pages.iter_mut().enumerate().for_each(|(at, (_, hint))| {
            (hint.container.number, hint.stored_len) = (at as u64, u32::MAX);
        });
        let (keys, hints): (Vec<Key>, Vec<_>) =
            pages.iter().map(|(key, hint)| (*key, Some(*hint))).unzip();
        let (find, found, add) = (encode_find(&keys), encode_found(&hints), encode_add(&pages));
        assert_eq!(decode_find(&find).unwrap(), keys);
        assert_eq!(decode_found(&found, MAX_PAGES).unwrap(), hints);
        assert_eq!(decode_add(&add).unwrap(), pages);
        assert!(find.len() <= Message::Find.most() && add.len() <= Message::Add.most());
        assert!(found.len() <= Message::Find.most_answered());
        let hello = Hello { version: 7, gateway: GatewayId::random() };
        let mut later = hello.encode();
        later.push(1);
        assert_eq!(Hello::decode(&later).unwrap(), hello);
    }

    #[test]
    fn more_pages_than_may_be_and_parts_of_fingerprints_are_refused() {
        let pages = made(2, MAX_PAGES + 1);
        let keys: Vec<Key> = pages.iter().map(|(key, _)| *key).collect();
        assert!(decode_find(&encode_find(&keys)).is_err());
        assert!(decode_find(&encode_find(&keys[..3])[1..]).is_err());
        assert!(decode_add(&encode_add(&pages)).is_err());
        assert!(Hello::decode(&[1, 0, 0, 0, 9]).is_err());
    }
}

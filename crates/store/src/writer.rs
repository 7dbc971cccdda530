//! Keys of clients that can back up and not read.

use std::fmt;
use std::sync::Arc;

use onefold_backend::Objects;
use onefold_seal::wire::Reader;
use onefold_seal::{Check, Envelope, Keys, ObjectId, WRITER_LEN};
use zeroize::Zeroizing;

use crate::keys::Locked;
use crate::{Config, Repository, StoreError};

/// What a key's text begins with.
const BEGINS: &str = "onefold-write-only-key-1:";
/// No key has more digits than this.
const MAX_DIGITS: usize = 4096;

/// What a client has that can back up to one repository, and open nothing there.
#[derive(Debug, Clone)]
pub struct WriteOnlyKey {
    repository: ObjectId,
    keys: Keys,
    /// The client cannot open the repository's own.
    config: Config,
}

/// A text is no write-only key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseKeyError;

impl fmt::Display for ParseKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a whole write-only key, which is a line that begins with '{BEGINS}'")
    }
}

impl std::error::Error for ParseKeyError {}

impl WriteOnlyKey {
    /// Which repository it is for.
    pub fn repository(&self) -> ObjectId {
        self.repository
    }

    /// The key as a line of text, without an end of line.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(self.repository.as_bytes().to_vec());
        bytes.extend_from_slice(&*self.keys.writer());
        bytes.extend_from_slice(&self.config.encode());
        let check = Check::of(&[&bytes]);
        bytes.extend_from_slice(check.as_bytes());
        let mut text = Zeroizing::new(String::with_capacity(BEGINS.len() + 2 * bytes.len()));
        text.push_str(BEGINS);
        for byte in &*bytes {
            text.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[digit as usize])));
        }
        text
    }

    /// The key that a text is; space around it is passed over.
    pub fn parse(text: &str) -> Result<Self, ParseKeyError> {
        let digits = text.trim().strip_prefix(BEGINS).ok_or(ParseKeyError)?;
        if digits.len() > MAX_DIGITS || digits.len() % 2 == 1 {
            return Err(ParseKeyError);
        }
        let value = |digit: u8| DIGITS.iter().position(|one| *one == digit).ok_or(ParseKeyError);
        let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
        for pair in digits.as_bytes().chunks_exact(2) {
            bytes.push((value(pair[0])? << 4 | value(pair[1])?) as u8);
        }
        let (covered, check) = bytes.split_last_chunk().ok_or(ParseKeyError)?;
        Check::from_bytes(*check).verify(&[covered]).map_err(|_| ParseKeyError)?;
        Self::decode(covered).ok_or(ParseKeyError)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let repository = ObjectId::from_bytes(reader.array("a repository").ok()?);
        let keys = Zeroizing::new(reader.array::<WRITER_LEN>("keys").ok()?);
        let config = reader.take(reader.remaining(), "a configuration").ok()?;
        let keys = Keys::of_writer(&keys);
        let config = Config::decode(config).ok()?.keyed(&keys);
        Some(Self { repository, keys, config })
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Repository {
    /// The key for a client that is to back up and not to read.
    ///
    /// It follows from the master key, so each call gives the same, and none is stored.
    pub fn write_only_key(&self) -> Result<WriteOnlyKey, StoreError> {
        let keys = self.envelope.keys().ok_or(StoreError::NotEncrypted)?;
        self.expect_reading()?;
        Ok(WriteOnlyKey { repository: self.id(), keys: keys.clone(), config: self.config.clone() })
    }

    /// Whether it was opened with a key that can write and not read.
    pub fn is_write_only(&self) -> bool {
        self.envelope.keys().is_some_and(Keys::is_write_only)
    }

    /// Fails if it was opened with a key that can write and not read.
    pub fn expect_reading(&self) -> Result<(), StoreError> {
        match self.is_write_only() {
            true => Err(StoreError::WriteOnly),
            false => Ok(()),
        }
    }
}

impl Locked {
    /// Opens the repository for backups only.
    pub fn open_write_only(self, key: &WriteOnlyKey) -> Result<Repository, StoreError> {
        let (objects, id): (Arc<dyn Objects>, ObjectId) = self.into_parts();
        if key.repository != id {
            return Err(StoreError::ForeignKey { key: key.repository, repository: id });
        }
        let envelope = Envelope::encrypted(id, Keys::of_writer(&key.keys.writer()));
        Repository::assemble(objects, envelope, key.config.clone(), None)
    }
}

#[cfg(test)]
mod tests {
    use onefold_seal::Key;

    use super::*;

    fn key() -> WriteOnlyKey {
        let keys = Keys::new(Key::new([3; 32]));
        let config = Config { padding: true, ..Config::standard() }.keyed(&keys);
        WriteOnlyKey { repository: ObjectId::from_bytes([7; 16]), keys, config }
    }

    #[test]
    fn a_key_is_its_text() {
        let text = key().to_text();
        let parsed = WriteOnlyKey::parse(&format!(" {}\r\n", *text)).unwrap();
        assert_eq!((parsed.repository, &parsed.config), (key().repository, &key().config));
        assert!(parsed.keys.is_write_only());
        assert_eq!(*parsed.keys.writer(), *key().keys.writer());
        assert_eq!(*parsed.to_text(), *text);
    }

    #[test]
    fn a_changed_or_truncated_text_is_no_key() {
        let text = key().to_text();
        for len in 0..text.len() {
            assert!(WriteOnlyKey::parse(&text[..len]).is_err(), "{len} bytes");
            let mut changed = text.as_bytes().to_vec();
            changed[len] ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            assert!(WriteOnlyKey::parse(&changed).is_err(), "{changed}");
        }
        assert!(WriteOnlyKey::parse(&format!("{}0", *text)).is_err());
    }

    #[test]
    fn nothing_shows_a_key() {
        let other = WriteOnlyKey { keys: Keys::new(Key::new([4; 32])), ..key() };
        let show = |key: &WriteOnlyKey| format!("{:?}", key.keys);
        assert_eq!(show(&key()), show(&other));
    }
}

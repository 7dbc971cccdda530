//! Keys of clients that can back up and not read.

use std::sync::Arc;

use onefold_backend::Objects;
use onefold_seal::wire::Reader;
use onefold_seal::{Envelope, Keys, ObjectId, WRITER_LEN};
use zeroize::Zeroizing;

use crate::keys::locked::Locked;
use crate::keys::text::{self, ParseKeyError};
use crate::{Config, Repository, StoreError};

/// What a key's text begins with.
const BEGINS: &str = "onefold-write-only-key-1:";

/// What a client has that can back up to one repository, and open nothing there.
#[derive(Debug, Clone)]
pub struct WriteOnlyKey {
    repository: ObjectId,
    keys: Keys,
    /// The client cannot open the repository's own.
    config: Config,
}

impl WriteOnlyKey {
    /// The key of the client that has the number.
    pub(crate) fn new(
        repository: &Repository,
        keys: &Keys,
        client: u32,
    ) -> Result<Self, StoreError> {
        let keys = keys.of_client(client).map_err(|_| StoreError::WriteOnly)?;
        Ok(Self { repository: repository.id(), keys, config: repository.config.clone() })
    }

    /// The number by which its client is known.
    pub fn client(&self) -> u32 {
        self.keys.client().expect("they are a client's")
    }

    /// Which repository it is for.
    pub fn repository(&self) -> ObjectId {
        self.repository
    }

    /// The key as a line of text, without an end of line.
    pub fn to_text(&self) -> Zeroizing<String> {
        let keys = self.keys.writer().expect("they are a client's");
        let config = self.config.encode();
        text::write(BEGINS, &[self.repository.as_bytes(), &*keys, &config])
    }

    /// The key that a text is; space around it is passed over.
    pub fn parse(text: &str) -> Result<Self, ParseKeyError> {
        let bytes = text::read(BEGINS, text);
        let wrong = ParseKeyError { what: "write-only key", begins: BEGINS };
        bytes.and_then(|bytes| Self::decode(&bytes)).ok_or(wrong)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let repository = ObjectId::from_bytes(reader.array("a repository").ok()?);
        let keys = Zeroizing::new(reader.array::<WRITER_LEN>("keys").ok()?);
        let config = reader.take(reader.remaining(), "a configuration").ok()?;
        let keys = Keys::of_writer(&keys);
        keys.client().filter(|client| *client != 0)?;
        let config = Config::decode(config).ok()?.keyed(&keys);
        Some(Self { repository, keys, config })
    }
}

impl Repository {}

impl Locked {
    /// Opens the repository for backups only. Fails if the key was taken back.
    pub fn open_write_only(self, key: &WriteOnlyKey) -> Result<Repository, StoreError> {
        let (objects, id): (Arc<dyn Objects>, ObjectId) = self.into_parts();
        if key.repository != id {
            return Err(StoreError::ForeignKey { key: key.repository, repository: id });
        }
        let envelope = Envelope::encrypted(id, key.keys.clone());
        let repository = Repository::assemble(objects, envelope, key.config.clone(), None)?;
        repository.expect_good_key()?;
        Ok(repository)
    }
}

#[cfg(test)]
mod tests {
    use onefold_seal::Key;

    use super::*;

    fn key() -> WriteOnlyKey {
        let keys = Keys::new(Key::new([3; 32])).of_client(7).unwrap();
        let config = Config { padding: true, ..Config::standard() }.keyed(&keys);
        WriteOnlyKey { repository: ObjectId::from_bytes([7; 16]), keys, config }
    }

    #[test]
    fn a_key_is_its_text() {
        let text = key().to_text();
        let parsed = WriteOnlyKey::parse(&format!(" {}\r\n", *text)).unwrap();
        assert_eq!((parsed.repository, &parsed.config), (key().repository, &key().config));
        assert!(parsed.keys.is_write_only());
        assert_eq!((parsed.client(), parsed.keys.writer()), (7, key().keys.writer()));
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
        let keys = Keys::new(Key::new([4; 32])).of_client(7).unwrap();
        let other = WriteOnlyKey { keys, ..key() };
        let show = |key: &WriteOnlyKey| format!("{:?}", key.keys);
        assert_eq!(show(&key()), show(&other));
    }
}

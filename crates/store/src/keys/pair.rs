//! Key pairs that open a repository in the place of a password, as files hold them.
//!
//! Anybody can wrap a master key of his own for a public key. So a private key opens only
//! repositories that it has been told of, by a line that is made where the public key is added and
//! that a host cannot make: it names the repository and its identity.

use std::fmt;

use onefold_seal::{Key, ObjectId, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::keys::text::{self, ParseKeyError};
use crate::{Repository, StoreError};

/// What the lines begin with.
const PRIVATE: &str = "onefold-private-key-1:";
const PUBLIC: &str = "onefold-public-key-1:";
const TRUSTED: &str = "onefold-repository-1:";

/// A private key with the repositories that it opens.
#[derive(Clone)]
pub struct KeyPair {
    pub(crate) private: PrivateKey,
    trusted: Vec<(ObjectId, [u8; Key::LEN])>,
}

impl KeyPair {
    /// Draws a pair, which opens nothing yet.
    pub fn random() -> Self {
        Self { private: PrivateKey::random(), trusted: Vec::new() }
    }

    /// The private key as a line of text, without an end of line.
    pub fn private_text(&self) -> Zeroizing<String> {
        text::write(PRIVATE, &[self.private.as_bytes()])
    }

    /// The public key as a line of text, without an end of line.
    pub fn public_text(&self) -> String {
        text::write(PUBLIC, &[self.private.public().as_bytes()]).to_string()
    }

    /// Whether `text` is meant to be one.
    pub fn is_meant_by(text: &str) -> bool {
        text.trim_start().starts_with(PRIVATE)
    }

    /// Reads a private key, and behind it a line for each repository that it opens. Empty lines are
    /// passed over.
    pub fn parse(text: &str) -> Result<Self, ParseKeyError> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let key = |bytes: Zeroizing<Vec<u8>>| Some(Key::new(bytes.as_slice().try_into().ok()?));
        let private = lines.next().and_then(|line| text::read(PRIVATE, line)).and_then(key);
        let wrong = |what, begins| ParseKeyError { what, begins };
        let private = PrivateKey::new(private.ok_or(wrong("private key", PRIVATE))?);
        let trusted = lines.map(|line| {
            let bytes = text::read(TRUSTED, line)?;
            let (id, identity) = bytes.split_first_chunk()?;
            Some((ObjectId::from_bytes(*id), identity.try_into().ok()?))
        });
        let trusted: Option<Vec<_>> = trusted.collect();
        Ok(Self { private, trusted: trusted.ok_or(wrong("line of a repository", TRUSTED))? })
    }

    /// Whether the repository is one that it was told of.
    pub(crate) fn trusts(&self, repository: ObjectId, identity: &[u8; Key::LEN]) -> bool {
        self.trusted.contains(&(repository, *identity))
    }
}

impl fmt::Debug for KeyPair {
    /// Keeps the key to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair of {} repositories", self.trusted.len())
    }
}

/// Reads a public key.
pub fn parse_public_key(text: &str) -> Result<PublicKey, ParseKeyError> {
    let bytes = text::read(PUBLIC, text);
    let bytes = bytes.and_then(|bytes| bytes.as_slice().try_into().ok());
    let wrong = ParseKeyError { what: "public key", begins: PUBLIC };
    bytes.map(PublicKey::from_bytes).ok_or(wrong)
}

impl Repository {
    /// The line that a private key's file needs to open this repository. It is no secret, and it must
    /// not come from the host.
    pub fn trust_text(&self) -> Result<String, StoreError> {
        let keys = self.expect_keys()?;
        let identity = keys.identity().map_err(|_| StoreError::WriteOnly)?;
        Ok(text::write(TRUSTED, &[self.id().as_bytes(), &identity]).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_its_text_with_the_repositories_behind_it() {
        let pair = KeyPair::random();
        let trusted = text::write(TRUSTED, &[&[7; 16], &[9; 32]]);
        let text = format!("\n{}\r\n\n{}\n", *pair.private_text(), *trusted);
        let parsed = KeyPair::parse(&text).unwrap();
        assert_eq!(parsed.private.as_bytes(), pair.private.as_bytes());
        let id = ObjectId::from_bytes([7; 16]);
        assert!(parsed.trusts(id, &[9; 32]));
        assert!(!parsed.trusts(id, &[8; 32]) && !pair.trusts(id, &[9; 32]));
        let public = parse_public_key(&pair.public_text()).unwrap();
        assert!(public == pair.private.public());
        assert!(KeyPair::is_meant_by(&text) && !KeyPair::is_meant_by(&pair.public_text()));
    }

    #[test]
    fn a_changed_or_truncated_text_is_no_key() {
        let pair = KeyPair::random();
        let trusted = text::write(TRUSTED, &[&[7; 16], &[9; 32]]);
        let text = format!("{}\n{}", *pair.private_text(), *trusted);
        let first = pair.private_text().len();
        for len in 0..text.len() {
            let is_whole = len == first || len == first + 1;
            assert_eq!(KeyPair::parse(&text[..len]).is_ok(), is_whole, "{len} bytes");
            let mut changed = text.as_bytes().to_vec();
            changed[len] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            assert!(KeyPair::parse(&changed).is_err(), "{changed}");
        }
        let public = pair.public_text();
        assert!((0..public.len()).all(|len| parse_public_key(&public[..len]).is_err()));
    }

    #[test]
    fn nothing_shows_a_key() {
        let show = |pair: KeyPair| format!("{pair:?} {:?}", pair.private);
        assert_eq!(show(KeyPair::random()), show(KeyPair::random()));
    }
}

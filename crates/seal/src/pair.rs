//! Key pairs that open a repository in the place of a password.

use std::fmt;

use crate::key::Purpose;
use crate::writer::{PublicKey, ReadingKey};
use crate::{Key, SealError};

/// The private half of a pair of X25519.
#[derive(Clone)]
pub struct PrivateKey {
    bytes: Key,
    half: ReadingKey,
}

impl PrivateKey {
    /// Draws a pair.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn random() -> Self {
        Self::new(Key::random())
    }

    /// The private key with these bytes.
    pub fn new(bytes: Key) -> Self {
        Self { half: ReadingKey::new(&bytes), bytes }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; Key::LEN] {
        self.bytes.as_bytes()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.half.public()
    }

    /// What was agreed on with whoever made `share`; nothing if that is no public key.
    pub(crate) fn agreed(&self, share: &[u8]) -> Option<Key> {
        let shared = self.half.agree(share)?;
        Some(secret(&shared, share, &self.public()))
    }
}

/// A secret that only the private half of `public` finds again, and the share that leads to it.
pub(crate) fn new_secret(public: &PublicKey) -> Result<(Key, [u8; Key::LEN]), SealError> {
    let drawn = ReadingKey::new(&Key::random());
    let share = drawn.public();
    let shared = drawn.agree(public.as_bytes()).ok_or(SealError::BadPublicKey)?;
    Ok((secret(&shared, share.as_bytes(), public), *share.as_bytes()))
}

fn secret(shared: &Key, share: &[u8], public: &PublicKey) -> Key {
    shared.derive(Purpose::Agreed, &[share, public.as_bytes()].concat())
}

impl fmt::Debug for PrivateKey {
    /// Keeps the key to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

//! Object keys that whoever made them cannot find again: how write-only clients seal.
//!
//! A client has the public half of the *reading key* and draws a key pair for each object. What the
//! two agree on, with the *write key* that the host does not have, gives the object's key. The public
//! half of the drawn pair, the *share*, stands where the salt of other objects stands; its private
//! half is forgotten.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use zeroize::Zeroizing;

use crate::Key;
use crate::envelope::SALT_LEN;
use crate::key::Purpose;

/// The private half of the pair for which clients seal.
#[derive(Clone)]
pub(crate) struct ReadingKey(Arc<PrivateKey>);

/// The public half of a pair of X25519. That of a repository's reading key is no secret, and kept from
/// those who need not have it all the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; Key::LEN]);

impl ReadingKey {
    pub(crate) fn new(key: &Key) -> Self {
        let key = PrivateKey::from_private_key(&X25519, key.as_bytes());
        Self(Arc::new(key.expect("any 32 bytes are a private key of X25519")))
    }

    pub(crate) fn public(&self) -> PublicKey {
        public_half(&self.0)
    }

    /// What it agrees on with `public`; nothing if that is no public key.
    pub(crate) fn agree(&self, public: &[u8]) -> Option<Key> {
        let shared = agree(&self.0, public)?;
        Some(Key::new(shared.as_slice().try_into().expect("32 bytes")))
    }

    /// The key of the object whose share is `share`; nothing if that is no public key.
    pub(crate) fn object_key(&self, write: &Key, share: &[u8]) -> Option<Key> {
        let shared = agree(&self.0, share)?;
        Some(object_key(write, &shared, share, &self.public()))
    }
}

impl PublicKey {
    /// The public key with these bytes, if they are one.
    pub const fn from_bytes(bytes: [u8; Key::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; Key::LEN] {
        &self.0
    }

    /// A new object key, and the share by which the reading key finds it.
    ///
    /// # Panics
    /// If the operating system has no randomness to give, or this is no public key.
    pub(crate) fn new_object_key(&self, write: &Key) -> (Key, [u8; SALT_LEN]) {
        let own = PrivateKey::generate(&X25519).expect("the random source works");
        let share = public_half(&own);
        let shared = agree(&own, &self.0).expect("the public key of a repository is one");
        (object_key(write, &shared, share.as_bytes(), self), share.0)
    }
}

fn public_half(private: &PrivateKey) -> PublicKey {
    let public = private.compute_public_key().expect("a private key has a public half");
    PublicKey(public.as_ref().try_into().expect("32 bytes"))
}

/// What a private and a public key agree on; nothing if the public one is of small order.
fn agree(private: &PrivateKey, public: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let peer = UnparsedPublicKey::new(&X25519, public);
    agreement::agree(private, peer, (), |shared| Ok(Zeroizing::new(shared.to_vec()))).ok()
}

fn object_key(write: &Key, shared: &[u8], share: &[u8], public: &PublicKey) -> Key {
    let salt = Zeroizing::new([shared, share, &public.0].concat());
    write.derive(Purpose::WriterObject, &salt)
}

impl fmt::Debug for ReadingKey {
    /// Keeps the key to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadingKey(…)")
    }
}

impl fmt::Debug for PublicKey {
    /// Keeps the key to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    /// RFC 7748, section 6.1.
    #[test]
    fn the_published_agreement_holds() {
        let key = |hex: &str| ReadingKey::new(&Key::new(bytes(hex).try_into().unwrap()));
        let alice = ReadingKey::new(&Key::new([7; 32]));
        let bob = key("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let [of_alice, of_bob] = [&alice, &bob].map(|one| one.public());
        let both = [agree(&alice.0, of_bob.as_bytes()), agree(&bob.0, of_alice.as_bytes())];
        assert!(both[0].is_some() && both[0] == both[1]);
        let published = bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        assert_eq!(of_bob.as_bytes()[..], published);
    }

    #[test]
    fn only_the_reading_key_and_the_write_key_find_an_object_key() {
        let (reading, write) = (ReadingKey::new(&Key::new([1; 32])), Key::new([2; 32]));
        let (key, share) = reading.public().new_object_key(&write);
        let found = reading.object_key(&write, &share).unwrap();
        assert_eq!(found.as_bytes(), key.as_bytes());
        let other = ReadingKey::new(&Key::new([3; 32]));
        for found in
            [other.object_key(&write, &share), reading.object_key(&Key::new([3; 32]), &share)]
        {
            assert_ne!(found.unwrap().as_bytes(), key.as_bytes());
        }
        // Points of small order agree with every key on the same.
        assert!(reading.object_key(&write, &[0; 32]).is_none());
        assert!(reading.object_key(&write, &share[..31]).is_none());
        assert_ne!(reading.public().new_object_key(&write).1, share);
    }
}

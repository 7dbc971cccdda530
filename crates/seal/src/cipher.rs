//! AES-256-GCM, the only cipher of the workspace.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::{CHECK_LEN, Key};

/// AES-256-GCM under one key.
///
/// Whoever seals must never use a number twice: two messages under one nonce give both away.
pub(crate) struct Cipher(LessSafeKey);

impl Cipher {
    pub(crate) fn new(key: &Key) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key.as_bytes()).expect("the key has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts `bytes` in place as message `number` and gives the tag over `associated` and them.
    pub(crate) fn seal(&self, number: u64, associated: &[u8], bytes: &mut [u8]) -> [u8; CHECK_LEN] {
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce(number), Aad::from(associated), bytes)
            .expect("no message has 64 GiB");
        tag.as_ref().try_into().expect("a tag of 16 bytes")
    }

    /// The plaintext of message `number`, or `None` if it is not one that this key sealed.
    pub(crate) fn open(
        &self,
        number: u64,
        associated: &[u8],
        bytes: &[u8],
        tag: &[u8; CHECK_LEN],
    ) -> Option<Vec<u8>> {
        let mut opened = vec![0; bytes.len()];
        self.0
            .open_separate_gather(nonce(number), Aad::from(associated), bytes, tag, &mut opened)
            .ok()?;
        Some(opened)
    }
}

impl fmt::Debug for Cipher {
    /// Keeps the key to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(…)")
    }
}

/// Four zero bytes and the message's number, little-endian.
fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    /// McGrew and Viega, "The Galois/Counter Mode of Operation (GCM)", test case 13: nothing
    /// sealed under the key and the nonce of zeros. And test case 14: one block of zeros.
    #[test]
    fn the_published_vectors_with_a_nonce_of_zeros_hold() {
        let cipher = Cipher::new(&Key::new([0; 32]));
        assert_eq!(
            cipher.seal(0, b"", &mut []).to_vec(),
            bytes("530f8afbc74536b9a963b4f1c4cb738b")
        );
        let mut block = [0; 16];
        let tag = cipher.seal(0, b"", &mut block);
        assert_eq!(block.to_vec(), bytes("cea7403d4d606b6e074ec5d3baf39d18"));
        assert_eq!(tag.to_vec(), bytes("d0d1c8a799996bf0265b98b5d48ab919"));
    }

    /// Python's cryptography 50, whose AES-GCM is OpenSSL's:
    ///
    ///     from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    ///     nonce = bytes(4) + (0x0123456789abcdef).to_bytes(8, "little")
    ///     AESGCM(bytes(range(32))).encrypt(nonce, b"message" * 7, b"associated").hex()
    #[test]
    fn number_and_associated_data_are_used_as_another_implementation_uses_them() {
        let cipher = Cipher::new(&Key::new(std::array::from_fn(|i| i as u8)));
        let mut message = b"message".repeat(7);
        let tag = cipher.seal(0x0123_4567_89ab_cdef, b"associated", &mut message);
        assert_eq!([&message[..], &tag].concat(), bytes(SEALED));
        let open = |number, associated: &[u8]| cipher.open(number, associated, &message, &tag);
        assert_eq!(open(0x0123_4567_89ab_cdef, b"associated").unwrap(), b"message".repeat(7));
        assert_eq!(open(0x0123_4567_89ab_cdee, b"associated"), None);
        assert_eq!(open(0x0123_4567_89ab_cdef, b"associate"), None);
    }

    const SEALED: &str = "073b1a511cb121eb4c5d3cae9b12167cbff301fc2b8e5816b14eefe67538f29a8804366952b2052cecbcce35a2a085850f3757d210e8cf2a4567bb84de6545da77";
}

//! "Encryption" of docs/format.md, for the second reader: nothing of the library is used here,
//! and AES-GCM is another implementation than its.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use x25519_dalek::{PublicKey, StaticSecret};

/// "Encryption": keys that follow from others.
pub fn derive(purpose: &str, material: &[&[u8]]) -> [u8; 32] {
    blake3::derive_key(&format!("onefold 2026 encryption: {purpose}"), &material.concat())
}

/// "Encryption": the plaintext of a message, by another implementation than the library's.
pub fn open(
    key: [u8; 32],
    number: u64,
    associated: &[&[u8]],
    sealed: &[u8],
    tag: &[u8],
) -> Vec<u8> {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    let (msg, aad) = ([sealed, tag].concat(), associated.concat());
    let payload = Payload { msg: &msg, aad: &aad };
    Aes256Gcm::new(&key.into()).decrypt(&nonce.into(), payload).expect("the tag matches")
}

/// "Keys for key pairs": the secret that a private key and a share lead to.
pub fn agreed(private: [u8; 32], share: [u8; 32]) -> [u8; 32] {
    let private = StaticSecret::from(private);
    let shared = private.diffie_hellman(&PublicKey::from(share));
    let public = PublicKey::from(&private);
    derive("secret agreed on for a key", &[shared.as_bytes(), &share, public.as_bytes()])
}

/// "Encryption": the keys of a repository that a password opens.
pub struct Keys {
    pub master: [u8; 32],
    /// Sealing keys by epoch.
    pub sealing: Vec<[u8; 32]>,
}

impl Keys {
    fn root(&self) -> [u8; 32] {
        derive("root sealing key", &[&self.master])
    }

    /// The key of an object that begins with these 80 bytes.
    pub fn of_object(&self, start: &[u8]) -> [u8; 32] {
        let epoch = u32::from_le_bytes(start[8..12].try_into().unwrap());
        let (kind, suite) = (start[5], start[6]);
        if suite == 2 {
            assert!(epoch != 0 && matches!(kind, 2 | 4 | 5 | 8 | 10 | 11));
            return self.of_clients_object(epoch, start[48..80].try_into().unwrap());
        }
        let sealing = match kind {
            1 | 6 | 7 | 12 | 13 => {
                assert_eq!(epoch, 0);
                self.root()
            }
            3 | 9 => derive("index key", &[&self.master]),
            // A bundle of runs, as its id says.
            14 if start[32] == 2 => derive("index key", &[&self.master]),
            _ => self.sealing[epoch as usize],
        };
        derive("object key", &[&sealing, &start[48..80]])
    }

    /// "Write-only clients".
    fn of_clients_object(&self, client: u32, share: [u8; 32]) -> [u8; 32] {
        let reading = StaticSecret::from(derive("reading key", &[&self.master]));
        let shared = reading.diffie_hellman(&PublicKey::from(share));
        let write = derive("write key", &[&self.master, &client.to_le_bytes()]);
        let public = PublicKey::from(&reading);
        let parts = [&write[..], shared.as_bytes(), &share, public.as_bytes()];
        derive("object key of a writer", &parts)
    }
}

use std::fmt;

use sha1::Sha1;
use sha2::Sha256;
use sha2::digest::Digest;
use sha3::Sha3_256;
use zeroize::Zeroizing;

use crate::{Fingerprint, FingerprintAlgorithm, lanes};

/// Names chunks by one algorithm, with its key if it has one. The default is BLAKE3.
#[derive(Clone, Default)]
pub struct Fingerprinter(Function);

#[derive(Clone, Default)]
enum Function {
    #[default]
    Blake3,
    Blake3Keyed(Zeroizing<[u8; 32]>),
    Sha256,
    Sha3,
    Sha1,
}

/// From this many bytes on a chunk alone fills the lanes for BLAKE3, which its library then does in
/// assembly (`examples/many.rs`).
const SHORT_FOR_BLAKE3: usize = 64 << 10;

impl Fingerprinter {
    /// BLAKE3 without a key.
    pub const fn blake3() -> Self {
        Self(Function::Blake3)
    }

    /// BLAKE3 under `key`, which is wiped from memory when this is dropped.
    pub fn blake3_keyed(key: [u8; 32]) -> Self {
        Self(Function::Blake3Keyed(Zeroizing::new(key)))
    }

    /// SHA-256.
    pub const fn sha256() -> Self {
        Self(Function::Sha256)
    }

    /// SHA3-256.
    pub const fn sha3() -> Self {
        Self(Function::Sha3)
    }

    /// SHA-1; for reproducing papers only.
    pub const fn sha1() -> Self {
        Self(Function::Sha1)
    }

    /// The algorithm at work.
    pub const fn algorithm(&self) -> FingerprintAlgorithm {
        match self.0 {
            Function::Blake3 => FingerprintAlgorithm::Blake3,
            Function::Blake3Keyed(_) => FingerprintAlgorithm::Blake3Keyed,
            Function::Sha256 => FingerprintAlgorithm::Sha256,
            Function::Sha3 => FingerprintAlgorithm::Sha3,
            Function::Sha1 => FingerprintAlgorithm::Sha1,
        }
    }

    /// The key, if the algorithm has one: for code that computes the same elsewhere.
    pub fn key(&self) -> Option<&[u8; 32]> {
        match &self.0 {
            Function::Blake3Keyed(key) => Some(key),
            _ => None,
        }
    }

    /// The fingerprint of one chunk.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        Fingerprint::from_bytes(match &self.0 {
            Function::Blake3 => *blake3::hash(chunk).as_bytes(),
            Function::Blake3Keyed(key) => *blake3::keyed_hash(key, chunk).as_bytes(),
            Function::Sha256 => Sha256::digest(chunk).into(),
            Function::Sha3 => Sha3_256::digest(chunk).into(),
            Function::Sha1 => padded(Sha1::digest(chunk).into()),
        })
    }

    /// Appends the fingerprint of each chunk to `out`, in the order of `chunks`.
    ///
    /// Equal to one call of [`fingerprint`](Self::fingerprint) a chunk. Callers with many chunks
    /// at hand use this one, since short chunks fill vector registers only together; and so do those
    /// with a single one for SHA3-256, which AVX-512 hashes sooner than scalar code does.
    pub fn fingerprint_many(&self, chunks: &[&[u8]], out: &mut Vec<Fingerprint>) {
        let bytes: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        let fills_lanes = chunks.len() > 1 && bytes < SHORT_FOR_BLAKE3 * chunks.len();
        let together = match &self.0 {
            Function::Blake3 => fills_lanes && lanes::blake3(None, chunks, out),
            Function::Blake3Keyed(key) => fills_lanes && lanes::blake3(Some(key), chunks, out),
            Function::Sha3 => lanes::sha3(chunks, out),
            Function::Sha256 | Function::Sha1 => false,
        };
        if !together {
            out.extend(chunks.iter().map(|chunk| self.fingerprint(chunk)));
        }
    }
}

impl fmt::Debug for Fingerprinter {
    /// Keeps the key to itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprinter({})", self.algorithm())
    }
}

fn padded(digest: [u8; 20]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..20].copy_from_slice(&digest);
    bytes
}

use std::fmt;
use std::str::FromStr;

use crate::FingerprintError;

/// A hash function that names chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FingerprintAlgorithm {
    /// BLAKE3, 256 bits.
    Blake3,
    /// BLAKE3 under a secret key: who lacks it cannot tell which chunks are stored.
    Blake3Keyed,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA3-256 (FIPS 202).
    Sha3,
    /// SHA-1 (FIPS 180-4), to reproduce papers: collisions are known, so never for a store.
    Sha1,
}

impl FingerprintAlgorithm {
    /// Every algorithm, in the order of [`code`](Self::code).
    pub const ALL: &[Self] =
        &[Self::Blake3, Self::Blake3Keyed, Self::Sha256, Self::Sha3, Self::Sha1];

    /// The name users write; [`FromStr`] reads it back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Blake3Keyed => "blake3-keyed",
            Self::Sha256 => "sha256",
            Self::Sha3 => "sha3-256",
            Self::Sha1 => "sha1",
        }
    }

    /// The number that stands for the algorithm on disk. Never reused, never changed.
    pub const fn code(self) -> u8 {
        match self {
            Self::Blake3 => 0,
            Self::Blake3Keyed => 1,
            Self::Sha256 => 2,
            Self::Sha3 => 3,
            Self::Sha1 => 4,
        }
    }

    /// The algorithm that [`code`](Self::code) numbered so, if this version knows it.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.code() == code)
    }

    /// Bytes that the algorithm yields: 20 for SHA-1, else 32. A fingerprint pads with zeros.
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            _ => 32,
        }
    }
}

impl fmt::Display for FingerprintAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FingerprintAlgorithm {
    type Err = FingerprintError;

    fn from_str(name: &str) -> Result<Self, FingerprintError> {
        Self::ALL
            .iter()
            .copied()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| FingerprintError::UnknownAlgorithm { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_lead_back() {
        for (code, &algorithm) in (0..).zip(FingerprintAlgorithm::ALL) {
            assert_eq!(algorithm.code(), code);
            assert_eq!(FingerprintAlgorithm::from_code(code), Some(algorithm));
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert_eq!(FingerprintAlgorithm::from_code(5), None);
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let message = "md5".parse::<FingerprintAlgorithm>().unwrap_err().to_string();
        assert_eq!(
            message,
            "unknown fingerprint algorithm 'md5', \
             expected one of blake3, blake3-keyed, sha256, sha3-256, sha1"
        );
    }
}

use std::fmt;
use std::str::FromStr;

use crate::{FingerprintAlgorithm, FingerprintError};

/// The identity of a chunk: 32 bytes, a shorter digest padded with zeros.
///
/// Ordered as its bytes are; written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; Self::LEN]);

impl Fingerprint {
    /// Bytes in every fingerprint.
    pub const LEN: usize = 32;

    /// The fingerprint with these bytes.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The fingerprint's bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The first eight bytes, big-endian, so that numbers sort as fingerprints do.
    ///
    /// Evenly distributed: what buckets and shards are picked by.
    pub fn prefix_u64(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Displays the digest that `algorithm` yielded, without the padding.
    pub const fn shortened(self, algorithm: FingerprintAlgorithm) -> Shortened {
        Shortened { fingerprint: self, len: algorithm.digest_len() }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Reads 64 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let mut bytes = [0; Self::LEN];
        let mut digits = 0;
        for (position, found) in text.chars().enumerate() {
            let digit = found.to_digit(16).ok_or(FingerprintError::Digit { found, position })?;
            if let Some(byte) = bytes.get_mut(position / 2) {
                *byte = *byte << 4 | digit as u8;
            }
            digits = position + 1;
        }
        if digits != 2 * Self::LEN {
            return Err(FingerprintError::Length { found: digits });
        }
        Ok(Self(bytes))
    }
}

/// A fingerprint that displays as long as its algorithm's digest is.
#[derive(Clone, Copy, Debug)]
pub struct Shortened {
    fingerprint: Fingerprint,
    len: usize,
}

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.fingerprint.0[..self.len], f)
    }
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> Fingerprint {
        Fingerprint::from_bytes(std::array::from_fn(|i| i as u8 + 0x9a))
    }

    #[test]
    fn hexadecimal_leads_back() {
        let text = counting().to_string();
        assert_eq!(text, "9a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9");
        assert_eq!(text.parse(), Ok(counting()));
        assert_eq!(text.to_uppercase().parse(), Ok(counting()));
    }

    #[test]
    fn other_texts_are_refused() {
        let parse = |text: &str| text.parse::<Fingerprint>();
        assert_eq!(parse(""), Err(FingerprintError::Length { found: 0 }));
        assert_eq!(parse(&"0".repeat(63)), Err(FingerprintError::Length { found: 63 }));
        assert_eq!(parse(&"0".repeat(65)), Err(FingerprintError::Length { found: 65 }));
        assert_eq!(parse("0é"), Err(FingerprintError::Digit { found: 'é', position: 1 }));
        assert_eq!(
            parse(&format!("+{}", "0".repeat(63))),
            Err(FingerprintError::Digit { found: '+', position: 0 })
        );
    }

    #[test]
    fn prefixes_sort_as_fingerprints_do() {
        assert_eq!(counting().prefix_u64(), 0x9a9b_9c9d_9e9f_a0a1);
        let mut greater = [0; 32];
        greater[0] = 1;
        let mut less = [0xff; 32];
        less[0] = 0;
        let (less, greater) = (Fingerprint(less), Fingerprint(greater));
        assert!(less < greater && less.prefix_u64() < greater.prefix_u64());
    }

    #[test]
    fn a_shortened_fingerprint_shows_its_digest() {
        let sha1 = counting().shortened(FingerprintAlgorithm::Sha1).to_string();
        assert_eq!(sha1, "9a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacad");
        for &algorithm in FingerprintAlgorithm::ALL {
            let shown = counting().shortened(algorithm).to_string();
            assert_eq!(shown.len(), 2 * algorithm.digest_len());
        }
    }
}

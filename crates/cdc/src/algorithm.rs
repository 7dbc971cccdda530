use std::fmt;
use std::str::FromStr;

use crate::ParamError;

/// A rule that decides where chunks end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Chunks of one size; the only rule that ignores content.
    Fixed,
    /// Rabin fingerprint of a sliding window.
    Rabin,
    /// Gear hash of the last 64 bytes.
    Gear,
    /// Gear with normalised chunk sizes.
    FastCdc,
    /// Asymmetric extremum, largest byte.
    AeMax,
    /// Asymmetric extremum, smallest byte.
    AeMin,
    /// Rapid asymmetric maximum.
    Ram,
    /// Smallest hash of four bytes between the bounds.
    MinCdc,
    /// CRC-32 of a sliding window.
    Crc,
    /// Cyclic polynomial of a sliding window.
    Buzhash,
    /// Gear with a hash of 32 bits.
    Gear32,
    /// Gear with a hash of 16 bits, made for vectors.
    Gear16,
    /// Two thresholds, two divisors.
    Tttd,
    /// Local maximum.
    Maxp,
    /// Minimal incremental interval.
    Mii,
    /// Parity check of interval.
    Pci,
    /// Bytes-frequency-based chunking.
    Bfbc,
    /// Rising sequences, with skipping.
    SeqInc,
    /// Falling sequences, with skipping.
    SeqDec,
    /// Gear made a universal hash, then AES: the one whose cut-points do not tell its secret.
    GearAes,
}

impl Algorithm {
    /// Every algorithm, in the order of [`code`](Self::code).
    pub const ALL: &[Self] = &[
        Self::Fixed,
        Self::Rabin,
        Self::Gear,
        Self::FastCdc,
        Self::AeMax,
        Self::AeMin,
        Self::Ram,
        Self::MinCdc,
        Self::Crc,
        Self::Buzhash,
        Self::Gear32,
        Self::Gear16,
        Self::Tttd,
        Self::Maxp,
        Self::Mii,
        Self::Pci,
        Self::Bfbc,
        Self::SeqInc,
        Self::SeqDec,
        Self::GearAes,
    ];

    /// The name users write; [`FromStr`] reads it back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Rabin => "rabin",
            Self::Gear => "gear",
            Self::FastCdc => "fastcdc",
            Self::AeMax => "ae-max",
            Self::AeMin => "ae-min",
            Self::Ram => "ram",
            Self::MinCdc => "mincdc",
            Self::Crc => "crc",
            Self::Buzhash => "buzhash",
            Self::Gear32 => "gear32",
            Self::Gear16 => "gear16",
            Self::Tttd => "tttd",
            Self::Maxp => "maxp",
            Self::Mii => "mii",
            Self::Pci => "pci",
            Self::Bfbc => "bfbc",
            Self::SeqInc => "seqcdc-inc",
            Self::SeqDec => "seqcdc-dec",
            Self::GearAes => "gear-aes",
        }
    }

    /// What the algorithm does, in one line for a terminal.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Fixed => "chunks of one size; an insertion shifts every later cut-point",
            Self::Rabin => "Rabin fingerprint of a sliding window; the classic, and slow",
            Self::Gear => "Gear hash of the last 64 bytes",
            Self::FastCdc => "Gear with cut-points drawn towards the average size",
            Self::AeMax => "largest byte followed by a horizon of none larger; no hash",
            Self::AeMin => "smallest byte followed by a horizon of none smaller; no hash",
            Self::Ram => "first byte not below the maximum of a leading window; no hash",
            Self::MinCdc => "smallest four-byte hash between the size bounds; fast, even sizes",
            Self::Crc => "CRC-32 of a sliding window",
            Self::Buzhash => "cyclic polynomial of a sliding window; Rabin's way at less cost",
            Self::Gear32 => "Gear hash of the last 32 bytes, in 32 bits",
            Self::Gear16 => "Gear hash of 16 bytes, in 16 bits; made for vector instructions",
            Self::Tttd => "Rabin with a second, likelier divisor where a chunk would grow too long",
            Self::Maxp => "byte larger than all within a horizon on both sides; no hash",
            Self::Mii => "a few bytes of which each is larger than the one before; no hash",
            Self::Pci => "many bits set in a sliding window; no hash",
            Self::Bfbc => "pairs of bytes from a set, which can be trained on a sample; no hash",
            Self::SeqInc => {
                "rising bytes, skipping ahead where bytes fall; no hash, does not read all"
            }
            Self::SeqDec => {
                "falling bytes, skipping ahead where bytes rise; no hash, does not read all"
            }
            Self::GearAes => {
                "Gear hash of the last 32 bytes, then AES, for use with a secret; slower"
            }
        }
    }

    /// Whether cut-points move with the content, so that an edit leaves distant chunks alone.
    pub const fn is_content_defined(self) -> bool {
        !matches!(self, Self::Fixed)
    }

    /// Whether a [`Secret`](crate::Secret) can pick what the algorithm hashes by: a table, a
    /// polynomial, constants, or the divisors of BFBC where none are given.
    ///
    /// Of all that can, only [`GearAes`](Self::GearAes) keeps the secret from who sees lengths of
    /// chunks and knows what is in them.
    pub const fn takes_secret(self) -> bool {
        match self {
            Self::Rabin | Self::Tttd | Self::Crc | Self::Buzhash => true,
            Self::Gear | Self::FastCdc | Self::Gear32 | Self::Gear16 => true,
            Self::MinCdc | Self::Bfbc | Self::GearAes => true,
            Self::Fixed | Self::AeMax | Self::AeMin | Self::Ram | Self::Maxp => false,
            Self::Mii | Self::Pci | Self::SeqInc | Self::SeqDec => false,
        }
    }

    /// The number that stands for the algorithm on disk. Never reused, never changed.
    pub const fn code(self) -> u8 {
        match self {
            Self::Fixed => 0,
            Self::Rabin => 1,
            Self::Gear => 2,
            Self::FastCdc => 3,
            Self::AeMax => 4,
            Self::AeMin => 5,
            Self::Ram => 6,
            Self::MinCdc => 7,
            Self::Crc => 8,
            Self::Buzhash => 9,
            Self::Gear32 => 10,
            Self::Gear16 => 11,
            Self::Tttd => 12,
            Self::Maxp => 13,
            Self::Mii => 14,
            Self::Pci => 15,
            Self::Bfbc => 16,
            Self::SeqInc => 17,
            Self::SeqDec => 18,
            Self::GearAes => 19,
        }
    }

    /// The algorithm that [`code`](Self::code) numbered so, if this version knows it.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.code() == code)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Self::ALL
            .iter()
            .copied()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| ParamError::UnknownAlgorithm { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_lead_back() {
        for (code, &algorithm) in (0..).zip(Algorithm::ALL) {
            assert_eq!(algorithm.code(), code);
            assert_eq!(Algorithm::from_code(code), Some(algorithm));
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert!(!algorithm.summary().contains('\n'));
        }
        assert_eq!(Algorithm::from_code(20), None);
        assert_eq!(Algorithm::from_code(u8::MAX), None);
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let message = "Gear".parse::<Algorithm>().unwrap_err().to_string();
        assert!(message.contains("'Gear'"), "{message}");
        for algorithm in Algorithm::ALL {
            assert!(message.contains(algorithm.name()), "{message}");
        }
    }
}

use std::fmt;
use std::str::FromStr;

use crate::descriptor::Descriptor;
use crate::{
    ParamError, Parameter, ae, bfbc, buzhash, crc, fastcdc, fixed, gear, gear_aes, gear16, gear32,
    maxp, mii, mincdc, pci, rabin, ram, seqcdc, tttd,
};

/// Makes the enum of a list of algorithms: name, number on disk, descriptor.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident = $code:literal: $descriptor:path,)*) => {
        /// A rule that decides where chunks end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Algorithm {
            $($(#[$doc])* $name = $code,)*
        }

        impl Algorithm {
            /// Every algorithm, in the order of [`code`](Self::code).
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub(crate) fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Self::$name => &$descriptor,)*
                }
            }
        }
    };
}

// The one list of all algorithms. Numbers are on disk: never reused, never changed.
algorithms! {
    /// Chunks of one size; the only rule that ignores content.
    Fixed = 0: fixed::DESCRIPTOR,
    /// Rabin fingerprint of a sliding window.
    Rabin = 1: rabin::DESCRIPTOR,
    /// Gear hash of the last 64 bytes.
    Gear = 2: gear::DESCRIPTOR,
    /// Gear with normalised chunk sizes.
    FastCdc = 3: fastcdc::DESCRIPTOR,
    /// Asymmetric extremum, largest byte.
    AeMax = 4: ae::MAX,
    /// Asymmetric extremum, smallest byte.
    AeMin = 5: ae::MIN,
    /// Rapid asymmetric maximum.
    Ram = 6: ram::DESCRIPTOR,
    /// Smallest hash of four bytes between the bounds.
    MinCdc = 7: mincdc::DESCRIPTOR,
    /// CRC-32 of a sliding window.
    Crc = 8: crc::DESCRIPTOR,
    /// Cyclic polynomial of a sliding window.
    Buzhash = 9: buzhash::DESCRIPTOR,
    /// Gear with a hash of 32 bits.
    Gear32 = 10: gear32::DESCRIPTOR,
    /// Gear with a hash of 16 bits, made for vectors.
    Gear16 = 11: gear16::DESCRIPTOR,
    /// Two thresholds, two divisors.
    Tttd = 12: tttd::DESCRIPTOR,
    /// Local maximum.
    Maxp = 13: maxp::DESCRIPTOR,
    /// Minimal incremental interval.
    Mii = 14: mii::DESCRIPTOR,
    /// Parity check of interval.
    Pci = 15: pci::DESCRIPTOR,
    /// Bytes-frequency-based chunking.
    Bfbc = 16: bfbc::DESCRIPTOR,
    /// Rising sequences, with skipping.
    SeqInc = 17: seqcdc::INC,
    /// Falling sequences, with skipping.
    SeqDec = 18: seqcdc::DEC,
    /// Gear made a universal hash, then AES: the one whose cut-points do not tell its secret.
    GearAes = 19: gear_aes::DESCRIPTOR,
}

impl Algorithm {
    /// The name users write; [`FromStr`] reads it back.
    pub fn name(self) -> &'static str {
        self.descriptor().name
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
    pub fn takes_secret(self) -> bool {
        self.descriptor().takes.contains(&Parameter::Secret)
    }

    /// The number that stands for the algorithm on disk. Never reused, never changed.
    pub const fn code(self) -> u8 {
        self as u8
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

//! Where the numbers come from that tables, polynomials, constants and divisors are made of.
//!
//! Without a secret: SplitMix64(seed). With one: the output of BLAKE3 in its key derivation mode,
//! of the secret and the seed (8 bytes, little-endian) behind it, read as little-endian numbers of
//! 64 bits. The context string names the algorithm, so that nothing that one algorithm gives away
//! of its numbers is of use against another.

use std::fmt;

use zeroize::Zeroize;

use crate::splitmix::SplitMix64;
use crate::{Algorithm, Params};

/// 32 bytes that nobody may know who must not foretell cut-points.
///
/// What that protects and what it does not is in `docs/keyed-chunking.md`. `Debug` shows nothing of
/// the bytes. A [`Chunker`](crate::Chunker) wipes the copy that it keeps, and what it has made of it,
/// when it is dropped; whoever keeps another [wipes](zeroize::Zeroize) that. Comparing takes a time
/// that depends on the bytes: compare with a secret of one's own only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Secret([u8; 32]);

impl Secret {
    /// These bytes: uniformly random, and used for nothing else.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for who keeps them.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Zeroize for Secret {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// An endless sequence of random numbers.
pub(crate) enum Numbers {
    Public(SplitMix64),
    Secret(Box<blake3::OutputReader>),
}

impl Numbers {
    /// Those of the seed, or of secret and seed.
    pub(crate) fn of(params: &Params) -> Self {
        let Some(Secret(secret)) = &params.secret else {
            return Self::Public(SplitMix64::new(params.seed));
        };
        let mut hasher = blake3::Hasher::new_derive_key(&context(params.algorithm));
        hasher.update(secret).update(&params.seed.to_le_bytes());
        let numbers = Self::Secret(Box::new(hasher.finalize_xof()));
        hasher.zeroize();
        numbers
    }

    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Self::Public(numbers) => numbers.next(),
            Self::Secret(output) => {
                let mut bytes = [0; 8];
                output.fill(&mut bytes);
                u64::from_le_bytes(bytes)
            }
        }
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        if let Self::Secret(output) = self {
            output.zeroize();
        }
    }
}

/// What sets these numbers apart from all others that are derived from the same secret.
fn context(algorithm: Algorithm) -> String {
    format!("onefold 2026 content-defined chunking: numbers of {algorithm}")
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;

    use super::*;
    use crate::chunker::Kept;
    use crate::gear::Table;

    /// Bytes 0, 1, 2, … 31.
    const SECRET: Secret = Secret({
        let mut bytes = [0; 32];
        let mut i = 0;
        while i < 32 {
            bytes[i] = i as u8;
            i += 1;
        }
        bytes
    });

    fn keyed(algorithm: Algorithm, seed: u64) -> Numbers {
        let params = Params::for_mean(algorithm, 1024).unwrap();
        Numbers::of(&Params { seed, secret: Some(SECRET), ..params })
    }

    /// Python's blake3 1.0.11, with `name` and `seed` as below:
    ///
    ///     import blake3, struct
    ///     context = f"onefold 2026 content-defined chunking: numbers of {name}"
    ///     key = bytes(range(32)) + struct.pack("<Q", seed)
    ///     output = blake3.blake3(key, derive_key_context=context).digest(length=24)
    ///     print([hex(n) for n in struct.unpack("<3Q", output)])
    #[test]
    fn keyed_numbers_are_those_of_another_implementation_of_blake3() {
        for (algorithm, seed, expected) in [
            (
                Algorithm::Gear,
                0,
                [0xe298_c314_0920_4a9e, 0x1e4b_053e_b68a_dea4, 0x40b0_974f_76ae_713c],
            ),
            (
                Algorithm::Rabin,
                1,
                [0x0ac9_6438_d4ed_2875, 0x6e2f_9b35_c805_e3e8, 0x530d_7b0a_08b4_22e2],
            ),
            (
                Algorithm::SeqDec,
                u64::MAX,
                [0xd3df_43d3_5b4a_982b, 0x9e8c_d284_8cbf_8d51, 0xe5de_76f3_c0f8_1e52],
            ),
        ] {
            let mut numbers = keyed(algorithm, seed);
            assert_eq!(expected.map(|_| numbers.next()), expected, "{algorithm}");
        }
    }

    #[test]
    fn no_two_algorithms_or_seeds_share_a_number() {
        let mut firsts: Vec<u64> =
            Algorithm::ALL.iter().map(|&algorithm| keyed(algorithm, 0).next()).collect();
        firsts.extend([keyed(Algorithm::Gear, 1).next(), keyed(Algorithm::Gear, 256).next()]);
        let all = firsts.len();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), all);
    }

    #[test]
    fn without_a_secret_the_seed_alone_counts() {
        let params = Params { seed: 7, ..Params::for_mean(Algorithm::Gear, 1024).unwrap() };
        let (mut numbers, mut expected) = (Numbers::of(&params), SplitMix64::new(7));
        assert!((0..10).all(|_| numbers.next() == expected.next()));
    }

    /// Whether nothing but zeros is in the place of `value` once it was dropped, as `look` sees it.
    fn is_wiped<T>(value: T, look: impl Fn(&T) -> bool) -> bool {
        let mut value = ManuallyDrop::new(value);
        assert!(!look(&value), "it was nothing but zeros before");
        // SAFETY: it is dropped once, and `look` reads numbers only, which stay what they are.
        unsafe { ManuallyDrop::drop(&mut value) };
        look(&value)
    }

    #[test]
    fn what_was_made_of_a_secret_is_wiped() {
        assert!(is_wiped(Table::new(keyed(Algorithm::Gear, 0)), |table| table.0 == [0; 256]));
        let params = Params::for_mean(Algorithm::MinCdc, 1024).unwrap();
        let params = Params { secret: Some(SECRET), ..params };
        assert!(is_wiped(Kept(params), |kept| kept.0.secret.is_none()));
    }

    #[test]
    fn nothing_shows_a_secret() {
        let params = Params::for_mean(Algorithm::Gear, 1024).unwrap();
        let show = |byte| {
            let params = Params { secret: Some(Secret::new([byte; 32])), ..params };
            format!("{params:?} {params:#?} {:?}", crate::Chunker::new(&params).unwrap())
        };
        assert_eq!(show(1), show(2));
        assert!(show(1).contains("Secret(…)"));
    }
}

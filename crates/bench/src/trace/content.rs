//! The bytes that stand for a digest.

use std::fmt;

/// What a trace has in the place of a page's content: an MD5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

/// The MD5 of so many zero bytes: such pages are no inventions. The last is what the description of
/// the FIU traces names in its place.
const ZEROS: [(usize, Digest); 3] = [
    (512, Digest(0xbf61_9eac_0cdf_3f68_d496_ea93_4413_7e8b_u128.to_be_bytes())),
    (4096, Digest(0x620f_0b67_a91f_7f74_151b_c5be_745b_7110_u128.to_be_bytes())),
    (4096, Digest(0x3df1_244f_6143_869f_52ab_f2a1_d73d_0c0f_u128.to_be_bytes())),
];

impl Digest {
    /// The digest in hexadecimal digits of either case, or `None`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text: &[u8; 32] = text.try_into().ok()?;
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Some(Self(bytes))
    }

    fn halves(self) -> [u64; 2] {
        let (first, second) = self.0.split_at(8);
        [first, second].map(|half| u64::from_le_bytes(half.try_into().expect("8 bytes")))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Fills `page`, of at least 16 bytes, with what stands for `digest`: the same for the same digest,
/// and something else for every other, but for two that stand for 4 KiB of zeros.
///
/// The page begins with the digest and goes on with bytes that nothing compresses; the last
/// `compressible` percent, at most 100, are zeros, but no byte of the digest is. The digest of a page
/// of zeros gives zeros.
pub fn fill(digest: Digest, compressible: u8, page: &mut [u8]) {
    if ZEROS.contains(&(page.len(), digest)) {
        page.fill(0);
        return;
    }
    let kept = page.len() * usize::from(100 - compressible.min(100)) / 100;
    let (random, zeros) = page.split_at_mut(kept.max(digest.0.len()));
    let [first, second] = digest.halves();
    let mut numbers = Numbers::new(first ^ second.rotate_left(32));
    for piece in random.chunks_mut(8) {
        piece.copy_from_slice(&numbers.next_number().to_le_bytes()[..piece.len()]);
    }
    random[..digest.0.len()].copy_from_slice(&digest.0);
    zeros.fill(0);
}

/// The numbers of SplitMix64 that a seed starts.
#[derive(Clone, Debug)]
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// From 0 to below 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.next_number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// SplitMix64's finaliser: numbers that are near each other have values that are not.
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(digest: Digest, compressible: u8, len: usize) -> Vec<u8> {
        let mut page = vec![7; len];
        fill(digest, compressible, &mut page);
        page
    }

    fn share_of_zeros(page: &[u8]) -> f64 {
        page.iter().filter(|byte| **byte == 0).count() as f64 / page.len() as f64
    }

    #[test]
    fn pages_are_equal_if_and_only_if_their_digests_are() {
        // these two seed the same numbers
        let (a, mut b) = (Digest([1; 16]), Digest([1; 16]));
        b.0.rotate_left(4);
        b.0[0] = 2;
        for compressible in [0, 50, 100] {
            for len in [512, 4096] {
                let one = page(a, compressible, len);
                assert_eq!(one, page(a, compressible, len));
                assert_ne!(one, page(b, compressible, len));
            }
        }
    }

    #[test]
    fn as_many_bytes_are_zeros_as_was_asked() {
        for (compressible, expected) in [(0, 0.0), (50, 0.5), (100, 1.0)] {
            let found = share_of_zeros(&page(Digest([9; 16]), compressible, 4096));
            assert!((found - expected).abs() < 0.01, "{compressible} %: {found}");
        }
    }

    #[test]
    fn the_digest_of_zeros_gives_zeros_of_that_length_only() {
        let of = |hex: &[u8; 32]| Digest::parse(hex).unwrap();
        let [short, long] =
            [of(b"bf619eac0cdf3f68d496ea9344137e8b"), of(b"620f0b67a91f7f74151bc5be745b7110")];
        assert_eq!(page(short, 0, 512), [0; 512]);
        assert_eq!(page(long, 0, 4096), [0; 4096]);
        let of_fiu = of(b"3df1244f6143869f52abf2a1d73d0c0f");
        assert_eq!(page(of_fiu, 0, 4096), [0; 4096]);
        assert_ne!(page(of_fiu, 0, 512), [0; 512]);
        assert_ne!(page(short, 0, 4096), [0; 4096]);
        assert_ne!(page(long, 0, 512), [0; 512]);
    }

    #[test]
    fn a_digest_is_32_digits() {
        let text = b"620f0b67A91f7f74151bc5be745b7110";
        let shown = Digest::parse(text).unwrap().to_string();
        assert_eq!(shown.as_bytes(), text.to_ascii_lowercase());
        for wrong in [&b""[..], &text[1..], b"620f0b67a91f7f74151bc5be745b711g"] {
            assert_eq!(Digest::parse(wrong), None);
        }
    }
}

//! Many chunks hashed at once: each in a lane of wide vectors.
//!
//! One chunk of 8 KiB has too few parts to fill the lanes, and SHA-3 has none; a batch has.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only x86_64 has such vectors yet")
)]

mod blake3;
mod isa;
mod sha3;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512vl;

use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
use isa::Isa;
use isa::Task;

use crate::Fingerprint;

/// The vectors of this CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vectors {
    /// None that would gain anything.
    None,
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx512Vl(avx512vl::Avx512Vl),
}

impl Vectors {
    /// Those that this CPU has, the widest first, and then none.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(avx512::Avx512::new().map(Self::Avx512));
            all.extend(avx512vl::Avx512Vl::new().map(Self::Avx512Vl));
            all.extend(avx2::Avx2::new().map(Self::Avx2));
        }
        all.push(Self::None);
        all
    }

    /// Says whether there were vectors to run `task` on.
    fn run(self, task: impl Task) -> bool {
        match self {
            Self::None => {
                let _ = task;
                return false;
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(isa) => isa.run(task),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(isa) => isa.run(task),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vl(isa) => isa.run(task),
        }
        #[allow(unreachable_code, reason = "elsewhere than on x86-64 there are none")]
        true
    }
}

static WIDEST: LazyLock<Vectors> = LazyLock::new(|| Vectors::all()[0]);

/// Half as wide as the widest and as able, if there are such: less work for what does not fill more
/// than half of those.
static HALF: LazyLock<Option<Vectors>> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    return avx512vl::Avx512Vl::new().map(Vectors::Avx512Vl);
    #[cfg(not(target_arch = "x86_64"))]
    None
});

/// Appends the BLAKE3 fingerprint of each of `chunks` to `out`, keyed if there is a key. Says
/// whether it did: not where this CPU has no vectors for it.
pub(crate) fn blake3(key: Option<&[u8; 32]>, chunks: &[&[u8]], out: &mut Vec<Fingerprint>) -> bool {
    let vectors = if blake3::are_few(chunks) { HALF.unwrap_or(*WIDEST) } else { *WIDEST };
    vectors.run(blake3::Many { key, chunks, out })
}

/// Appends the SHA3-256 fingerprint of each of `chunks` to `out`. Says whether it did: not where
/// this CPU has no vectors for it, or none that gain anything for a single chunk.
pub(crate) fn sha3(chunks: &[&[u8]], out: &mut Vec<Fingerprint>) -> bool {
    if *WIDEST == Vectors::None || HALF.is_none() && chunks.len() < 2 {
        return false;
    }
    let order = sha3::shorter_first(chunks);
    let first = out.len();
    out.resize(first + chunks.len(), Fingerprint::from_bytes([0; 32]));
    let few = if HALF.is_some() { sha3::few_at_end(chunks.len()) } else { 0 };
    let (many, few) = order.split_at(chunks.len() - few);
    for (vectors, order) in [(*WIDEST, many), (HALF.unwrap_or(*WIDEST), few)] {
        vectors.run(sha3::Many { chunks, order, out: &mut out[first..] });
    }
    true
}

#[cfg(test)]
mod tests {
    use ::sha3::{Digest, Sha3_256};
    use onefold_testkit::{SplitMix64, random, skip};
    use proptest::prelude::*;

    use super::*;

    const KEY: &[u8; 32] = b"whats the Elvish word for friend";

    /// The vectors to test, or a word on why there are none.
    fn vectors() -> Vec<Vectors> {
        let mut all = Vectors::all();
        all.pop();
        if all.is_empty() {
            skip("no vectors that hash many chunks at once on this CPU");
        }
        all
    }

    fn fingerprints(one: impl Fn(&[u8]) -> [u8; 32], chunks: &[&[u8]]) -> Vec<Fingerprint> {
        chunks.iter().map(|chunk| Fingerprint::from_bytes(one(chunk))).collect()
    }

    /// All vectors find what the libraries find, behind what was there before.
    fn assert_equal(chunks: &[&[u8]]) {
        let blake3 = fingerprints(|chunk| ::blake3::hash(chunk).into(), chunks);
        let keyed = fingerprints(|chunk| ::blake3::keyed_hash(KEY, chunk).into(), chunks);
        let sha3 = fingerprints(|chunk| Sha3_256::digest(chunk).into(), chunks);
        let lens = || chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>();
        for vectors in vectors() {
            let before = Fingerprint::from_bytes([7; 32]);
            let [mut a, mut b] = [vec![before], vec![before]];
            let mut c = vec![before; chunks.len()];
            assert!(vectors.run(blake3::Many { key: None, chunks, out: &mut a }));
            assert!(vectors.run(blake3::Many { key: Some(KEY), chunks, out: &mut b }));
            let order = &sha3::shorter_first(chunks);
            assert!(vectors.run(sha3::Many { chunks, order, out: &mut c }));
            assert_eq!(a.remove(0), before);
            assert_eq!(a, blake3, "{vectors:?}, blake3 of {:?}", lens());
            assert_eq!(b[1..], keyed, "{vectors:?}, blake3 with a key of {:?}", lens());
            assert_eq!(c, sha3, "{vectors:?}, sha3 of {:?}", lens());
        }
        // and so do those that are chosen
        let has_any = *WIDEST != Vectors::None;
        let before = Fingerprint::from_bytes([7; 32]);
        let [mut a, mut b, mut c] = [vec![before], vec![before], vec![before]];
        if super::blake3(None, chunks, &mut a) {
            assert!(super::blake3(Some(KEY), chunks, &mut b));
            assert_eq!(a[1..], blake3, "blake3 of {:?}", lens());
            assert_eq!(b[1..], keyed, "blake3 with a key of {:?}", lens());
        } else {
            assert!(!has_any && a == [before]);
        }
        if super::sha3(chunks, &mut c) {
            assert_eq!((c[0], &c[1..]), (before, &sha3[..]), "sha3 of {:?}", lens());
        } else {
            assert!((!has_any || HALF.is_none() && chunks.len() < 2) && c == [before]);
        }
    }

    #[test]
    fn one_chunk_of_every_length() {
        let data = random(1, 4 * 1024 + 200);
        for len in (0..=data.len()).rev() {
            assert_equal(&[&data[..len]]);
        }
    }

    #[test]
    fn every_number_of_chunks_and_of_leaves() {
        let data = random(2, 70 << 10);
        for count in 0..40 {
            for len in [0, 64, 135, 136, 137, 1024, 1025, 4096] {
                let chunks: Vec<&[u8]> = (0..count).map(|i| &data[i..][..len]).collect();
                assert_equal(&chunks);
            }
        }
        for leaves in 1..70 {
            assert_equal(&[&data[..1024 * leaves], &data[3..][..1024 * leaves - 5], &data[..9]]);
        }
    }

    #[test]
    fn chunks_of_every_length_beside_each_other() {
        let data = random(3, 9000);
        let mut numbers = SplitMix64::new(4);
        for _ in 0..30 {
            let chunks: Vec<&[u8]> = (0..1 + numbers.next_u64() % 60)
                .map(|_| &data[..numbers.next_u64() as usize % data.len()])
                .collect();
            assert_equal(&chunks);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_chunks(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..30)) {
            assert_equal(&chunks.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}

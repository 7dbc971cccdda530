use std::arch::x86_64::*;

use super::isa::{Isa, Task};

/// AVX2: vectors of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Avx2(());

impl Avx2 {
    /// The proof, if this CPU can give it.
    pub(super) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

macro_rules! avx2 {
    ($call:expr) => {
        // SAFETY: `Avx2::new` found AVX2 before it made the `self` at hand; what is read or written
        // is as long as its type says.
        unsafe { $call }
    };
}

/// The first half of a block, or the second.
#[inline(always)]
fn load(block: &[u8; 64], half: usize) -> __m256i {
    let half: &[u8; 32] = &block.as_chunks().0[half];
    avx2!(_mm256_loadu_si256(half.as_ptr().cast()))
}

/// Takes each byte of a word from so many bytes above it.
#[inline(always)]
fn bytes(above: usize) -> __m256i {
    const fn order(above: usize) -> [u8; 32] {
        let mut order = [0; 32];
        let mut i = 0;
        while i < 32 {
            // a shuffle stays within 16 bytes
            order[i] = (i % 16 / 4 * 4 + (i + above) % 4) as u8;
            i += 1;
        }
        order
    }
    const ORDERS: [[u8; 32]; 3] = [order(0), order(1), order(2)];
    avx2!(_mm256_loadu_si256(ORDERS[above].as_ptr().cast()))
}

impl Isa for Avx2 {
    type V = __m256i;
    const WORDS: usize = 8;

    #[inline(always)]
    fn run<T: Task>(self, task: T) {
        #[target_feature(enable = "avx2")]
        fn compiled<T: Task>(isa: Avx2, task: T) {
            task.run(isa);
        }
        avx2!(compiled(self, task))
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_xor_si256(a, b))
    }

    #[inline(always)]
    fn xor3(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        self.xor(self.xor(a, b), c)
    }

    #[inline(always)]
    fn chi(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        self.xor(a, avx2!(_mm256_andnot_si256(b, c)))
    }

    #[inline(always)]
    fn splat_word(self, number: u32) -> __m256i {
        avx2!(_mm256_set1_epi32(number as i32))
    }

    #[inline(always)]
    fn words(self, numbers: &[u32; 16]) -> __m256i {
        avx2!(_mm256_loadu_si256(numbers.as_ptr().cast()))
    }

    #[inline(always)]
    fn to_words(self, v: __m256i) -> [u32; 16] {
        let mut words = [0; 16];
        avx2!(_mm256_storeu_si256(words.as_mut_ptr().cast(), v));
        words
    }

    #[inline(always)]
    fn add_words(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_add_epi32(a, b))
    }

    #[inline(always)]
    fn turn_words<const N: i32>(self, v: __m256i) -> __m256i {
        avx2!({
            // whole bytes move in one instruction
            match N {
                8 => _mm256_shuffle_epi8(v, bytes(1)),
                16 => _mm256_shuffle_epi8(v, bytes(2)),
                _ => {
                    let right = _mm256_srl_epi32(v, _mm_cvtsi32_si128(N));
                    let left = _mm256_sll_epi32(v, _mm_cvtsi32_si128(32 - N));
                    _mm256_or_si256(right, left)
                }
            }
        })
    }

    #[inline(always)]
    fn if_above(self, a: __m256i, b: __m256i, yes: __m256i, no: __m256i) -> __m256i {
        avx2!(_mm256_blendv_epi8(no, yes, _mm256_cmpgt_epi32(a, b)))
    }

    #[inline(always)]
    fn load_words(self, blocks: &[&[u8; 64]; 16]) -> [__m256i; 16] {
        let mut words = [self.splat_word(0); 16];
        for half in 0..2 {
            // squares of four blocks and four words are transposed first: `fours[q][c]` has the
            // words c and 4 + c of the blocks from 4q on
            let mut fours = [[self.splat_word(0); 4]; 2];
            for (four, blocks) in fours.iter_mut().zip(blocks.as_chunks::<4>().0) {
                avx2!({
                    let (a, b) = (load(blocks[0], half), load(blocks[1], half));
                    let (c, d) = (load(blocks[2], half), load(blocks[3], half));
                    let (ab, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
                    let (cd, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
                    *four = [
                        _mm256_unpacklo_epi64(ab, cd),
                        _mm256_unpackhi_epi64(ab, cd),
                        _mm256_unpacklo_epi64(ab_high, cd_high),
                        _mm256_unpackhi_epi64(ab_high, cd_high),
                    ];
                });
            }
            for c in 0..4 {
                let [first, second] = fours;
                words[8 * half + c] = avx2!(_mm256_permute2x128_si256::<0x20>(first[c], second[c]));
                words[8 * half + 4 + c] =
                    avx2!(_mm256_permute2x128_si256::<0x31>(first[c], second[c]));
            }
        }
        words
    }

    #[inline(always)]
    fn splat_long(self, number: u64) -> __m256i {
        avx2!(_mm256_set1_epi64x(number as i64))
    }

    #[inline(always)]
    fn longs(self, numbers: &[u64; 8]) -> __m256i {
        avx2!(_mm256_loadu_si256(numbers.as_ptr().cast()))
    }

    #[inline(always)]
    fn to_longs(self, v: __m256i) -> [u64; 8] {
        let mut longs = [0; 8];
        avx2!(_mm256_storeu_si256(longs.as_mut_ptr().cast(), v));
        longs
    }

    #[inline(always)]
    fn load_longs(self, blocks: &[&[u8; 64]; 8]) -> [__m256i; 8] {
        let mut longs = [self.splat_long(0); 8];
        for half in 0..2 {
            avx2!({
                let (a, b) = (load(blocks[0], half), load(blocks[1], half));
                let (c, d) = (load(blocks[2], half), load(blocks[3], half));
                let (even, odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
                let (even_behind, odd_behind) =
                    (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
                longs[4 * half] = _mm256_permute2x128_si256::<0x20>(even, even_behind);
                longs[4 * half + 1] = _mm256_permute2x128_si256::<0x20>(odd, odd_behind);
                longs[4 * half + 2] = _mm256_permute2x128_si256::<0x31>(even, even_behind);
                longs[4 * half + 3] = _mm256_permute2x128_si256::<0x31>(odd, odd_behind);
            });
        }
        longs
    }

    #[inline(always)]
    fn turn_longs<const N: i32>(self, v: __m256i) -> __m256i {
        avx2!({
            let left = _mm256_sll_epi64(v, _mm_cvtsi32_si128(N));
            let right = _mm256_srl_epi64(v, _mm_cvtsi32_si128(64 - N));
            _mm256_or_si256(left, right)
        })
    }
}

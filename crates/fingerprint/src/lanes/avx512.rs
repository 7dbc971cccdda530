use std::arch::x86_64::*;
use std::mem::transmute;

use super::isa::{Isa, Task};

/// AVX-512 F: vectors of 64 bytes that turn words, and any function of three bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Avx512(());

impl Avx512 {
    /// The proof, if this CPU can give it.
    pub(super) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }
}

macro_rules! avx512 {
    ($call:expr) => {
        // SAFETY: `Avx512::new` found AVX-512 F before it made the `self` at hand; what is read or
        // written is as long as its type says.
        unsafe { $call }
    };
}

#[inline(always)]
fn load(block: &[u8; 64]) -> __m512i {
    avx512!(_mm512_loadu_si512(block.as_ptr().cast()))
}

impl Isa for Avx512 {
    type V = __m512i;
    const WORDS: usize = 16;

    #[inline(always)]
    fn run<T: Task>(self, task: T) {
        #[target_feature(enable = "avx512f")]
        fn compiled<T: Task>(isa: Avx512, task: T) {
            task.run(isa);
        }
        avx512!(compiled(self, task))
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_xor_si512(a, b))
    }

    #[inline(always)]
    fn xor3(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        avx512!(_mm512_ternarylogic_epi64::<0b1001_0110>(a, b, c))
    }

    #[inline(always)]
    fn chi(self, a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // the bit of `a` counts four, that of `b` two, that of `c` one
        avx512!(_mm512_ternarylogic_epi64::<0b1101_0010>(a, b, c))
    }

    #[inline(always)]
    fn splat_word(self, number: u32) -> __m512i {
        avx512!(_mm512_set1_epi32(number as i32))
    }

    #[inline(always)]
    fn words(self, numbers: &[u32; 16]) -> __m512i {
        avx512!(_mm512_loadu_si512(numbers.as_ptr().cast()))
    }

    #[inline(always)]
    fn to_words(self, v: __m512i) -> [u32; 16] {
        avx512!(transmute::<__m512i, [u32; 16]>(v))
    }

    #[inline(always)]
    fn add_words(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_add_epi32(a, b))
    }

    #[inline(always)]
    fn turn_words<const N: i32>(self, v: __m512i) -> __m512i {
        avx512!(_mm512_ror_epi32::<N>(v))
    }

    #[inline(always)]
    fn if_above(self, a: __m512i, b: __m512i, yes: __m512i, no: __m512i) -> __m512i {
        avx512!(_mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, b), no, yes))
    }

    #[inline(always)]
    fn load_words(self, blocks: &[&[u8; 64]; 16]) -> [__m512i; 16] {
        let mut words = [self.splat_word(0); 16];
        // squares of four blocks and four words are transposed first: `fours[q][c]` has the words
        // c, 4 + c, 8 + c, 12 + c of the blocks from 4q on
        let mut fours = [[self.splat_word(0); 4]; 4];
        for (four, blocks) in fours.iter_mut().zip(blocks.as_chunks::<4>().0) {
            avx512!({
                let (a, b) = (load(blocks[0]), load(blocks[1]));
                let (c, d) = (load(blocks[2]), load(blocks[3]));
                let (ab, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                *four = [
                    _mm512_unpacklo_epi64(ab, cd),
                    _mm512_unpackhi_epi64(ab, cd),
                    _mm512_unpacklo_epi64(ab_high, cd_high),
                    _mm512_unpackhi_epi64(ab_high, cd_high),
                ];
            });
        }
        for c in 0..4 {
            avx512!({
                let low = _mm512_shuffle_i32x4::<0x44>(fours[0][c], fours[1][c]);
                let high = _mm512_shuffle_i32x4::<0xee>(fours[0][c], fours[1][c]);
                let low_behind = _mm512_shuffle_i32x4::<0x44>(fours[2][c], fours[3][c]);
                let high_behind = _mm512_shuffle_i32x4::<0xee>(fours[2][c], fours[3][c]);
                words[c] = _mm512_shuffle_i32x4::<0x88>(low, low_behind);
                words[4 + c] = _mm512_shuffle_i32x4::<0xdd>(low, low_behind);
                words[8 + c] = _mm512_shuffle_i32x4::<0x88>(high, high_behind);
                words[12 + c] = _mm512_shuffle_i32x4::<0xdd>(high, high_behind);
            });
        }
        words
    }

    #[inline(always)]
    fn splat_long(self, number: u64) -> __m512i {
        avx512!(_mm512_set1_epi64(number as i64))
    }

    #[inline(always)]
    fn longs(self, numbers: &[u64; 8]) -> __m512i {
        avx512!(_mm512_loadu_si512(numbers.as_ptr().cast()))
    }

    #[inline(always)]
    fn to_longs(self, v: __m512i) -> [u64; 8] {
        avx512!(transmute::<__m512i, [u64; 8]>(v))
    }

    #[inline(always)]
    fn load_longs(self, blocks: &[&[u8; 64]; 8]) -> [__m512i; 8] {
        let mut longs = [self.splat_long(0); 8];
        // the numbers 0, 2, 4, 6 of two blocks beside each other, and then 1, 3, 5, 7
        let (mut even, mut odd) = ([longs[0]; 4], [longs[0]; 4]);
        for (i, [one, other]) in blocks.as_chunks().0.iter().enumerate() {
            let (one, other) = (load(one), load(other));
            even[i] = avx512!(_mm512_unpacklo_epi64(one, other));
            odd[i] = avx512!(_mm512_unpackhi_epi64(one, other));
        }
        for (i, pairs) in [even, odd].into_iter().enumerate() {
            let [a, b, c, d] = pairs;
            avx512!({
                let low = _mm512_shuffle_i64x2::<0x88>(a, b);
                let low_behind = _mm512_shuffle_i64x2::<0x88>(c, d);
                let high = _mm512_shuffle_i64x2::<0xdd>(a, b);
                let high_behind = _mm512_shuffle_i64x2::<0xdd>(c, d);
                longs[i] = _mm512_shuffle_i64x2::<0x88>(low, low_behind);
                longs[4 + i] = _mm512_shuffle_i64x2::<0xdd>(low, low_behind);
                longs[2 + i] = _mm512_shuffle_i64x2::<0x88>(high, high_behind);
                longs[6 + i] = _mm512_shuffle_i64x2::<0xdd>(high, high_behind);
            });
        }
        longs
    }

    #[inline(always)]
    fn turn_longs<const N: i32>(self, v: __m512i) -> __m512i {
        avx512!(_mm512_rol_epi64::<N>(v))
    }
}

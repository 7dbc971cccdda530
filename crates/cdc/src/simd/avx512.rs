use std::arch::x86_64::*;
use std::mem::transmute;

use super::avx2::Avx2;
use super::vector::{ByteVector, Task};

/// AVX-512 F and BW, and what [`Avx2`] has.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The proof, if this CPU can give it.
    pub(crate) fn new() -> Option<Self> {
        let vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        (vectors && Avx2::new().is_some()).then_some(Self(()))
    }
}

macro_rules! avx512 {
    ($call:expr) => {
        // SAFETY: `Avx512::new` found AVX-512 F and BW and what AVX2 brings before it made the
        // `self` at hand; what is asked of pointers is asked of the caller.
        unsafe { $call }
    };
}

impl ByteVector for Avx512 {
    type V = __m512i;
    const LANES: usize = 64;
    const MASK_SHIFT: u32 = 0;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt,popcnt")]
        fn compiled<T: Task>(isa: Avx512, task: T) -> T::Output {
            task.run(isa)
        }
        avx512!(compiled(self, task))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m512i {
        avx512!(_mm512_loadu_si512(from.cast()))
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> __m512i {
        avx512!(_mm512_set1_epi8(byte as i8))
    }

    #[inline(always)]
    fn add_to_255(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_adds_epu8(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_max_epu8(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_min_epu8(a, b))
    }

    #[inline(always)]
    fn eq(self, a: __m512i, b: __m512i) -> u64 {
        avx512!(_mm512_cmpeq_epu8_mask(a, b))
    }

    #[inline(always)]
    fn ge(self, a: __m512i, b: __m512i) -> u64 {
        avx512!(_mm512_cmpge_epu8_mask(a, b))
    }

    #[inline(always)]
    fn gt(self, a: __m512i, b: __m512i) -> u64 {
        avx512!(_mm512_cmpgt_epu8_mask(a, b))
    }

    #[inline(always)]
    fn largest(self, v: __m512i) -> u8 {
        !self.smallest(avx512!(_mm512_xor_si512(v, _mm512_set1_epi8(-1))))
    }

    #[inline(always)]
    fn smallest(self, v: __m512i) -> u8 {
        avx512!({
            let v = _mm256_min_epu8(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64::<1>(v));
            let v = _mm_min_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            let v = _mm_min_epu8(v, _mm_srli_epi16::<8>(v));
            _mm_cvtsi128_si32(_mm_minpos_epu16(v)) as u8
        })
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_and_si512(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_or_si512(a, b))
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_xor_si512(a, b))
    }

    #[inline(always)]
    fn table(self, table: [u8; 16]) -> __m512i {
        // 16 bytes can be read from an array of them
        avx512!(_mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())))
    }

    #[inline(always)]
    fn look_up(self, table: __m512i, v: __m512i) -> __m512i {
        avx512!(_mm512_shuffle_epi8(table, v))
    }

    #[inline(always)]
    fn back_1(self, before: __m512i, v: __m512i) -> __m512i {
        avx512!({
            // each 16 bytes beside those in front of them
            let before = _mm512_alignr_epi64::<6>(v, before);
            _mm512_alignr_epi8::<15>(v, before)
        })
    }

    #[inline(always)]
    fn back_2(self, before: __m512i, v: __m512i) -> __m512i {
        avx512!({
            // each 16 bytes beside those in front of them
            let before = _mm512_alignr_epi64::<6>(v, before);
            _mm512_alignr_epi8::<14>(v, before)
        })
    }

    #[inline(always)]
    fn back_4(self, before: __m512i, v: __m512i) -> __m512i {
        avx512!(_mm512_alignr_epi32::<15>(v, before))
    }

    #[inline(always)]
    fn back_8(self, before: __m512i, v: __m512i) -> __m512i {
        avx512!(_mm512_alignr_epi64::<7>(v, before))
    }

    #[inline(always)]
    fn back_16(self, before: __m512i, v: __m512i) -> __m512i {
        avx512!(_mm512_alignr_epi64::<6>(v, before))
    }

    #[inline(always)]
    fn back_2_in_16(self, before: __m512i, v: __m512i) -> __m512i {
        avx512!(_mm512_alignr_epi8::<14>(v, before))
    }

    #[inline(always)]
    fn zip_first(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_unpacklo_epi8(a, b))
    }

    #[inline(always)]
    fn zip_last(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_unpackhi_epi8(a, b))
    }

    #[inline(always)]
    fn splat_u16(self, number: u16) -> __m512i {
        avx512!(_mm512_set1_epi16(number as i16))
    }

    #[inline(always)]
    fn add_u16(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_add_epi16(a, b))
    }

    #[inline(always)]
    fn min_u16(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_min_epu16(a, b))
    }

    #[inline(always)]
    fn down_u16<const N: u32>(self, v: __m512i) -> __m512i {
        avx512!(_mm512_srlv_epi16(v, _mm512_set1_epi16(N as i16)))
    }

    #[inline(always)]
    fn le_u16(self, a: __m512i, b: __m512i) -> u64 {
        avx512!({
            let below = _mm512_cmple_epu16_mask(a, b);
            _mm512_movepi8_mask(_mm512_maskz_set1_epi16(below, -1))
        })
    }

    #[inline(always)]
    fn splat_u32(self, number: u32) -> __m512i {
        avx512!(_mm512_set1_epi32(number as i32))
    }

    #[inline(always)]
    fn add_u32(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_add_epi32(a, b))
    }

    #[inline(always)]
    fn mul_u32(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn min_u32(self, a: __m512i, b: __m512i) -> __m512i {
        avx512!(_mm512_min_epu32(a, b))
    }

    #[inline(always)]
    fn eq_u32(self, a: __m512i, b: __m512i) -> u64 {
        avx512!({
            let equal = _mm512_cmpeq_epu32_mask(a, b);
            _mm512_movepi8_mask(_mm512_maskz_set1_epi32(equal, -1))
        })
    }

    #[inline(always)]
    fn lower_u32(
        self,
        least: __m512i,
        at: __m512i,
        with: __m512i,
        there: __m512i,
    ) -> (__m512i, __m512i) {
        avx512!({
            let lower = _mm512_cmplt_epu32_mask(with, least);
            (_mm512_min_epu32(least, with), _mm512_mask_mov_epi32(at, lower, there))
        })
    }

    #[inline(always)]
    unsafe fn sliding(self, _from: *const u8, v: __m512i, next: __m512i) -> [__m512i; 4] {
        // Each load but the first would touch two lines, which costs more than to shuffle.
        avx512!({
            // each 16 bytes beside those that follow them
            let behind = _mm512_alignr_epi64::<2>(next, v);
            [
                v,
                _mm512_alignr_epi8::<1>(behind, v),
                _mm512_alignr_epi8::<2>(behind, v),
                _mm512_alignr_epi8::<3>(behind, v),
            ]
        })
    }

    #[inline(always)]
    fn to_u32s(self, v: __m512i) -> [u32; 16] {
        avx512!(transmute::<__m512i, [u32; 16]>(v))
    }
}

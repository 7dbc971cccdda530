use std::arch::x86_64::*;
use std::mem::transmute;

use super::vector::{ByteVector, Task};

/// AVX2, and BMI1, BMI2, LZCNT and POPCNT, which came with it.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The proof, if this CPU can give it.
    pub(crate) fn new() -> Option<Self> {
        let vectors = is_x86_feature_detected!("avx2");
        let bits = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        (vectors && bits).then_some(Self(()))
    }
}

macro_rules! avx2 {
    ($call:expr) => {
        // SAFETY: `Avx2::new` found AVX2 and its companions before it made the `self` at hand; what
        // is asked of pointers is asked of the caller.
        unsafe { $call }
    };
}

impl ByteVector for Avx2 {
    type V = __m256i;
    const LANES: usize = 32;
    const MASK_SHIFT: u32 = 0;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn compiled<T: Task>(isa: Avx2, task: T) -> T::Output {
            task.run(isa)
        }
        avx2!(compiled(self, task))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m256i {
        avx2!(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> __m256i {
        avx2!(_mm256_set1_epi8(byte as i8))
    }

    #[inline(always)]
    fn add_to_255(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_adds_epu8(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_max_epu8(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_min_epu8(a, b))
    }

    #[inline(always)]
    fn eq(self, a: __m256i, b: __m256i) -> u64 {
        let mask = avx2!(_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)));
        u64::from(mask as u32)
    }

    #[inline(always)]
    fn ge(self, a: __m256i, b: __m256i) -> u64 {
        self.eq(self.max(a, b), a)
    }

    #[inline(always)]
    fn gt(self, a: __m256i, b: __m256i) -> u64 {
        self.ge(b, a) ^ u64::from(u32::MAX)
    }

    #[inline(always)]
    fn largest(self, v: __m256i) -> u8 {
        !self.smallest(avx2!(_mm256_xor_si256(v, _mm256_set1_epi8(-1))))
    }

    #[inline(always)]
    fn smallest(self, v: __m256i) -> u8 {
        avx2!({
            let v = _mm_min_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            let v = _mm_min_epu8(v, _mm_srli_epi16::<8>(v));
            _mm_cvtsi128_si32(_mm_minpos_epu16(v)) as u8
        })
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_xor_si256(a, b))
    }

    #[inline(always)]
    fn table(self, table: [u8; 16]) -> __m256i {
        // 16 bytes can be read from an array of them
        avx2!(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())))
    }

    #[inline(always)]
    fn look_up(self, table: __m256i, v: __m256i) -> __m256i {
        avx2!(_mm256_shuffle_epi8(table, v))
    }

    #[inline(always)]
    fn back_1(self, before: __m256i, v: __m256i) -> __m256i {
        avx2!({
            // each 16 bytes beside those in front of them
            let before = _mm256_permute2x128_si256::<0x21>(before, v);
            _mm256_alignr_epi8::<15>(v, before)
        })
    }

    #[inline(always)]
    fn back_2(self, before: __m256i, v: __m256i) -> __m256i {
        avx2!({
            // each 16 bytes beside those in front of them
            let before = _mm256_permute2x128_si256::<0x21>(before, v);
            _mm256_alignr_epi8::<14>(v, before)
        })
    }

    #[inline(always)]
    fn back_4(self, before: __m256i, v: __m256i) -> __m256i {
        avx2!({
            // each 16 bytes beside those in front of them
            let before = _mm256_permute2x128_si256::<0x21>(before, v);
            _mm256_alignr_epi8::<12>(v, before)
        })
    }

    #[inline(always)]
    fn back_8(self, before: __m256i, v: __m256i) -> __m256i {
        avx2!({
            // each 16 bytes beside those in front of them
            let before = _mm256_permute2x128_si256::<0x21>(before, v);
            _mm256_alignr_epi8::<8>(v, before)
        })
    }

    #[inline(always)]
    fn back_16(self, before: __m256i, v: __m256i) -> __m256i {
        avx2!(_mm256_permute2x128_si256::<0x21>(before, v))
    }

    #[inline(always)]
    fn back_2_in_16(self, before: __m256i, v: __m256i) -> __m256i {
        avx2!(_mm256_alignr_epi8::<14>(v, before))
    }

    #[inline(always)]
    fn zip_first(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_unpacklo_epi8(a, b))
    }

    #[inline(always)]
    fn zip_last(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_unpackhi_epi8(a, b))
    }

    #[inline(always)]
    fn splat_u16(self, number: u16) -> __m256i {
        avx2!(_mm256_set1_epi16(number as i16))
    }

    #[inline(always)]
    fn add_u16(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_add_epi16(a, b))
    }

    #[inline(always)]
    fn min_u16(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_min_epu16(a, b))
    }

    #[inline(always)]
    fn down_u16<const N: u32>(self, v: __m256i) -> __m256i {
        avx2!(_mm256_srl_epi16(v, _mm_cvtsi32_si128(N as i32)))
    }

    #[inline(always)]
    fn le_u16(self, a: __m256i, b: __m256i) -> u64 {
        let mask = avx2!(_mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_min_epu16(a, b), a)));
        u64::from(mask as u32)
    }

    #[inline(always)]
    fn splat_u32(self, number: u32) -> __m256i {
        avx2!(_mm256_set1_epi32(number as i32))
    }

    #[inline(always)]
    fn add_u32(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_add_epi32(a, b))
    }

    #[inline(always)]
    fn mul_u32(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn min_u32(self, a: __m256i, b: __m256i) -> __m256i {
        avx2!(_mm256_min_epu32(a, b))
    }

    #[inline(always)]
    fn eq_u32(self, a: __m256i, b: __m256i) -> u64 {
        let mask = avx2!(_mm256_movemask_epi8(_mm256_cmpeq_epi32(a, b)));
        u64::from(mask as u32)
    }

    #[inline(always)]
    fn lower_u32(
        self,
        least: __m256i,
        at: __m256i,
        with: __m256i,
        there: __m256i,
    ) -> (__m256i, __m256i) {
        avx2!({
            let lower = _mm256_min_epu32(least, with);
            let same = _mm256_cmpeq_epi32(lower, least);
            (lower, _mm256_blendv_epi8(there, at, same))
        })
    }

    #[inline(always)]
    fn to_u32s(self, v: __m256i) -> [u32; 16] {
        avx2!(transmute::<[__m256i; 2], [u32; 16]>([v, _mm256_setzero_si256()]))
    }
}

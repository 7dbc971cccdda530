use std::arch::x86_64::*;
use std::mem::transmute;

use super::vector::{ByteVector, Task};

/// SSE4.1, and with it SSSE3: the first set that can multiply, shuffle and find a minimum.
#[derive(Clone, Copy)]
pub(crate) struct Sse41(());

impl Sse41 {
    /// The proof, if this CPU can give it.
    pub(crate) fn new() -> Option<Self> {
        (is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3"))
            .then_some(Self(()))
    }
}

macro_rules! sse41 {
    ($call:expr) => {
        // SAFETY: `Sse41::new` found SSE4.1 before it made the `self` at hand; what is asked of
        // pointers is asked of the caller.
        unsafe { $call }
    };
}

impl ByteVector for Sse41 {
    type V = __m128i;
    const LANES: usize = 16;
    const MASK_SHIFT: u32 = 0;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "sse4.1,ssse3")]
        fn compiled<T: Task>(isa: Sse41, task: T) -> T::Output {
            task.run(isa)
        }
        sse41!(compiled(self, task))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m128i {
        sse41!(_mm_loadu_si128(from.cast()))
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> __m128i {
        sse41!(_mm_set1_epi8(byte as i8))
    }

    #[inline(always)]
    fn add_to_255(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_adds_epu8(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_max_epu8(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_min_epu8(a, b))
    }

    #[inline(always)]
    fn eq(self, a: __m128i, b: __m128i) -> u64 {
        sse41!(_mm_movemask_epi8(_mm_cmpeq_epi8(a, b))) as u64
    }

    #[inline(always)]
    fn ge(self, a: __m128i, b: __m128i) -> u64 {
        self.eq(self.max(a, b), a)
    }

    #[inline(always)]
    fn gt(self, a: __m128i, b: __m128i) -> u64 {
        self.ge(b, a) ^ u64::from(u16::MAX)
    }

    #[inline(always)]
    fn largest(self, v: __m128i) -> u8 {
        !self.smallest(sse41!(_mm_xor_si128(v, _mm_set1_epi8(-1))))
    }

    #[inline(always)]
    fn smallest(self, v: __m128i) -> u8 {
        sse41!({
            let v = _mm_min_epu8(v, _mm_srli_epi16::<8>(v));
            _mm_cvtsi128_si32(_mm_minpos_epu16(v)) as u8
        })
    }

    #[inline(always)]
    fn and(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_and_si128(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_or_si128(a, b))
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_xor_si128(a, b))
    }

    #[inline(always)]
    fn table(self, table: [u8; 16]) -> __m128i {
        // 16 bytes can be read from an array of them
        sse41!(_mm_loadu_si128(table.as_ptr().cast()))
    }

    #[inline(always)]
    fn look_up(self, table: __m128i, v: __m128i) -> __m128i {
        sse41!(_mm_shuffle_epi8(table, v))
    }

    #[inline(always)]
    fn back_1(self, before: __m128i, v: __m128i) -> __m128i {
        sse41!(_mm_alignr_epi8::<15>(v, before))
    }

    #[inline(always)]
    fn back_2(self, before: __m128i, v: __m128i) -> __m128i {
        sse41!(_mm_alignr_epi8::<14>(v, before))
    }

    #[inline(always)]
    fn back_4(self, before: __m128i, v: __m128i) -> __m128i {
        sse41!(_mm_alignr_epi8::<12>(v, before))
    }

    #[inline(always)]
    fn back_8(self, before: __m128i, v: __m128i) -> __m128i {
        sse41!(_mm_alignr_epi8::<8>(v, before))
    }

    #[inline(always)]
    fn back_16(self, before: __m128i, _v: __m128i) -> __m128i {
        before
    }

    #[inline(always)]
    fn back_2_in_16(self, before: __m128i, v: __m128i) -> __m128i {
        sse41!(_mm_alignr_epi8::<14>(v, before))
    }

    #[inline(always)]
    fn zip_first(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_unpacklo_epi8(a, b))
    }

    #[inline(always)]
    fn zip_last(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_unpackhi_epi8(a, b))
    }

    #[inline(always)]
    fn splat_u16(self, number: u16) -> __m128i {
        sse41!(_mm_set1_epi16(number as i16))
    }

    #[inline(always)]
    fn add_u16(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_add_epi16(a, b))
    }

    #[inline(always)]
    fn min_u16(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_min_epu16(a, b))
    }

    #[inline(always)]
    fn down_u16<const N: u32>(self, v: __m128i) -> __m128i {
        sse41!(_mm_srl_epi16(v, _mm_cvtsi32_si128(N as i32)))
    }

    #[inline(always)]
    fn le_u16(self, a: __m128i, b: __m128i) -> u64 {
        sse41!(_mm_movemask_epi8(_mm_cmpeq_epi16(_mm_min_epu16(a, b), a))) as u64
    }

    #[inline(always)]
    fn splat_u32(self, number: u32) -> __m128i {
        sse41!(_mm_set1_epi32(number as i32))
    }

    #[inline(always)]
    fn add_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_add_epi32(a, b))
    }

    #[inline(always)]
    fn mul_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn min_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse41!(_mm_min_epu32(a, b))
    }

    #[inline(always)]
    fn eq_u32(self, a: __m128i, b: __m128i) -> u64 {
        sse41!(_mm_movemask_epi8(_mm_cmpeq_epi32(a, b))) as u64
    }

    #[inline(always)]
    fn lower_u32(
        self,
        least: __m128i,
        at: __m128i,
        with: __m128i,
        there: __m128i,
    ) -> (__m128i, __m128i) {
        sse41!({
            let lower = _mm_min_epu32(least, with);
            let same = _mm_cmpeq_epi32(lower, least);
            (lower, _mm_blendv_epi8(there, at, same))
        })
    }

    #[inline(always)]
    fn to_u32s(self, v: __m128i) -> [u32; 16] {
        sse41!({
            let zero = _mm_setzero_si128();
            transmute::<[__m128i; 4], [u32; 16]>([v, zero, zero, zero])
        })
    }
}

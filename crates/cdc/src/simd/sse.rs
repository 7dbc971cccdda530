use std::arch::x86_64::*;
use std::mem::transmute;

use super::vector::{ByteVector, Task};

/// x86 vectors of 16 bytes, with what the level `L` has for them.
#[derive(Clone, Copy)]
pub(crate) struct Sse<L>(L);

/// SSSE3: the first level that shuffles bytes. What SSE4.1 does in one instruction takes a few.
#[derive(Clone, Copy)]
pub(crate) struct Ssse3(());

/// SSE4.1, and SSSE3 with it: multiplies, selects, and finds a minimum of any kind of number.
#[derive(Clone, Copy)]
pub(crate) struct Sse41(());

impl Sse<Ssse3> {
    /// The proof, if this CPU can give it.
    pub(crate) fn new() -> Option<Self> {
        is_x86_feature_detected!("ssse3").then_some(Self(Ssse3(())))
    }
}

impl Sse<Sse41> {
    /// The proof, if this CPU can give it.
    pub(crate) fn new() -> Option<Self> {
        (is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3"))
            .then_some(Self(Sse41(())))
    }
}

macro_rules! sse {
    ($call:expr) => {
        // SAFETY: `Sse::new` found the level before it made the `self` at hand, and each level has
        // what is called here; what is asked of pointers is asked of the caller.
        unsafe { $call }
    };
}

/// What the levels do differently. See [`ByteVector`] for what each does.
pub(crate) trait Level: Copy + Send + Sync + 'static {
    fn run<T: Task>(isa: Sse<Self>, task: T) -> T::Output;
    fn smallest(self, v: __m128i) -> u8;
    fn min_u16(self, a: __m128i, b: __m128i) -> __m128i;
    fn mul_u32(self, a: __m128i, b: __m128i) -> __m128i;
    fn min_u32(self, a: __m128i, b: __m128i) -> __m128i;
    /// The bytes of `yes` where `mask` is all ones, those of `no` where it is 0.
    fn select(self, mask: __m128i, yes: __m128i, no: __m128i) -> __m128i;
}

impl Level for Ssse3 {
    #[inline(always)]
    fn run<T: Task>(isa: Sse<Self>, task: T) -> T::Output {
        #[target_feature(enable = "ssse3")]
        fn compiled<T: Task>(isa: Sse<Ssse3>, task: T) -> T::Output {
            task.run(isa)
        }
        sse!(compiled(isa, task))
    }

    #[inline(always)]
    fn smallest(self, v: __m128i) -> u8 {
        sse!({
            let v = _mm_min_epu8(v, _mm_srli_si128::<8>(v));
            let v = _mm_min_epu8(v, _mm_srli_si128::<4>(v));
            let v = _mm_min_epu8(v, _mm_srli_si128::<2>(v));
            let v = _mm_min_epu8(v, _mm_srli_si128::<1>(v));
            _mm_cvtsi128_si32(v) as u8
        })
    }

    #[inline(always)]
    fn min_u16(self, a: __m128i, b: __m128i) -> __m128i {
        // what is taken from `a` is how far it lies above `b`
        sse!(_mm_sub_epi16(a, _mm_subs_epu16(a, b)))
    }

    #[inline(always)]
    fn mul_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse!({
            let even = _mm_mul_epu32(a, b);
            let odd = _mm_mul_epu32(_mm_srli_epi64::<32>(a), _mm_srli_epi64::<32>(b));
            let low_even = _mm_shuffle_epi32::<0b10_00_10_00>(even);
            let low_odd = _mm_shuffle_epi32::<0b10_00_10_00>(odd);
            _mm_unpacklo_epi32(low_even, low_odd)
        })
    }

    #[inline(always)]
    fn min_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse!({
            // the comparison is of signed numbers
            let sign = _mm_set1_epi32(i32::MIN);
            let lower = _mm_cmplt_epi32(_mm_xor_si128(a, sign), _mm_xor_si128(b, sign));
            self.select(lower, a, b)
        })
    }

    #[inline(always)]
    fn select(self, mask: __m128i, yes: __m128i, no: __m128i) -> __m128i {
        sse!(_mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no)))
    }
}

impl Level for Sse41 {
    #[inline(always)]
    fn run<T: Task>(isa: Sse<Self>, task: T) -> T::Output {
        #[target_feature(enable = "sse4.1,ssse3")]
        fn compiled<T: Task>(isa: Sse<Sse41>, task: T) -> T::Output {
            task.run(isa)
        }
        sse!(compiled(isa, task))
    }

    #[inline(always)]
    fn smallest(self, v: __m128i) -> u8 {
        sse!({
            let v = _mm_min_epu8(v, _mm_srli_epi16::<8>(v));
            _mm_cvtsi128_si32(_mm_minpos_epu16(v)) as u8
        })
    }

    #[inline(always)]
    fn min_u16(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_min_epu16(a, b))
    }

    #[inline(always)]
    fn mul_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_mullo_epi32(a, b))
    }

    #[inline(always)]
    fn min_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_min_epu32(a, b))
    }

    #[inline(always)]
    fn select(self, mask: __m128i, yes: __m128i, no: __m128i) -> __m128i {
        sse!(_mm_blendv_epi8(no, yes, mask))
    }
}

impl<L: Level> ByteVector for Sse<L> {
    type V = __m128i;
    const LANES: usize = 16;
    const MASK_SHIFT: u32 = 0;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        L::run(self, task)
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> __m128i {
        sse!(_mm_loadu_si128(from.cast()))
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> __m128i {
        sse!(_mm_set1_epi8(byte as i8))
    }

    #[inline(always)]
    fn add_to_255(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_adds_epu8(a, b))
    }

    #[inline(always)]
    fn max(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_max_epu8(a, b))
    }

    #[inline(always)]
    fn min(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_min_epu8(a, b))
    }

    #[inline(always)]
    fn eq(self, a: __m128i, b: __m128i) -> u64 {
        sse!(_mm_movemask_epi8(_mm_cmpeq_epi8(a, b))) as u64
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
        !self.smallest(sse!(_mm_xor_si128(v, _mm_set1_epi8(-1))))
    }

    #[inline(always)]
    fn smallest(self, v: __m128i) -> u8 {
        self.0.smallest(v)
    }

    #[inline(always)]
    fn and(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_and_si128(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_or_si128(a, b))
    }

    #[inline(always)]
    fn xor(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_xor_si128(a, b))
    }

    #[inline(always)]
    fn table(self, table: [u8; 16]) -> __m128i {
        // 16 bytes can be read from an array of them
        sse!(_mm_loadu_si128(table.as_ptr().cast()))
    }

    #[inline(always)]
    fn look_up(self, table: __m128i, v: __m128i) -> __m128i {
        sse!(_mm_shuffle_epi8(table, v))
    }

    #[inline(always)]
    fn back_1(self, before: __m128i, v: __m128i) -> __m128i {
        sse!(_mm_alignr_epi8::<15>(v, before))
    }

    #[inline(always)]
    fn back_2(self, before: __m128i, v: __m128i) -> __m128i {
        sse!(_mm_alignr_epi8::<14>(v, before))
    }

    #[inline(always)]
    fn back_4(self, before: __m128i, v: __m128i) -> __m128i {
        sse!(_mm_alignr_epi8::<12>(v, before))
    }

    #[inline(always)]
    fn back_8(self, before: __m128i, v: __m128i) -> __m128i {
        sse!(_mm_alignr_epi8::<8>(v, before))
    }

    #[inline(always)]
    fn back_16(self, before: __m128i, _v: __m128i) -> __m128i {
        before
    }

    #[inline(always)]
    fn back_2_in_16(self, before: __m128i, v: __m128i) -> __m128i {
        sse!(_mm_alignr_epi8::<14>(v, before))
    }

    #[inline(always)]
    fn zip_first(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_unpacklo_epi8(a, b))
    }

    #[inline(always)]
    fn zip_last(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_unpackhi_epi8(a, b))
    }

    #[inline(always)]
    fn splat_u16(self, number: u16) -> __m128i {
        sse!(_mm_set1_epi16(number as i16))
    }

    #[inline(always)]
    fn add_u16(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_add_epi16(a, b))
    }

    #[inline(always)]
    fn min_u16(self, a: __m128i, b: __m128i) -> __m128i {
        self.0.min_u16(a, b)
    }

    #[inline(always)]
    fn down_u16<const N: u32>(self, v: __m128i) -> __m128i {
        sse!(_mm_srl_epi16(v, _mm_cvtsi32_si128(N as i32)))
    }

    #[inline(always)]
    fn le_u16(self, a: __m128i, b: __m128i) -> u64 {
        sse!(_mm_movemask_epi8(_mm_cmpeq_epi16(self.min_u16(a, b), a))) as u64
    }

    #[inline(always)]
    fn splat_u32(self, number: u32) -> __m128i {
        sse!(_mm_set1_epi32(number as i32))
    }

    #[inline(always)]
    fn add_u32(self, a: __m128i, b: __m128i) -> __m128i {
        sse!(_mm_add_epi32(a, b))
    }

    #[inline(always)]
    fn mul_u32(self, a: __m128i, b: __m128i) -> __m128i {
        self.0.mul_u32(a, b)
    }

    #[inline(always)]
    fn min_u32(self, a: __m128i, b: __m128i) -> __m128i {
        self.0.min_u32(a, b)
    }

    #[inline(always)]
    fn eq_u32(self, a: __m128i, b: __m128i) -> u64 {
        sse!(_mm_movemask_epi8(_mm_cmpeq_epi32(a, b))) as u64
    }

    #[inline(always)]
    fn lower_u32(
        self,
        least: __m128i,
        at: __m128i,
        with: __m128i,
        there: __m128i,
    ) -> (__m128i, __m128i) {
        let lower = self.min_u32(least, with);
        let same = sse!(_mm_cmpeq_epi32(lower, least));
        (lower, self.0.select(same, at, there))
    }

    #[inline(always)]
    fn to_u32s(self, v: __m128i) -> [u32; 16] {
        sse!({
            let zero = _mm_setzero_si128();
            transmute::<[__m128i; 4], [u32; 16]>([v, zero, zero, zero])
        })
    }
}

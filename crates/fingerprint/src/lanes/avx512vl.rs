use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::isa::{Isa, Task};

/// AVX-512 F and VL: what it can do, in the vectors of AVX2. For few chunks, where CPUs work on half
/// a wide vector at a time, or have fewer units for wide ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Avx512Vl(Avx2);

impl Avx512Vl {
    /// The proof, if this CPU can give it.
    pub(super) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
        Avx2::new().filter(|_| has).map(Self)
    }
}

macro_rules! avx512vl {
    ($call:expr) => {
        // SAFETY: `Avx512Vl::new` found AVX-512 F and VL before it made the `self` at hand.
        unsafe { $call }
    };
}

impl Isa for Avx512Vl {
    type V = __m256i;
    const WORDS: usize = 8;

    #[inline(always)]
    fn run<T: Task>(self, task: T) {
        #[target_feature(enable = "avx2,avx512f,avx512vl")]
        fn compiled<T: Task>(isa: Avx512Vl, task: T) {
            task.run(isa);
        }
        avx512vl!(compiled(self, task))
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        self.0.xor(a, b)
    }

    #[inline(always)]
    fn xor3(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        avx512vl!(_mm256_ternarylogic_epi64::<0b1001_0110>(a, b, c))
    }

    #[inline(always)]
    fn chi(self, a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // the bit of `a` counts four, that of `b` two, that of `c` one
        avx512vl!(_mm256_ternarylogic_epi64::<0b1101_0010>(a, b, c))
    }

    #[inline(always)]
    fn splat_word(self, number: u32) -> __m256i {
        self.0.splat_word(number)
    }

    #[inline(always)]
    fn words(self, numbers: &[u32; 16]) -> __m256i {
        self.0.words(numbers)
    }

    #[inline(always)]
    fn to_words(self, v: __m256i) -> [u32; 16] {
        self.0.to_words(v)
    }

    #[inline(always)]
    fn add_words(self, a: __m256i, b: __m256i) -> __m256i {
        self.0.add_words(a, b)
    }

    #[inline(always)]
    fn turn_words<const N: i32>(self, v: __m256i) -> __m256i {
        avx512vl!(_mm256_ror_epi32::<N>(v))
    }

    #[inline(always)]
    fn if_above(self, a: __m256i, b: __m256i, yes: __m256i, no: __m256i) -> __m256i {
        avx512vl!(_mm256_mask_blend_epi32(_mm256_cmpgt_epi32_mask(a, b), no, yes))
    }

    #[inline(always)]
    fn load_words(self, blocks: &[&[u8; 64]; 16]) -> [__m256i; 16] {
        self.0.load_words(blocks)
    }

    #[inline(always)]
    fn splat_long(self, number: u64) -> __m256i {
        self.0.splat_long(number)
    }

    #[inline(always)]
    fn longs(self, numbers: &[u64; 8]) -> __m256i {
        self.0.longs(numbers)
    }

    #[inline(always)]
    fn to_longs(self, v: __m256i) -> [u64; 8] {
        self.0.to_longs(v)
    }

    #[inline(always)]
    fn load_longs(self, blocks: &[&[u8; 64]; 8]) -> [__m256i; 8] {
        self.0.load_longs(blocks)
    }

    #[inline(always)]
    fn turn_longs<const N: i32>(self, v: __m256i) -> __m256i {
        avx512vl!(_mm256_rol_epi64::<N>(v))
    }
}

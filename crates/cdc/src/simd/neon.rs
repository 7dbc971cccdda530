use std::arch::aarch64::*;
use std::mem::transmute;

use super::vector::{ByteVector, Task};

/// NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    /// The proof, if this CPU can give it.
    pub(crate) fn new() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

macro_rules! neon {
    ($call:expr) => {
        // SAFETY: `Neon::new` found NEON before it made the `self` at hand; what is asked of
        // pointers is asked of the caller.
        unsafe { $call }
    };
}

impl Neon {
    /// Four bits a lane, since NEON has no instruction that takes one of each.
    #[inline(always)]
    fn mask(self, lanes: uint8x16_t) -> u64 {
        neon!({
            let halves = vshrn_n_u16::<4>(vreinterpretq_u16_u8(lanes));
            vget_lane_u64::<0>(vreinterpret_u64_u8(halves))
        })
    }
}

impl ByteVector for Neon {
    type V = uint8x16_t;
    const LANES: usize = 16;
    const MASK_SHIFT: u32 = 2;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "neon")]
        fn compiled<T: Task>(isa: Neon, task: T) -> T::Output {
            task.run(isa)
        }
        neon!(compiled(self, task))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> uint8x16_t {
        neon!(vld1q_u8(from))
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> uint8x16_t {
        neon!(vdupq_n_u8(byte))
    }

    #[inline(always)]
    fn add_to_255(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(vqaddq_u8(a, b))
    }

    #[inline(always)]
    fn max(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(vmaxq_u8(a, b))
    }

    #[inline(always)]
    fn min(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(vminq_u8(a, b))
    }

    #[inline(always)]
    fn eq(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        self.mask(neon!(vceqq_u8(a, b)))
    }

    #[inline(always)]
    fn ge(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        self.mask(neon!(vcgeq_u8(a, b)))
    }

    #[inline(always)]
    fn gt(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        self.mask(neon!(vcgtq_u8(a, b)))
    }

    #[inline(always)]
    fn largest(self, v: uint8x16_t) -> u8 {
        neon!(vmaxvq_u8(v))
    }

    #[inline(always)]
    fn smallest(self, v: uint8x16_t) -> u8 {
        neon!(vminvq_u8(v))
    }

    #[inline(always)]
    fn and(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(vandq_u8(a, b))
    }

    #[inline(always)]
    fn or(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(vorrq_u8(a, b))
    }

    #[inline(always)]
    fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(veorq_u8(a, b))
    }

    #[inline(always)]
    fn table(self, table: [u8; 16]) -> uint8x16_t {
        // 16 bytes can be read from an array of them
        neon!(vld1q_u8(table.as_ptr()))
    }

    #[inline(always)]
    fn look_up(self, table: uint8x16_t, v: uint8x16_t) -> uint8x16_t {
        neon!(vqtbl1q_u8(table, v))
    }

    #[inline(always)]
    fn back_1(self, before: uint8x16_t, v: uint8x16_t) -> uint8x16_t {
        neon!(vextq_u8::<15>(before, v))
    }

    #[inline(always)]
    fn back_2(self, before: uint8x16_t, v: uint8x16_t) -> uint8x16_t {
        neon!(vextq_u8::<14>(before, v))
    }

    #[inline(always)]
    fn back_4(self, before: uint8x16_t, v: uint8x16_t) -> uint8x16_t {
        neon!(vextq_u8::<12>(before, v))
    }

    #[inline(always)]
    fn back_8(self, before: uint8x16_t, v: uint8x16_t) -> uint8x16_t {
        neon!(vextq_u8::<8>(before, v))
    }

    #[inline(always)]
    fn back_16(self, before: uint8x16_t, _v: uint8x16_t) -> uint8x16_t {
        before
    }

    #[inline(always)]
    fn back_2_in_16(self, before: uint8x16_t, v: uint8x16_t) -> uint8x16_t {
        neon!(vextq_u8::<14>(before, v))
    }

    #[inline(always)]
    fn zip_first(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(vzip1q_u8(a, b))
    }

    #[inline(always)]
    fn zip_last(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!(vzip2q_u8(a, b))
    }

    #[inline(always)]
    fn splat_u16(self, number: u16) -> uint8x16_t {
        neon!(vreinterpretq_u8_u16(vdupq_n_u16(number)))
    }

    #[inline(always)]
    fn add_u16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!({
            let each = vaddq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
            vreinterpretq_u8_u16(each)
        })
    }

    #[inline(always)]
    fn min_u16(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!({
            let each = vminq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
            vreinterpretq_u8_u16(each)
        })
    }

    #[inline(always)]
    fn down_u16<const N: u32>(self, v: uint8x16_t) -> uint8x16_t {
        neon!({
            let by = vdupq_n_s16(-(N as i16));
            vreinterpretq_u8_u16(vshlq_u16(vreinterpretq_u16_u8(v), by))
        })
    }

    #[inline(always)]
    fn le_u16(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        self.mask(neon!({
            let below = vcleq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
            vreinterpretq_u8_u16(below)
        }))
    }

    #[inline(always)]
    fn splat_u32(self, number: u32) -> uint8x16_t {
        neon!(vreinterpretq_u8_u32(vdupq_n_u32(number)))
    }

    #[inline(always)]
    fn add_u32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!({
            let sum = vaddq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
            vreinterpretq_u8_u32(sum)
        })
    }

    #[inline(always)]
    fn mul_u32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!({
            let product = vmulq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
            vreinterpretq_u8_u32(product)
        })
    }

    #[inline(always)]
    fn min_u32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        neon!({
            let min = vminq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
            vreinterpretq_u8_u32(min)
        })
    }

    #[inline(always)]
    fn eq_u32(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        self.mask(neon!({
            let equal = vceqq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
            vreinterpretq_u8_u32(equal)
        }))
    }

    #[inline(always)]
    fn lower_u32(
        self,
        least: uint8x16_t,
        at: uint8x16_t,
        with: uint8x16_t,
        there: uint8x16_t,
    ) -> (uint8x16_t, uint8x16_t) {
        neon!({
            let lower = vcltq_u32(vreinterpretq_u32_u8(with), vreinterpretq_u32_u8(least));
            let lower = vreinterpretq_u8_u32(lower);
            (vbslq_u8(lower, with, least), vbslq_u8(lower, there, at))
        })
    }

    #[inline(always)]
    fn to_u32s(self, v: uint8x16_t) -> [u32; 16] {
        neon!({
            let zero = vdupq_n_u8(0);
            transmute::<[uint8x16_t; 4], [u32; 16]>([v, zero, zero, zero])
        })
    }
}

/// One instruction set. A value of it is the proof that this CPU has it: every constructor asks.
///
/// Algorithms are written once over this trait and run through [`run`](Self::run), which compiles
/// them for the instruction set. For that to work, every function between `run` and the methods
/// below is `#[inline(always)]`, and none of them is a closure.
pub(crate) trait ByteVector: Copy + Send + Sync + 'static {
    /// `LANES` bytes, or a quarter as many 32-bit numbers.
    type V: Copy;

    /// Bytes in a vector.
    const LANES: usize;

    /// Each lane has 2^`MASK_SHIFT` equal bits in a mask, the first lane the lowest.
    const MASK_SHIFT: u32;

    /// Runs `task` as code for this instruction set.
    fn run<T: Task>(self, task: T) -> T::Output;

    /// The `LANES` bytes from `from` on.
    ///
    /// # Safety
    ///
    /// They can be read.
    unsafe fn load(self, from: *const u8) -> Self::V;

    /// `byte` in every lane.
    fn splat(self, byte: u8) -> Self::V;
    /// The sum of each pair of bytes, or 255 if that is less.
    fn add_to_255(self, a: Self::V, b: Self::V) -> Self::V;
    /// The larger byte of each lane.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller byte of each lane.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// The lanes where the bytes are equal.
    fn eq(self, a: Self::V, b: Self::V) -> u64;
    /// The lanes where the byte of `a` is not below that of `b`.
    fn ge(self, a: Self::V, b: Self::V) -> u64;
    /// The lanes where the byte of `a` is above that of `b`.
    fn gt(self, a: Self::V, b: Self::V) -> u64;
    /// The largest byte.
    fn largest(self, v: Self::V) -> u8;
    /// The smallest byte.
    fn smallest(self, v: Self::V) -> u8;

    /// The bits set in both.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// The bits set in either.
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    /// The bits set in one only.
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    /// `table` for every 16 lanes.
    fn table(self, table: [u8; 16]) -> Self::V;
    /// The byte of `table` that each byte of `v`, which is below 16, is the number of.
    fn look_up(self, table: Self::V, v: Self::V) -> Self::V;
    /// The vector that starts 1 byte before `v`, where `before` are the bytes in front of it.
    fn back_1(self, before: Self::V, v: Self::V) -> Self::V;
    /// The same, 2 bytes before.
    fn back_2(self, before: Self::V, v: Self::V) -> Self::V;
    /// The same, 4 bytes before.
    fn back_4(self, before: Self::V, v: Self::V) -> Self::V;
    /// The same, 8 bytes before.
    fn back_8(self, before: Self::V, v: Self::V) -> Self::V;
    /// The same, 16 bytes before.
    fn back_16(self, before: Self::V, v: Self::V) -> Self::V;

    /// In every 16 lanes: the vector that starts 2 bytes before `v`, where those of `before` are in
    /// front of it.
    fn back_2_in_16(self, before: Self::V, v: Self::V) -> Self::V;
    /// In every 16 lanes: the first 8 bytes of `a`, each with that of `b` behind it.
    fn zip_first(self, a: Self::V, b: Self::V) -> Self::V;
    /// In every 16 lanes: the last 8 bytes of `a`, each with that of `b` behind it.
    fn zip_last(self, a: Self::V, b: Self::V) -> Self::V;

    /// `number` in every half of the lanes.
    fn splat_u16(self, number: u16) -> Self::V;
    /// The sum of each pair of numbers, modulo 2^16.
    fn add_u16(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller number of each pair.
    fn min_u16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Each number, `N` bits down.
    fn down_u16<const N: u32>(self, v: Self::V) -> Self::V;
    /// The lanes, as of bytes, where the number of `a` is not above that of `b`.
    fn le_u16(self, a: Self::V, b: Self::V) -> u64;

    /// `number` in every quarter of the lanes.
    fn splat_u32(self, number: u32) -> Self::V;
    /// The sum of each pair of numbers, modulo 2^32.
    fn add_u32(self, a: Self::V, b: Self::V) -> Self::V;
    /// The product of each pair of numbers, modulo 2^32.
    fn mul_u32(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller number of each pair.
    fn min_u32(self, a: Self::V, b: Self::V) -> Self::V;
    /// The lanes, as of bytes, where the numbers are equal.
    fn eq_u32(self, a: Self::V, b: Self::V) -> u64;
    /// For each number: `with` and `there` where `with` is below `least`, else `least` and `at`.
    fn lower_u32(
        self,
        least: Self::V,
        at: Self::V,
        with: Self::V,
        there: Self::V,
    ) -> (Self::V, Self::V);
    /// The vectors from `from`, from one, from two and from three bytes behind it on. The first
    /// is `v`, and what lies behind that is `next`.
    ///
    /// # Safety
    ///
    /// `v` and `next` were read there.
    #[inline(always)]
    unsafe fn sliding(self, from: *const u8, v: Self::V, _next: Self::V) -> [Self::V; 4] {
        // SAFETY: the vectors end at most three bytes behind `v`, where `next` was read.
        unsafe { [v, self.load(from.add(1)), self.load(from.add(2)), self.load(from.add(3))] }
    }
    /// The numbers; those behind the vector's are 0.
    fn to_u32s(self, v: Self::V) -> [u32; 16];
}

/// What an instruction set can [`run`](ByteVector::run).
pub(crate) trait Task {
    type Output;

    /// Always inlined, so that it becomes code for the instruction set of `isa`.
    fn run<I: ByteVector>(self, isa: I) -> Self::Output;
}

/// The first lane of `mask`, which is not 0.
#[inline(always)]
pub(crate) fn first_lane<I: ByteVector>(mask: u64) -> usize {
    (mask.trailing_zeros() >> I::MASK_SHIFT) as usize
}

/// The last lane of `mask`, which is not 0.
#[inline(always)]
pub(crate) fn last_lane<I: ByteVector>(mask: u64) -> usize {
    (mask.ilog2() >> I::MASK_SHIFT) as usize
}

/// The bits of a mask that belong to the lane.
#[inline(always)]
pub(crate) const fn lane_bits<I: ByteVector>(lane: usize) -> u64 {
    let bits = (1_u64 << (1 << I::MASK_SHIFT)) - 1;
    bits << (lane << I::MASK_SHIFT)
}

/// `mask` with one bit a lane.
#[inline(always)]
pub(crate) fn bit_a_lane<I: ByteVector>(mask: u64) -> u64 {
    if I::MASK_SHIFT == 0 {
        return mask;
    }
    debug_assert!(I::MASK_SHIFT == 2, "one bit a lane, or four");
    let pairs = mask & 0x1111_1111_1111_1111;
    let pairs = (pairs | pairs >> 3) & 0x0303_0303_0303_0303;
    let fours = (pairs | pairs >> 6) & 0x000f_000f_000f_000f;
    let eights = (fours | fours >> 12) & 0x0000_00ff_0000_00ff;
    (eights | eights >> 24) & 0xffff
}

/// How far `from` lies behind the last place where a vector touches one line only.
#[inline(always)]
pub(crate) fn misalignment<I: ByteVector>(from: *const u8) -> usize {
    from as usize % I::LANES
}

/// How far ahead of the bytes at work memory is asked for the next ones. The hardware does that
/// for even streams only, and only within a page; 16 KiB were best on Zen 5.
pub(crate) const AHEAD: usize = 16 << 10;

/// Bytes that memory hands over at once.
pub(crate) const LINE: usize = 64;

/// Asks memory for the line `ahead` bytes behind `at`. Nothing happens if it is no memory of ours.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8, ahead: usize) {
    let line = at.wrapping_add(ahead);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch of any address whatever is no access.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a prefetch of any address whatever is no access, and changes no register.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{line}]",
            line = in(reg) line,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Asks memory for what a search would have asked for, had it not jumped over the bytes of `data`
/// between the two indices: all that is [`AHEAD`] of them will be searched.
#[inline(always)]
pub(crate) fn prefetch_jump(data: &[u8], from: usize, to: usize) {
    let mut line = from;
    while line < to {
        prefetch(data.as_ptr(), AHEAD + line);
        line += LINE;
    }
}

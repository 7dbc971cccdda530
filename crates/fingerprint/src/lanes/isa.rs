/// One instruction set. A value of it is the proof that this CPU has it: every constructor asks.
///
/// Hashes are written once over this trait and run through [`run`](Self::run), which compiles them
/// for the instruction set. For that to work, every function between `run` and the methods below is
/// `#[inline(always)]`, and none of them is a closure.
pub(super) trait Isa: Copy {
    /// [`WORDS`](Self::WORDS) numbers of 32 bits, or half as many of 64.
    type V: Copy;

    /// Lanes of 32 bits: 16 or fewer.
    const WORDS: usize;

    /// Lanes of 64 bits.
    const LONGS: usize = Self::WORDS / 2;

    /// Runs `task` as code for this instruction set.
    fn run<T: Task>(self, task: T);

    /// The bits set in one only.
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    /// The bits set in one of three, or in all.
    fn xor3(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a`, but for the bits that are set in `c` and not in `b`: those are turned over.
    fn chi(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// `number` in every lane of 32 bits.
    fn splat_word(self, number: u32) -> Self::V;
    /// The first `WORDS` of `numbers`.
    fn words(self, numbers: &[u32; 16]) -> Self::V;
    /// The numbers; those behind the vector's are 0.
    fn to_words(self, v: Self::V) -> [u32; 16];
    /// The sum of each pair of 32 bits, modulo 2^32.
    fn add_words(self, a: Self::V, b: Self::V) -> Self::V;
    /// Each 32 bits turned `N` bits to the right.
    fn turn_words<const N: i32>(self, v: Self::V) -> Self::V;
    /// Each 32 bits: those of `yes` where `a` is above `b`, both as signed numbers, else of `no`.
    fn if_above(self, a: Self::V, b: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// Vector `i` holds the little-endian word `i` of each block, by lanes. `WORDS` blocks count.
    fn load_words(self, blocks: &[&[u8; 64]; 16]) -> [Self::V; 16];

    /// `number` in every lane of 64 bits.
    fn splat_long(self, number: u64) -> Self::V;
    /// The first `LONGS` of `numbers`.
    fn longs(self, numbers: &[u64; 8]) -> Self::V;
    /// The numbers; those behind the vector's are 0.
    fn to_longs(self, v: Self::V) -> [u64; 8];
    /// Vector `i` holds the little-endian number `i` of each block, by lanes. `LONGS` blocks count.
    fn load_longs(self, blocks: &[&[u8; 64]; 8]) -> [Self::V; 8];
    /// Each 64 bits turned `N` bits to the left; `N` is below 64.
    fn turn_longs<const N: i32>(self, v: Self::V) -> Self::V;
}

/// What an instruction set can [`run`](Isa::run).
pub(super) trait Task {
    /// Always inlined, so that it becomes code for the instruction set of `isa`.
    fn run<I: Isa>(self, isa: I);
}

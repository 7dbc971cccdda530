//! Linear hashes of the windows at 64 positions at once, a byte of the hash at a time.
//!
//! A hash that is linear over GF(2) is the exclusive or of what each byte of the window adds, and
//! that is a matrix of bits, one for each place in the window, times the bits of the byte. GFNI
//! multiplies 64 bytes by the same matrix: those at one distance from 64 positions. A window of w
//! bytes takes w loads and w products for a byte of the hash at 64 positions.
//!
//! One byte of the hash tells 255 of 256 positions that are no candidates when candidates are
//! rare; a second byte is asked where one position of the 64 is left, and the hash itself where one
//! is left still.

use std::arch::x86_64::*;
use std::array;

use zeroize::Zeroize;

use super::avx512::Avx512;
use super::vector::{AHEAD, prefetch, prefetch_jump};
use crate::rolling::{LinearRule, Rolling, Search, first_position};

/// AVX-512 VBMI and GFNI, and what [`Avx512`] has.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Vbmi(());

impl Avx512Vbmi {
    /// The proof, if this CPU can give it.
    pub(crate) fn new() -> Option<Self> {
        let bits = is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("gfni");
        (bits && Avx512::new().is_some()).then_some(Self(()))
    }
}

/// Positions in a vector.
const LANES: usize = 64;

/// Vectors that share the load of a matrix.
const VECTORS: usize = 4;

/// Tells most positions that are no candidates.
pub(crate) struct Filter {
    /// That this CPU can.
    _proof: Avx512Vbmi,
    first: Plane,
    second: Plane,
}

/// A byte of the hash.
struct Plane {
    /// What to multiply the bytes of the window by, the first byte first.
    matrices: Vec<u64>,
    /// The byte of an empty window's hash.
    of_none: u8,
    /// The least byte that a candidate can have.
    least: u8,
}

impl Drop for Plane {
    /// The matrices follow from the polynomial, which may be a secret.
    fn drop(&mut self) {
        self.matrices.zeroize();
    }
}

impl Filter {
    pub(crate) fn new<R: LinearRule>(rule: &R, proof: Avx512Vbmi) -> Self {
        let least = rule.least_decisive().to_be_bytes();
        let plane = |i: usize| Plane {
            matrices: matrices(rule.hash(), |print| rule.decisive(print).to_be_bytes()[i]),
            of_none: rule.decisive(Default::default()).to_be_bytes()[i],
            least: least[i],
        };
        Self { _proof: proof, first: plane(0), second: plane(1) }
    }

    /// The next 64 positions of `reach` from `from` on, no less than the window, with one that may
    /// be a candidate: where they begin, and a bit for each that may. Where fewer than 64 are left
    /// no bit is set.
    fn next(&self, reach: &[u8], from: usize) -> (usize, u64) {
        // SAFETY: `Avx512Vbmi::new` found all this before it made the proof.
        unsafe { self.next_compiled(reach, from) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni,bmi1,bmi2,lzcnt,popcnt")]
    fn next_compiled(&self, reach: &[u8], mut from: usize) -> (usize, u64) {
        let window = self.first.matrices.len();
        assert!(window <= from, "the window is full");
        while from + VECTORS * LANES <= reach.len() + 1 {
            let start = reach.as_ptr().wrapping_add(from - window);
            for vector in 0..VECTORS {
                prefetch(start, AHEAD + vector * LANES);
            }
            // SAFETY: the windows of so many positions end inside `reach`, by the condition of
            // the loop, and do not start before it, by the assertion.
            let firsts = unsafe { self.first.of::<VECTORS>(start) };
            for (vector, first) in firsts.into_iter().enumerate() {
                // SAFETY: the same windows.
                let left = unsafe { self.left(start.add(vector * LANES), first) };
                if left != 0 {
                    return (from + vector * LANES, left);
                }
            }
            from += VECTORS * LANES;
        }
        while from + LANES <= reach.len() + 1 {
            let start = reach.as_ptr().wrapping_add(from - window);
            // SAFETY: as before, with one vector.
            let left = unsafe {
                let [first] = self.first.of(start);
                self.left(start, first)
            };
            if left != 0 {
                return (from, left);
            }
            from += LANES;
        }
        (from, 0)
    }

    /// Which of 64 positions may be candidates, where the window of the first starts at `start` and
    /// `first` are the first bytes of their hashes.
    ///
    /// # Safety
    ///
    /// All bytes of their windows can be read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn left(&self, start: *const u8, first: __m512i) -> u64 {
        let least = _mm512_set1_epi8(self.first.least as i8);
        let left = _mm512_cmpge_epu8_mask(first, least);
        if left == 0 {
            return 0;
        }
        // SAFETY: the caller's.
        let [second] = unsafe { self.second.of(start) };
        let equal = _mm512_cmpeq_epu8_mask(first, least);
        let less = _mm512_cmplt_epu8_mask(second, _mm512_set1_epi8(self.second.least as i8));
        left & !(equal & less)
    }
}

impl<R: LinearRule> Search<R> for Filter {
    fn first_position(
        &self,
        rule: &R,
        reach: &[u8],
        mut stops: impl FnMut(usize, <R::Hash as Rolling>::Print) -> bool,
    ) -> Option<usize> {
        let (hash, min) = (rule.hash(), rule.sizes().min());
        let mut from = min;
        if min < hash.window() {
            // the window is not full
            let growing = &reach[..reach.len().min(hash.window() - 1)];
            let found = first_position(hash, growing, from, &mut stops);
            if found.is_some() || growing.len() == reach.len() {
                return found;
            }
            from = hash.window();
        }
        loop {
            let (start, left) = self.next(reach, from);
            if left == 0 {
                return first_position(hash, reach, start, stops);
            }
            let first = start + left.trailing_zeros() as usize;
            let last = start + left.ilog2() as usize;
            // one after the other, since there may be many
            if let Some(p) = first_position(hash, &reach[..last], first, &mut stops) {
                prefetch_jump(reach, p, p + min);
                return Some(p);
            }
            from = start + LANES;
        }
    }
}

impl Plane {
    /// The bytes of the hashes at `N` times 64 positions, where the window of the first starts at
    /// `start`.
    ///
    /// # Safety
    ///
    /// All bytes of their windows can be read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn of<const N: usize>(&self, start: *const u8) -> [__m512i; N] {
        let mut bytes = [_mm512_set1_epi8(self.of_none as i8); N];
        for (place, &matrix) in self.matrices.iter().enumerate() {
            let matrix = _mm512_set1_epi64(matrix as i64);
            for (vector, bytes) in bytes.iter_mut().enumerate() {
                // SAFETY: the bytes at `place` in the windows of 64 positions.
                let v = unsafe { _mm512_loadu_si512(start.add(place + vector * LANES).cast()) };
                let added = _mm512_gf2p8affine_epi64_epi8::<0>(v, matrix);
                *bytes = _mm512_xor_si512(*bytes, added);
            }
        }
        bytes
    }
}

/// For each place in the window, the first byte first, the matrix that makes of a byte there what
/// it adds to `byte_of` the hash.
fn matrices<H: Rolling>(hash: &H, byte_of: impl Fn(H::Print) -> u8) -> Vec<u64> {
    let none = byte_of(H::Print::default());
    // what the eight bits add on entering, then with one byte behind them, and so on
    let mut prints: [H::Print; 8] = array::from_fn(|bit| hash.push(H::Print::default(), 1 << bit));
    let mut matrices: Vec<_> = (0..hash.window())
        .map(|_| {
            let columns = prints.map(|print| byte_of(print) ^ none);
            prints = prints.map(|print| hash.push(print, 0));
            matrix(columns)
        })
        .collect();
    matrices.reverse();
    matrices
}

/// The matrix with these columns as GFNI has it: a byte for each row, the last row the lowest.
fn matrix(columns: [u8; 8]) -> u64 {
    let row = |row: usize| {
        let bit = |(column, bits): (usize, &u8)| (bits >> row & 1) << column;
        columns.iter().enumerate().map(bit).sum::<u8>()
    };
    u64::from_be_bytes(array::from_fn(row))
}

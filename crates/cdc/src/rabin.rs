//! Rabin: M. O. Rabin, "Fingerprinting by Random Polynomials", Harvard TR-15-81, 1981; as a
//! chunker: A. Muthitacharoen, B. Chen, D. Mazières, "A Low-bandwidth Network File System",
//! SOSP 2001.
//!
//! **Rule.** The window's bytes, first byte and highest bit foremost, are the coefficients of a
//! polynomial W(x) over GF(2); its fingerprint is W(x) · x^53 modulo an irreducible polynomial P
//! of degree 53. p is the first position from min on where the fingerprint of the last w bytes is
//! at least 2^53 − ⌊2^53 / (avg − min + 1)⌋.
//! **Polynomial.** The first irreducible one upwards from x^53 + s with the constant term set, s
//! being the low 53 bits of SplitMix64(seed)'s first number.
//! **First legal position.** min. The window is full there if min ≥ w; otherwise it starts empty
//! with the chunk and grows, as if zeros had come before. Each position is accepted with
//! probability 1 / (avg − min + 1) (for w ≥ 7; a shorter window has no more than 256^w
//! fingerprints), which puts the mean at avg but for the cut at max.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Runs.** A window of zeros has fingerprint 0, the last to qualify: runs of zeros are cut at
//! max, unless avg = min.
//! **Resynchronisation.** As Gear's, with w in the place of 64.
//! **Departures.** LBFS tests low bits against a constant, which allows means of a power of two
//! only. It hashes from the start of the chunk; with min ≥ w the results are the same.

use std::array;

use crate::boundary::Boundary;
use crate::rolling::{self, Rolling};
use crate::rule::Rule;
use crate::splitmix::SplitMix64;
use crate::walk::{Past, Step};
use crate::{ChunkSizes, ParamError, Params};

const DEGREE: u32 = 53;
const MASK: u64 = (1 << DEGREE) - 1;

pub(crate) struct Rabin {
    sizes: ChunkSizes,
    fingerprint: Fingerprint,
    /// The least fingerprint that is a cut-point.
    least: u64,
}

impl Rabin {
    pub(crate) fn new(params: &Params) -> Result<Self, ParamError> {
        Ok(Self {
            sizes: params.sizes,
            fingerprint: Fingerprint::new(params.checked_window()?, params.seed),
            least: (1 << DEGREE) - rolling::accepted(DEGREE, params.sizes),
        })
    }
}

impl Boundary for Rabin {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        rolling::at_end_of(&self.fingerprint, &reach[..cut]) >= self.least
    }
}

impl Rule for Rabin {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        rolling::first_position(&self.fingerprint, self.sizes, reach, |_, print| {
            print >= self.least
        })
        .or_else(|| self.sizes.forced(reach))
    }
}

impl Step for Rabin {
    type State = u64;

    fn step(&self, print: &mut u64, len: u64, byte: u8, past: &Past) -> Option<usize> {
        *print = past.rolled(&self.fingerprint, *print, byte, len);
        (len >= self.sizes.min() as u64 && *print >= self.least).then_some(0)
    }
}

/// The fingerprint of a window, by tables for what a byte adds to it.
pub(crate) struct Fingerprint {
    window: usize,
    /// b · x^53 mod P: what byte b adds on entering, and what overflowing bits b come back as.
    enter: [u64; 256],
    /// b · x^(53 + 8w) mod P: what byte b still adds when w more have followed.
    leave: [u64; 256],
}

impl Fingerprint {
    pub(crate) fn new(window: usize, seed: u64) -> Self {
        let modulus = polynomial(seed);
        let shifted_by = |bits: usize| -> [u64; 256] {
            array::from_fn(|byte| (0..bits).fold(byte as u64, |p, _| times_x(p, modulus)))
        };
        let enter = shifted_by(DEGREE as usize);
        Self { window, enter, leave: shifted_by(DEGREE as usize + 8 * window) }
    }
}

impl Rolling for Fingerprint {
    type Print = u64;

    fn window(&self) -> usize {
        self.window
    }

    fn push(&self, print: u64, byte: u8) -> u64 {
        let overflow = (print >> (DEGREE - 8)) as u8;
        ((print << 8) & MASK) ^ self.enter[usize::from(overflow ^ byte)]
    }

    fn roll(&self, print: u64, entering: u8, leaving: u8) -> u64 {
        self.push(print, entering) ^ self.leave[usize::from(leaving)]
    }
}

/// The rest of the window's own polynomial, without the factor x^53.
pub(crate) struct PlainFingerprint {
    window: usize,
    /// b · x^53 mod P: what overflowing bits b come back as.
    overflow: [u64; 256],
    /// b · x^8w mod P: what byte b still adds when w more have followed.
    leave: [u64; 256],
}

impl PlainFingerprint {
    /// For a `polynomial` of degree 53.
    pub(crate) fn new(window: usize, polynomial: u64) -> Self {
        let shifted_by = |bits: usize| -> [u64; 256] {
            array::from_fn(|byte| (0..bits).fold(byte as u64, |p, _| times_x(p, polynomial)))
        };
        let overflow = shifted_by(DEGREE as usize);
        Self { window, overflow, leave: shifted_by(8 * window) }
    }
}

impl Rolling for PlainFingerprint {
    type Print = u64;

    fn window(&self) -> usize {
        self.window
    }

    fn push(&self, print: u64, byte: u8) -> u64 {
        let overflow = (print >> (DEGREE - 8)) as u8;
        (print << 8) & MASK ^ u64::from(byte) ^ self.overflow[usize::from(overflow)]
    }

    fn roll(&self, print: u64, entering: u8, leaving: u8) -> u64 {
        self.push(print, entering) ^ self.leave[usize::from(leaving)]
    }
}

/// The irreducible polynomial of degree 53 that `seed` picks; bit i is the coefficient of x^i.
fn polynomial(seed: u64) -> u64 {
    let start = SplitMix64::new(seed).next() & MASK | 1;
    let mut candidate = start;
    // one odd number in about 26 is irreducible, so the next is never far; past the last
    // polynomial of the degree the search goes on at the first
    while !is_irreducible(1 << DEGREE | candidate) {
        candidate = (candidate + 2) & MASK;
    }
    1 << DEGREE | candidate
}

/// Ben-Or's test: a polynomial of degree n is irreducible if and only if it has no factor in
/// common with x^(2^i) − x for i up to n / 2, the product of all irreducible polynomials whose
/// degree divides i.
pub(crate) fn is_irreducible(modulus: u64) -> bool {
    const X: u64 = 0b10;
    let mut power = X;
    (0..DEGREE / 2).all(|_| {
        power = product(power, power, modulus);
        greatest_common_divisor(modulus, power ^ X) == 1
    })
}

fn product(a: u64, b: u64, modulus: u64) -> u64 {
    (0..DEGREE).rev().fold(0, |sum, bit| {
        let doubled = times_x(sum, modulus);
        if b >> bit & 1 == 1 { doubled ^ a } else { doubled }
    })
}

fn times_x(p: u64, modulus: u64) -> u64 {
    let shifted = p << 1;
    if shifted >> DEGREE & 1 == 1 { shifted ^ modulus } else { shifted }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        while a != 0 && a.ilog2() >= b.ilog2() {
            a ^= b << (a.ilog2() - b.ilog2());
        }
        (a, b) = (b, a);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_testkit::model;

    #[test]
    fn ben_ors_test_finds_what_rabins_test_finds() {
        for low in 0..2000 {
            let candidate = 1 << DEGREE | low;
            assert_eq!(is_irreducible(candidate), model::is_irreducible(candidate), "{low}");
        }
    }

    #[test]
    fn every_seed_picks_an_irreducible_polynomial_not_far_from_its_number() {
        assert_eq!(polynomial(0), 0x20_a839_7b1d_ce27);
        for seed in (0..200).chain([u64::MAX]) {
            let start = 1 << DEGREE | SplitMix64::new(seed).next() & MASK;
            let found = polynomial(seed);
            assert!(model::is_irreducible(found), "{seed}");
            assert!(found.abs_diff(start) < 1000, "{seed}");
        }
    }
}

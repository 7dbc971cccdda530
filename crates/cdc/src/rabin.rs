//! Rabin: M. O. Rabin, "Fingerprinting by Random Polynomials", Harvard TR-15-81, 1981; as a
//! chunker: A. Muthitacharoen, B. Chen, D. Mazières, "A Low-bandwidth Network File System",
//! SOSP 2001.
//!
//! **Rule.** The window's bytes, first byte and highest bit foremost, are the coefficients of a
//! polynomial W(x) over GF(2); its fingerprint is W(x) · x^53 modulo an irreducible polynomial P
//! of degree 53. p is the first position from min on where the fingerprint of the last w bytes is
//! at least 2^53 − ⌊2^53 / (avg − min + 1)⌋.
//! **Polynomial.** The first irreducible one upwards from x^53 + s with the constant term set, s
//! being the low 53 bits of the first number of the seed or secret (secret.rs).
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

use zeroize::Zeroize;

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::polynomial::{irreducible_from, times_x};
use crate::research::two_stage::{self, Mark, Marks};
use crate::rolling::{self, EveryPosition, LinearRule, Rolling, Search, WindowRule};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::tables::{WindowHash, WindowTest};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "rabin",
    summary: "Rabin fingerprint of a sliding window; the classic, and slow",
    takes: &[Parameter::Window, Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |params| DecidedBy::Window(params.window),
    kernels: Kernels::linear::<Rabin>(),
    boundary: Some(boundary::of::<Rabin>),
    walk: Some(walk::by::<Rabin>),
    streams: Some((Selection::First, two_stage::mark::<Rabin>)),
};

const DEGREE: u32 = 53;
const MASK: u64 = (1 << DEGREE) - 1;

pub(crate) struct Rabin {
    sizes: ChunkSizes,
    fingerprint: Fingerprint,
    /// The least fingerprint that is a cut-point.
    least: u64,
}

impl FromParams for Rabin {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        Ok(Self {
            sizes: params.sizes,
            fingerprint: Fingerprint::new(params.checked_window()?, Numbers::of(params)),
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
        self.next_cut_by(&EveryPosition, data)
    }
}

impl WindowRule for Rabin {
    type Hash = Fingerprint;

    fn hash(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    fn is_candidate(&self, print: u64) -> bool {
        print >= self.least
    }

    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        search
            .first_position(self, reach, |_, print| self.is_candidate(print))
            .or_else(|| self.sizes.forced(reach))
    }
}

impl LinearRule for Rabin {
    fn decisive(&self, print: u64) -> u16 {
        (print >> (DEGREE - 16)) as u16
    }

    fn least_decisive(&self) -> u16 {
        (self.least >> (DEGREE - 16)) as u16
    }
}

impl Step for Rabin {
    type State = u64;

    fn step(&self, print: &mut u64, len: u64, byte: u8, past: &Past) -> Option<usize> {
        *print = past.rolled(&self.fingerprint, *print, byte, len);
        (len >= self.sizes.min() as u64 && *print >= self.least).then_some(0)
    }
}

impl Rabin {
    /// What a device searches by.
    pub(crate) fn window_test(&self) -> WindowTest {
        let Fingerprint { window, enter, leave } = &self.fingerprint;
        let table = [&enter[..], leave].concat();
        WindowTest {
            hash: WindowHash::Rabin,
            window: *window,
            table,
            limit: self.least,
            strict: self.least,
        }
    }
}

impl Mark for Rabin {
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(&self.fingerprint, data, |print| print >= self.least);
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

impl Drop for Fingerprint {
    fn drop(&mut self) {
        self.enter.zeroize();
        self.leave.zeroize();
    }
}

impl Fingerprint {
    pub(crate) fn new(window: usize, numbers: Numbers) -> Self {
        let modulus = polynomial(numbers);
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

/// The irreducible polynomial of degree 53 that `numbers` pick.
fn polynomial(mut numbers: Numbers) -> u64 {
    irreducible_from(DEGREE, numbers.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::SplitMix64;
    use onefold_testkit::model;

    fn of_seed(seed: u64) -> Numbers {
        Numbers::Public(SplitMix64::new(seed))
    }

    #[test]
    fn every_seed_picks_an_irreducible_polynomial_not_far_from_its_number() {
        assert_eq!(polynomial(of_seed(0)), 0x20_a839_7b1d_ce27);
        for seed in (0..200).chain([u64::MAX]) {
            let start = 1 << DEGREE | SplitMix64::new(seed).next() & MASK;
            let found = polynomial(of_seed(seed));
            assert!(model::is_irreducible(found), "{seed}");
            assert!(found.abs_diff(start) < 1000, "{seed}");
        }
    }
}

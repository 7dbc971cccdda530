//! CRC: F. Ni, X. Lin, S. Jiang, "SS-CDC: A Two-stage Parallel Content-Defined Chunking for
//! Deduplicating Backup Storage", SYSTOR 2019; the checksum is that of ISO 3309.
//!
//! **Rule.** The window's bytes, first byte and lowest bit foremost, are the coefficients of a
//! polynomial W(x) over GF(2); its checksum is W(x) · x^32 modulo x^32 and what the bits of
//! 0x04c11db7 (or another, see below) stand for, read as a number whose lowest bit is the coefficient of x^31. p is the
//! first position from min on where the checksum of the last w bytes is at least
//! 2^32 − ⌊2^32 / (avg − min + 1)⌋.
//! **First legal position.** min. The window is full there if min ≥ w; otherwise it starts empty
//! with the chunk and grows, as if zeros had come before. Each position is accepted with
//! probability 1 / (avg − min + 1) (for w ≥ 4), which puts the mean at avg but for the cut at max.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Runs.** A window of zeros has checksum 0, the last to qualify: runs of zeros are cut at max,
//! unless avg = min.
//! **Resynchronisation.** As Gear's, with w in the place of 64.
//! **Departures.** SS-CDC tests low bits against zero, which allows means of a power of two only
//! and cuts runs of zeros at min. No inversion before and after, which would change which windows
//! qualify and nothing else.
//! **Polynomial.** The standard's, whatever the seed. With a secret, the first irreducible one of
//! degree 32 upwards from x^32 and the low 32 bits of the secret's first number (secret.rs), with
//! the constant term set. There are 2^27 of them, no more than a search tries in minutes.

use std::array;

use zeroize::Zeroize;

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::polynomial::irreducible_from;
use crate::research::two_stage::{self, Mark, Marks};
use crate::rolling::{self, EveryPosition, LinearRule, Rolling, Search, WindowRule};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::tables::{WindowHash, WindowTest};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "crc",
    summary: "CRC-32 of a sliding window",
    takes: &[Parameter::Window, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |params| DecidedBy::Window(params.window),
    kernels: Kernels::linear::<Crc>(),
    boundary: Some(boundary::of::<Crc>),
    walk: Some(walk::by::<Crc>),
    streams: Some((Selection::First, two_stage::mark::<Crc>)),
};

/// The standard's polynomial; bit i is the coefficient of x^i.
const POLYNOMIAL: u64 = 0x1_04c1_1db7;

pub(crate) struct Crc {
    sizes: ChunkSizes,
    checksum: Checksum,
    /// The least checksum that is a cut-point.
    least: u64,
}

impl FromParams for Crc {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        Ok(Self {
            sizes: params.sizes,
            checksum: Checksum::new(params.checked_window()?, polynomial(params)),
            least: (1 << 32) - rolling::accepted(32, params.sizes),
        })
    }
}

impl Boundary for Crc {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        u64::from(rolling::at_end_of(&self.checksum, &reach[..cut])) >= self.least
    }
}

impl Rule for Crc {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.next_cut_by(&EveryPosition, data)
    }
}

impl WindowRule for Crc {
    type Hash = Checksum;

    fn hash(&self) -> &Checksum {
        &self.checksum
    }

    fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    fn is_candidate(&self, crc: u32) -> bool {
        u64::from(crc) >= self.least
    }

    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        search
            .first_position(self, reach, |_, crc| self.is_candidate(crc))
            .or_else(|| self.sizes.forced(reach))
    }
}

impl LinearRule for Crc {
    fn decisive(&self, crc: u32) -> u16 {
        (crc >> 16) as u16
    }

    fn least_decisive(&self) -> u16 {
        (self.least >> 16) as u16
    }
}

impl Step for Crc {
    type State = u32;

    fn step(&self, crc: &mut u32, len: u64, byte: u8, past: &Past) -> Option<usize> {
        *crc = past.rolled(&self.checksum, *crc, byte, len);
        (len >= self.sizes.min() as u64 && u64::from(*crc) >= self.least).then_some(0)
    }
}

fn polynomial(params: &Params) -> u64 {
    match params.secret {
        None => POLYNOMIAL,
        Some(_) => irreducible_from(32, Numbers::of(params).next()),
    }
}

impl Crc {
    /// What a device searches by.
    pub(crate) fn window_test(&self) -> WindowTest {
        let Checksum { window, enter, leave } = &self.checksum;
        let table = enter.iter().chain(leave).copied().map(u64::from).collect();
        WindowTest {
            hash: WindowHash::Crc,
            window: *window,
            table,
            limit: self.least,
            strict: self.least,
        }
    }
}

impl Mark for Crc {
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(&self.checksum, data, |crc| u64::from(crc) >= self.least);
    }
}

pub(crate) struct Checksum {
    window: usize,
    /// What byte b adds on entering.
    enter: [u32; 256],
    /// What byte b still adds when w more have followed.
    leave: [u32; 256],
}

impl Drop for Checksum {
    fn drop(&mut self) {
        self.enter.zeroize();
        self.leave.zeroize();
    }
}

impl Checksum {
    fn new(window: usize, polynomial: u64) -> Self {
        // without x^32, and the coefficient of x^31 lowest
        let rest = (polynomial as u32).reverse_bits();
        let enter = array::from_fn(|byte| {
            (0..8).fold(byte as u32, |crc, _| crc >> 1 ^ if crc & 1 == 1 { rest } else { 0 })
        });
        let mut checksum = Self { window, enter, leave: [0; 256] };
        checksum.leave =
            array::from_fn(|byte| (0..window).fold(enter[byte], |crc, _| checksum.push(crc, 0)));
        checksum
    }
}

impl Rolling for Checksum {
    type Print = u32;

    fn window(&self) -> usize {
        self.window
    }

    fn push(&self, crc: u32, byte: u8) -> u32 {
        crc >> 8 ^ self.enter[usize::from(crc as u8 ^ byte)]
    }

    fn roll(&self, crc: u32, entering: u8, leaving: u8) -> u32 {
        self.push(crc, entering) ^ self.leave[usize::from(leaving)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverted_before_and_after_it_is_the_standards_checksum() {
        let checksum = Checksum::new(9, POLYNOMIAL);
        let crc = b"123456789".iter().fold(u32::MAX, |crc, &byte| checksum.push(crc, byte));
        assert_eq!(!crc, 0xcbf4_3926);
    }
}

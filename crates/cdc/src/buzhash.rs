//! Buzhash, the hash by cyclic polynomials: R. Uzgalis, "Random Numbers, Hashing and Permutations",
//! 1992; J. D. Cohen, "Recursive Hashing Functions for n-Grams", ACM TOIS 15, 1997.
//!
//! **Rule.** h is the exclusive or of the 32-bit table entries of the window's bytes, each rotated
//! left by the number of bytes behind it; p is the first position from min on where h of the last w
//! bytes is at least 2^32 − ⌊2^32 / (avg − min + 1)⌋. The table is the upper halves of the first
//! 256 numbers of the seed or secret (secret.rs).
//! **First legal position.** min. The window is full there if min ≥ w; otherwise it starts empty
//! with the chunk and grows. Each position is accepted with probability 1 / (avg − min + 1), which
//! puts the mean at avg but for the cut at max.
//! **Ties.** None: the first position that qualifies wins.
//! **Tail.** The rest.
//! **Runs.** Equal bytes 32 apart cancel. Where w is a multiple of 64, every run of equal bytes and
//! every pattern whose period divides 32 has h = 0, the last to qualify, and is cut at max.
//! **Resynchronisation.** As Gear's, with w in the place of 64.
//! **Departures.** The usual test is of low bits against zero, which allows means of a power of two
//! only and cuts such runs at min.

use std::array;

use zeroize::Zeroize;

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::research::two_stage::{self, Mark, Marks};
use crate::rolling::{self, EveryPosition, Rolling, Search, WindowRule};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::tables::{WindowHash, WindowTest};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "buzhash",
    summary: "cyclic polynomial of a sliding window; Rabin's way at less cost",
    takes: &[Parameter::Window, Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |params| DecidedBy::Window(params.window),
    kernels: Kernels::interleaved::<Buzhash>(),
    boundary: Some(boundary::of::<Buzhash>),
    walk: Some(walk::by::<Buzhash>),
    streams: Some((Selection::First, two_stage::mark::<Buzhash>)),
};

pub(crate) struct Buzhash {
    sizes: ChunkSizes,
    hash: CyclicPolynomial,
    /// The least hash that is a cut-point.
    least: u64,
}

impl FromParams for Buzhash {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        Ok(Self {
            sizes: params.sizes,
            hash: CyclicPolynomial::new(params.checked_window()?, Numbers::of(params)),
            least: (1 << 32) - rolling::accepted(32, params.sizes),
        })
    }
}

impl Boundary for Buzhash {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        u64::from(rolling::at_end_of(&self.hash, &reach[..cut])) >= self.least
    }
}

impl Rule for Buzhash {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.next_cut_by(&EveryPosition, data)
    }
}

impl WindowRule for Buzhash {
    type Hash = CyclicPolynomial;

    fn hash(&self) -> &CyclicPolynomial {
        &self.hash
    }

    fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    fn is_candidate(&self, hash: u32) -> bool {
        u64::from(hash) >= self.least
    }

    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        search
            .first_position(self, reach, |_, hash| self.is_candidate(hash))
            .or_else(|| self.sizes.forced(reach))
    }
}

impl Buzhash {
    /// What a device searches by.
    pub(crate) fn window_test(&self) -> WindowTest {
        let CyclicPolynomial { window, enter, leave } = &self.hash;
        let table = enter.iter().chain(leave).copied().map(u64::from).collect();
        WindowTest {
            hash: WindowHash::Buzhash,
            window: *window,
            table,
            limit: self.least,
            strict: self.least,
        }
    }
}

impl Step for Buzhash {
    type State = u32;

    fn step(&self, hash: &mut u32, len: u64, byte: u8, past: &Past) -> Option<usize> {
        *hash = past.rolled(&self.hash, *hash, byte, len);
        (len >= self.sizes.min() as u64 && u64::from(*hash) >= self.least).then_some(0)
    }
}

impl Mark for Buzhash {
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(&self.hash, data, |hash| u64::from(hash) >= self.least);
    }
}

pub(crate) struct CyclicPolynomial {
    window: usize,
    enter: [u32; 256],
    /// `enter`, rotated by the window.
    leave: [u32; 256],
}

impl Drop for CyclicPolynomial {
    fn drop(&mut self) {
        self.enter.zeroize();
        self.leave.zeroize();
    }
}

impl CyclicPolynomial {
    fn new(window: usize, mut numbers: Numbers) -> Self {
        Self::from_table(window, array::from_fn(|_| (numbers.next() >> 32) as u32))
    }

    /// The hash of the last `window` bytes by a table of its own.
    pub(crate) fn from_table(window: usize, enter: [u32; 256]) -> Self {
        Self { window, enter, leave: enter.map(|entry| entry.rotate_left((window % 32) as u32)) }
    }
}

impl Rolling for CyclicPolynomial {
    type Print = u32;

    fn window(&self) -> usize {
        self.window
    }

    fn push(&self, hash: u32, byte: u8) -> u32 {
        hash.rotate_left(1) ^ self.enter[usize::from(byte)]
    }

    fn roll(&self, hash: u32, entering: u8, leaving: u8) -> u32 {
        self.push(hash, entering) ^ self.leave[usize::from(leaving)]
    }
}

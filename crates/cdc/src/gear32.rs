//! Gear with 32-bit hashes: W. Xia et al., "Ddelta: A deduplication-inspired fast delta
//! compression approach", Performance Evaluation 79, 2014; with the hash that SS-CDC (2019) and "A
//! Thorough Investigation of Content-Defined Chunking Algorithms" (2024) run.
//!
//! **Rule.** As Gear's in gear.rs, modulo 2^32: h = 2h + table\[b\], which depends on the last 32
//! bytes; p is the first position from min on where h < ⌊2^32 / (avg − min + 1)⌋. The table is the
//! upper halves of the first 256 numbers of the seed or secret (secret.rs).
//! **First legal position, ties, tail, runs, resynchronisation.** As Gear's, with 32 in the place
//! of 64 bytes.
//! **Departures.** As Gear's. The threshold is a whole number, so that the mean exceeds avg by up
//! to 2^−32 (avg − min)², which is 0.02 % at 1 MiB and at most 1.6 %.

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::gear::Table;
use crate::research::two_stage::{self, Mark, Marks};
use crate::rolling::{self, Rolling};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::tables::{WindowHash, WindowTest};
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "gear32",
    summary: "Gear hash of the last 32 bytes, in 32 bits",
    takes: &[Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |_| DecidedBy::Window(WINDOW),
    kernels: Kernels::scalar::<Gear32>(),
    boundary: Some(boundary::of::<Gear32>),
    walk: Some(walk::by::<Gear32>),
    streams: Some((Selection::First, two_stage::mark::<Gear32>)),
};

/// Bytes that a hash depends on.
pub(crate) const WINDOW: usize = 32;

pub(crate) struct Gear32 {
    sizes: ChunkSizes,
    /// Gear's numbers with their lower halves 0: so are those of its hashes then, and the upper
    /// ones are hashes modulo 2^32.
    table: Table,
    /// The largest hash that is a cut-point.
    limit: u64,
}

impl FromParams for Gear32 {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        Ok(Self {
            sizes: params.sizes,
            table: Table::new(Numbers::of(params)).upper_halves(),
            limit: (rolling::accepted(32, params.sizes) - 1) << 32,
        })
    }
}

impl Boundary for Gear32 {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        self.table.at_end_of(&reach[..cut]) <= self.limit
    }
}

impl Rule for Gear32 {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let before = self.sizes.min() - 1;
        let hash = self.table.warm(&reach[..before]);
        match self.table.scan(hash, &reach[before..], self.limit) {
            Ok(scanned) => Some(before + scanned),
            Err(_) => self.sizes.forced(reach),
        }
    }
}

impl Step for Gear32 {
    type State = u64;

    fn step(&self, hash: &mut u64, len: u64, byte: u8, _: &Past) -> Option<usize> {
        *hash = self.table.push(*hash, byte);
        (len >= self.sizes.min() as u64 && *hash <= self.limit).then_some(0)
    }
}

impl Gear32 {
    /// What a device searches by.
    pub(crate) fn window_test(&self) -> WindowTest {
        let table = self.table.0.iter().map(|number| number >> 32).collect();
        let limit = self.limit >> 32;
        WindowTest { hash: WindowHash::Gear32, window: WINDOW, table, limit, strict: limit }
    }
}

impl Mark for Gear32 {
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(self, data, |hash| hash <= self.limit);
    }
}

/// What leaves the window is shifted out.
impl Rolling for Gear32 {
    type Print = u64;

    fn window(&self) -> usize {
        WINDOW
    }

    fn push(&self, hash: u64, byte: u8) -> u64 {
        self.table.push(hash, byte)
    }

    fn roll(&self, hash: u64, entering: u8, _: u8) -> u64 {
        self.push(hash, entering)
    }
}

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

use std::array;

use crate::boundary::Boundary;
use crate::rolling::{self, Rolling};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::two_stage::{Mark, Marks};
use crate::walk::{Past, Step};
use crate::{ChunkSizes, Params};

/// Bytes that a hash depends on.
pub(crate) const WINDOW: usize = 32;

pub(crate) struct Gear32 {
    sizes: ChunkSizes,
    table: [u32; 256],
    /// The largest hash that is a cut-point.
    limit: u32,
}

impl Gear32 {
    pub(crate) fn new(params: &Params) -> Self {
        let mut numbers = Numbers::of(params);
        Self {
            sizes: params.sizes,
            table: array::from_fn(|_| (numbers.next() >> 32) as u32),
            limit: (rolling::accepted(32, params.sizes) - 1) as u32,
        }
    }

    fn push(&self, hash: u32, byte: u8) -> u32 {
        (hash << 1).wrapping_add(self.table[usize::from(byte)])
    }
}

impl Boundary for Gear32 {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let window = &reach[cut.saturating_sub(WINDOW)..cut];
        window.iter().fold(0, |hash, &byte| self.push(hash, byte)) <= self.limit
    }
}

impl Rule for Gear32 {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let before = self.sizes.min() - 1;
        let warm = &reach[(before + 1).saturating_sub(WINDOW)..before];
        let mut hash = warm.iter().fold(0, |hash, &byte| self.push(hash, byte));
        for (i, &byte) in reach[before..].iter().enumerate() {
            hash = self.push(hash, byte);
            if hash <= self.limit {
                return Some(before + i + 1);
            }
        }
        self.sizes.forced(reach)
    }
}

impl Step for Gear32 {
    type State = u32;

    fn step(&self, hash: &mut u32, len: u64, byte: u8, _: &Past) -> Option<usize> {
        *hash = self.push(*hash, byte);
        (len >= self.sizes.min() as u64 && *hash <= self.limit).then_some(0)
    }
}

impl Mark for Gear32 {
    fn window(&self) -> usize {
        WINDOW
    }

    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(self, data, |hash| hash <= self.limit);
    }
}

/// What leaves the window is shifted out.
impl Rolling for Gear32 {
    type Print = u32;

    fn window(&self) -> usize {
        WINDOW
    }

    fn push(&self, hash: u32, byte: u8) -> u32 {
        self.push(hash, byte)
    }

    fn roll(&self, hash: u32, entering: u8, _: u8) -> u32 {
        self.push(hash, entering)
    }
}

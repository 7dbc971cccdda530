//! The Xet protocol's chunking, as in xet-core (Hugging Face, Apache-2.0).
//!
//! **Rule.** The hash is Gear's in 64 bits over the table of the crate gearhash; p is the first
//! position from min on where its upper log2 avg bits are all 0, which depends on 64 bytes.
//! **First legal position.** min, which is more than 64.
//! **Ties.** None.
//! **Tail.** The rest.

use super::xet_table::TABLE;
use crate::boundary::Boundary;
use crate::gear;
use crate::research::two_stage::{Mark, Marks};
use crate::rule::Rule;
use crate::{ChunkSizes, Params};

/// Bytes that a hash depends on.
pub(super) const WINDOW: usize = 64;

pub(super) struct Xet {
    sizes: ChunkSizes,
    mask: u64,
}

impl Xet {
    /// Refuses, with what is expected, sizes that have no mask or no full window.
    pub(super) fn new(params: &Params) -> Result<Self, &'static str> {
        let sizes = params.sizes;
        if !sizes.avg().is_power_of_two() || sizes.avg() < 2 {
            return Err("a power of two for an average");
        }
        if sizes.min() <= WINDOW || !sizes.is_bounded() {
            return Err("a minimum of more than 64 bytes and a maximum");
        }
        Ok(Self { sizes, mask: u64::MAX << (64 - sizes.avg().ilog2()) })
    }
}

impl Boundary for Xet {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        let push = |hash: u64, &byte: &u8| (hash << 1).wrapping_add(TABLE[usize::from(byte)]);
        reach[cut - WINDOW..cut].iter().fold(0, push) & self.mask == 0
    }
}

impl Rule for Xet {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let before = self.sizes.min() - 1;
        let hash = gear::warm(&TABLE, &reach[..before]);
        let mask = self.mask;
        match gear::scan(&TABLE, hash, &reach[before..], |hash| hash & mask == 0) {
            Ok(scanned) => Some(before + scanned),
            Err(_) => self.sizes.forced(reach),
        }
    }
}

impl Mark for Xet {
    fn window(&self) -> usize {
        WINDOW
    }

    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(&TABLE, data, |hash| hash & self.mask == 0);
    }
}

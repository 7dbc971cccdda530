//! The Xet protocol's chunking, as in xet-core (Hugging Face, Apache-2.0).
//!
//! **Rule.** The hash is Gear's in 64 bits over the table of the crate gearhash; p is the first
//! position from min on where its upper log2 avg bits are all 0, which depends on 64 bytes.
//! **First legal position.** min, which is more than 64.
//! **Ties.** None.
//! **Tail.** The rest.

use super::in_proportion;
use super::xet_table::TABLE;
use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::gear;
use crate::research::two_stage::{self, Mark, Marks};
use crate::rule::Rule;
use crate::{ChunkSizes, ParamError, Params, Preset};

pub(super) static DESCRIPTOR: Descriptor = Descriptor {
    name: "xet",
    summary: "Gear as the Xet protocol of Hugging Face",
    takes: &[],
    sizes: |avg| in_proportion([8 << 10, 64 << 10, 128 << 10], avg, 1),
    decided_by: |_| DecidedBy::Window(WINDOW),
    kernels: Kernels::scalar::<Xet>(),
    boundary: Some(boundary::of::<Xet>),
    walk: None,
    streams: Some((Selection::First, two_stage::mark::<Xet>)),
};

/// Bytes that a hash depends on.
const WINDOW: usize = 64;

struct Xet {
    sizes: ChunkSizes,
    mask: u64,
}

impl FromParams for Xet {
    /// Refuses sizes that have no mask or no full window.
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let refused = |expected| Err(Preset::Xet.refused(expected));
        let sizes = params.sizes;
        if !sizes.avg().is_power_of_two() || sizes.avg() < 2 {
            return refused("a power of two for an average");
        }
        if sizes.min() <= WINDOW || !sizes.is_bounded() {
            return refused("a minimum of more than 64 bytes and a maximum");
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
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(&TABLE, data, |hash| hash & self.mask == 0);
    }
}

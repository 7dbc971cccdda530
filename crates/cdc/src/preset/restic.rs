//! restic's chunker (A. Neumann, BSD 2-Clause), which rustic has too.
//!
//! **Rule.** The window's 64 bytes, first byte and highest bit foremost, are the coefficients of a
//! polynomial W(x) over GF(2); its fingerprint is W(x) modulo the repository's irreducible
//! polynomial of degree 53. p is the first position from min on where the lowest log2 avg bits of
//! the fingerprint of the last 64 bytes are all 0. (A byte 1 that the tool puts in front of a chunk
//! has left the window there.)
//! **First legal position.** min, which is at least 64.
//! **Ties.** None.
//! **Tail.** The rest.
//! **Runs.** Zeros have fingerprint 0 and are cut at min.

use super::in_proportion;
use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::polynomial::is_irreducible;
use crate::rabin::PlainFingerprint;
use crate::research::two_stage::{self, Mark, Marks};
use crate::rolling::{self, EveryPosition, LinearRule, Search, WindowRule};
use crate::rule::Rule;
use crate::{ChunkSizes, ParamError, Parameter, Params, Preset};

pub(super) static DESCRIPTOR: Descriptor = Descriptor {
    name: "restic",
    summary: "Rabin as restic and rustic, by the repository's polynomial",
    takes: &[Parameter::Seed],
    sizes: |avg| in_proportion([512 << 10, 1 << 20, 8 << 20], avg, 1),
    decided_by: |_| DecidedBy::Window(WINDOW),
    kernels: Kernels::linear::<Restic>(),
    boundary: Some(boundary::of::<Restic>),
    walk: None,
    streams: Some((Selection::First, two_stage::mark::<Restic>)),
};

const WINDOW: usize = 64;

pub(super) struct Restic {
    sizes: ChunkSizes,
    fingerprint: PlainFingerprint,
    mask: u64,
}

impl FromParams for Restic {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let &Params { sizes, window, seed: polynomial, .. } = params;
        let refused = |expected| Err(Preset::Restic.refused(expected));
        if !sizes.avg().is_power_of_two() {
            return refused("a power of two for an average");
        }
        if sizes.min() < WINDOW || window != WINDOW || !sizes.is_bounded() {
            return refused("a window of 64 bytes, a minimum no shorter and a maximum");
        }
        if polynomial >> 53 != 1 || !is_irreducible(polynomial) {
            return Err(ParamError::Polynomial { polynomial });
        }
        let fingerprint = PlainFingerprint::new(WINDOW, polynomial);
        Ok(Self { sizes, fingerprint, mask: sizes.avg() as u64 - 1 })
    }
}

impl Boundary for Restic {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        rolling::at_end_of(&self.fingerprint, &reach[..cut]) & self.mask == 0
    }
}

impl Rule for Restic {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.next_cut_by(&EveryPosition, data)
    }
}

impl WindowRule for Restic {
    type Hash = PlainFingerprint;

    fn hash(&self) -> &PlainFingerprint {
        &self.fingerprint
    }

    fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    fn is_candidate(&self, print: u64) -> bool {
        print & self.mask == 0
    }

    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        search
            .first_position(self, reach, |_, print| self.is_candidate(print))
            .or_else(|| self.sizes.forced(reach))
    }
}

impl LinearRule for Restic {
    fn decisive(&self, print: u64) -> u16 {
        // of the lowest bits as many as count, foremost, and inverted since they must be 0
        let unasked = self.mask.leading_zeros().saturating_sub(48);
        !((print << unasked) as u16)
    }

    fn least_decisive(&self) -> u16 {
        u16::MAX
    }
}

impl Mark for Restic {
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        marks.of(&self.fingerprint, data, |print| print & self.mask == 0);
    }
}

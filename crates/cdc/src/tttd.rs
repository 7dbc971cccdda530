//! TTTD, two thresholds, two divisors: K. Eshghi, H. K. Tang, "A Framework for Analyzing and
//! Improving Content-Based Chunking Algorithms", HP Labs HPL-2005-30, 2005.
//!
//! **Rule.** The fingerprint is Rabin's in rabin.rs, with its window and its way to a polynomial. p is the first
//! position from min on whose fingerprint is at least 2^53 − A, with A = ⌊2^53 / (avg − min + 1)⌋.
//! If there is none up to max, p is the last position there whose fingerprint is at least 2^53 − 2A
//! (the backup, which has half the divisor), and max if there is none of these either.
//! **First legal position.** min, for both divisors. The window starts as Rabin's does.
//! **Lookahead.** A cut-point by the backup divisor depends on all bytes up to max.
//! **Ties.** The first position by the main divisor, the last one by the backup.
//! **Tail.** The rest, if the data ends before max: the backup is for chunks that would be too long
//! and says nothing there.
//! **Mean.** At max the backup lies about avg − min bytes back, so the mean is below Rabin's by the
//! share e^−((max − min) / (avg − min)) of avg − min; less below, as bytes behind a backup have lost
//! once and make the next chunk longer.
//! **Runs.** As Rabin's: a window of zeros is the last to qualify.
//! **Resynchronisation.** As Rabin's, and where Rabin cuts at max this cuts at content.
//! **Departures.** The thresholds compare where the paper takes remainders, for any mean.

use crate::boundary::{self, Boundary};
use crate::descriptor::{DecidedBy, Descriptor, FromParams, Kernels, Selection};
use crate::rabin::Fingerprint;
use crate::research::two_stage::{self, Mark, Marks};
use crate::rolling::{self, EveryPosition, LinearRule, Search, WindowRule};
use crate::rule::Rule;
use crate::secret::Numbers;
use crate::walk::{self, Past, Step};
use crate::{ChunkSizes, Lookahead, ParamError, Parameter, Params};

pub(crate) static DESCRIPTOR: Descriptor = Descriptor {
    name: "tttd",
    summary: "Rabin with a second, likelier divisor where a chunk would grow too long",
    takes: &[Parameter::Window, Parameter::Seed, Parameter::Secret],
    sizes: ChunkSizes::around,
    decided_by: |params| DecidedBy::More { before: params.window, lookahead: Lookahead::ToMax },
    kernels: Kernels::linear::<Tttd>(),
    boundary: Some(boundary::of::<Tttd>),
    walk: Some(walk::by::<Tttd>),
    streams: Some((Selection::Backup, two_stage::mark::<Tttd>)),
};

pub(crate) struct Tttd {
    sizes: ChunkSizes,
    fingerprint: Fingerprint,
    /// The least fingerprint that is a cut-point.
    least: u64,
    /// The least fingerprint that is a backup.
    backup_least: u64,
}

impl FromParams for Tttd {
    fn from_params(params: &Params) -> Result<Self, ParamError> {
        let accepted = rolling::accepted(53, params.sizes);
        Ok(Self {
            sizes: params.sizes,
            fingerprint: Fingerprint::new(params.checked_window()?, Numbers::of(params)),
            least: (1 << 53) - accepted,
            backup_least: (1_u64 << 53).saturating_sub(2 * accepted),
        })
    }
}

impl Boundary for Tttd {
    fn may_end(&self, reach: &[u8], cut: usize) -> bool {
        // either divisor ends chunks, and both pass the likelier
        rolling::at_end_of(&self.fingerprint, &reach[..cut]) >= self.backup_least
    }
}

impl Rule for Tttd {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.next_cut_by(&EveryPosition, data)
    }
}

impl WindowRule for Tttd {
    type Hash = Fingerprint;

    fn hash(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn sizes(&self) -> ChunkSizes {
        self.sizes
    }

    fn is_candidate(&self, print: u64) -> bool {
        print >= self.backup_least
    }

    fn next_cut_by<S: Search<Self>>(&self, search: &S, data: &[u8]) -> Option<usize> {
        let reach = self.sizes.reach(data)?;
        let mut backup = None;
        let main = search.first_position(self, reach, |p, print| {
            if print >= self.backup_least {
                backup = Some(p);
            }
            print >= self.least
        });
        main.or_else(|| self.sizes.forced(reach).map(|max| backup.unwrap_or(max)))
    }
}

impl LinearRule for Tttd {
    fn decisive(&self, print: u64) -> u16 {
        (print >> (53 - 16)) as u16
    }

    fn least_decisive(&self) -> u16 {
        (self.backup_least >> (53 - 16)) as u16
    }
}

/// Without a maximum there is nothing to back up: this is Rabin.
impl Step for Tttd {
    type State = u64;

    fn step(&self, print: &mut u64, len: u64, byte: u8, past: &Past) -> Option<usize> {
        *print = past.rolled(&self.fingerprint, *print, byte, len);
        (len >= self.sizes.min() as u64 && *print >= self.least).then_some(0)
    }
}

impl Mark for Tttd {
    fn mark(&self, data: &[u8], marks: &mut Marks<'_>) {
        let strict = |print| print >= self.least;
        marks.of_two(&self.fingerprint, data, |print| print >= self.backup_least, strict);
    }
}

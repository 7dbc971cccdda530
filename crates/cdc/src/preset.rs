//! The chunkers of other tools, so that chunks can be shared with them.
//!
//! Their rules differ from this crate's of the same name in what they start with, test and do at
//! the end; each file says how. All but desync are compared with the tool's own code, and all but
//! casync with what its tests publish.

mod borg;
mod borg_table;
mod casync;
mod casync_table;
mod fastcdc_rs;
mod md5;
mod restic;
mod xet;
mod xet_table;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub(crate) use borg::Borg;
pub(crate) use casync::Casync;
pub(crate) use restic::Restic;

use crate::boundary::TestedRule;
use crate::research::two_stage::Mark;
use crate::{Algorithm, ChunkSizes, Kernel, Lookahead, ParamError, Params};

/// A tool whose cut-points are wanted exactly, on every input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// `v2016` of the crate fastcdc 5: any level and sizes that the crate takes.
    FastCdc2016,
    /// `v2020` of the crate fastcdc 5, which is FastCDC2020 of the remote-execution API: any level,
    /// seed and sizes that the crate takes.
    FastCdc2020,
    /// The Xet protocol of Hugging Face: a power of two for a mean.
    Xet,
    /// restic and rustic: a power of two for a mean, the repository's polynomial for a seed.
    Restic,
    /// borg 1's buzhash: powers of two for sizes, any window that fits, the repository's seed of 32
    /// bits.
    Borg,
    /// casync 2: any sizes that have a discriminator.
    Casync,
    /// desync 1: a minimum of 48 bytes or more. It cuts as casync does but never at the minimum.
    Desync,
}

impl Preset {
    /// Every preset.
    pub const ALL: &[Self] = &[
        Self::FastCdc2016,
        Self::FastCdc2020,
        Self::Xet,
        Self::Restic,
        Self::Borg,
        Self::Casync,
        Self::Desync,
    ];

    /// The name users write; [`FromStr`] reads it back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FastCdc2016 => "fastcdc-2016",
            Self::FastCdc2020 => "fastcdc-2020",
            Self::Xet => "xet",
            Self::Restic => "restic",
            Self::Borg => "borg",
            Self::Casync => "casync",
            Self::Desync => "desync",
        }
    }

    /// What the tool is and cuts by, in one line for a terminal.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::FastCdc2016 => "FastCDC as v2016 of the crate fastcdc",
            Self::FastCdc2020 => {
                "FastCDC as v2020 of the crate fastcdc and the remote-execution API"
            }
            Self::Xet => "Gear as the Xet protocol of Hugging Face",
            Self::Restic => "Rabin as restic and rustic, by the repository's polynomial",
            Self::Borg => "buzhash as borg 1, by the repository's seed",
            Self::Casync => "buzhash as casync 2",
            Self::Desync => "buzhash as desync 1",
        }
    }

    /// The tool's own parameters: those that the crate fastcdc shows (4 KiB, 16 KiB, 64 KiB less
    /// two bytes, level 1) or the protocol fixes.
    ///
    /// restic draws a polynomial for each repository; this is the one of its tests. borg draws a
    /// seed for each encrypted one; this is that of the others, 0.
    pub fn params(self) -> Params {
        let (algorithm, sizes, window, seed) = match self {
            Self::FastCdc2016 | Self::FastCdc2020 => {
                (Algorithm::FastCdc, ChunkSizes::new(4 << 10, 16 << 10, (64 << 10) - 2), 64, 0)
            }
            Self::Xet => (Algorithm::Gear, ChunkSizes::new(8 << 10, 64 << 10, 128 << 10), 64, 0),
            Self::Restic => {
                let sizes = ChunkSizes::new(512 << 10, 1 << 20, 8 << 20);
                (Algorithm::Rabin, sizes, 64, 0x3d_a335_8b4d_c173)
            }
            Self::Borg => {
                (Algorithm::Buzhash, ChunkSizes::new(512 << 10, 2 << 20, 8 << 20), 4095, 0)
            }
            Self::Casync | Self::Desync => {
                (Algorithm::Buzhash, ChunkSizes::new(16 << 10, 64 << 10, 256 << 10), 48, 0)
            }
        };
        let params = Params::new(algorithm, sizes.expect("the sizes of a tool are in order"));
        Params { window, level: 1, seed, preset: Some(self), ..params }
    }

    /// The tool's own parameters with sizes in proportion to an average of `avg` bytes.
    pub(crate) fn params_for_mean(self, avg: usize) -> Result<Params, ParamError> {
        let own = self.params();
        let in_proportion = |size: usize| {
            let scaled = size as u128 * avg as u128 / own.sizes.avg() as u128;
            // the two forms of FastCDC differ in what they take; what is even suits both
            let suited = if own.algorithm == Algorithm::FastCdc { scaled & !1 } else { scaled };
            usize::try_from(suited).unwrap_or(usize::MAX)
        };
        let (min, max) = (in_proportion(own.sizes.min()), in_proportion(own.sizes.max()));
        Ok(Params { sizes: ChunkSizes::new(min, avg, max)?, ..own })
    }

    /// The average next to `avg` that the tool can have, as far as only some numbers will do.
    pub(crate) const fn nearest_avg(self, avg: usize) -> usize {
        match self {
            Self::Xet | Self::Restic | Self::Borg if avg > 0 => {
                let below = 1 << avg.ilog2();
                // the next above is twice that; the border is the mean of their logarithms
                let is_nearer_above = (avg as u128).pow(2) > 2 * (below as u128).pow(2);
                if is_nearer_above { 2 * below } else { below }
            }
            Self::FastCdc2020 => avg & !1,
            _ => avg,
        }
    }

    /// The kernels that run the preset on this CPU, fastest first; never
    /// [`Auto`](Kernel::Auto).
    pub fn kernels(self) -> &'static [Kernel] {
        self.searched_as().map_or(&[Kernel::Scalar], Kernel::usable)
    }

    /// The kernels that are written for the preset on this architecture, fastest first.
    pub fn written_kernels(self) -> &'static [Kernel] {
        self.searched_as().map_or(&[Kernel::Scalar], Kernel::written)
    }

    /// The algorithm whose kernels run the preset too.
    const fn searched_as(self) -> Option<Algorithm> {
        match self {
            Self::Restic => Some(Algorithm::Rabin),
            Self::Borg | Self::Casync | Self::Desync => Some(Algorithm::Buzhash),
            Self::FastCdc2016 | Self::FastCdc2020 | Self::Xet => None,
        }
    }

    /// Refuses what no preset can have.
    pub(crate) fn check(self, params: &Params) -> Result<(), ParamError> {
        let refused = |expected| self.refused(expected);
        let is_own = params.algorithm == self.params().algorithm;
        if !is_own {
            return Err(refused("the algorithm of its own parameters"));
        }
        if params.secret.is_some() {
            return Err(refused("no secret: what the tool is keyed by is the seed"));
        }
        Ok(())
    }

    /// The rule and its test, if `params` are such as the tool can have.
    pub(crate) fn rule(self, params: &Params) -> Result<Arc<dyn TestedRule>, ParamError> {
        let refused = |expected| self.refused(expected);
        self.check(params)?;
        Ok(match self {
            Self::FastCdc2016 => Arc::new(fastcdc_rs::FastCdc::v2016(params).map_err(refused)?),
            Self::FastCdc2020 => Arc::new(fastcdc_rs::FastCdc::v2020(params).map_err(refused)?),
            Self::Xet => Arc::new(xet::Xet::new(params).map_err(refused)?),
            Self::Restic => Arc::new(Restic::new(params)?),
            Self::Borg => Arc::new(Borg::new(params)?),
            Self::Casync => Arc::new(Casync::as_casync(params)?),
            Self::Desync => Arc::new(Casync::as_desync(params)?),
        })
    }

    /// The bytes just before a position that alone tell whether it qualifies, if there are such.
    pub(crate) const fn window(self) -> Option<usize> {
        match self {
            // places in the chunk count, a window behind the position, other minima
            Self::FastCdc2016 | Self::FastCdc2020 => None,
            Self::Borg | Self::Casync | Self::Desync => None,
            Self::Xet => Some(xet::WINDOW),
            Self::Restic => Some(restic::WINDOW),
        }
    }

    /// The rule, if its candidates can be found in streams.
    pub(crate) fn streams(self, params: &Params) -> Result<Option<Arc<dyn Mark>>, ParamError> {
        Ok(match self {
            Self::FastCdc2016 | Self::FastCdc2020 => None,
            Self::Borg | Self::Casync | Self::Desync => None,
            Self::Xet => Some(Arc::new(xet::Xet::new(params).map_err(|e| self.refused(e))?)),
            Self::Restic => Some(Arc::new(Restic::new(params)?)),
        })
    }

    /// The bytes behind a cut-point that it depends on, with `params` that it can have.
    pub(crate) const fn lookahead(self, params: &Params) -> Lookahead {
        match self {
            // the byte that qualifies, which begins the next chunk
            Self::FastCdc2016 => Lookahead::Bytes(1),
            // and its partner
            Self::FastCdc2020 => Lookahead::Bytes(2),
            // the window behind it, and one more
            Self::Borg => Lookahead::Bytes(params.window + 1),
            Self::Xet | Self::Restic | Self::Casync | Self::Desync => Lookahead::None,
        }
    }
}

impl Preset {
    fn refused(self, expected: &'static str) -> ParamError {
        ParamError::Preset { preset: self, expected }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Self::ALL
            .iter()
            .copied()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| ParamError::UnknownPreset { name: name.to_owned() })
    }
}

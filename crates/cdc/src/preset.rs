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

use crate::descriptor::Descriptor;
use crate::{Algorithm, ChunkSizes, Kernel, ParamError, Params};

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

    /// What the tool's file says of it.
    pub(crate) fn descriptor(self) -> &'static Descriptor {
        match self {
            Self::FastCdc2016 => &fastcdc_rs::V2016,
            Self::FastCdc2020 => &fastcdc_rs::V2020,
            Self::Xet => &xet::DESCRIPTOR,
            Self::Restic => &restic::DESCRIPTOR,
            Self::Borg => &borg::DESCRIPTOR,
            Self::Casync => &casync::CASYNC,
            Self::Desync => &casync::DESYNC,
        }
    }

    /// The name users write; [`FromStr`] reads it back.
    pub fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// The tool's own parameters: those that the crate fastcdc shows (4 KiB, 16 KiB, 64 KiB less
    /// two bytes, level 1) or the protocol fixes.
    ///
    /// restic draws a polynomial for each repository; this is the one of its tests. borg draws a
    /// seed for each encrypted one; this is that of the others, 0.
    pub fn params(self) -> Params {
        let (algorithm, avg, window, seed) = match self {
            Self::FastCdc2016 | Self::FastCdc2020 => (Algorithm::FastCdc, 16 << 10, 64, 0),
            Self::Xet => (Algorithm::Gear, 64 << 10, 64, 0),
            Self::Restic => (Algorithm::Rabin, 1 << 20, 64, 0x3d_a335_8b4d_c173),
            Self::Borg => (Algorithm::Buzhash, 2 << 20, 4095, 0),
            Self::Casync | Self::Desync => (Algorithm::Buzhash, 64 << 10, 48, 0),
        };
        let sizes = (self.descriptor().sizes)(avg).expect("the sizes of a tool are in order");
        let params = Params::new(algorithm, sizes);
        Params { window, level: 1, seed, preset: Some(self), ..params }
    }

    /// The tool's own parameters with sizes in proportion to an average of `avg` bytes.
    pub(crate) fn params_for_mean(self, avg: usize) -> Result<Params, ParamError> {
        Ok(Params { sizes: (self.descriptor().sizes)(avg)?, ..self.params() })
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
        self.descriptor().kernels.usable()
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

    fn refused(self, expected: &'static str) -> ParamError {
        ParamError::Preset { preset: self, expected }
    }
}

/// Bounds that are to `avg` as those of `own`, its ends, are to its middle, in multiples of `step`.
fn in_proportion(own: [usize; 3], avg: usize, step: usize) -> Result<ChunkSizes, ParamError> {
    let [min, _, max] = own.map(|size| {
        let scaled = size as u128 * avg as u128 / own[1] as u128;
        usize::try_from(scaled).unwrap_or(usize::MAX) / step * step
    });
    ChunkSizes::new(min, avg, max)
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

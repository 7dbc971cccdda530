//! The chunkers of other tools, so that chunks can be shared with them.
//!
//! Their rules differ from this crate's of the same name in what they start with, test and do at
//! the end; each file says how. All are compared with the tool's own code.

mod fastcdc_rs;
mod md5;
mod restic;
mod xet;
mod xet_table;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::boundary::TestedRule;
use crate::{Algorithm, ChunkSizes, Lookahead, ParamError, Params};

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
}

impl Preset {
    /// Every preset.
    pub const ALL: &[Self] = &[Self::FastCdc2016, Self::FastCdc2020, Self::Xet, Self::Restic];

    /// The name users write; [`FromStr`] reads it back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FastCdc2016 => "fastcdc-2016",
            Self::FastCdc2020 => "fastcdc-2020",
            Self::Xet => "xet",
            Self::Restic => "restic",
        }
    }

    /// The tool's own parameters: those that the crate fastcdc shows (4 KiB, 16 KiB, 64 KiB less
    /// two bytes, level 1) or the protocol fixes.
    ///
    /// restic draws a polynomial for each repository; this is the one of its tests.
    pub fn params(self) -> Params {
        let (algorithm, sizes, seed) = match self {
            Self::FastCdc2016 | Self::FastCdc2020 => {
                (Algorithm::FastCdc, ChunkSizes::new(4 << 10, 16 << 10, (64 << 10) - 2), 0)
            }
            Self::Xet => (Algorithm::Gear, ChunkSizes::new(8 << 10, 64 << 10, 128 << 10), 0),
            Self::Restic => {
                let sizes = ChunkSizes::new(512 << 10, 1 << 20, 8 << 20);
                (Algorithm::Rabin, sizes, 0x3d_a335_8b4d_c173)
            }
        };
        let params = Params::new(algorithm, sizes.expect("the sizes of a tool are in order"));
        Params { window: 64, level: 1, seed, preset: Some(self), ..params }
    }

    /// The rule and its test, if `params` are such as the tool can have.
    pub(crate) fn rule(self, params: &Params) -> Result<Arc<dyn TestedRule>, ParamError> {
        let refused = |expected| ParamError::Preset { preset: self, expected };
        let is_own = params.algorithm == self.params().algorithm;
        if !is_own {
            return Err(refused("the algorithm of its own parameters"));
        }
        if params.secret.is_some() {
            return Err(refused("no secret, as the tool takes none"));
        }
        Ok(match self {
            Self::FastCdc2016 => Arc::new(fastcdc_rs::FastCdc::v2016(params).map_err(refused)?),
            Self::FastCdc2020 => Arc::new(fastcdc_rs::FastCdc::v2020(params).map_err(refused)?),
            Self::Xet => Arc::new(xet::Xet::new(params).map_err(refused)?),
            Self::Restic => Arc::new(restic::Restic::new(params)?),
        })
    }

    /// The bytes behind a cut-point that it depends on.
    pub(crate) const fn lookahead(self) -> Lookahead {
        match self {
            // the byte that qualifies, which begins the next chunk
            Self::FastCdc2016 => Lookahead::Bytes(1),
            // and its partner
            Self::FastCdc2020 => Lookahead::Bytes(2),
            Self::Xet | Self::Restic => Lookahead::None,
        }
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

//! What can be said of a cut-point without seeking it: how far behind itself it looks, and whether
//! the bytes around it allow it. RapidCDC stands on both.

use std::sync::Arc;

use crate::bfbc::Bfbc;
use crate::buzhash::Buzhash;
use crate::crc::Crc;
use crate::fastcdc::FastCdc;
use crate::fixed::Fixed;
use crate::gear::{self, Gear};
use crate::gear_aes::{self, GearAes};
use crate::gear16::{self, Gear16};
use crate::gear32::{self, Gear32};
use crate::maxp::Maxp;
use crate::mii::Mii;
use crate::pci::Pci;
use crate::rabin::Rabin;
use crate::rule::Rule;
use crate::secret;
use crate::seqcdc::SeqCdc;
use crate::tttd::Tttd;
use crate::{Algorithm, ChunkSizes, Chunker, ParamError, Params};

/// The bytes behind a cut-point that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookahead {
    /// None: the chunk's own bytes decide where it ends. Wherever they come again at the start of a
    /// chunk, they are a chunk again.
    None,
    /// So many bytes, but for a cut at max.
    Bytes(usize),
    /// All bytes up to the maximum length of the chunk.
    ToMax,
}

/// A rule by which a few bytes tell most positions that cannot be cut-points from those that may.
pub(crate) trait Boundary: Send + Sync {
    /// Whether a chunk that starts at the first byte of `reach` may end at `cut`, as far as the
    /// rule's window there tells; not asked about the cut at max. No cut-point but that is refused.
    ///
    /// `reach` is what the chunk can cover, and min ≤ `cut` ≤ its length.
    fn may_end(&self, reach: &[u8], cut: usize) -> bool;
}

/// A rule and its test.
pub(crate) trait TestedRule: Rule + Boundary {}

impl<T: Rule + Boundary> TestedRule for T {}

/// The test that a rule makes at a position, on its own.
///
/// Every cut-point of the rule passes, but for the end of the input. A position that passes is not
/// yet a cut-point: one before it may be.
#[derive(Clone)]
pub struct BoundaryTest {
    rule: Arc<dyn Boundary>,
    sizes: ChunkSizes,
    /// Where a chunk ends if nothing qualifies.
    forced: usize,
}

impl BoundaryTest {
    /// The test of the rule that `params` describe; `None` if it has none: AE, RAM and MinCDC
    /// compare bytes all over the chunk.
    pub fn new(params: &Params) -> Result<Option<Self>, ParamError> {
        secret::check(params)?;
        let Some(rule) = boundary(params)? else {
            return Ok(None);
        };
        let sizes = params.sizes;
        let content_defined = params.algorithm.is_content_defined();
        let forced = if content_defined { sizes.max() } else { sizes.avg() };
        Ok(Some(Self { rule, sizes, forced }))
    }

    /// Whether the chunk of `data`, which starts at a cut-point and may go on, may end at `cut`.
    ///
    /// A cut at max passes, since that needs nothing. A position from which the test would look
    /// beyond `data` does not, nor one outside the bounds of chunk lengths.
    pub fn accepts(&self, data: &[u8], cut: usize) -> bool {
        let reach = &data[..data.len().min(self.sizes.max())];
        if cut == self.forced {
            return cut <= data.len();
        }
        (self.sizes.min()..=reach.len()).contains(&cut) && self.rule.may_end(reach, cut)
    }
}

impl Chunker {
    /// The bytes behind a cut-point that it depends on.
    pub fn lookahead(&self) -> Lookahead {
        let params = self.params();
        if let Some(preset) = params.preset {
            return preset.lookahead(params);
        }
        match params.algorithm {
            Algorithm::Fixed
            | Algorithm::Rabin
            | Algorithm::Gear
            | Algorithm::FastCdc
            | Algorithm::AeMax
            | Algorithm::AeMin
            | Algorithm::Ram
            | Algorithm::Crc
            | Algorithm::Buzhash
            | Algorithm::Gear32
            | Algorithm::Gear16
            | Algorithm::Mii
            | Algorithm::Pci
            | Algorithm::Bfbc
            | Algorithm::GearAes => Lookahead::None,
            Algorithm::SeqInc | Algorithm::SeqDec => Lookahead::Bytes(1),
            Algorithm::Maxp => match Maxp::new(params).horizon() {
                0 => Lookahead::None,
                horizon => Lookahead::Bytes(horizon),
            },
            Algorithm::MinCdc | Algorithm::Tttd => Lookahead::ToMax,
        }
    }

    /// The bytes just before a position that alone tell whether it qualifies, wherever the chunk
    /// started, if no fewer than min; then the first that qualifies from min on is the cut-point.
    ///
    /// `None` for rules that look at more, take the place in the chunk into account, or prefer one
    /// qualifying position to another.
    pub fn window(&self) -> Option<usize> {
        let params = self.params();
        if let Some(preset) = params.preset {
            return preset.window();
        }
        match params.algorithm {
            Algorithm::Rabin | Algorithm::Crc | Algorithm::Buzhash => Some(params.window),
            Algorithm::Gear => Some(gear::WINDOW),
            Algorithm::Gear32 => Some(gear32::WINDOW),
            Algorithm::Gear16 => Some(2 * gear16::WINDOW),
            Algorithm::GearAes => Some(gear_aes::WINDOW),
            Algorithm::Mii => Some(Mii::new(params).window()),
            Algorithm::Pci => Some(Pci::new(params).window()),
            Algorithm::Bfbc => Some(2),
            Algorithm::Fixed
            | Algorithm::FastCdc
            | Algorithm::AeMax
            | Algorithm::AeMin
            | Algorithm::Ram
            | Algorithm::MinCdc
            | Algorithm::Tttd
            | Algorithm::Maxp
            | Algorithm::SeqInc
            | Algorithm::SeqDec => None,
        }
    }
}

fn boundary(params: &Params) -> Result<Option<Arc<dyn Boundary>>, ParamError> {
    if let Some(preset) = params.preset {
        return Ok(Some(preset.rule(params)?));
    }
    Ok(Some(match params.algorithm {
        Algorithm::AeMax | Algorithm::AeMin | Algorithm::Ram | Algorithm::MinCdc => {
            return Ok(None);
        }
        Algorithm::Fixed => Arc::new(Fixed::new(params)),
        Algorithm::Rabin => Arc::new(Rabin::new(params)?),
        Algorithm::Gear => Arc::new(Gear::new(params)),
        Algorithm::FastCdc => Arc::new(FastCdc::new(params)?),
        Algorithm::Crc => Arc::new(Crc::new(params)?),
        Algorithm::Buzhash => Arc::new(Buzhash::new(params)?),
        Algorithm::Gear32 => Arc::new(Gear32::new(params)),
        Algorithm::Gear16 => Arc::new(Gear16::new(params)),
        Algorithm::Tttd => Arc::new(Tttd::new(params)?),
        Algorithm::Maxp => Arc::new(Maxp::new(params)),
        Algorithm::Mii => Arc::new(Mii::new(params)),
        Algorithm::Pci => Arc::new(Pci::new(params)),
        Algorithm::Bfbc => Arc::new(Bfbc::new(params)),
        Algorithm::SeqInc => Arc::new(SeqCdc::<0x00>::new(params)),
        Algorithm::SeqDec => Arc::new(SeqCdc::<0xff>::new(params)),
        Algorithm::GearAes => Arc::new(GearAes::new(params)),
    }))
}

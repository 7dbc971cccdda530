use std::sync::Arc;

use crate::ae::Ae;
use crate::bfbc::Bfbc;
use crate::buzhash::Buzhash;
use crate::crc::Crc;
use crate::fastcdc::FastCdc;
use crate::fixed::Fixed;
use crate::gear::Gear;
use crate::gear_aes::GearAes;
use crate::gear16::Gear16;
use crate::gear32::Gear32;
use crate::maxp::Maxp;
use crate::mii::Mii;
use crate::mincdc::MinCdc;
use crate::pci::Pci;
use crate::rabin::Rabin;
use crate::ram::Ram;
use crate::seqcdc::SeqCdc;
use crate::tttd::Tttd;
use crate::{Algorithm, ParamError, Params};

/// Where a chunk that starts at the first byte of `data` ends. Called once a chunk.
pub(crate) trait Rule: Send + Sync {
    /// The cut-point, or `None` if the bytes after `data` may still decide it; then `data` is
    /// shorter than max.
    fn next_cut(&self, data: &[u8]) -> Option<usize>;

    /// The cut-point if nothing follows `data`, which is not empty.
    fn last_cut(&self, data: &[u8]) -> usize {
        self.next_cut(data).unwrap_or(data.len())
    }
}

/// The scalar reference of the rule that `params` describe.
pub(crate) fn scalar(params: &Params) -> Result<Arc<dyn Rule>, ParamError> {
    if let Some(preset) = params.preset {
        return Ok(preset.rule(params)?);
    }
    Ok(match params.algorithm {
        Algorithm::Fixed => Arc::new(Fixed::new(params)),
        Algorithm::Rabin => Arc::new(Rabin::new(params)?),
        Algorithm::Gear => Arc::new(Gear::new(params)),
        Algorithm::FastCdc => Arc::new(FastCdc::new(params)?),
        Algorithm::AeMax => Arc::new(Ae::<0x00>::new(params)),
        Algorithm::AeMin => Arc::new(Ae::<0xff>::new(params)),
        Algorithm::Ram => Arc::new(Ram::new(params)),
        Algorithm::MinCdc => Arc::new(MinCdc::new(params)?),
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
    })
}

//! Vector kernels: each algorithm once over [`ByteVector`], compiled for each instruction set.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512_vbmi;
pub(crate) mod clear;
pub(crate) mod extremum;
pub(crate) mod gear;
pub(crate) mod interleaved;
pub(crate) mod minimum;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod pairs;
pub(crate) mod scan;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sse;
pub(crate) mod vector;

use std::sync::Arc;

use crate::ae::Ae;
use crate::bfbc::Bfbc;
use crate::buzhash::Buzhash;
use crate::crc::Crc;
use crate::gear16::Gear16;
use crate::maxp::Maxp;
use crate::mii::Mii;
use crate::mincdc::MinCdc;
use crate::pci::Pci;
use crate::preset::{Borg, Casync, Restic};
use crate::rabin::Rabin;
use crate::ram::Ram;
#[cfg(target_arch = "x86_64")]
use crate::rolling::LinearRule;
use crate::rolling::{Search, WindowRule};
use crate::rule::{self, Rule};
use crate::seqcdc::SeqCdc;
use crate::tttd::Tttd;
use crate::{Algorithm, Kernel, ParamError, Params, Preset};
#[cfg(target_arch = "x86_64")]
use avx512_vbmi::{Avx512Vbmi, Filter};
use interleaved::{Interleaved, LONG, SHORT};
#[cfg(target_arch = "x86_64")]
use sse::{Sse, Sse41, Ssse3};
use vector::{ByteVector, Task};

/// The rule that `params` describe on a kernel that [`Kernel::usable`] lists for it.
pub(crate) fn rule(params: &Params, kernel: Kernel) -> Result<Arc<dyn Rule>, ParamError> {
    match kernel {
        Kernel::Auto | Kernel::Scalar => rule::scalar(params),
        Kernel::Interleaved => interleaved(params),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512Vbmi => linear(params, Avx512Vbmi::new().expect(DETECTED)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Ssse3 => on(params, Sse::<Ssse3>::new().expect(DETECTED)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Sse41 => on(params, Sse::<Sse41>::new().expect(DETECTED)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => on(params, avx2::Avx2::new().expect(DETECTED)),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => on(params, avx512::Avx512::new().expect(DETECTED)),
        #[cfg(target_arch = "aarch64")]
        Kernel::Neon => on(params, neon::Neon::new().expect(DETECTED)),
        foreign => unreachable!("{foreign} is a kernel of another architecture"),
    }
}

const DETECTED: &str = "usable kernels are those that this CPU has";

/// Whether this CPU has what `kernel` needs.
pub(crate) fn detected(kernel: Kernel) -> bool {
    match kernel {
        Kernel::Auto | Kernel::Scalar | Kernel::Interleaved => true,
        #[cfg(target_arch = "x86_64")]
        Kernel::Ssse3 => Sse::<Ssse3>::new().is_some(),
        #[cfg(target_arch = "x86_64")]
        Kernel::Sse41 => Sse::<Sse41>::new().is_some(),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => avx2::Avx2::new().is_some(),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => avx512::Avx512::new().is_some(),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512Vbmi => Avx512Vbmi::new().is_some(),
        #[cfg(target_arch = "aarch64")]
        Kernel::Neon => neon::Neon::new().is_some(),
        _ => false,
    }
}

/// The rule that `params` describe on the instruction set of `isa`.
fn on<I: ByteVector>(params: &Params, isa: I) -> Result<Arc<dyn Rule>, ParamError> {
    Ok(match params.algorithm {
        Algorithm::AeMax => Arc::new(OnVectors { rule: Ae::<0x00>::new(params), isa }),
        Algorithm::AeMin => Arc::new(OnVectors { rule: Ae::<0xff>::new(params), isa }),
        Algorithm::Ram => Arc::new(OnVectors { rule: Ram::new(params), isa }),
        Algorithm::Gear16 => Arc::new(OnVectors { rule: Gear16::new(params), isa }),
        Algorithm::Maxp => Arc::new(OnVectors { rule: Maxp::new(params), isa }),
        Algorithm::SeqInc => Arc::new(OnVectors { rule: SeqCdc::<0x00>::new(params), isa }),
        Algorithm::SeqDec => Arc::new(OnVectors { rule: SeqCdc::<0xff>::new(params), isa }),
        Algorithm::Mii => Arc::new(OnVectors { rule: Mii::new(params), isa }),
        Algorithm::Pci => Arc::new(OnVectors { rule: Pci::new(params), isa }),
        Algorithm::Bfbc => Arc::new(OnVectors { rule: Bfbc::new(params), isa }),
        Algorithm::MinCdc => Arc::new(OnVectors { rule: MinCdc::new(params)?, isa }),
        scalar => unreachable!("no vector kernel of {scalar} is usable"),
    })
}

/// The rule that `params` describe, at several places at once.
fn interleaved(params: &Params) -> Result<Arc<dyn Rule>, ParamError> {
    fn at_once<R: WindowRule + 'static>(rule: R) -> Arc<dyn Rule> {
        Arc::new(Searched { rule, search: Interleaved::<SHORT> })
    }
    if let Some(preset) = params.preset {
        preset.check(params)?;
        return Ok(match preset {
            Preset::Restic => at_once(Restic::new(params)?),
            Preset::Borg if params.window <= SHORT => at_once(Borg::new(params)?),
            Preset::Borg => {
                Arc::new(Searched { rule: Borg::new(params)?, search: Interleaved::<LONG> })
            }
            Preset::Casync => at_once(Casync::as_casync(params)?),
            Preset::Desync => at_once(Casync::as_desync(params)?),
            other => unreachable!("no interleaved kernel of {other} is usable"),
        });
    }
    Ok(match params.algorithm {
        Algorithm::Rabin => at_once(Rabin::new(params)?),
        Algorithm::Tttd => at_once(Tttd::new(params)?),
        Algorithm::Crc => at_once(Crc::new(params)?),
        Algorithm::Buzhash => at_once(Buzhash::new(params)?),
        other => unreachable!("no interleaved kernel of {other} is usable"),
    })
}

/// The rule that `params` describe, as matrices of bits.
#[cfg(target_arch = "x86_64")]
fn linear(params: &Params, isa: Avx512Vbmi) -> Result<Arc<dyn Rule>, ParamError> {
    fn filtered<R: LinearRule + 'static>(rule: R, isa: Avx512Vbmi) -> Arc<dyn Rule> {
        let search = Filter::new(&rule, isa);
        Arc::new(Searched { rule, search })
    }
    if let Some(preset) = params.preset {
        preset.check(params)?;
        return Ok(filtered(Restic::new(params)?, isa));
    }
    Ok(match params.algorithm {
        Algorithm::Rabin => filtered(Rabin::new(params)?, isa),
        Algorithm::Tttd => filtered(Tttd::new(params)?, isa),
        Algorithm::Crc => filtered(Crc::new(params)?, isa),
        other => unreachable!("no linear kernel of {other} is usable"),
    })
}

/// A rule with a way to its candidates.
struct Searched<R, S> {
    rule: R,
    search: S,
}

impl<R: WindowRule, S: Search<R>> Rule for Searched<R, S> {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.rule.next_cut_by(&self.search, data)
    }
}

/// A rule with a second way to its cut-points: vectors. See [`Rule`] for what they promise.
pub(crate) trait VectorRule: Send + Sync {
    /// Always inlined, so that it becomes code for the instruction set of `isa`.
    fn next_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> Option<usize>;

    /// Always inlined, like the other.
    #[inline(always)]
    fn last_cut_on<I: ByteVector>(&self, isa: I, data: &[u8]) -> usize {
        self.next_cut_on(isa, data).unwrap_or(data.len())
    }
}

struct OnVectors<R, I> {
    rule: R,
    isa: I,
}

impl<R: VectorRule, I: ByteVector> Rule for OnVectors<R, I> {
    fn next_cut(&self, data: &[u8]) -> Option<usize> {
        self.isa.run(NextCut { rule: &self.rule, data })
    }

    fn last_cut(&self, data: &[u8]) -> usize {
        self.isa.run(LastCut { rule: &self.rule, data })
    }
}

struct NextCut<'a, R> {
    rule: &'a R,
    data: &'a [u8],
}

impl<R: VectorRule> Task for NextCut<'_, R> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<I: ByteVector>(self, isa: I) -> Option<usize> {
        self.rule.next_cut_on(isa, self.data)
    }
}

struct LastCut<'a, R> {
    rule: &'a R,
    data: &'a [u8],
}

impl<R: VectorRule> Task for LastCut<'_, R> {
    type Output = usize;

    #[inline(always)]
    fn run<I: ByteVector>(self, isa: I) -> usize {
        self.rule.last_cut_on(isa, self.data)
    }
}

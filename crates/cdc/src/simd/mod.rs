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

use std::sync::{Arc, OnceLock};

use crate::descriptor::FromParams;
use crate::rolling::{LinearRule, Rolling, Search, WindowRule};
use crate::rule::Rule;
use crate::{Kernel, ParamError, Params};
#[cfg(target_arch = "x86_64")]
use avx512_vbmi::{Avx512Vbmi, Filter};
use interleaved::{Interleaved, LONG, SHORT};
#[cfg(target_arch = "x86_64")]
use sse::{Sse, Sse41, Ssse3};
use vector::{ByteVector, Task};

type MakeOn = fn(&Params, Kernel) -> Result<Arc<dyn Rule>, ParamError>;

/// The kernels that are written for a rule on this architecture, and the rule on each of them.
pub(crate) struct Kernels {
    /// Fastest first, whether or not this CPU can run them.
    pub(crate) written: &'static [Kernel],
    usable: OnceLock<Vec<Kernel>>,
    /// Makes the rule on a [usable](Self::usable) one.
    pub(crate) rule: MakeOn,
}

impl Kernels {
    /// The definition alone.
    pub(crate) const fn scalar<R: Rule + FromParams>() -> Self {
        Self::new(&[Kernel::Scalar], |params, _| Ok(Arc::new(R::from_params(params)?)))
    }

    /// All vectors of this architecture.
    pub(crate) const fn vectors<R: VectorRule + FromParams>() -> Self {
        const WRITTEN: &[Kernel] = if cfg!(target_arch = "x86_64") {
            &[Kernel::Avx512, Kernel::Avx2, Kernel::Sse41, Kernel::Ssse3, Kernel::Scalar]
        } else if cfg!(target_arch = "aarch64") {
            &[Kernel::Neon, Kernel::Scalar]
        } else {
            &[Kernel::Scalar]
        };
        Self::new(WRITTEN, on_vectors::<R>)
    }

    /// For hashes of a window.
    pub(crate) const fn interleaved<R: WindowRule + FromParams>() -> Self {
        Self::new(&[Kernel::Interleaved, Kernel::Scalar], interleaved::<R>)
    }

    /// For hashes that are linear in the bits of the window.
    pub(crate) const fn linear<R: LinearRule + FromParams>() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self::new(&[Kernel::Avx512Vbmi, Kernel::Interleaved, Kernel::Scalar], linear::<R>);
        #[cfg(not(target_arch = "x86_64"))]
        Self::interleaved::<R>()
    }

    const fn new(written: &'static [Kernel], rule: MakeOn) -> Self {
        Self { written, usable: OnceLock::new(), rule }
    }

    /// Those that this CPU can run, fastest first.
    pub(crate) fn usable(&self) -> &[Kernel] {
        let on_this_cpu = |&kernel: &Kernel| detected(kernel);
        self.usable.get_or_init(|| self.written.iter().copied().filter(on_this_cpu).collect())
    }
}

fn on_vectors<R: VectorRule + FromParams>(
    params: &Params,
    kernel: Kernel,
) -> Result<Arc<dyn Rule>, ParamError> {
    let rule = R::from_params(params)?;
    Ok(match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Ssse3 => on(rule, Sse::<Ssse3>::new()),
        #[cfg(target_arch = "x86_64")]
        Kernel::Sse41 => on(rule, Sse::<Sse41>::new()),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => on(rule, avx2::Avx2::new()),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => on(rule, avx512::Avx512::new()),
        #[cfg(target_arch = "aarch64")]
        Kernel::Neon => on(rule, neon::Neon::new()),
        Kernel::Scalar => Arc::new(rule),
        other => unreachable!("{other} is not among the kernels of this rule"),
    })
}

/// The rule on the instruction set of `isa`, which this CPU has.
fn on<R, I>(rule: R, isa: Option<I>) -> Arc<dyn Rule>
where
    R: VectorRule + 'static,
    I: ByteVector + 'static,
{
    Arc::new(OnVectors { rule, isa: isa.expect(DETECTED) })
}

const DETECTED: &str = "usable kernels are those that this CPU has";

/// At several places at once, which a long window keeps further apart.
fn interleaved<R: WindowRule + FromParams>(
    params: &Params,
    kernel: Kernel,
) -> Result<Arc<dyn Rule>, ParamError> {
    let rule = R::from_params(params)?;
    Ok(match kernel {
        Kernel::Interleaved if rule.hash().window() <= SHORT => {
            Arc::new(Searched { rule, search: Interleaved::<SHORT> })
        }
        Kernel::Interleaved => Arc::new(Searched { rule, search: Interleaved::<LONG> }),
        Kernel::Scalar => Arc::new(rule),
        other => unreachable!("{other} is not among the kernels of this rule"),
    })
}

/// As matrices of bits.
#[cfg(target_arch = "x86_64")]
fn linear<R: LinearRule + FromParams>(
    params: &Params,
    kernel: Kernel,
) -> Result<Arc<dyn Rule>, ParamError> {
    if kernel != Kernel::Avx512Vbmi {
        return interleaved::<R>(params, kernel);
    }
    let rule = R::from_params(params)?;
    let search = Filter::new(&rule, Avx512Vbmi::new().expect(DETECTED));
    Ok(Arc::new(Searched { rule, search }))
}

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
pub(crate) trait VectorRule: Rule {
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

    fn jumped(&self, reach: &[u8]) -> usize {
        self.rule.jumped(reach)
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

use std::fmt;
use std::str::FromStr;

use crate::{Algorithm, ParamError};

/// A way to find cut-points. All kernels find the same ones; they differ in speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// The fastest as measured among those that run here.
    Auto,
    /// The portable code that defines the cut-points.
    Scalar,
    /// Portable code that rolls a hash at several places at once.
    Interleaved,
    /// x86 vectors of 16 bytes: SSSE3 (2006 and later).
    Ssse3,
    /// x86 vectors of 16 bytes: SSE4.1 (2008 and later), and SSSE3 with it.
    Sse41,
    /// x86 vectors of 32 bytes: AVX2, and the bit instructions that came with it (2013 and later).
    Avx2,
    /// x86 vectors of 64 bytes: AVX-512 F and BW, and what AVX2 needs.
    Avx512,
    /// What AVX-512 needs, and the instructions for bytes and bits that came later: AVX-512 VBMI
    /// and GFNI (2019 and later).
    Avx512Vbmi,
    /// Arm vectors of 16 bytes: NEON, which every 64-bit Arm has.
    Neon,
}

impl Kernel {
    /// Every kernel that can be asked for.
    pub const ALL: &[Self] = &[
        Self::Auto,
        Self::Scalar,
        Self::Interleaved,
        Self::Ssse3,
        Self::Sse41,
        Self::Avx2,
        Self::Avx512,
        Self::Avx512Vbmi,
        Self::Neon,
    ];

    /// The name users write; [`FromStr`] reads it back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Scalar => "scalar",
            Self::Interleaved => "interleaved",
            Self::Ssse3 => "ssse3",
            Self::Sse41 => "sse4.1",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Vbmi => "avx512-vbmi",
            Self::Neon => "neon",
        }
    }

    /// The kernels that run `algorithm` on this CPU, fastest first; never [`Auto`](Self::Auto).
    pub fn usable(algorithm: Algorithm) -> &'static [Self] {
        algorithm.descriptor().kernels.usable()
    }

    /// The kernels that are written for `algorithm` on this architecture, fastest first, whether
    /// or not this CPU can run them.
    ///
    /// As measured with `examples/speed.rs` at a mean of 8 KiB, from memory, on one core of an AMD
    /// Zen 5. AE and RAM are as fast as memory there whatever the vectors; for the rest, twice as
    /// wide is 1.2 to 1.9 times as fast. The work of [`Avx512Vbmi`](Self::Avx512Vbmi) grows with
    /// the window: at the usual 48 bytes it takes half the time of
    /// [`Interleaved`](Self::Interleaved), which may be the faster from twice as many on.
    pub fn written(algorithm: Algorithm) -> &'static [Self] {
        algorithm.descriptor().kernels.written
    }

    /// The kernel that will run among those `usable` for the algorithm or preset called `name`: the
    /// one demanded, or the fastest if the choice is ours.
    pub(crate) fn choose(
        self,
        usable: &'static [Self],
        name: &'static str,
    ) -> Result<Self, ParamError> {
        let chosen = match self {
            Self::Auto => usable.first(),
            demanded => usable.iter().find(|&&kernel| kernel == demanded),
        };
        chosen.copied().ok_or(ParamError::KernelUnusable { kernel: self, name, usable })
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Self::ALL
            .iter()
            .copied()
            .find(|kernel| kernel.name() == name)
            .ok_or_else(|| ParamError::UnknownKernel { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_becomes_the_first_usable_kernel() {
        for &algorithm in Algorithm::ALL {
            let usable = Kernel::usable(algorithm);
            assert!(!usable.contains(&Kernel::Auto));
            assert!(usable.contains(&Kernel::Scalar));
            assert_eq!(Kernel::Auto.choose(usable, algorithm.name()), Ok(usable[0]));
        }
    }

    #[test]
    fn a_demanded_kernel_runs_or_is_refused() {
        let gear = Algorithm::Gear.name();
        assert_eq!(Kernel::Scalar.choose(&[Kernel::Scalar], gear), Ok(Kernel::Scalar));
        let refusal = Kernel::Scalar.choose(&[Kernel::Auto], gear).unwrap_err();
        assert_eq!(refusal.to_string(), "kernel 'scalar' cannot run gear here, usable: auto");
    }

    #[test]
    fn names_lead_back() {
        for &kernel in Kernel::ALL {
            assert_eq!(kernel.to_string().parse(), Ok(kernel));
        }
        let message = "mmx".parse::<Kernel>().unwrap_err().to_string();
        assert_eq!(
            message,
            "unknown kernel 'mmx', expected one of auto, scalar, interleaved, ssse3, sse4.1, avx2, \
             avx512, avx512-vbmi, neon"
        );
    }
}

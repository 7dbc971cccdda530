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
}

impl Kernel {
    /// Every kernel that can be asked for.
    pub const ALL: &[Self] = &[Self::Auto, Self::Scalar];

    /// The name users write; [`FromStr`] reads it back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Scalar => "scalar",
        }
    }

    /// The kernels that run `algorithm` on this CPU, fastest first; never [`Auto`](Self::Auto).
    pub fn usable(_algorithm: Algorithm) -> &'static [Self] {
        &[Self::Scalar]
    }

    /// The kernel that will run: the one demanded, or the fastest if the choice is ours.
    pub(crate) fn choose(self, algorithm: Algorithm) -> Result<Self, ParamError> {
        self.choose_among(Self::usable(algorithm), algorithm)
    }

    fn choose_among(
        self,
        usable: &'static [Self],
        algorithm: Algorithm,
    ) -> Result<Self, ParamError> {
        let chosen = match self {
            Self::Auto => usable.first(),
            demanded => usable.iter().find(|&&kernel| kernel == demanded),
        };
        chosen.copied().ok_or(ParamError::KernelUnusable { kernel: self, algorithm, usable })
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
            assert_eq!(Kernel::Auto.choose(algorithm), Ok(usable[0]));
        }
    }

    #[test]
    fn a_demanded_kernel_runs_or_is_refused() {
        let gear = Algorithm::Gear;
        assert_eq!(Kernel::Scalar.choose_among(&[Kernel::Scalar], gear), Ok(Kernel::Scalar));
        let refusal = Kernel::Scalar.choose_among(&[Kernel::Auto], gear).unwrap_err();
        assert_eq!(refusal.to_string(), "kernel 'scalar' cannot run gear here, usable: auto");
    }

    #[test]
    fn names_lead_back() {
        for &kernel in Kernel::ALL {
            assert_eq!(kernel.to_string().parse(), Ok(kernel));
        }
        let message = "mmx".parse::<Kernel>().unwrap_err().to_string();
        assert_eq!(message, "unknown kernel 'mmx', expected one of auto, scalar");
    }
}

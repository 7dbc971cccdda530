use std::fmt;
use std::str::FromStr;

use crate::descriptor::Descriptor;
use crate::{Algorithm, Kernel, ParamError, Parameter, Params, Preset};

/// Whatever cuts by a name of its own: an algorithm of this crate, or the form that another tool has
/// of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// An algorithm as this crate defines it.
    Own(Algorithm),
    /// A tool whose cut-points are wanted exactly.
    Tool(Preset),
}

impl Scheme {
    /// Every algorithm, then every preset.
    pub fn all() -> impl Iterator<Item = Self> {
        let tools = Preset::ALL.iter().copied().map(Self::Tool);
        Algorithm::ALL.iter().copied().map(Self::Own).chain(tools)
    }

    /// What `params` are of.
    pub const fn of(params: &Params) -> Self {
        match params.preset {
            None => Self::Own(params.algorithm),
            Some(preset) => Self::Tool(preset),
        }
    }

    pub(crate) fn descriptor(self) -> &'static Descriptor {
        match self {
            Self::Own(algorithm) => algorithm.descriptor(),
            Self::Tool(preset) => preset.descriptor(),
        }
    }

    /// The name users write; [`FromStr`] reads it back.
    pub fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// What it does, in one line for a terminal.
    pub fn summary(self) -> &'static str {
        self.descriptor().summary
    }

    /// Whether `parameter` changes where chunks end; otherwise it is ignored or refused.
    pub fn takes(self, parameter: Parameter) -> bool {
        self.descriptor().takes.contains(&parameter)
    }

    /// The parameters that suit it at a mean of `avg` bytes: [`Params::for_mean`], or the tool's own
    /// in proportion. A chunker need not take them, see [`nearest_avg`](Self::nearest_avg).
    pub fn params_for_mean(self, avg: usize) -> Result<Params, ParamError> {
        match self {
            Self::Own(algorithm) => Params::for_mean(algorithm, avg),
            Self::Tool(preset) => preset.params_for_mean(avg),
        }
    }

    /// The average next to `avg` that it can have, as far as only some numbers will do: powers of
    /// two, or even ones.
    pub const fn nearest_avg(self, avg: usize) -> usize {
        match self {
            Self::Own(_) => avg,
            Self::Tool(preset) => preset.nearest_avg(avg),
        }
    }

    /// The kernels that run it on this CPU, fastest first; never [`Auto`](Kernel::Auto).
    pub fn kernels(self) -> &'static [Kernel] {
        self.descriptor().kernels.usable()
    }

    /// The kernels that are written for it on this architecture, fastest first.
    pub fn written_kernels(self) -> &'static [Kernel] {
        self.descriptor().kernels.written
    }
}

impl From<Algorithm> for Scheme {
    fn from(algorithm: Algorithm) -> Self {
        Self::Own(algorithm)
    }
}

impl From<Preset> for Scheme {
    fn from(preset: Preset) -> Self {
        Self::Tool(preset)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        name.parse().map(Self::Tool).or_else(|_| name.parse().map(Self::Own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chunker;

    #[test]
    fn names_lead_back_and_are_all_different() {
        for scheme in Scheme::all() {
            assert_eq!(scheme.name().parse(), Ok(scheme));
            assert!(!scheme.summary().contains('\n'), "{scheme}");
        }
        assert!("Restic".parse::<Scheme>().unwrap_err().to_string().contains("'Restic'"));
    }

    #[test]
    fn a_preset_takes_its_sizes_in_proportion_at_the_nearest_average() {
        for &preset in Preset::ALL {
            let (own, scheme) = (preset.params(), Scheme::Tool(preset));
            assert_eq!(scheme.params_for_mean(own.sizes.avg()), Ok(own), "{preset}");
            for avg in [4096, 5001, 8191, 12_000, 65_536, 1 << 20] {
                let nearest = scheme.nearest_avg(avg);
                assert!(nearest <= 2 * avg && avg <= 2 * nearest, "{preset}: {nearest} for {avg}");
                let params = scheme.params_for_mean(nearest).unwrap();
                assert_eq!(params.sizes.avg(), nearest);
                assert_eq!(Scheme::of(&params), scheme);
                Chunker::new(&params).unwrap_or_else(|error| panic!("{preset} {avg}: {error}"));
            }
            assert!(
                scheme.params_for_mean(usize::MAX).is_err() && scheme.params_for_mean(0).is_err()
            );
        }
    }
}

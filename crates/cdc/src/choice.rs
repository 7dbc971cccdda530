use crate::{Algorithm, ChunkSizes, MAX_CHUNK, ParamError, Parameter, Params, Scheme, Secret};

/// What a user chooses of [`Params`]. What is left out is as suits the scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The shortest chunk but for the last, in bytes.
    pub min: Option<usize>,
    /// The mean that is aimed at, in bytes.
    pub avg: Option<usize>,
    /// The longest chunk, in bytes.
    pub max: Option<usize>,
    /// See [`Params::window`].
    pub window: Option<usize>,
    /// See [`Params::level`].
    pub level: Option<u8>,
    /// See [`Params::seed`].
    pub seed: Option<u64>,
    /// See [`Params::secret`].
    pub secret: Option<Secret>,
}

impl Scheme {
    /// The mean in bytes of an algorithm of this crate if the user chooses none: 16 KiB.
    pub const DEFAULT_AVG: usize = 16 << 10;

    /// The parameters that `choice` describes, with sizes by [`sizes`](Self::sizes).
    ///
    /// # Errors
    /// [`ParamError::NotTaken`] if a window, level or seed is chosen that would change nothing, and
    /// what [`sizes`](Self::sizes) returns. What the rule itself refuses,
    /// [`Chunker::new`](crate::Chunker::new) returns.
    pub fn params(self, choice: &Choice) -> Result<Params, ParamError> {
        // With a secret the seed picks among the numbers that follow from it.
        let is_keyed = choice.secret.is_some() && self.takes(Parameter::Secret);
        for (is_chosen, parameter) in [
            (choice.window.is_some(), Parameter::Window),
            (choice.level.is_some(), Parameter::Level),
            (choice.seed.is_some() && !is_keyed, Parameter::Seed),
        ] {
            if is_chosen && !self.takes(parameter) {
                return Err(ParamError::NotTaken { scheme: self, parameter });
            }
        }
        let sizes = self.sizes(choice.min, choice.avg, choice.max)?;
        let own = match self {
            Self::Own(algorithm) => Params::new(algorithm, sizes),
            Self::Tool(preset) => preset.params(),
        };
        Ok(Params {
            sizes,
            window: choice.window.unwrap_or(own.window),
            level: choice.level.unwrap_or(own.level),
            seed: choice.seed.unwrap_or(own.seed),
            secret: choice.secret,
            ..own
        })
    }

    /// The sizes of which some are chosen. The mean is [`DEFAULT_AVG`](Self::DEFAULT_AVG) or the
    /// tool's own; a bound that is left out is the one that suits the scheme at that mean.
    ///
    /// The mean of MinCDC is the middle between its bounds, so two sizes give the third.
    ///
    /// # Errors
    /// As of [`ChunkSizes::new`].
    pub fn sizes(
        self,
        min: Option<usize>,
        avg: Option<usize>,
        max: Option<usize>,
    ) -> Result<ChunkSizes, ParamError> {
        let own = match self {
            Self::Own(Algorithm::MinCdc) => return self.even_sizes(min, avg, max),
            Self::Own(_) => Self::DEFAULT_AVG,
            Self::Tool(preset) => preset.params().sizes.avg(),
        };
        self.suited_sizes(min, avg.unwrap_or(own), max)
    }

    /// Sizes whose mean is the middle between the bounds.
    fn even_sizes(
        self,
        min: Option<usize>,
        avg: Option<usize>,
        max: Option<usize>,
    ) -> Result<ChunkSizes, ParamError> {
        let avg = match (min, avg, max) {
            (Some(min), None, Some(max)) => min.midpoint(max),
            (_, avg, _) => avg.unwrap_or(Self::DEFAULT_AVG),
        };
        let opposite = |bound: usize| avg.saturating_mul(2).saturating_sub(bound);
        // A bound on the wrong side of the mean is refused as it was given.
        let least = min.or(max.map(|max| opposite(max).clamp(1, avg.max(1))));
        let most = max.or(min.map(|min| opposite(min).max(avg)));
        self.suited_sizes(least, avg, most)
    }

    fn suited_sizes(
        self,
        min: Option<usize>,
        avg: usize,
        max: Option<usize>,
    ) -> Result<ChunkSizes, ParamError> {
        if let (Some(min), Some(max)) = (min, max) {
            return ChunkSizes::new(min, avg, max);
        }
        // told by the size that was chosen, not by one that would suit it
        if avg > MAX_CHUNK {
            return Err(ParamError::AvgTooLarge { avg });
        }
        let suited = self.params_for_mean(avg)?.sizes;
        ChunkSizes::new(min.unwrap_or(suited.min()), avg, max.unwrap_or(suited.max()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunker, Preset};

    #[test]
    fn choosing_nothing_gives_what_suits_every_scheme() {
        for scheme in Scheme::all() {
            let params = scheme.params(&Choice::default()).unwrap();
            assert_eq!(Scheme::of(&params), scheme);
            Chunker::new(&params).unwrap_or_else(|error| panic!("{scheme}: {error}"));
            match scheme {
                Scheme::Tool(preset) => assert_eq!(params, preset.params()),
                Scheme::Own(algorithm) => {
                    assert_eq!(Ok(params), Params::for_mean(algorithm, Scheme::DEFAULT_AVG));
                }
            }
        }
    }

    #[test]
    fn what_would_change_nothing_is_refused_and_what_counts_is_taken() {
        let choice = Choice { seed: Some(7), ..Choice::default() };
        let casync = Scheme::Tool(Preset::Casync);
        let message = casync.params(&choice).unwrap_err().to_string();
        assert!(message.starts_with("casync takes no seed, expected one of "), "{message}");
        let gear = Scheme::Own(Algorithm::Gear);
        assert_eq!(gear.params(&choice).unwrap().seed, 7);
        let leveled = Choice { level: Some(1), ..Choice::default() };
        assert!(gear.params(&leveled).is_err());
        assert_eq!(Scheme::Own(Algorithm::FastCdc).params(&leveled).unwrap().level, 1);
        let crc = Scheme::Own(Algorithm::Crc);
        assert!(crc.params(&choice).is_err());
        let keyed = Choice { secret: Some(Secret::new([1; 32])), ..choice };
        assert_eq!(crc.params(&keyed).unwrap().seed, 7);
        let windowed = Choice { window: Some(63), ..Choice::default() };
        assert_eq!(Scheme::Tool(Preset::Borg).params(&windowed).unwrap().window, 63);
    }
}

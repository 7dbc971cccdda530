use std::fmt;

use crate::descriptor::Descriptor;
use crate::{Algorithm, Divisors, ParamError, Preset, Scheme, Secret};

/// The largest chunk that any parameters allow: 64 MiB.
pub const MAX_CHUNK: usize = 64 << 20;

/// The longest window of a rolling hash.
const MAX_WINDOW: usize = 256;

/// Bounds and mean of chunk lengths in bytes: 1 ≤ min ≤ avg ≤ max ≤ [`MAX_CHUNK`], or no max.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkSizes {
    min: usize,
    avg: usize,
    max: usize,
}

impl ChunkSizes {
    /// Sizes in bytes; refused unless 1 ≤ `min` ≤ `avg` ≤ `max` ≤ [`MAX_CHUNK`].
    pub const fn new(min: usize, avg: usize, max: usize) -> Result<Self, ParamError> {
        if min == 0 {
            return Err(ParamError::ZeroMin);
        }
        if avg < min {
            return Err(ParamError::AvgBelowMin { min, avg });
        }
        if max < avg {
            return Err(ParamError::MaxBelowAvg { avg, max });
        }
        if max > MAX_CHUNK {
            return Err(ParamError::MaxTooLarge { max });
        }
        Ok(Self { min, avg, max })
    }

    /// Sizes without a maximum, for research: chunks as long as the rule has them. A `min` of 1 is
    /// no minimum. Refused unless 1 ≤ `min` ≤ `avg` ≤ [`MAX_CHUNK`].
    ///
    /// [`Cuts`](crate::Cuts) takes them; a [`Stream`](crate::Stream), which holds its chunks, does
    /// not, nor does a repository.
    pub const fn unbounded(min: usize, avg: usize) -> Result<Self, ParamError> {
        if min == 0 {
            return Err(ParamError::ZeroMin);
        }
        if avg < min {
            return Err(ParamError::AvgBelowMin { min, avg });
        }
        if avg > MAX_CHUNK {
            return Err(ParamError::AvgTooLarge { avg });
        }
        Ok(Self { min, avg, max: usize::MAX })
    }

    /// Whether there is a maximum, as everything that holds whole chunks needs.
    pub const fn is_bounded(self) -> bool {
        self.max <= MAX_CHUNK
    }

    /// From a quarter of `avg`, but at least one byte, to four times `avg`.
    pub fn around(avg: usize) -> Result<Self, ParamError> {
        Self::new((avg / 4).max(1), avg, avg.saturating_mul(4))
    }

    /// The shortest chunk but for the last.
    pub const fn min(self) -> usize {
        self.min
    }

    /// The mean that parameters aim at on random data.
    pub const fn avg(self) -> usize {
        self.avg
    }

    /// The longest chunk; `usize::MAX` if sizes are unbounded.
    pub const fn max(self) -> usize {
        self.max
    }

    /// Candidates from min to the mean, both counted. A cut-point that each position from min on
    /// accepts with one chance in so many lies at avg in the mean.
    pub(crate) const fn spread(self) -> usize {
        self.avg - self.min + 1
    }

    /// As much of `data` as the next chunk can cover; `None` if that is less than min.
    pub(crate) fn reach(self, data: &[u8]) -> Option<&[u8]> {
        (data.len() >= self.min).then(|| &data[..data.len().min(self.max)])
    }

    /// The cut-point where nothing in `reach` qualified: max, once so much is there.
    pub(crate) fn forced(self, reach: &[u8]) -> Option<usize> {
        (reach.len() == self.max).then_some(self.max)
    }
}

/// A field of [`Params`] that some rules have no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parameter {
    /// [`Params::window`].
    Window,
    /// [`Params::level`].
    Level,
    /// [`Params::seed`], without a secret.
    Seed,
    /// [`Params::secret`].
    Secret,
}

impl fmt::Display for Parameter {
    /// The name of the field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Window => "window",
            Self::Level => "level",
            Self::Seed => "seed",
            Self::Secret => "secret",
        })
    }
}

/// Everything that cut-points depend on besides the bytes.
///
/// Equal parameters give equal cut-points in every version and on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The rule.
    pub algorithm: Algorithm,
    /// Bounds and mean of the chunk lengths.
    pub sizes: ChunkSizes,
    /// Bytes in the window of Rabin, TTTD, CRC and Buzhash, 1 to 256; other algorithms ignore it. A
    /// preset has a window of its own, or a range of its own.
    ///
    /// With min no shorter than the window, whether a position may end a chunk depends on the
    /// window alone.
    pub window: usize,
    /// FastCDC's normalisation level, 0 (none) to 3; other algorithms ignore it.
    pub level: u8,
    /// Picks the hash: the table of the Gears, FastCDC and Buzhash, the polynomial of Rabin and
    /// TTTD, the divisors of BFBC if none are given, table and key of gear-aes. The other
    /// algorithms have nothing to pick, ignore it and cut alike for everyone.
    pub seed: u64,
    /// The pairs of bytes that BFBC cuts at; other algorithms ignore them. With `None` the seed
    /// draws as many as cut random data at avg, which is no training.
    pub divisors: Option<Divisors>,
    /// Picks the hash together with the seed, that of CRC and MinCDC too, so that who does not know
    /// it has to find out where chunks end. Refused where there is [nothing to key](Algorithm::takes_secret), by given
    /// divisors and by presets. What this protects is in `docs/keyed-chunking.md`, and is little
    /// but with [`Algorithm::GearAes`].
    pub secret: Option<Secret>,
    /// The tool whose form of the algorithm this is; `None` for this crate's own. What the fields
    /// before mean to it is said there.
    pub preset: Option<Preset>,
}

impl Params {
    /// `sizes` with a window of 48 bytes, level 2, seed 0, no divisors, no secret
    /// and no preset.
    pub const fn new(algorithm: Algorithm, sizes: ChunkSizes) -> Self {
        Self {
            algorithm,
            sizes,
            window: 48,
            level: 2,
            seed: 0,
            divisors: None,
            secret: None,
            preset: None,
        }
    }

    /// Bounds that suit `algorithm` at a mean of `avg` bytes.
    ///
    /// Fixed knows only `avg`; MinCDC spreads evenly over half of `avg` on either side; SeqCDC gets
    /// half and twice of `avg`; the rest get [`ChunkSizes::around`].
    pub fn for_mean(algorithm: Algorithm, avg: usize) -> Result<Self, ParamError> {
        let sizes = (algorithm.descriptor().sizes)(avg)?;
        Ok(Self::new(algorithm, sizes))
    }

    /// Whether algorithm, sizes, window, level and seed say all there is to say, and chunks have a
    /// maximum: what a repository can note down for all to read.
    pub const fn is_plain(&self) -> bool {
        let nothing_else =
            self.divisors.is_none() && self.secret.is_none() && self.preset.is_none();
        nothing_else && self.sizes.is_bounded()
    }

    /// What says how these parameters cut.
    pub(crate) fn descriptor(&self) -> &'static Descriptor {
        Scheme::of(self).descriptor()
    }

    /// Refuses what no rule would look at: with a preset another algorithm than its own, and a secret
    /// that would change nothing, since the user counts on it.
    pub(crate) fn check(&self) -> Result<(), ParamError> {
        let &Self { algorithm, .. } = self;
        if let Some(preset) = self.preset {
            return preset.check(self);
        }
        let has_given_divisors = algorithm == Algorithm::Bfbc && self.divisors.is_some();
        if self.secret.is_some() && (!algorithm.takes_secret() || has_given_divisors) {
            return Err(ParamError::NothingToKey { algorithm });
        }
        Ok(())
    }

    pub(crate) fn checked_window(&self) -> Result<usize, ParamError> {
        let window = self.window;
        if (1..=MAX_WINDOW).contains(&window) {
            Ok(window)
        } else {
            Err(ParamError::Window { window })
        }
    }
}

/// `base` to the power of `exponent`, by squaring: only operations that IEEE 754 rounds alike
/// everywhere, so that cut-points do not depend on a mathematics library.
pub(crate) fn power(mut base: f64, mut exponent: usize) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            product *= base;
        }
        base *= base;
        exponent /= 2;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_accepted_exactly_when_they_are_in_order() {
        let grid = [0, 1, 2, 63, 64, 4096, MAX_CHUNK - 1, MAX_CHUNK, MAX_CHUNK + 1, usize::MAX];
        for min in grid {
            for avg in grid {
                for max in grid {
                    let ordered = 1 <= min && min <= avg && avg <= max && max <= MAX_CHUNK;
                    let sizes = ChunkSizes::new(min, avg, max);
                    assert_eq!(sizes.is_ok(), ordered, "{min} {avg} {max}");
                    if let Ok(sizes) = sizes {
                        assert_eq!((sizes.min(), sizes.avg(), sizes.max()), (min, avg, max));
                    }
                }
            }
        }
    }

    #[test]
    fn refusals_name_the_value_and_the_expectation() {
        let refusal = |min, avg, max| ChunkSizes::new(min, avg, max).unwrap_err().to_string();
        assert_eq!(refusal(0, 1, 1), "minimum chunk size is 0, expected at least 1");
        assert_eq!(refusal(8, 7, 9), "average chunk size 7 is below the minimum 8");
        assert_eq!(refusal(1, 9, 8), "maximum chunk size 8 is below the average 9");
        assert_eq!(
            refusal(1, 1, MAX_CHUNK + 1),
            "maximum chunk size 67108865 is above the limit 67108864"
        );
    }

    #[test]
    fn every_mean_up_to_a_quarter_of_the_limit_has_bounds() {
        for &algorithm in Algorithm::ALL {
            for avg in (1..300).chain([4096, 8191, MAX_CHUNK / 4]) {
                let sizes = Params::for_mean(algorithm, avg).unwrap().sizes;
                assert_eq!(sizes.avg(), avg, "{algorithm}");
            }
            assert!(Params::for_mean(algorithm, 0).is_err());
            assert!(Params::for_mean(algorithm, usize::MAX).is_err());
        }
    }
}

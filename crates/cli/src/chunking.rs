//! Chunker, sizes and kernel as the user chooses them.

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Kernel, Params};

use crate::size;

/// The mean chunk size in bytes where none is asked for.
pub(crate) const DEFAULT_AVG: usize = 16 << 10;

/// How data is cut.
#[derive(Debug, Args)]
pub(crate) struct ChunkingArgs {
    /// The rule that decides where chunks end; `onefold algorithms` tells about them
    #[arg(long, value_name = "NAME", default_value = "mincdc", value_parser = algorithms())]
    algorithm: Algorithm,
    /// The shortest chunk [default: what suits algorithm and average]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    min: Option<usize>,
    /// The average chunk [default: 16KiB]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    avg: Option<usize>,
    /// The longest chunk [default: what suits algorithm and average]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    max: Option<usize>,
}

impl ChunkingArgs {
    /// The parameters asked for, with what suits them where nothing was asked for. A chunker can
    /// be made of them.
    pub(crate) fn params(&self) -> Result<Params> {
        let sizes = match self.algorithm {
            Algorithm::MinCdc => self.even_sizes()?,
            _ => self.sizes(self.avg.unwrap_or(DEFAULT_AVG), self.min, self.max)?,
        };
        let params = Params::new(self.algorithm, sizes);
        Chunker::new(&params)?;
        Ok(params)
    }

    /// The sizes of MinCDC, whose mean lies in the middle of its bounds: two of the three give the
    /// third.
    fn even_sizes(&self) -> Result<ChunkSizes> {
        let avg = match (self.min, self.avg, self.max) {
            (Some(min), None, Some(max)) => min.midpoint(max),
            (_, avg, _) => avg.unwrap_or(DEFAULT_AVG),
        };
        let opposite = |bound: usize| avg.saturating_mul(2).saturating_sub(bound);
        // a bound on the wrong side of the mean is refused as it was given
        let min = self.min.or(self.max.map(|max| opposite(max).clamp(1, avg.max(1))));
        let max = self.max.or(self.min.map(|min| opposite(min).max(avg)));
        self.sizes(avg, min, max)
    }

    fn sizes(&self, avg: usize, min: Option<usize>, max: Option<usize>) -> Result<ChunkSizes> {
        if let (Some(min), Some(max)) = (min, max) {
            return Ok(ChunkSizes::new(min, avg, max)?);
        }
        let suited = Params::for_mean(self.algorithm, avg)
            .with_context(|| format!("an average of {avg} bytes cannot be had"))?
            .sizes;
        Ok(ChunkSizes::new(min.unwrap_or(suited.min()), avg, max.unwrap_or(suited.max()))?)
    }
}

/// Reads the name of an algorithm.
fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::ALL.iter().map(|algorithm| algorithm.name()))
        .try_map(|name| name.parse::<Algorithm>())
}

/// Reads the name of a kernel.
pub(crate) fn kernels() -> impl TypedValueParser<Value = Kernel> {
    PossibleValuesParser::new(Kernel::ALL.iter().map(|kernel| kernel.name()))
        .try_map(|name| name.parse::<Kernel>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use onefold_store::Config;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        chunking: ChunkingArgs,
    }

    fn sizes(line: &str) -> [usize; 3] {
        let sizes = Typed::parse_from(line.split(' ')).chunking.params().unwrap().sizes;
        [sizes.min(), sizes.avg(), sizes.max()]
    }

    #[test]
    fn two_sizes_of_mincdc_give_the_third() {
        assert_eq!(sizes("onefold --min 4KiB"), [4 << 10, 16 << 10, 28 << 10]);
        assert_eq!(sizes("onefold --max 20KiB"), [12 << 10, 16 << 10, 20 << 10]);
        assert_eq!(sizes("onefold --min 4KiB --max 12KiB"), [4 << 10, 8 << 10, 12 << 10]);
        assert_eq!(sizes("onefold --min 4KiB --avg 8KiB"), [4 << 10, 8 << 10, 12 << 10]);
        assert_eq!(sizes("onefold --avg 8KiB --max 16383"), [1, 8 << 10, 16383]);
    }

    #[test]
    fn who_asks_for_nothing_gets_the_standard_of_the_store() {
        let params = Typed::parse_from(["onefold"]).chunking.params().unwrap();
        assert_eq!(params, Config::standard().params);
    }
}

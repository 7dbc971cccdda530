//! Chunker, sizes and kernel as the user chooses them.

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use onefold_cdc::{Algorithm, ChunkSizes, Chunker, Kernel, Params};

use crate::size;

/// The mean chunk size in bytes where none is asked for.
pub(crate) const DEFAULT_AVG: usize = 64 << 10;

/// How data is cut.
#[derive(Debug, Args)]
pub(crate) struct ChunkingArgs {
    /// The rule that decides where chunks end; `onefold algorithms` tells about them
    #[arg(long, value_name = "NAME", default_value = "fastcdc", value_parser = algorithms())]
    algorithm: Algorithm,
    /// The shortest chunk [default: what suits algorithm and average]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    min: Option<usize>,
    /// The average chunk [default: 64KiB]
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
        let avg = self.avg.unwrap_or(DEFAULT_AVG);
        let sizes = match (self.min, self.max) {
            (Some(min), Some(max)) => ChunkSizes::new(min, avg, max)?,
            (min, max) => {
                let suited = Params::for_mean(self.algorithm, avg)
                    .with_context(|| format!("an average of {avg} bytes cannot be had"))?
                    .sizes;
                ChunkSizes::new(min.unwrap_or(suited.min()), avg, max.unwrap_or(suited.max()))?
            }
        };
        let params = Params::new(self.algorithm, sizes);
        Chunker::new(&params)?;
        Ok(params)
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

//! The amount of data that a recommendation needs.

use std::fmt;

use anyhow::{Error, Result};

/// With fewer chunks neither duplicates nor speed are meaningful.
pub(super) const FEWEST_CHUNKS: u64 = 100;

/// The data that can be too small.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// All data, in which duplicates are counted.
    Data,
    /// The sample whose speed is measured.
    Sample,
}

/// The error of too few chunks for a recommendation.
#[derive(Debug)]
pub(crate) struct TooSmall {
    what: What,
    bytes: u64,
    mean: usize,
}

/// The bytes that a recommendation needs at a mean of `mean` bytes.
pub(super) fn bytes_needed(mean: usize) -> u64 {
    FEWEST_CHUNKS.saturating_mul(mean as u64)
}

/// Fails with [`TooSmall`] if `bytes` are too few at a mean of `mean` bytes.
pub(super) fn ensure_enough(what: What, bytes: u64, mean: usize) -> Result<()> {
    match bytes < bytes_needed(mean) {
        true => Err(Error::msg(TooSmall { what, bytes, mean })),
        false => Ok(()),
    }
}

impl TooSmall {
    /// Advice for the user.
    pub(crate) fn hint(&self) -> String {
        let smaller = "or give a smaller mean with --mean";
        match self.what {
            What::Data => format!(
                "name more files or folders with --data, such as several versions of one folder, \
                 {smaller}"
            ),
            What::Sample => {
                format!("give --sample {} or more, {smaller}", bytes_needed(self.mean))
            }
        }
    }
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, bytes, mean } = self;
        let what = match what {
            What::Data => "the data are",
            What::Sample => "the sample is",
        };
        write!(
            f,
            "{what} too small to recommend a chunker: {bytes} bytes; a mean of {mean} bytes needs at \
             least {}, which is {FEWEST_CHUNKS} chunks",
            bytes_needed(*mean)
        )
    }
}

//! What is to be measured.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use serde::{Deserialize, Serialize};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes of random data in memory.
    pub bytes: usize,
    /// Timed rounds, of which the best counts.
    pub rounds: u32,
    /// Bytes of mixed data on which every chunk is compared first.
    pub equality: u64,
    /// Threads of the CPU to compare with.
    pub threads: NonZero<usize>,
    /// What is measured, in this order.
    pub parts: Vec<Part>,
    /// How long each measurement of energy runs at least: the counters of devices are slow.
    pub energy: Duration,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Chunks of mixed data, compared with those of the CPU.
    Equality,
    /// Copies to the device: figures 3 and 6.
    Copies,
    /// Double buffering and segments at work: figures 5 and 9.
    Overlap,
    /// Shared memory: figure 11.
    Tiles,
    /// The CPU, and versions of the device's program: figure 12.
    Versions,
    /// Today's algorithms.
    Algorithms,
    /// SHA3-256 of pages, against the bound of its instructions.
    Pages,
    /// The energy that the device uses.
    Energy,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 8] = [
        Self::Equality,
        Self::Copies,
        Self::Overlap,
        Self::Tiles,
        Self::Versions,
        Self::Algorithms,
        Self::Pages,
        Self::Energy,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Equality => "equality",
            Self::Copies => "copies",
            Self::Overlap => "overlap",
            Self::Tiles => "tiles",
            Self::Versions => "versions",
            Self::Algorithms => "algorithms",
            Self::Pages => "pages",
            Self::Energy => "energy",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|part| part.name() == name);
        found.with_context(|| {
            format!(
                "unknown part '{name}', expected one of {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names() {
        for part in Part::ALL {
            assert_eq!(part.to_string().parse::<Part>().unwrap(), part);
        }
        let error = "copy".parse::<Part>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown part 'copy', expected one of equality, copies,"),
            "{error}"
        );
    }
}

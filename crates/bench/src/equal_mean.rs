//! Chunkers compared at the mean chunk size that they reach on the data at hand.
//!
//! Smaller chunks find more duplicates, and chunkers that are asked for the same mean reach
//! different ones on real data: deduplication at equal parameters says little. Here the mean that is
//! asked for is changed until the one that is reached is right.

use anyhow::{Context, Result};
use onefold_cdc::{Algorithm, Chunker, Params};
use serde::{Deserialize, Serialize};

use crate::metrics::{Metrics, Tally};
use crate::rounds::{self, Contender, Sample};
use crate::{Dataset, Summary};

/// A reached mean this near, as a share of the one that was wanted, will do.
const NEAR: f64 = 0.005;

/// Cuttings that the search may take.
const MOST_TRIALS: usize = 12;

/// Whether chunks reach over the borders of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Borders {
    /// All files are one stream, as in an archive.
    Stream,
    /// Each file is cut by itself.
    Files,
}

/// One algorithm at one mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// As [`Algorithm::name`] has it.
    pub algorithm: String,
    /// The kernel that was timed.
    pub kernel: String,
    /// The mean in bytes that all algorithms should reach.
    pub wanted_mean: usize,
    /// The mean in bytes that this algorithm had to be asked for.
    pub avg: usize,
    /// The bounds that went with it.
    pub min: usize,
    /// The bounds that went with it.
    pub max: usize,
    /// What came of it; [`Metrics::mean`] tells how near the algorithm could come.
    pub metrics: Metrics,
    /// Times of cutting alone, one a round.
    pub samples: Vec<Sample>,
}

impl Trial {
    /// How far the reached mean lies from the wanted one, as a share of that.
    pub fn error(&self) -> f64 {
        self.metrics.mean / self.wanted_mean as f64 - 1.0
    }

    /// Bytes cut in a second of the thread's time, in the median.
    pub fn bytes_per_second(&self) -> f64 {
        let seconds = Summary::of(self.samples.iter().map(|sample| sample.thread_seconds));
        self.metrics.bytes as f64 / seconds.median
    }
}

/// Cuts `dataset` by each algorithm so that it reaches `mean`, and times that in interleaved rounds.
///
/// An algorithm with few means to choose from (MII, PCI) comes as near as it can.
pub fn compare(
    dataset: &Dataset,
    borders: Borders,
    algorithms: &[Algorithm],
    mean: usize,
    rounds: u32,
) -> Result<Vec<Trial>> {
    let inputs: Vec<&[u8]> = match borders {
        Borders::Stream => vec![dataset.bytes()],
        Borders::Files => dataset.files().collect(),
    };
    let chunkers = algorithms.iter().map(|&algorithm| {
        chunker_that_reaches(algorithm, &inputs, mean)
            .with_context(|| format!("{algorithm} at a mean of {mean} bytes"))
    });
    let chunkers = chunkers.collect::<Result<Vec<_>>>()?;
    let contenders = chunkers.iter().map(|chunker| {
        let inputs = &inputs;
        Contender::new(chunker.params().algorithm.name(), move |found| {
            for input in inputs {
                found.extend(chunker.cut_points(input));
            }
        })
    });
    let outcomes = rounds::measure(contenders.collect(), rounds, |_| Ok(()))?;
    Ok(chunkers
        .iter()
        .zip(outcomes)
        .map(|(chunker, outcome)| Trial {
            algorithm: outcome.name,
            kernel: chunker.kernel().name().to_owned(),
            wanted_mean: mean,
            avg: chunker.sizes().avg(),
            min: chunker.sizes().min(),
            max: chunker.sizes().max(),
            metrics: metrics(chunker, &inputs),
            samples: outcome.samples,
        })
        .collect())
}

fn metrics(chunker: &Chunker, inputs: &[&[u8]]) -> Metrics {
    let mut tally = Tally::default();
    for input in inputs {
        tally.add(input, chunker.cut_points(input));
    }
    tally.metrics()
}

/// The chunker by `algorithm`, with the bounds that suit it, whose mean over `inputs` is next to
/// `mean` of all that were tried.
///
/// The reached mean grows about as the one that is asked for does, so each trial asks for more or
/// less by the factor that the last one was short or long; where two enclose the goal, for the
/// middle of them once that step leads out.
fn chunker_that_reaches(algorithm: Algorithm, inputs: &[&[u8]], mean: usize) -> Result<Chunker> {
    let bytes: usize = inputs.iter().map(|input| input.len()).sum();
    let mut avg = mean;
    let (mut below, mut above) = (0, usize::MAX);
    let mut best: Option<(f64, Chunker)> = None;
    for _ in 0..MOST_TRIALS {
        let chunker = Chunker::new(&Params::for_mean(algorithm, avg)?)?;
        let chunks: usize = inputs.iter().map(|input| chunker.cut_points(input).count()).sum();
        let factor = bytes as f64 / chunks.max(1) as f64 / mean as f64;
        let error = (factor - 1.0).abs();
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, chunker));
        }
        if error <= NEAR {
            break;
        }
        if factor < 1.0 {
            below = below.max(avg);
        } else {
            above = above.min(avg);
        }
        let next = (avg as f64 / factor).round() as usize;
        avg = match above {
            usize::MAX => next.max(below + 1),
            _ if below < next && next < above => next,
            _ => usize::midpoint(below, above),
        };
        if avg <= below || avg >= above || Params::for_mean(algorithm, avg).is_err() {
            break;
        }
    }
    best.map(|(_, chunker)| chunker).context("no mean could be tried")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_testkit::text;

    /// Text, in which rules without a hash miss the mean that they are asked for.
    fn dataset() -> Dataset {
        Dataset::of("text", vec![text(1, 1 << 20), text(2, 1 << 19), Vec::new(), text(1, 3000)])
    }

    #[test]
    fn every_algorithm_with_means_to_choose_from_reaches_the_one_that_is_wanted() {
        let algorithms = [Algorithm::AeMax, Algorithm::Ram, Algorithm::FastCdc, Algorithm::MinCdc];
        for borders in [Borders::Stream, Borders::Files] {
            let trials = compare(&dataset(), borders, &algorithms, 2000, 1).unwrap();
            for trial in trials {
                assert!(trial.error().abs() < 0.02, "{trial:?}");
                assert_eq!(trial.metrics.bytes, dataset().bytes().len() as u64);
                assert_eq!(trial.samples.len(), 1);
            }
        }
    }

    #[test]
    fn a_mean_beyond_reach_is_approached() {
        // whole files are the longest chunks there are
        let trials =
            compare(&dataset(), Borders::Files, &[Algorithm::FastCdc], 8 << 20, 1).unwrap();
        assert_eq!(trials[0].metrics.chunks, 3);
    }
}

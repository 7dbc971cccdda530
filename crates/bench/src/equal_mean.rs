//! Chunkers compared at the mean chunk size that they reach on the data at hand.
//!
//! Smaller chunks find more duplicates, and chunkers that are asked for the same mean reach
//! different ones on real data: deduplication at equal parameters says little. Here the mean that is
//! asked for is changed until the one that is reached is right.

use anyhow::{Context, Result};
use onefold_cdc::{Chunker, Scheme};
use serde::{Deserialize, Serialize};

/// A reached mean this near, as a share of the one that was wanted, will do.
const NEAR: f64 = 0.005;

/// Cuttings that the search may take.
const MOST_TRIALS: usize = 12;

/// How many times the wanted mean is asked for at most. Files that are shorter than it keep any
/// chunker from it, whatever is asked for.
const MOST_ASKED: usize = 16;

/// Whether chunks reach over the borders of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Borders {
    /// All files are one stream, as in an archive.
    Stream,
    /// Each file is cut by itself.
    Files,
}

/// The chunker by `scheme`, with the bounds that suit it, whose mean over `inputs` is next to
/// `mean` of all that were tried.
///
/// The reached mean grows about as the one that is asked for does, so each trial asks for more or
/// less by the factor that the last one was short or long; where two enclose the goal, for the
/// middle of them once that step leads out. A scheme with few means to choose from (MII, PCI, restic)
/// comes as near as it can.
pub fn chunker_that_reaches(
    scheme: impl Into<Scheme>,
    inputs: &[&[u8]],
    mean: usize,
) -> Result<Chunker> {
    let scheme = scheme.into();
    let bytes: usize = inputs.iter().map(|input| input.len()).sum();
    let mut avg = scheme.nearest_avg(mean);
    let (mut below, mut above) = (0, usize::MAX);
    let mut best: Option<(f64, Chunker)> = None;
    for _ in 0..MOST_TRIALS {
        let chunker = Chunker::new(&scheme.params_for_mean(avg)?)?;
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
        avg = scheme.nearest_avg(avg);
        let is_beyond = avg <= below || avg >= above || avg > mean.saturating_mul(MOST_ASKED);
        if is_beyond || scheme.params_for_mean(avg).is_err() {
            break;
        }
    }
    best.map(|(_, chunker)| chunker).context("no mean could be tried")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_cdc::{Algorithm, Preset};
    use onefold_testkit::text;

    fn reached(algorithm: Algorithm, inputs: &[&[u8]], mean: usize) -> f64 {
        let chunker = chunker_that_reaches(algorithm, inputs, mean).unwrap();
        let chunks: usize = inputs.iter().map(|input| chunker.cut_points(input).count()).sum();
        let bytes: usize = inputs.iter().map(|input| input.len()).sum();
        bytes as f64 / chunks as f64
    }

    #[test]
    fn every_algorithm_with_means_to_choose_from_reaches_the_one_that_is_wanted() {
        // text, in which rules without a hash miss the mean that they are asked for
        let files = [text(1, 1 << 20), text(2, 1 << 19), Vec::new(), text(1, 3000)];
        let stream = files.concat();
        for algorithm in [Algorithm::AeMax, Algorithm::Ram, Algorithm::FastCdc, Algorithm::MinCdc] {
            for inputs in [vec![&stream[..]], files.iter().map(|file| &file[..]).collect()] {
                let mean = reached(algorithm, &inputs, 2000);
                assert!((mean / 2000.0 - 1.0).abs() < 0.02, "{algorithm}: {mean}");
            }
        }
    }

    #[test]
    fn a_preset_that_takes_powers_of_two_comes_as_near_as_they_let_it() {
        let data = text(1, 1 << 21);
        for preset in Preset::ALL {
            // restic's chunks are an average and a minimum of half of it long
            let chunker = chunker_that_reaches(*preset, &[&data], 6000).unwrap();
            let chunks = chunker.cut_points(&data).count();
            let mean = data.len() as f64 / chunks as f64;
            assert!((3000.0..12_000.0).contains(&mean), "{preset}: {mean}");
        }
    }

    #[test]
    fn a_mean_beyond_reach_is_approached() {
        // whole files are the longest chunks there are
        let files = [text(1, 1 << 20), text(2, 1 << 19), text(1, 3000)];
        let inputs: Vec<&[u8]> = files.iter().map(|file| &file[..]).collect();
        let whole = files.concat().len() as f64 / 3.0;
        assert_eq!(reached(Algorithm::FastCdc, &inputs, 8 << 20), whole);
        let small: Vec<&[u8]> = files[0].chunks(1000).collect();
        let chunker = chunker_that_reaches(Algorithm::FastCdc, &small, 4096).unwrap();
        assert!(chunker.sizes().avg() <= 16 * 4096, "{chunker:?}");
    }
}

//! Which chunkers are the best at one mean chunk size: no other finds more and is as fast.

use crate::recommend::HARDLY_ANY;
use crate::run::{Entry, Results, Timing, Work};

/// A chunker at a mean that all are compared at.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    /// As [`Entry::algorithm`].
    pub(super) name: &'a str,
    /// What its figures are from.
    pub(super) basis: Basis<'a>,
    pub(super) ratio: f64,
    /// GB/s of cutting by one thread and the fastest kernel, if it was timed.
    pub(super) speed: Option<f64>,
    /// Whether no other that compares finds as much and is as fast.
    pub(super) is_best: bool,
}

/// What the figures at a mean are from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Basis<'a> {
    /// It reached the mean.
    Reached(&'a Entry),
    /// It reached one below and one above; the share of the way from the one to the other is that of
    /// the logarithms.
    Between(&'a Entry, &'a Entry, f64),
    /// Its mean is another, so that it does not compare.
    Missed(&'a Entry),
}

impl Basis<'_> {
    /// Whether the figures are those at the mean.
    pub(super) fn compares(self) -> bool {
        !matches!(self, Self::Missed(_))
    }

    fn value(self, of: impl Fn(&Entry) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Reached(entry) | Self::Missed(entry) => of(entry),
            Self::Between(below, above, share) => {
                let (from, to) = (of(below)?, of(above)?);
                Some(from + share * (to - from))
            }
        }
    }
}

/// Whether any chunker finds duplicates, so that these data can tell one from another.
pub(super) fn has_duplicates(results: &Results) -> bool {
    results.entries.iter().any(|entry| entry.findings.metrics.dedup_ratio() >= HARDLY_ANY)
}

/// Every chunker of `results` at `mean`, the slowest first.
pub(super) fn standings(results: &Results, mean: usize) -> Vec<Standing<'_>> {
    let asked = results.entries.iter().filter(|entry| entry.wanted_mean == mean);
    let mut all: Vec<Standing> = asked
        .filter_map(|entry| {
            let basis = basis(results, entry);
            Some(Standing {
                name: &entry.algorithm,
                basis,
                ratio: basis.value(|entry| Some(entry.findings.metrics.dedup_ratio()))?,
                speed: basis.value(speed),
                is_best: false,
            })
        })
        .collect();
    let order = |one: &Standing| (one.speed, one.ratio);
    all.sort_by(|a, b| order(a).partial_cmp(&order(b)).expect("measures are numbers"));
    let mut most = 0.0;
    // from the fastest on, each that finds more than all before
    for standing in all.iter_mut().rev() {
        standing.is_best =
            standing.basis.compares() && standing.speed.is_some() && standing.ratio > most;
        if standing.is_best {
            most = standing.ratio;
        }
    }
    all
}

/// GB/s.
pub(super) fn speed(entry: &Entry) -> Option<f64> {
    Some(entry.fastest(Work::Cut).and_then(Timing::bytes_per_second)? / 1e9)
}

fn basis<'a>(results: &'a Results, entry: &'a Entry) -> Basis<'a> {
    if !entry.misses_mean() {
        return Basis::Reached(entry);
    }
    let wanted = entry.wanted_mean as f64;
    let reached = |entry: &&Entry| entry.findings.metrics.mean;
    let own = || results.entries.iter().filter(|other| other.algorithm == entry.algorithm);
    let below = own().filter(|one| reached(one) <= wanted);
    let above = own().filter(|one| reached(one) > wanted);
    let below = below.max_by(|a, b| reached(a).total_cmp(&reached(b)));
    let above = above.min_by(|a, b| reached(a).total_cmp(&reached(b)));
    match below.zip(above) {
        Some((below, above)) if reached(&below) >= 1.0 => {
            let way = (reached(&above) / reached(&below)).ln();
            Basis::Between(below, above, (wanted / reached(&below)).ln() / way)
        }
        _ => Basis::Missed(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up::{entry, results};

    fn best<'a>(standings: &[Standing<'a>]) -> Vec<&'a str> {
        standings.iter().filter(|one| one.is_best).map(|one| one.name).collect()
    }

    #[test]
    fn the_best_are_those_that_no_other_beats_in_both() {
        let results = results(vec![
            entry("ram", 1000, 1000, 1.5, 8e9),
            entry("gear", 1000, 1000, 2.0, 2e9),
            entry("rabin", 1000, 1000, 1.9, 1e9),
            entry("mincdc", 1000, 1000, 2.1, 1.5e9),
        ]);
        assert_eq!(best(&standings(&results, 1000)), ["mincdc", "gear", "ram"]);
    }

    #[test]
    fn of_two_that_are_as_fast_the_one_that_finds_more_is_the_best() {
        for ratios in [[2.0, 3.0], [3.0, 2.0]] {
            let [a, b] = ratios;
            let results =
                results(vec![entry("ram", 1000, 1000, a, 1e9), entry("gear", 1000, 1000, b, 1e9)]);
            let winner = if a > b { "ram" } else { "gear" };
            assert_eq!(best(&standings(&results, 1000)), [winner]);
        }
    }

    #[test]
    fn a_chunker_with_smaller_chunks_than_were_asked_for_gains_nothing_by_them() {
        // at half of the mean it finds more than the other does
        let small = entry("ram", 1000, 500, 3.0, 2e9);
        let other = entry("gear", 1000, 1000, 1.9, 1e9);
        let alone = results(vec![small.clone(), other.clone()]);
        assert_eq!(best(&standings(&alone, 1000)), ["gear"]);

        // with a mean beyond, its ratio at the one that was asked for is in between
        let both = results(vec![small, other, entry("ram", 4000, 2000, 1.0, 4e9)]);
        let standings = standings(&both, 1000);
        let ram = standings.iter().find(|one| one.name == "ram").unwrap();
        let speed = ram.speed.unwrap();
        assert!((ram.ratio - 2.0).abs() < 1e-6 && (speed - 3.0).abs() < 1e-6, "{ram:?}");
        assert_eq!(best(&standings), ["ram"]);
    }

    #[test]
    fn without_times_there_is_no_front() {
        let mut untimed = results(vec![entry("ram", 1000, 1000, 1.5, 8e9)]);
        untimed.entries[0].timings.clear();
        assert!(best(&standings(&untimed, 1000)).is_empty());
    }

    #[test]
    fn random_bytes_have_no_duplicates() {
        assert!(!has_duplicates(&results(vec![entry("ram", 1000, 1000, 1.0, 8e9)])));
        assert!(has_duplicates(&results(vec![entry("ram", 1000, 1000, 1.1, 8e9)])));
    }
}
